#include "draftsmith/model/layer.h"

#include <ATen/ops/empty.h>

namespace draftsmith {

LayerParams layer_shapes(const DecoderShape& s) {
  const auto shape = [](std::vector<std::int64_t> sizes) {
    return at::empty(sizes, at::TensorOptions(at::kFloat).device(at::kMeta));
  };
  const std::int64_t q_width = s.num_heads * s.head_dim, kv_width = s.num_kv_heads * s.head_dim;
  return {.input_layernorm = shape({s.hidden_size}),
          .q_proj = shape({q_width, s.hidden_size}),
          .k_proj = shape({kv_width, s.hidden_size}),
          .v_proj = shape({kv_width, s.hidden_size}),
          .o_proj = shape({s.hidden_size, q_width}),
          .q_norm = shape({s.head_dim}),
          .k_norm = shape({s.head_dim}),
          .post_attention_layernorm = shape({s.hidden_size}),
          .gate_proj = shape({s.intermediate_size, s.hidden_size}),
          .up_proj = shape({s.intermediate_size, s.hidden_size}),
          .down_proj = shape({s.hidden_size, s.intermediate_size})};
}

KeyValue key_value(const DecoderShape& shape, const LayerParams& layer, const at::Tensor& rows, const Rope& rope) {
  return {head_norm_rope(linear(rows, layer.k_proj), layer.k_norm, shape.norm_eps, rope),
          linear(rows, layer.v_proj).view({-1, shape.num_kv_heads, shape.head_dim}).transpose(0, 1)};
}

Residual layer_forward(const DecoderShape& shape, const LayerParams& layer, const Residual& x,
                       const LayerInputs& inputs, at::ScalarType compute) {
  const double eps = shape.norm_eps;
  const Normed u = add_rms_norm(x, layer.input_layernorm, eps, compute);
  const at::Tensor q = head_norm_rope(linear(u.normed, layer.q_proj), layer.q_norm, eps, inputs.rope);
  const KeyValue keys = inputs.keys(u.normed);
  const at::Tensor seen = attention(q, keys.k, keys.v, inputs.mask);
  const at::Tensor rows = seen.transpose(0, 1).reshape({q.size(1), shape.num_heads * shape.head_dim});
  const Normed w = add_rms_norm({u.sum, linear(rows, layer.o_proj)}, layer.post_attention_layernorm, eps, compute);
  const at::Tensor gate = linear(w.normed, layer.gate_proj, StepPart::kMlp),
                   up = linear(w.normed, layer.up_proj, StepPart::kMlp);
  return {w.sum, linear(swiglu(gate, up), layer.down_proj, StepPart::kMlp)};
}

}  // namespace draftsmith
