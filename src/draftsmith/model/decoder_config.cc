#include "draftsmith/model/decoder_config.h"

#include <cmath>
#include <string>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/base/choices.h"
#include "draftsmith/store/json_keys.h"

namespace draftsmith {

constexpr ChoiceName<RopeKind> kRopeKindNames[] = {{RopeKind::kDefault, "default"},
                                                   {RopeKind::kLinear, "linear"},
                                                   {RopeKind::kLlama3, "llama3"},
                                                   {RopeKind::kYarn, "yarn"}};
constexpr std::span<const ChoiceName<RopeKind>> names_of(RopeKind) { return kRopeKindNames; }

namespace {

// The architectures differ in these.
enum class Biases { kNone, kQkv, kAsConfigured };
struct Architecture {
  const char* name;
  bool qk_norm;
  Biases biases;
};
constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", false, Biases::kAsConfigured},
    {"MistralForCausalLM", false, Biases::kNone},
    {"Qwen2ForCausalLM", false, Biases::kQkv},
    {"Qwen3ForCausalLM", true, Biases::kAsConfigured},
};

const Architecture& architecture_of(const JsonKeys& keys) {
  const std::vector<std::string> names = keys.texts("architectures");
  require(names.size() == 1, keys.name("architectures"), " must be a list of one name");
  const std::string& name = names.front();
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  fail(keys.name("architectures"), " is '", name, "'; known are ", known);
}

void refuse_unsupported(const JsonKeys& keys) {
  const std::string activation = keys.text("hidden_act", "silu");
  require(activation == "silu", keys.name("hidden_act"), " is '", activation, "'; only 'silu' is supported");
  require(!keys.flag("mlp_bias", false), keys.name("mlp_bias"), " is true; an MLP with biases is not supported");
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    require(!keys.has(key), keys.name(key), " is not supported");
  const bool window_off = keys.has("use_sliding_window") && !keys.flag("use_sliding_window");
  require(window_off || !keys.has("sliding_window"), keys.name("sliding_window"),
          ": layers with a sliding window are not supported");
  if (!keys.has("layer_types")) return;
  for (const std::string& type : keys.texts("layer_types"))
    require(type == "full_attention", keys.name("layer_types"), " holds '", type,
            "'; only 'full_attention' is supported");
}

// transformers writes `rope_type`, and `type` in older files.
RopeKind rope_kind(const JsonKeys& rope) {
  for (const char* key : {"rope_type", "type"}) {
    if (!rope.has(key)) continue;
    const auto kind = choice_from_text<RopeKind>(rope.text(key));
    require(kind.has_value(), rope.name(key), " is '", rope.text(key), "'; known are ", choices_text<RopeKind>());
    return *kind;
  }
  return RopeKind::kDefault;
}

double positive(const JsonKeys& keys, const std::string& key) {
  const double value = keys.number(key);
  require(value > 0, keys.name(key), " is ", value, "; it must be positive");
  return value;
}

// YaRN grows the attention's scores with the factor by this rule of its paper.
double yarn_growth(double factor, double share) { return factor <= 1 ? 1.0 : 0.1 * share * std::log(factor) + 1.0; }

void read_yarn(const JsonKeys& rope, RopeScaling& scaling) {
  if (rope.has("beta_fast")) scaling.beta_fast = positive(rope, "beta_fast");
  if (rope.has("beta_slow")) scaling.beta_slow = positive(rope, "beta_slow");
  scaling.truncate = rope.flag("truncate", true);
  if (rope.has("attention_factor")) {
    scaling.attention_factor = positive(rope, "attention_factor");
  } else if (rope.has("mscale") && rope.has("mscale_all_dim")) {
    scaling.attention_factor =
        yarn_growth(scaling.factor, rope.number("mscale")) / yarn_growth(scaling.factor, rope.number("mscale_all_dim"));
  } else {
    scaling.attention_factor = yarn_growth(scaling.factor, 1.0);
  }
}

void read_sizes(const JsonKeys& keys, DecoderConfig& out) {
  const auto size = [&](const std::string& key, std::int64_t value) {
    require(value >= 1, keys.name(key), " is ", value, "; it must be at least 1");
    return value;
  };
  out.num_layers = size("num_hidden_layers", keys.integer("num_hidden_layers"));
  out.hidden_size = size("hidden_size", keys.integer("hidden_size"));
  out.intermediate_size = size("intermediate_size", keys.integer("intermediate_size"));
  out.num_heads = size("num_attention_heads", keys.integer("num_attention_heads"));
  out.num_kv_heads = size("num_key_value_heads", keys.integer("num_key_value_heads", out.num_heads));
  out.head_dim = size("head_dim", keys.integer("head_dim", out.hidden_size / out.num_heads));
  out.vocab_size = size("vocab_size", keys.integer("vocab_size"));
  out.context_length = size("max_position_embeddings", keys.integer("max_position_embeddings"));
  require(out.num_heads % out.num_kv_heads == 0, keys.name("num_attention_heads"), " (", out.num_heads,
          ") must be a multiple of num_key_value_heads (", out.num_kv_heads, ")");
  require(out.head_dim % 2 == 0, keys.name("head_dim"), " is ", out.head_dim, "; it must be even for rotary positions");
}

}  // namespace

double read_rope_theta(const JsonKeys& keys) {
  const JsonKeys nested = keys.object("rope_parameters");
  return nested.has("rope_theta") ? nested.number("rope_theta") : keys.number("rope_theta", 10000.0);
}

RopeScaling read_rope_scaling(const JsonKeys& keys, std::int64_t context_length) {
  const JsonKeys rope = keys.object(keys.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  require(rope.number("partial_rotary_factor", 1.0) == 1.0, rope.name("partial_rotary_factor"), " must be 1");
  RopeScaling out{.kind = rope_kind(rope)};
  if (out.kind == RopeKind::kDefault) return out;
  out.factor = positive(rope, "factor");
  if (out.kind == RopeKind::kLinear) return out;
  out.original_max_position_embeddings = rope.integer("original_max_position_embeddings", context_length);
  require(out.original_max_position_embeddings >= 1, rope.name("original_max_position_embeddings"),
          " must be at least 1");
  if (out.kind == RopeKind::kYarn) {
    read_yarn(rope, out);
    return out;
  }
  out.low_freq_factor = positive(rope, "low_freq_factor");
  out.high_freq_factor = positive(rope, "high_freq_factor");
  require(out.high_freq_factor > out.low_freq_factor, rope.name("high_freq_factor"),
          " must be larger than 'low_freq_factor'");
  return out;
}

DecoderConfig decoder_config_from_json(const std::string& text, const std::string& file_name) {
  const JsonKeys keys(text, file_name);
  const Architecture& architecture = architecture_of(keys);
  refuse_unsupported(keys);
  DecoderConfig out;
  read_sizes(keys, out);
  out.architecture = architecture.name;
  out.qk_norm = architecture.qk_norm;
  const bool asked = architecture.biases == Biases::kAsConfigured && keys.flag("attention_bias", false);
  out.qkv_bias = asked || architecture.biases == Biases::kQkv;
  out.o_bias = asked;
  out.tied_head = keys.flag("tie_word_embeddings", false);
  out.norm_eps = keys.number("rms_norm_eps", 1e-6);
  out.rope_theta = read_rope_theta(keys);
  require(out.rope_theta > 0, keys.name("rope_theta"), " must be positive");
  out.rope_scaling = read_rope_scaling(keys, out.context_length);
  return out;
}

}  // namespace draftsmith
