// Shape of a drafter, as config.json of a drafter folder holds it (z-lab's keys).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace draftsmith {

enum class LayerKind { kFull, kSliding };

struct DrafterConfig {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;        // the target's
  std::int64_t draft_vocab_size = 0;  // rows of the drafter's head; 0 = all of the target's (draft_vocab.h)
  std::int64_t block_size = 0;
  std::int32_t mask_token_id = -1;
  std::vector<std::int64_t> target_layer_ids;  // taps, 0-based layer outputs
  std::int64_t num_target_layers = 0;          // T
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::vector<LayerKind> layer_kinds;  // one a layer
  std::int64_t sliding_window = 0;     // 0 = none
  std::optional<bool> is_causal;       // overrides every layer; absent = sliding layers causal inside the block
  std::int64_t max_position_embeddings = 40960;

  std::int64_t num_taps() const { return static_cast<std::int64_t>(target_layer_ids.size()); }
  std::int64_t head_rows() const { return draft_vocab_size > 0 ? draft_vocab_size : vocab_size; }
  bool causal_in_block(std::int64_t layer) const {
    return is_causal.value_or(layer_kinds[layer] == LayerKind::kSliding);
  }
};

// Refuses, in a sentence, a shape that cannot be (heads not a multiple of kv heads, odd head size, block size 1 ...).
void check_drafter_config(const DrafterConfig& config);

// config.json <-> DrafterConfig. Reading accepts block_size at the top or inside dflash_config, rope_theta flat or in
// rope_parameters (the nested one wins), nulls as absent. Writing gives every key that z-lab, SGLang and vLLM read;
// stored_dtype is "float32" or "bfloat16".
DrafterConfig drafter_config_from_json(const std::string& text, const std::string& file_name);
std::string drafter_config_to_json(const DrafterConfig& config, const std::string& stored_dtype);

}  // namespace draftsmith
