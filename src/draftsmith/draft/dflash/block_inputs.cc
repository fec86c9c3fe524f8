#include "draftsmith/draft/dflash/block_inputs.h"

#include <algorithm>

#include "draftsmith/base/check.h"
#include "flex/mask.h"

namespace draftsmith {
namespace {

// The first token, and the one after the last, of the document that holds `position`.
struct Extent {
  std::int64_t begin, end;
};

Extent document_at(const Pack& pack, std::int64_t position) {
  const std::int32_t id = pack.document_ids[position];
  Extent extent{position, position + 1};
  while (extent.begin > 0 && pack.document_ids[extent.begin - 1] == id) --extent.begin;
  while (extent.end < pack.length && pack.document_ids[extent.end] == id) ++extent.end;
  return extent;
}

}  // namespace

MaskPtr make_dflash_mask(const DrafterConfig& config, LayerKind kind, std::span<const std::int64_t> anchors,
                         std::span<const std::int64_t> document_begins, std::int64_t num_context) {
  using InBlock = flex::DFlashBlocks::InBlock;
  const flex::DFlashBlocks blocks{.anchors = anchors,
                                  .document_begins = document_begins,
                                  .num_context = num_context,
                                  .block_size = config.block_size,
                                  .window = kind == LayerKind::kSliding ? config.sliding_window : 0,
                                  .in_block = config.causal_in_block(kind) ? InBlock::kCausal : InBlock::kBothWays};
  const std::int64_t slots = static_cast<std::int64_t>(anchors.size()) * config.block_size;
  return make_mask(blocks, {.num_queries = slots,
                            .num_keys = num_context + slots,
                            .num_context = num_context,
                            .group = config.num_heads / config.num_kv_heads});
}

BlockInputs make_block_inputs(const Pack& pack, std::span<const std::int64_t> anchors, const DrafterConfig& config,
                              std::span<const std::int32_t> head_rows) {
  BlockInputs in;
  in.num_blocks = static_cast<std::int64_t>(anchors.size());
  in.block_size = config.block_size;
  in.anchors.assign(anchors.begin(), anchors.end());
  in.context_position_ids = pack.position_ids;
  std::vector<std::int64_t> document_begins;
  for (const std::int64_t anchor : anchors) {
    DRAFTSMITH_ASSERT(anchor >= 0 && anchor < pack.length && pack.document_ids[anchor] >= 0);
    const Extent document = document_at(pack, anchor);
    document_begins.push_back(document.begin);
    for (std::int64_t j = 0; j < config.block_size; ++j) {
      const std::int64_t at = anchor + j;
      const bool inside = at < document.end;
      const std::int32_t label = pack.token_ids[std::min(at, pack.length - 1)];
      in.block_token_ids.push_back(j == 0 ? pack.token_ids[anchor] : config.mask_token_id);
      in.block_position_ids.push_back(pack.position_ids[anchor] + j);
      in.labels.push_back(head_rows.empty() ? label : head_rows[static_cast<std::size_t>(label)]);
      in.counts.push_back(j > 0 && inside && pack.loss_mask[at] != 0 ? 1.0f : 0.0f);
    }
  }
  in.full_mask = make_dflash_mask(config, LayerKind::kFull, anchors, document_begins, pack.length);
  if (config.has_sliding_layers())
    in.sliding_mask = make_dflash_mask(config, LayerKind::kSliding, anchors, document_begins, pack.length);
  return in;
}

}  // namespace draftsmith
