// The pieces of the drafter that training and decoding share. S context tokens, Q rows, H hidden, D head width.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "draftsmith/draft/drafter.h"
#include "draftsmith/nn/attention.h"
#include "draftsmith/nn/ops.h"

namespace draftsmith {

struct KeyValue {
  at::Tensor k, v;  // [Hkv, rows, D]; k after k_norm and rope
};

inline at::ScalarType scalar_type_of(Compute compute) {
  return compute == Compute::kBFloat16 ? at::kBFloat16 : at::kFloat;
}

// c = hidden_norm(fc(features)): [S, K*H] -> [S, H] in the compute type.
at::Tensor project_context(const DrafterConfig& config, const DrafterParams& params, const at::Tensor& features,
                           at::ScalarType type);

// Keys and values of rows [n, H] at the positions of `rope`; the same for context rows (c) and block rows (u).
KeyValue key_value(const DrafterConfig& config, const LayerParams& layer, const at::Tensor& rows, const Rope& rope);

// One layer: x [Q, H] fp32 -> [Q, H] fp32.
at::Tensor layer_forward(const DrafterConfig& config, const LayerParams& layer, const at::Tensor& x,
                         const KeyValue& context, const Rope& block_rope,
                         const std::shared_ptr<const KeyRanges>& ranges, at::ScalarType type);

}  // namespace draftsmith
