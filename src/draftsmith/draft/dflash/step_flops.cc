#include "draftsmith/draft/dflash/step_flops.h"

namespace draftsmith {
namespace {

double visible_pairs(const KeyRanges& ranges) {
  double pairs = 0;
  for (std::size_t row = 0; row < ranges.context_begin.size(); ++row)
    pairs += ranges.context_end[row] - ranges.context_begin[row] + ranges.block_end[row] - ranges.block_begin[row];
  return pairs;
}

}  // namespace

StepFlops step_flops(const DrafterConfig& config, const BlockInputs& blocks) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double context = real(static_cast<std::int64_t>(blocks.context_position_ids.size())),
               queries = real(blocks.num_blocks * blocks.block_size), hidden = real(config.hidden_size),
               heads = real(config.num_heads), dim = real(config.head_dim),
               key_value = 2 * real(config.num_kv_heads) * dim;
  StepFlops out;
  out.projections = 6 * context * real(config.num_taps()) * hidden * hidden;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    out.projections += 6 * hidden * (queries * 2 * heads * dim + (queries + context) * key_value);
    out.mlp += 6 * queries * 3 * hidden * real(config.intermediate_size);
    const bool slides = config.layer_kinds[static_cast<std::size_t>(i)] == LayerKind::kSliding;
    out.attention += 14 * dim * heads * visible_pairs(slides ? *blocks.sliding : *blocks.full);
  }
  double labels = 0;
  for (std::size_t i = 0; i < blocks.mask.size(); ++i) labels += blocks.mask[i] > 0 && blocks.labels[i] >= 0 ? 1 : 0;
  out.head = 4 * labels * real(config.head_rows()) * hidden;
  return out;
}

}  // namespace draftsmith
