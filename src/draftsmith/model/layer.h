// A decoder layer of a target or a drafter is RMSNorm, grouped-query attention over any mask with rotary positions,
// RMSNorm and a gated MLP. Heads are normalised and projections have biases where the shape says so. Q rows, K keys, H
// hidden, D head width.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>

#include "draftsmith/model/decoder_shape.h"
#include "draftsmith/nn/attention.h"
#include "draftsmith/nn/ops.h"
#include "draftsmith/nn/param.h"

namespace draftsmith {

struct LayerParams {
  at::Tensor input_layernorm, q_proj, k_proj, v_proj, o_proj, q_norm, k_norm, post_attention_layernorm, gate_proj,
      up_proj, down_proj;
  at::Tensor q_bias, k_bias, v_bias, o_bias;
};

// Calls visit(name, tensor, role) for every parameter of a layer under its Hugging Face name behind `prefix`, always in
// the same order. Norms of heads and biases that the layer does not have (undefined tensors) are passed over.
template <class Layer, class Visit>
void visit_layer(Layer& layer, const std::string& prefix, Visit&& visit) {
  const auto visit_if_there = [&](const char* name, auto& tensor, Role role) {
    if (tensor.defined()) visit(prefix + name, tensor, role);
  };
  visit(prefix + "input_layernorm.weight", layer.input_layernorm, Role::kNorm);
  visit(prefix + "self_attn.q_proj.weight", layer.q_proj, Role::kMatrix);
  visit(prefix + "self_attn.k_proj.weight", layer.k_proj, Role::kMatrix);
  visit(prefix + "self_attn.v_proj.weight", layer.v_proj, Role::kMatrix);
  visit(prefix + "self_attn.o_proj.weight", layer.o_proj, Role::kMatrix);
  visit_if_there("self_attn.q_norm.weight", layer.q_norm, Role::kNorm);
  visit_if_there("self_attn.k_norm.weight", layer.k_norm, Role::kNorm);
  visit(prefix + "post_attention_layernorm.weight", layer.post_attention_layernorm, Role::kNorm);
  visit(prefix + "mlp.gate_proj.weight", layer.gate_proj, Role::kMatrix);
  visit(prefix + "mlp.up_proj.weight", layer.up_proj, Role::kMatrix);
  visit(prefix + "mlp.down_proj.weight", layer.down_proj, Role::kMatrix);
  visit_if_there("self_attn.q_proj.bias", layer.q_bias, Role::kBias);
  visit_if_there("self_attn.k_proj.bias", layer.k_bias, Role::kBias);
  visit_if_there("self_attn.v_proj.bias", layer.v_bias, Role::kBias);
  visit_if_there("self_attn.o_proj.bias", layer.o_bias, Role::kBias);
}

// Returns the parameters of a layer as meta tensors, which have shapes but no memory.
LayerParams layer_shapes(const DecoderShape& shape);

// Returns the rotation of rows at these positions.
Rope rope_of(const DecoderShape& shape, std::span<const std::int64_t> positions, at::Device device = at::kCPU);

struct KeyValue {
  at::Tensor k, v;  // [Hkv, rows, D]; k is normalised if the shape says so, and rotated
};

// Returns the keys and values of rows [n, H] at the positions of `rope`.
KeyValue key_value(const DecoderShape& shape, const LayerParams& layer, const at::Tensor& rows, const Rope& rope);

// Holds what all layers of a pass share, and the function that gives a layer its keys.
struct LayerInputs {
  const Rope& rope;  // of the rows
  const MaskPtr& mask;
  // Returns keys and values [Hkv, K, D] for the normalised rows u [Q, H]; the mask says which row sees which key.
  std::function<KeyValue(const at::Tensor& u)> keys;
};
// Runs one layer over the residual stream [Q, H]; the MLP's output is the new delta. Products run in the type
// `compute`.
Residual layer_forward(const DecoderShape& shape, const LayerParams& layer, const Residual& x,
                       const LayerInputs& inputs, at::ScalarType compute);

}  // namespace draftsmith
