// Keys and tensor names are those that llama.cpp reads for "dflash". It taps the *input* of a layer, hence taps + 1;
// its rotary positions are rotate-half here as in Hugging Face, so q and k keep their row order.
#include "draftsmith/draft/dflash/gguf.h"

#include "draftsmith/base/check.h"
#include "draftsmith/model/layer_names.h"

namespace draftsmith {
namespace {

// llama.cpp has one causal flag for all layers.
bool causal_in_all_layers(const DrafterConfig& config) {
  const bool first = config.causal_in_block(config.layer_kinds[0]);
  for (const LayerKind kind : config.layer_kinds) {
    require(config.causal_in_block(kind) == first,
            "this drafter mixes layers that are causal inside the block (sliding) with layers that are not, and "
            "llama.cpp's GGUF files have one flag for all layers; export it with --to hf, or train it with all layers "
            "of one kind");
  }
  return first;
}

// Names of the decoder's table, and of the parameters that only a drafter has.
std::string name_in_gguf(const std::string& name) {
  if (name == "fc.weight") return name;
  if (name == "hidden_norm.weight") return "enc.output_norm.weight";
  const auto weight = weight_of_hugging_face_name(name, /*prefix=*/"");
  DRAFTSMITH_ASSERT(weight.has_value());
  return gguf_name(*weight);
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
                      .tensor_name = name_in_gguf};
  if (config.has_sliding_layers()) {
    std::vector<std::int8_t> slides;
    for (const LayerKind kind : config.layer_kinds) slides.push_back(kind == LayerKind::kSliding ? 1 : 0);
    out.keys.emplace_back("attention.sliding_window", u32(config.sliding_window));
    out.keys.emplace_back("attention.sliding_window_pattern", slides);
  }
  return out;
}

}  // namespace draftsmith
