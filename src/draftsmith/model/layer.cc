#include "draftsmith/model/layer.h"

#include <ATen/ops/empty.h>

#include "draftsmith/nn/step_clock.h"

namespace draftsmith {
namespace {

at::Tensor project(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor y = linear(rows, weight);
  return bias.defined() ? add_bias(y, bias) : y;
}

// Splits rows into heads, [N, h * D] -> [h, N, D], normalises them if there is a norm, and rotates them.
at::Tensor heads_of(const DecoderShape& shape, const at::Tensor& x, const at::Tensor& norm, const Rope& rope) {
  return norm.defined() ? head_norm_rope(x, norm, shape.norm_eps, rope) : head_rope(x, shape.head_dim, rope);
}

}  // namespace

LayerParams layer_shapes(const DecoderShape& s) {
  const auto shape = [](at::IntArrayRef sizes) {
    return at::empty(sizes, at::TensorOptions(at::kFloat).device(at::kMeta));
  };
  const std::int64_t q_width = s.num_heads * s.head_dim, kv_width = s.num_kv_heads * s.head_dim;
  return {.input_layernorm = shape({s.hidden_size}),
          .q_proj = shape({q_width, s.hidden_size}),
          .k_proj = shape({kv_width, s.hidden_size}),
          .v_proj = shape({kv_width, s.hidden_size}),
          .o_proj = shape({s.hidden_size, q_width}),
          .q_norm = s.qk_norm ? shape({s.head_dim}) : at::Tensor(),
          .k_norm = s.qk_norm ? shape({s.head_dim}) : at::Tensor(),
          .post_attention_layernorm = shape({s.hidden_size}),
          .gate_proj = shape({s.intermediate_size, s.hidden_size}),
          .up_proj = shape({s.intermediate_size, s.hidden_size}),
          .down_proj = shape({s.hidden_size, s.intermediate_size}),
          .q_bias = s.qkv_bias ? shape({q_width}) : at::Tensor(),
          .k_bias = s.qkv_bias ? shape({kv_width}) : at::Tensor(),
          .v_bias = s.qkv_bias ? shape({kv_width}) : at::Tensor(),
          .o_bias = s.o_bias ? shape({s.hidden_size}) : at::Tensor()};
}

Rope rope_of(const DecoderShape& shape, std::span<const std::int64_t> positions, at::Device device) {
  return make_rope(positions, shape.head_dim, shape.rope_theta, shape.rope_scaling, device);
}

KeyValue key_value(const DecoderShape& shape, const LayerParams& layer, const at::Tensor& rows, const Rope& rope) {
  return {heads_of(shape, project(rows, layer.k_proj, layer.k_bias), layer.k_norm, rope),
          project(rows, layer.v_proj, layer.v_bias).view({-1, shape.num_kv_heads, shape.head_dim}).transpose(0, 1)};
}

Residual layer_forward(const DecoderShape& shape, const LayerParams& layer, const Residual& x,
                       const LayerInputs& inputs, at::ScalarType compute) {
  const double eps = shape.norm_eps;
  const Normed u = add_rms_norm(x, layer.input_layernorm, eps, compute);
  const at::Tensor q = heads_of(shape, project(u.normed, layer.q_proj, layer.q_bias), layer.q_norm, inputs.rope);
  const KeyValue keys = inputs.keys(u.normed);
  const at::Tensor seen = attention(q, keys.k, keys.v, inputs.mask);
  const at::Tensor rows = seen.transpose(0, 1).reshape({q.size(1), shape.num_heads * shape.head_dim});
  const Normed w =
      add_rms_norm({u.sum, project(rows, layer.o_proj, layer.o_bias)}, layer.post_attention_layernorm, eps, compute);
  const ProductsOf mlp(StepPart::kMlp);
  const at::Tensor gate = linear(w.normed, layer.gate_proj), up = linear(w.normed, layer.up_proj);
  return {w.sum, linear(swiglu(gate, up), layer.down_proj)};
}

}  // namespace draftsmith
