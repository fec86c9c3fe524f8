// One table names each parameter of a decoder as Hugging Face does, whose names z-lab's drafters share, and as GGUF
// does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

enum class DecoderParam {
  // Each layer has these; the biases and the norms of queries and keys are optional.
  kInputNorm,
  kQ,
  kK,
  kV,
  kO,
  kQNorm,
  kKNorm,
  kPostAttentionNorm,
  kGate,
  kUp,
  kDown,
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  // The model has these once.
  kEmbedding,
  kOutputNorm,
  kHead,
};

// Returns all of them in the order of the enum.
const std::vector<DecoderParam>& all_decoder_params();
bool is_of_layer(DecoderParam param);

// Names one parameter of a decoder.
struct DecoderWeight {
  DecoderParam param = DecoderParam::kEmbedding;
  std::int64_t layer = 0;  // from 0; stays 0 for a parameter of the model

  bool operator==(const DecoderWeight&) const = default;
};

// Hugging Face puts this in front of every name of a causal model but the head's. z-lab's drafters have no prefix.
inline constexpr std::string_view kHuggingFacePrefix = "model.";

// "model.layers.7.self_attn.q_proj.weight"
std::string hugging_face_name(const DecoderWeight& weight, std::string_view prefix = kHuggingFacePrefix);
// "blk.7.attn_q.weight"
std::string gguf_name(const DecoderWeight& weight);

// Both return the parameter that a name means, or nullopt when the name is not in the table.
std::optional<DecoderWeight> weight_of_hugging_face_name(std::string_view name,
                                                         std::string_view prefix = kHuggingFacePrefix);
std::optional<DecoderWeight> weight_of_gguf_name(std::string_view name);

}  // namespace draftsmith
