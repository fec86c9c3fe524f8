// Weighted cross-entropy over the target's frozen head, in chunks of whole blocks, so that full logits never exist. The
// same pass gives the gradient with respect to the hidden states.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "draftsmith/config/choices.h"

namespace draftsmith {

struct LossOptions {
  LossKind kind = LossKind::kDecay;
  double gamma = 0;
  double dpace_alpha = 0.5;
  double soft_share = 0;  // share of KL(target || drafter) in a row's loss; the rest is the label's cross-entropy
  std::int64_t logits_bytes = std::int64_t{64} << 20;  // largest piece of fp32 logits held at once
};

// Sums over the blocks of one pass; the loss of an optimizer step is loss_sum / weight_sum over all its passes, so the
// gradients of a step are divided by the step's weight_sum at its end.
struct LossSums {
  double loss_sum = 0;               // sum of m w ((1 - soft_share) CE + soft_share KL)
  double weight_sum = 0;             // sum of m w
  double mask_sum = 0;               // sum of m
  double correct_sum = 0;            // sum of m [argmax = label]
  std::vector<double> slot_mask;     // [B]
  std::vector<double> slot_correct;  // [B]
  double accepted_sum = 0;  // sum over blocks with any m of A, the drafts accepted (no bonus); unsupervised slots pass
  double num_blocks = 0;    // blocks with any m

  void add(const LossSums& other);
};

struct LossResult : LossSums {
  at::Tensor nll;                      // fp32 [A, B], 0 where m = 0 or the label is -1
  at::Tensor weights;                  // fp32 [A, B], m w, 0 where the label is -1
  std::vector<std::int64_t> accepted;  // [A]
  at::Tensor grad_hidden;              // d loss_sum / d hidden [A*B, H], hidden's type; undefined under NoGradGuard
};

// The labels of the slots of A blocks; arrays of [A, B] are row-major.
struct BlockLabels {
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 0;
  // The label of each slot, as its row in the head, or -1 where the head has no row for it. Past the end of the pack it
  // is the label of the pack's last token, and m is 0.
  std::vector<std::int32_t> labels;
  std::vector<float> counts;  // m: 1 where the label counts
};

// Weights of the slots by distance: w_j = exp(-(j-1)/gamma), and 0 for slot 0. gamma 0 follows from the block size: 7,
// 5 and 4 for blocks of 16, 10 and 8, linear in B between and beyond, at least 1.
std::vector<float> decay_weights(std::int64_t block_size, double gamma);

// hidden [A*B, H], head [V, H] (fp32 or bf16, the same type). A label of -1 is an id that the head has no row for: it
// has no weight in the loss and is wrong in every figure. With soft_share > 0 also `target_states` [A*B, H] of that
// type: the target's state after its final norm at the position before each slot's label, whose product with the head
// is the target's own distribution of that label (among the ids that the head has rows for).
LossResult head_loss(const at::Tensor& hidden, const at::Tensor& head, const BlockLabels& blocks,
                     const LossOptions& options, const at::Tensor& target_states = {});

}  // namespace draftsmith
