#include "draftsmith/draft/loss_definition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <vector>

namespace draftsmith::definition {
namespace {

at::Tensor labels_of(std::span<const LossRow> rows, const at::Tensor& logits) {
  std::vector<std::int64_t> labels;
  for (const LossRow& row : rows) labels.push_back(row.label);
  return at::tensor(labels).unsqueeze(1).to(logits.device());
}

}  // namespace

void measure_rows(std::span<LossRow> rows, const at::Tensor& logits, const at::Tensor& target) {
  const at::Tensor wide = logits.to(at::kFloat), log_sum = at::logsumexp(wide, 1);
  const at::Tensor nll = log_sum - wide.gather(1, labels_of(rows, logits)).squeeze(1);
  at::Tensor target_sum = log_sum * 0, divergence = target_sum;
  if (target.defined()) {
    const at::Tensor teacher = target.to(at::kFloat);
    target_sum = at::logsumexp(teacher, 1);
    divergence = ((teacher - target_sum.unsqueeze(1)).exp() * (teacher - wide)).sum(1) - (target_sum - log_sum);
  }
  const at::Tensor best = wide.argmax(1).to(at::kCPU);
  const at::Tensor figures = at::stack({log_sum, nll, target_sum, divergence}, 1).to(at::kCPU);
  const float* f = figures.const_data_ptr<float>();
  for (std::size_t i = 0; i < rows.size(); ++i, f += 4) {
    rows[i].figures = {.log_sum = f[0], .nll = f[1], .best = best.const_data_ptr<std::int64_t>()[i]};
    rows[i].target_log_sum = f[2];
    rows[i].divergence = f[3];
  }
}

void gradient_of_rows(std::span<const LossRow> rows, const at::Tensor& logits, const at::Tensor& target,
                      const at::Tensor& weights, double share) {
  const at::Tensor w = weights.to(logits.device()).unsqueeze(1);
  at::Tensor gradient = logits.to(at::kFloat).softmax(1) * w;
  gradient.scatter_add_(1, labels_of(rows, logits), w * (share - 1));
  if (target.defined()) gradient -= target.to(at::kFloat).softmax(1) * w * share;
  logits.copy_(gradient);
}

}  // namespace draftsmith::definition
