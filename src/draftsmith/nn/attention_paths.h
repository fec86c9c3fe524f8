// The two ways behind range_attention; tests compare them.
#pragma once

#include "draftsmith/nn/attention.h"

namespace draftsmith {

// On flex: neither scores nor masks in memory; keeps the result and the log-sum-exp for backward, and no second copy of
// keys and values. Needs ranges->tiles.
at::Tensor fused_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges);

// On plain tensor operations, in fp32.
at::Tensor plain_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges);

}  // namespace draftsmith
