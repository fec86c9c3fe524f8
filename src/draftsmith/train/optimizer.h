// AdamW over the drafter's parameters: fp32 masters, fp32 moments, ATen's fused CPU op. The gradients that packs added
// up are divided by the step's weight sum (one denominator for all its packs), clipped by their global norm, applied
// and cleared.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/config/run_config.h"
#include "draftsmith/nn/param.h"
#include "draftsmith/ranks/ranks.h"

namespace draftsmith {

class Optimizer {
 public:
  // Shares the tensors of `params` (fp32 masters) and asks for their gradients.
  Optimizer(ParamList params, const TrainConfig& config);

  // One update; returns the global norm of the gradient before clipping. UserError naming the step when it is not
  // finite.
  double step(double weight_sum, double learning_rate);
  void clear_gradients();
  // Adds up the gradients of all ranks. A rank without a pack in the step has none and adds zeros.
  void sum_gradients(Ranks& ranks);

  std::int64_t num_steps() const { return num_steps_; }
  // Moments under "exp_avg.NAME" and "exp_avg_sq.NAME"; the tensors are the optimizer's own.
  std::vector<NamedTensor> state() const;
  void set_num_steps(std::int64_t num_steps) { num_steps_ = num_steps; }

 private:
  // Weight decay pulls on matrices only: the weight of a norm, a bias or a row of a table has no reason to go to zero.
  struct Group {
    std::vector<at::Tensor> params, first_moments, second_moments;
    double weight_decay = 0;
  };
  void update(Group& group, double learning_rate, double divisor);  // of the gradients

  TrainConfig config_;
  ParamList params_;
  std::vector<at::Tensor> first_moments_, second_moments_;
  Group decayed_, free_;
  std::int64_t num_steps_ = 0;
};

}  // namespace draftsmith
