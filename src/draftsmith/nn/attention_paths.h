// The two ways behind range_attention; tests compare them.
#pragma once

#include "draftsmith/nn/attention.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace draftsmith {

// Ranges that a way's forward leaves for its backward.
void save_ranges(torch::autograd::AutogradContext* context, const std::shared_ptr<const KeyRanges>& ranges);
std::shared_ptr<const KeyRanges> saved_ranges(const torch::autograd::AutogradContext* context);

// On flex: neither scores nor masks in memory; keeps the result and the log-sum-exp for backward, and no second copy of
// keys and values. Needs ranges->tiles.
at::Tensor fused_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges);

// On plain tensor operations, in fp32.
at::Tensor plain_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges);

}  // namespace draftsmith
