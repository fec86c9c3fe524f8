// Computes what loss_rows.h computes, in ATen's own operations, for devices that have no kernels of ours.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "draftsmith/draft/loss_rows.h"

namespace draftsmith::definition {

// Fills the figures of rows [N] from their logits [N, V], and the divergence where `target` [N, V] is defined.
void measure_rows(std::span<LossRow> rows, const at::Tensor& logits, const at::Tensor& target);

// logits = d loss / d logits: weight (softmax(logits) - (1 - share) [label] - share softmax(target)); weights [N] on
// the CPU.
void gradient_of_rows(std::span<const LossRow> rows, const at::Tensor& logits, const at::Tensor& target,
                      const at::Tensor& weights, double share);

}  // namespace draftsmith::definition
