// The pieces of the drafter that training and decoding share. S context tokens, Q rows, H hidden, D head width.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
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

// What all layers of a pass share, and a layer's own ranges.
struct LayerInputs {
  const Rope& block_rope;
  const std::shared_ptr<const KeyRanges>& ranges;
  // Keys and values of the context followed by those of the block, whose normalised rows are u [Q, H].
  std::function<KeyValue(const at::Tensor& u)> keys;
};
// One layer over the residual stream [Q, H]; its MLP's output is the new delta.
Stream layer_forward(const DrafterConfig& config, const LayerParams& layer, const Stream& x, const LayerInputs& inputs,
                     at::ScalarType type);

}  // namespace draftsmith
