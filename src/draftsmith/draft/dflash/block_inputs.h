// Makes from a pack and its anchors what one drafter pass reads: block tokens, positions, labels, and the mask as data.
// A anchors, B slots per block; arrays of [A, B] are row-major.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draftsmith/data/pack.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/nn/attention.h"

namespace draftsmith {

struct BlockInputs : BlockLabels {
  std::vector<std::int64_t> anchors;               // [A] positions in the pack
  std::vector<std::int32_t> block_token_ids;       // [A, B]: the anchor's token, then MASK
  std::vector<std::int64_t> block_position_ids;    // [A, B]: position of the anchor + j
  std::vector<std::int64_t> context_position_ids;  // [S]
  MaskPtr full_mask;     // visible keys on full layers; the keys are S context tokens, then the slots
  MaskPtr sliding_mask;  // the same on sliding layers; null when there is none
  const MaskPtr& mask(LayerKind kind) const { return kind == LayerKind::kSliding ? sliding_mask : full_mask; }
};

// The drafter's mask (flex::DFlashBlocks) on layers of one kind. Block b has its anchor at position anchors[b] of
// num_context keys, in a document that begins at document_begins[b].
MaskPtr make_dflash_mask(const DrafterConfig& config, LayerKind kind, std::span<const std::int64_t> anchors,
                         std::span<const std::int64_t> document_begins, std::int64_t num_context);

// head_rows is the row of each target id in a smaller head (Frozen), or empty when the head is the target's.
BlockInputs make_block_inputs(const Pack& pack, std::span<const std::int64_t> anchors, const DrafterConfig& config,
                              std::span<const std::int32_t> head_rows = {});

}  // namespace draftsmith
