#include "draftsmith/draft/dflash/layer.h"

namespace draftsmith {

at::Tensor project_context(const DrafterConfig& config, const DrafterParams& params, const at::Tensor& features,
                           at::ScalarType type) {
  return rms_norm(linear(features.to(type), params.fc), params.hidden_norm, config.rms_norm_eps, type);
}

KeyValue key_value(const DrafterConfig& config, const LayerParams& layer, const at::Tensor& context, const Rope& rope) {
  return {head_norm_rope(linear(context, layer.k_proj), layer.k_norm, config.rms_norm_eps, rope),
          linear(context, layer.v_proj).view({-1, config.num_kv_heads, config.head_dim}).transpose(0, 1)};
}

Stream layer_forward(const DrafterConfig& config, const LayerParams& layer, const Stream& x, const LayerInputs& inputs,
                     at::ScalarType type) {
  const double eps = config.rms_norm_eps;
  const Normed u = add_rms_norm(x, layer.input_layernorm, eps, type);
  const at::Tensor q = head_norm_rope(linear(u.normed, layer.q_proj), layer.q_norm, eps, inputs.block_rope);
  const KeyValue keys = inputs.keys(u.normed);
  const at::Tensor seen = range_attention(q, keys.k, keys.v, inputs.ranges);
  const at::Tensor rows = seen.transpose(0, 1).reshape({q.size(1), config.num_heads * config.head_dim});
  const Normed w = add_rms_norm({u.sum, linear(rows, layer.o_proj)}, layer.post_attention_layernorm, eps, type);
  const at::Tensor gate = linear(w.normed, layer.gate_proj, StepPart::kMlp),
                   up = linear(w.normed, layer.up_proj, StepPart::kMlp);
  return {w.sum, linear(swiglu(gate, up), layer.down_proj, StepPart::kMlp)};
}

}  // namespace draftsmith
