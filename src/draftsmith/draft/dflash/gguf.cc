// Keys and tensor names are those that llama.cpp reads for "dflash". It taps the *input* of a layer, hence taps + 1;
// its rotary positions are rotate-half here as in Hugging Face, so q and k keep their row order.
#include "draftsmith/draft/dflash/gguf.h"

#include <array>
#include <string_view>
#include <utility>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// llama.cpp has one flag for all layers.
bool causal_in_all_layers(const DrafterConfig& config) {
  const bool first = config.causal_in_block(config.layer_kinds[0]);
  for (const LayerKind kind : config.layer_kinds) {
    require(config.causal_in_block(kind) == first,
            "this drafter mixes layers that are causal inside the block (sliding) with layers that are not, which "
            "llama.cpp's GGUF"
            " cannot say; export it with --to hf, or train it with all layers of one kind");
  }
  return first;
}

std::string gguf_name(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kLayerNames = {
      {{"input_layernorm.weight", "attn_norm.weight"},
       {"self_attn.q_proj.weight", "attn_q.weight"},
       {"self_attn.k_proj.weight", "attn_k.weight"},
       {"self_attn.v_proj.weight", "attn_v.weight"},
       {"self_attn.o_proj.weight", "attn_output.weight"},
       {"self_attn.q_norm.weight", "attn_q_norm.weight"},
       {"self_attn.k_norm.weight", "attn_k_norm.weight"},
       {"post_attention_layernorm.weight", "ffn_norm.weight"},
       {"mlp.gate_proj.weight", "ffn_gate.weight"},
       {"mlp.up_proj.weight", "ffn_up.weight"},
       {"mlp.down_proj.weight", "ffn_down.weight"}}};
  if (name == "fc.weight") return name;
  if (name == "hidden_norm.weight") return "enc.output_norm.weight";
  if (name == "norm.weight") return "output_norm.weight";
  DRAFTSMITH_ASSERT(name.starts_with("layers."));
  const std::size_t dot = name.find('.', 7);
  const std::string rest = name.substr(dot + 1);
  for (const auto& [ours, theirs] : kLayerNames) {
    if (rest == ours) return "blk." + name.substr(7, dot - 7) + "." + std::string(theirs);
  }
  DRAFTSMITH_ASSERT(!"a parameter without a GGUF name");
  return {};
}

}  // namespace

GgufDescription describe_dflash_gguf(const DrafterConfig& config) {
  const auto u32 = [](std::int64_t value) { return GgufKeyValue(static_cast<std::uint32_t>(value)); };
  std::vector<std::int32_t> layers;
  for (const std::int64_t tap : config.target_layer_ids) layers.push_back(static_cast<std::int32_t>(tap + 1));
  GgufDescription out{.architecture = "dflash",
                      .keys = {{"block_count", u32(config.num_layers)},
                               {"context_length", u32(config.context_length)},
                               {"embedding_length", u32(config.hidden_size)},
                               {"feed_forward_length", u32(config.intermediate_size)},
                               {"attention.head_count", u32(config.num_heads)},
                               {"attention.head_count_kv", u32(config.num_kv_heads)},
                               {"attention.key_length", u32(config.head_dim)},
                               {"attention.value_length", u32(config.head_dim)},
                               {"rope.freq_base", static_cast<float>(config.rope_theta)},
                               {"attention.layer_norm_rms_epsilon", static_cast<float>(config.norm_eps)},
                               {"block_size", u32(config.block_size)},
                               {"target_layers", layers},
                               {"attention.causal", causal_in_all_layers(config)}},
                      .tensor_name = gguf_name};
  if (config.has_sliding_layers()) {
    std::vector<std::int8_t> slides;
    for (const LayerKind kind : config.layer_kinds) slides.push_back(kind == LayerKind::kSliding ? 1 : 0);
    out.keys.emplace_back("attention.sliding_window", u32(config.sliding_window));
    out.keys.emplace_back("attention.sliding_window_pattern", slides);
  }
  return out;
}

}  // namespace draftsmith
