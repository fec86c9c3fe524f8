// config.json of a drafter folder. Keys that would change what the drafter computes and that are not supported are
// refused by name; unknown ones are ignored, as every reader of these files does.
#include "draftsmith/draft/drafter_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "draftsmith/base/check.h"
#include "draftsmith/base/words.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/model/decoder_config.h"
#include "draftsmith/store/json_keys.h"

namespace draftsmith {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxLayers = 1024;

DrafterFamily family_of(const JsonKeys& keys) {
  if (!keys.has("architectures")) return DrafterFamily::kDFlash;
  const std::vector<std::string> names = keys.texts("architectures");
  require(names.size() == 1, keys.name("architectures"), " must be a list of one name");
  const std::string& name = names.front();
  const auto family = family_of_architecture(name);
  require(family.has_value(), keys.name("architectures"), " is '", name,
          "', which is no drafter that can be read; known are ", known_architectures());
  return *family;
}

// Only the plain rotation is trained for; a scaled one would make a drafter that works nowhere.
void check_rope_type(const JsonKeys& rope) {
  for (const char* key : {"rope_type", "type"}) {
    if (!rope.has(key)) continue;
    const std::string type = rope.text(key);
    require(type == "default", rope.name(key), " is '", type, "'; only 'default' is supported for drafters");
  }
  for (const char* key : {"full_attention", "sliding_attention"}) {
    require(!rope.has(key), rope.name(key), ": rotary parameters by kind of layer are not supported");
  }
  require(rope.number("partial_rotary_factor", 1.0) == 1.0, rope.name("partial_rotary_factor"), " must be 1");
}

double rope_theta_of(const JsonKeys& keys) {
  check_rope_type(keys.object("rope_parameters"));
  check_rope_type(keys.object("rope_scaling"));
  return read_rope_theta(keys);
}

// A key that stands at the top in some folders and inside dflash_config in others.
template <class Get>
auto either(const JsonKeys& top, const JsonKeys& inner, const std::string& key, Get get) {
  const bool nested = inner.has(key);
  require(nested || top.has(key), inner.name(key), " is missing");
  auto value = get(nested ? inner : top);
  require(!nested || !top.has(key) || get(top) == value, top.name(key), " and ", inner.name(key), " differ");
  return value;
}

void refuse_unsupported(const JsonKeys& keys, const JsonKeys& inner) {
  require(!keys.flag("attention_bias", false), keys.name("attention_bias"), " is true; drafters have no biases");
  if (keys.has("hidden_act")) {
    require(keys.text("hidden_act") == "silu", keys.name("hidden_act"), " is '", keys.text("hidden_act"),
            "'; only 'silu' is supported");
  }
  require(!inner.flag("use_swa", false), inner.name("use_swa"),
          " is not supported; use 'layer_types' and 'sliding_window'");
}

void read_layers(const JsonKeys& keys, DrafterConfig& config) {
  config.layer_kinds.assign(static_cast<std::size_t>(config.num_layers), LayerKind::kFull);
  const bool window_off = keys.has("use_sliding_window") && !keys.flag("use_sliding_window");
  if (keys.has("layer_types")) {
    const std::vector<std::string> types = keys.texts("layer_types");
    require(types.size() == config.layer_kinds.size(), keys.name("layer_types"), " must list ", config.num_layers,
            " layers, as 'num_hidden_layers' says");
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string& type = types[i];
      require(type == "full_attention" || type == "sliding_attention", keys.name("layer_types"), " holds '", type,
              "'; known are 'full_attention' and 'sliding_attention'");
      if (type == "sliding_attention") config.layer_kinds[i] = LayerKind::kSliding;
    }
  } else if (keys.flag("use_sliding_window", false)) {
    for (std::int64_t i = std::max<std::int64_t>(0, keys.integer("max_window_layers", 0)); i < config.num_layers; ++i) {
      config.layer_kinds[i] = LayerKind::kSliding;
    }
  }
  const bool slides = config.has_sliding_layers();
  require(!slides || !window_off, keys.name("layer_types"), " has sliding layers but 'use_sliding_window' is false");
  if (slides) config.sliding_window = keys.integer("sliding_window");
}

