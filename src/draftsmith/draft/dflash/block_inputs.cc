#include "draftsmith/draft/dflash/block_inputs.h"

#include <algorithm>
#include <cmath>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// First token and the one after the last of the document that holds `position`.
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

// Context t is seen iff doc(t) = doc(a), t < a, and on a sliding layer with window W also t >= a + j - (W - 1); of the
// block's own slots j', all, or j' <= j where the layer is causal (the window does not cut inside a block).
std::shared_ptr<const KeyRanges> make_key_ranges(const DrafterConfig& config, LayerKind kind,
                                                 std::span<const std::int64_t> anchors,
                                                 std::span<const std::int64_t> document_begins,
                                                 std::int64_t num_context, AttentionPath path) {
  const bool slides = kind == LayerKind::kSliding, causal = config.is_causal.value_or(slides);
  const std::int64_t size = config.block_size;
  auto ranges = std::make_shared<KeyRanges>();
  ranges->num_context = num_context;
  ranges->block_size = size;
  const auto push = [](std::vector<std::int32_t>& list, std::int64_t value) {
    list.push_back(static_cast<std::int32_t>(value));
  };
  for (std::size_t b = 0; b < anchors.size(); ++b) {
    const std::int64_t anchor = anchors[b], first_row = static_cast<std::int64_t>(b) * size;
    for (std::int64_t j = 0; j < size; ++j) {
      const std::int64_t window_begin = slides ? anchor + j - (config.sliding_window - 1) : 0;
      push(ranges->context_begin, std::min(anchor, std::max(document_begins[b], window_begin)));
      push(ranges->context_end, anchor);
      push(ranges->block_begin, first_row);
      push(ranges->block_end, first_row + (causal ? j + 1 : size));
    }
  }
  if (path == AttentionPath::kFused) make_tiles(*ranges, config.num_heads / config.num_kv_heads);
  return ranges;
}

BlockInputs make_block_inputs(const Pack& pack, std::span<const std::int64_t> anchors, const DrafterConfig& config) {
  return make_block_inputs(pack, anchors, config, attention_path_for(config.head_dim));
}

BlockInputs make_block_inputs(const Pack& pack, std::span<const std::int64_t> anchors, const DrafterConfig& config,
                              AttentionPath path) {
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
      in.block_token_ids.push_back(j == 0 ? pack.token_ids[anchor] : config.mask_token_id);
      in.block_position_ids.push_back(pack.position_ids[anchor] + j);
      in.labels.push_back(pack.token_ids[std::min(at, pack.length - 1)]);
      in.mask.push_back(j > 0 && inside && pack.loss_mask[at] != 0 ? 1.0f : 0.0f);
    }
  }
  const auto has = [&](LayerKind kind) {
    return std::find(config.layer_kinds.begin(), config.layer_kinds.end(), kind) != config.layer_kinds.end();
  };
  in.full = make_key_ranges(config, LayerKind::kFull, anchors, document_begins, pack.length, path);
  if (has(LayerKind::kSliding)) {
    in.sliding = make_key_ranges(config, LayerKind::kSliding, anchors, document_begins, pack.length, path);
  }
  return in;
}

std::vector<float> decay_weights(std::int64_t block_size, double gamma) {
  if (gamma <= 0) {
    const double size = static_cast<double>(block_size);
    const double between = size <= 10 ? 4.0 + (size - 8.0) * 0.5 : 5.0 + (size - 10.0) / 3.0;
    gamma = std::max(1.0, between);
  }
  std::vector<float> weights(static_cast<std::size_t>(block_size), 0.0f);
  for (std::int64_t j = 1; j < block_size; ++j) {
    weights[j] = static_cast<float>(std::exp(-static_cast<double>(j - 1) / gamma));
  }
  return weights;
}

}  // namespace draftsmith
