#include "draftsmith/train/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/step_clock.h"

namespace draftsmith {

Optimizer::Optimizer(ParamList params, const TrainConfig& config) : config_(config), params_(std::move(params)) {
  decayed_.weight_decay = config.weight_decay;
  for (const auto& [name, tensor, role] : params_) {
    DRAFTSMITH_ASSERT(tensor.scalar_type() == at::kFloat && tensor.is_contiguous());
    const at::Tensor master = tensor.detach();
    tensor.set_requires_grad(true);
    first_moments_.push_back(at::zeros_like(master));
    second_moments_.push_back(at::zeros_like(master));
    Group& group = role == Role::kMatrix ? decayed_ : free_;
    group.params.push_back(tensor);
    group.first_moments.push_back(first_moments_.back());
    group.second_moments.push_back(second_moments_.back());
  }
}

double Optimizer::step(double weight_sum, double learning_rate) {
  const TimedPart timed(StepPart::kOptimizer);
  if (weight_sum == 0) {  // no label of the step can be drafted: nothing to learn, but a step all the same
    ++num_steps_;
    clear_gradients();
    return 0;
  }
  double squares = 0;  // tensor after tensor in list order: the same sum every time
  for (const Param& param : params_) {
    if (!param.tensor.grad().defined()) continue;
    const double norm = at::linalg_vector_norm(param.tensor.grad(), 2).item<double>();
    squares += norm * norm;
  }
  const double norm = std::sqrt(squares) / weight_sum;
  require(std::isfinite(norm), "the gradient of step ", num_steps_ + 1,
          " is not finite; lower train.learning_rate or set train.compute to fp32");
  const bool clipped = config_.clip > 0 && norm > config_.clip;
  const double divisor = clipped ? weight_sum * norm / config_.clip : weight_sum;
  ++num_steps_;
  update(decayed_, learning_rate, divisor);
  update(free_, learning_rate, divisor);
  clear_gradients();
  return norm;
}

void Optimizer::update(Group& group, double learning_rate, double divisor) {
  std::vector<at::Tensor> params, grads, steps;
  for (const at::Tensor& param : group.params) {
    params.push_back(param.detach());  // shares the memory; the update itself is not recorded
    grads.push_back(param.grad().defined() ? param.grad() : at::zeros_like(params.back()));
    steps.push_back(at::full({}, static_cast<double>(num_steps_), at::kFloat));
  }
  if (params.empty()) return;
  at::_fused_adamw_(params, grads, group.first_moments, group.second_moments, {}, steps, learning_rate, config_.beta1,
                    config_.beta2, group.weight_decay, config_.adam_eps, /*amsgrad=*/false, /*maximize=*/false,
                    at::full({}, divisor, at::kFloat));
}

void Optimizer::clear_gradients() {
  for (const Param& param : params_) param.tensor.mutable_grad() = at::Tensor();
}

void Optimizer::sum_gradients(Ranks& ranks) {
  if (ranks.size() == 1) return;  // alone, a gradient that is not there needs no zeros
  for (const Param& param : params_) {
    at::Tensor& grad = param.tensor.mutable_grad();
    if (!grad.defined()) grad = at::zeros_like(param.tensor.detach());
    ranks.sum(grad);
  }
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < params_.size(); ++i) out.push_back({"exp_avg." + params_[i].name, first_moments_[i]});
  for (std::size_t i = 0; i < params_.size(); ++i) out.push_back({"exp_avg_sq." + params_[i].name, second_moments_[i]});
  return out;
}

}  // namespace draftsmith
