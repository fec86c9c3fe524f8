#include "draftsmith/model/layer_names.h"

#include <array>
#include <charconv>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

struct Names {
  DecoderParam param;
  std::string_view hugging_face, gguf;  // for a layer's parameter, the part after the layer's number
};

constexpr std::size_t kNumOfLayer = 15, kNumParams = 18;
constexpr std::array<Names, kNumParams> kNames = {{
    {DecoderParam::kInputNorm, "input_layernorm.weight", "attn_norm.weight"},
    {DecoderParam::kQ, "self_attn.q_proj.weight", "attn_q.weight"},
    {DecoderParam::kK, "self_attn.k_proj.weight", "attn_k.weight"},
    {DecoderParam::kV, "self_attn.v_proj.weight", "attn_v.weight"},
    {DecoderParam::kO, "self_attn.o_proj.weight", "attn_output.weight"},
    {DecoderParam::kQNorm, "self_attn.q_norm.weight", "attn_q_norm.weight"},
    {DecoderParam::kKNorm, "self_attn.k_norm.weight", "attn_k_norm.weight"},
    {DecoderParam::kPostAttentionNorm, "post_attention_layernorm.weight", "ffn_norm.weight"},
    {DecoderParam::kGate, "mlp.gate_proj.weight", "ffn_gate.weight"},
    {DecoderParam::kUp, "mlp.up_proj.weight", "ffn_up.weight"},
    {DecoderParam::kDown, "mlp.down_proj.weight", "ffn_down.weight"},
    {DecoderParam::kQBias, "self_attn.q_proj.bias", "attn_q.bias"},
    {DecoderParam::kKBias, "self_attn.k_proj.bias", "attn_k.bias"},
    {DecoderParam::kVBias, "self_attn.v_proj.bias", "attn_v.bias"},
    {DecoderParam::kOBias, "self_attn.o_proj.bias", "attn_output.bias"},
    {DecoderParam::kEmbedding, "embed_tokens.weight", "token_embd.weight"},
    {DecoderParam::kOutputNorm, "norm.weight", "output_norm.weight"},
    {DecoderParam::kHead, "lm_head.weight", "output.weight"},
}};
constexpr std::string_view kHuggingFaceLayer = "layers.", kGgufLayer = "blk.";

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kNumParams; ++i)
    if (static_cast<std::size_t>(kNames[i].param) != i) return false;
  return static_cast<std::size_t>(DecoderParam::kEmbedding) == kNumOfLayer;
}
static_assert(rows_follow_the_enum());

const Names& names_of(DecoderParam param) { return kNames[static_cast<std::size_t>(param)]; }

// Reads a number as names have it, without a sign or leading zeros.
std::optional<std::int64_t> layer_number(std::string_view digits) {
  std::int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end || std::to_string(number) != digits || number < 0) return std::nullopt;
  return number;
}

// Finds the parameter that `column` calls `name`. A layer's parameter begins with `layer_word` and the layer's number.
std::optional<DecoderWeight> find(std::string_view name, std::string_view Names::*column, std::string_view layer_word) {
  DecoderWeight weight;
  const bool of_layer = name.starts_with(layer_word);
  if (of_layer) {
    name.remove_prefix(layer_word.size());
    const std::size_t dot = name.find('.');
    const auto number = layer_number(name.substr(0, dot));
    if (!number || dot == std::string_view::npos) return std::nullopt;
    weight.layer = *number;
    name.remove_prefix(dot + 1);
  }
  for (const Names& names : kNames) {
    if (names.*column != name || is_of_layer(names.param) != of_layer) continue;
    weight.param = names.param;
    return weight;
  }
  return std::nullopt;
}

std::string in_layer(std::string_view layer_word, std::int64_t layer, std::string_view name) {
  return text_of(layer_word, layer, '.', name);
}

}  // namespace

const std::vector<DecoderParam>& all_decoder_params() {
  static const std::vector<DecoderParam> all = [] {
    std::vector<DecoderParam> params;
    for (const Names& names : kNames) params.push_back(names.param);
    return params;
  }();
  return all;
}

bool is_of_layer(DecoderParam param) { return static_cast<std::size_t>(param) < kNumOfLayer; }

std::string hugging_face_name(const DecoderWeight& weight, std::string_view prefix) {
  const std::string_view name = names_of(weight.param).hugging_face;
  if (weight.param == DecoderParam::kHead) return std::string(name);
  return std::string(prefix) +
         (is_of_layer(weight.param) ? in_layer(kHuggingFaceLayer, weight.layer, name) : std::string(name));
}

std::string gguf_name(const DecoderWeight& weight) {
  const std::string_view name = names_of(weight.param).gguf;
  return is_of_layer(weight.param) ? in_layer(kGgufLayer, weight.layer, name) : std::string(name);
}

std::optional<DecoderWeight> weight_of_hugging_face_name(std::string_view name, std::string_view prefix) {
  if (name == names_of(DecoderParam::kHead).hugging_face) return DecoderWeight{.param = DecoderParam::kHead};
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto found = find(name.substr(prefix.size()), &Names::hugging_face, kHuggingFaceLayer);
  // The head never has the prefix.
  return found && found->param == DecoderParam::kHead ? std::nullopt : found;
}

std::optional<DecoderWeight> weight_of_gguf_name(std::string_view name) { return find(name, &Names::gguf, kGgufLayer); }

}  // namespace draftsmith