DrafterConfig config_of(const JsonKeys& keys) {
  DrafterConfig config;
  config.family = family_of(keys);
  const JsonKeys inner = keys.object("dflash_config");
  refuse_unsupported(keys, inner);
  read_family_keys(keys, inner, config);
  config.hidden_size = keys.integer("hidden_size");
  config.intermediate_size = keys.integer("intermediate_size");
  config.num_layers = keys.integer("num_hidden_layers");
  require(config.num_layers >= 1 && config.num_layers <= kMaxLayers, keys.name("num_hidden_layers"),
          " must lie in 1 .. ", kMaxLayers);
  config.num_heads = keys.integer("num_attention_heads");
  require(config.num_heads >= 1, keys.name("num_attention_heads"), " must be at least 1");
  config.num_kv_heads = keys.integer("num_key_value_heads", config.num_heads);
  config.head_dim = keys.integer("head_dim", config.hidden_size / config.num_heads);
  config.vocab_size = keys.integer("vocab_size");
  config.draft_vocab_size = keys.integer("draft_vocab_size", 0);
  if (config.draft_vocab_size == config.vocab_size) config.draft_vocab_size = 0;
  config.block_size = either(keys, inner, "block_size", [](const JsonKeys& k) { return k.integer("block_size"); });
  const std::int64_t mask =
      either(keys, inner, "mask_token_id", [](const JsonKeys& k) { return k.integer("mask_token_id"); });
  require(mask >= 0 && mask < config.vocab_size, inner.name("mask_token_id"), " is ", mask,
          ", outside the vocabulary of ", config.vocab_size);
  config.mask_token_id = static_cast<std::int32_t>(mask);
  config.target_layer_ids =
      either(keys, inner, "target_layer_ids", [](const JsonKeys& k) { return k.integers("target_layer_ids"); });
  config.num_target_layers = keys.integer("num_target_layers");
  config.norm_eps = keys.number("rms_norm_eps", 1e-6);
  config.rope_theta = rope_theta_of(keys);
  config.context_length = keys.integer("max_position_embeddings", config.context_length);
  read_layers(keys, config);
  return config;
}

}  // namespace

void check_drafter_config(const DrafterConfig& c) {
  const auto in_range = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    require(value >= low && value <= high, "drafter: ", name, " is ", value, ", it must lie in ", low, " .. ", high);
  };
  in_range("hidden_size", c.hidden_size, 1, 1 << 20);
  in_range("intermediate_size", c.intermediate_size, 1, 1 << 22);
  in_range("num_hidden_layers", c.num_layers, 1, kMaxLayers);
  in_range("num_attention_heads", c.num_heads, 1, 1 << 12);
  in_range("num_key_value_heads", c.num_kv_heads, 1, 1 << 12);
  in_range("head_dim", c.head_dim, 2, 1 << 12);
  in_range("vocab_size", c.vocab_size, 1, std::numeric_limits<std::int32_t>::max());
  in_range("draft_vocab_size", c.draft_vocab_size, 0, c.vocab_size);
  in_range("block_size", c.block_size, 2, 4096);
  in_range("mask_token_id", c.mask_token_id, 0, c.vocab_size - 1);
  in_range("num_target_layers", c.num_target_layers, 1, 1 << 16);
  in_range("max_position_embeddings", c.context_length, 1, std::numeric_limits<std::int32_t>::max());
  require(c.num_heads % c.num_kv_heads == 0, "drafter: num_attention_heads (", c.num_heads,
          ") must be a multiple of num_key_value_heads (", c.num_kv_heads, ")");
  require(c.head_dim % 2 == 0, "drafter: head_dim is ", c.head_dim, ", it must be even for rotary positions");
  require(c.norm_eps > 0 && c.norm_eps < 1, "drafter: rms_norm_eps is ", c.norm_eps, ", it must lie between 0 and 1");
  require(c.rope_theta > 0 && std::isfinite(c.rope_theta), "drafter: rope_theta is ", c.rope_theta,
          ", it must be positive");
  in_range("number of target_layer_ids", c.num_taps(), 1, 256);
  std::set<std::int64_t> seen;
  for (const std::int64_t tap : c.target_layer_ids) {
    require(tap >= 0 && tap <= c.num_target_layers - 2, "drafter: target layer ", tap,
            " cannot be tapped; a target of ", c.num_target_layers, " layers has taps 0 .. ", c.num_target_layers - 2,
            " (the last layer's output is only known after the final norm)");
    require(seen.insert(tap).second, "drafter: target layer ", tap, " is tapped twice");
  }
  require(static_cast<std::int64_t>(c.layer_kinds.size()) == c.num_layers, "drafter: ", c.layer_kinds.size(),
          " layer kinds for ", c.num_layers, " layers");
  if (c.has_sliding_layers()) {
    in_range("sliding_window", c.sliding_window, 1, std::numeric_limits<std::int32_t>::max());
  }
}

