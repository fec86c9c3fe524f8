// From a pack and its anchors to what one drafter pass reads: block tokens, positions, labels, weights, visible keys.
// A anchors, B slots a block; arrays of [A, B] are row-major. No torch tensors here beyond nn/attention.h's plain
// ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "draftsmith/data/pack.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/nn/attention.h"

namespace draftsmith {

struct BlockInputs {
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 0;
  std::vector<std::int64_t> anchors;             // [A] row positions
  std::vector<std::int32_t> block_token_ids;     // [A, B]: the anchor's token, then MASK
  std::vector<std::int64_t> block_position_ids;  // [A, B]: position of the anchor + j
  // [A, B]: token at a + j (the row's last beyond its end), or its row of a smaller head, -1 when it has none; counts
  // where mask is 1.
  std::vector<std::int32_t> labels;
  std::vector<float> mask;                         // [A, B]: m, 1 where the label counts; slot 0 never
  std::vector<std::int64_t> context_position_ids;  // [S]
  std::shared_ptr<const KeyRanges> full;           // visible keys on full layers
  std::shared_ptr<const KeyRanges> sliding;        // on sliding layers; null when there is none
};

// The one place of the drafter's mask; with tiles for the fused kernels where the path is theirs (without a path given:
// where the width of the heads allows it). Block b has its anchor at row position anchors[b], in a document that begins
// at document_begins[b]; num_context keys in all.
std::shared_ptr<const KeyRanges> make_key_ranges(const DrafterConfig& config, LayerKind kind,
                                                 std::span<const std::int64_t> anchors,
                                                 std::span<const std::int64_t> document_begins,
                                                 std::int64_t num_context, AttentionPath path);

BlockInputs make_block_inputs(const Pack& pack, std::span<const std::int64_t> anchors, const DrafterConfig& config,
                              AttentionPath path);
BlockInputs make_block_inputs(const Pack& pack, std::span<const std::int64_t> anchors, const DrafterConfig& config);

// Weights of the slots by distance: w_j = exp(-(j-1)/gamma), slot 0 zero. gamma 0 = by block size (7, 5, 4 for 16, 10,
// 8; between and beyond: linear in B, at least 1).
std::vector<float> decay_weights(std::int64_t block_size, double gamma);

}  // namespace draftsmith
