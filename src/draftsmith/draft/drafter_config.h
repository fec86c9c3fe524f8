// Shape of a drafter, as config.json of a drafter folder holds it (z-lab's keys).
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "draftsmith/config/choices.h"
#include "draftsmith/model/decoder_shape.h"

namespace draftsmith {

enum class LayerKind { kFull, kSliding };

// A drafter is a decoder of the target's width and vocabulary, and what makes it draft.
struct DrafterConfig : DecoderShape {
  DrafterConfig() {
    norm_eps = 1e-6;
    context_length = 40960;
  }
  DrafterFamily family = DrafterFamily::kDFlash;
  std::int64_t draft_vocab_size = 0;  // rows of the drafter's head; 0 = all of the target's (draft_vocab.h)
  std::int64_t block_size = 0;
  std::int32_t mask_token_id = -1;
  std::vector<std::int64_t> target_layer_ids;  // taps, 0-based layer outputs
  std::int64_t num_target_layers = 0;          // T
  std::vector<LayerKind> layer_kinds;          // one a layer
  std::int64_t sliding_window = 0;             // 0 = none
  std::optional<bool> is_causal;               // overrides every layer; absent = sliding layers causal inside the block

  std::int64_t num_taps() const { return static_cast<std::int64_t>(target_layer_ids.size()); }
  std::int64_t head_rows() const { return draft_vocab_size > 0 ? draft_vocab_size : vocab_size; }
  bool has_sliding_layers() const {
    return std::find(layer_kinds.begin(), layer_kinds.end(), LayerKind::kSliding) != layer_kinds.end();
  }
  bool causal_in_block(LayerKind kind) const { return is_causal.value_or(kind == LayerKind::kSliding); }
};

// Refuses, in a sentence, a shape that cannot be (heads not a multiple of kv heads, odd head size, block size 1 ...).
void check_drafter_config(const DrafterConfig& config);

// config.json <-> DrafterConfig. "architectures" chooses the family; without it the drafter is DFlash. Reading accepts
// block_size at the top or inside dflash_config, rope_theta flat or in rope_parameters (the nested one wins), nulls as
// absent. Writing gives every key that z-lab, SGLang and vLLM read; stored_dtype is "float32" or "bfloat16".
DrafterConfig drafter_config_from_json(const std::string& text, const std::string& file_name);
std::string drafter_config_to_json(const DrafterConfig& config, const std::string& stored_dtype);

// Names the configuration key whose value makes two drafters differ in a way that weights or training depend on; "" =
// none.
struct DrafterDifference {
  std::string key, first, second;
};
enum class MayDiffer { kNothing, kBlockAndVocabulary };  // which no weight depends on
DrafterDifference first_difference(const DrafterConfig& a, const DrafterConfig& b, MayDiffer may);

}  // namespace draftsmith