DrafterConfig drafter_config_from_json(const std::string& text, const std::string& file_name) {
  DrafterConfig config = config_of(JsonKeys(text, file_name));
  try {
    check_drafter_config(config);
  } catch (const UserError& error) {
    fail(file_name, ": ", error.what());
  }
  return config;
}

std::string drafter_config_to_json(const DrafterConfig& c, const std::string& stored_dtype) {
  DRAFTSMITH_ASSERT(stored_dtype == "float32" || stored_dtype == "bfloat16");
  const bool slides = c.has_sliding_layers();
  json types = json::array();
  for (const LayerKind kind : c.layer_kinds)
    types.push_back(kind == LayerKind::kSliding ? "sliding_attention" : "full_attention");
  json out = {
      {"architectures", {architecture_of(c.family)}},
      {"model_type", "qwen3"},
      {"block_size", c.block_size},
      {"dflash_config",
       {{"mask_token_id", c.mask_token_id}, {"target_layer_ids", c.target_layer_ids}, {"block_size", c.block_size}}},
      {"num_target_layers", c.num_target_layers},
      {"hidden_size", c.hidden_size},
      {"intermediate_size", c.intermediate_size},
      {"num_hidden_layers", c.num_layers},
      {"num_attention_heads", c.num_heads},
      {"num_key_value_heads", c.num_kv_heads},
      {"head_dim", c.head_dim},
      {"vocab_size", c.vocab_size},
      {"hidden_act", "silu"},
      {"rms_norm_eps", c.norm_eps},
      {"rope_theta", c.rope_theta},
      {"rope_scaling", nullptr},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", c.rope_theta}}},
      {"max_position_embeddings", c.context_length},
      {"layer_types", types},
      {"sliding_window", slides ? json(c.sliding_window) : json(nullptr)},
      {"use_sliding_window", slides},
      {"max_window_layers", c.num_layers},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"tie_word_embeddings", false},
      {"initializer_range", 0.02},
      {"use_cache", true},
      {"dtype", stored_dtype},
      {"torch_dtype", stored_dtype},
  };
  if (c.draft_vocab_size > 0) out["draft_vocab_size"] = c.draft_vocab_size;
  if (c.is_causal.has_value()) out["is_causal"] = *c.is_causal;
  return out.dump(2) + "\n";
}

DrafterDifference first_difference(const DrafterConfig& a, const DrafterConfig& b, MayDiffer may) {
  DrafterDifference out;
  const auto compare = [&](const char* key, const auto& x, const auto& y) {
    if (out.key.empty() && x != y) out = {key, value_text(x), value_text(y)};
  };
  const auto sliding = [](const DrafterConfig& config) {
    std::vector<std::int64_t> layers;
    for (std::size_t i = 0; i < config.layer_kinds.size(); ++i)
      if (config.layer_kinds[i] == LayerKind::kSliding) layers.push_back(static_cast<std::int64_t>(i));
    return layers;
  };
  compare("family", a.family, b.family);
  compare("layers", a.num_layers, b.num_layers);
  compare("hidden_size", a.hidden_size, b.hidden_size);
  compare("intermediate_size", a.intermediate_size, b.intermediate_size);
  compare("heads", a.num_heads, b.num_heads);
  compare("kv_heads", a.num_kv_heads, b.num_kv_heads);
  compare("head_dim", a.head_dim, b.head_dim);
  compare("taps", a.target_layer_ids, b.target_layer_ids);
  compare("mask_token_id", a.mask_token_id, b.mask_token_id);
  compare("rope_theta", a.rope_theta, b.rope_theta);
  compare("norm_eps", static_cast<float>(a.norm_eps), static_cast<float>(b.norm_eps));
  compare("sliding_layers", sliding(a), sliding(b));
  compare("sliding_window", a.sliding_window, b.sliding_window);
  if (may == MayDiffer::kNothing) {
    compare("vocab_size", a.draft_vocab_size, b.draft_vocab_size);
    compare("block_size", a.block_size, b.block_size);
  }
  return out;
}

}  // namespace draftsmith
