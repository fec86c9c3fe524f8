#include "draftsmith/draft/dflash/cost.h"

#include <algorithm>

#include "draftsmith/draft/dflash/params.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr double kAllocator = 1.01;  // measured: freed pieces leave gaps between those in use

struct Counted {
  const DrafterConfig& c;
  const StepSize& s;
  std::int64_t element;  // bytes of the compute type

  std::int64_t queries() const { return s.anchors * c.block_size; }
  std::int64_t query_width() const { return c.num_heads * c.head_dim; }
  std::int64_t key_width() const { return c.num_kv_heads * c.head_dim; }
  std::int64_t keys() const { return s.context + queries(); }

  std::int64_t mlp_weights() const { return 3 * c.hidden_size * c.intermediate_size; }
  std::int64_t layer_weights() const { return c.hidden_size * (2 * query_width() + 2 * key_width()) + mlp_weights(); }
  std::int64_t fc_weights() const { return c.num_taps() * c.hidden_size * c.hidden_size; }
  // A matrix of fp32 masters is cast for its product and the cast is kept for backward.
  std::int64_t cast(std::int64_t weights) const { return element < kFloat ? weights * element : 0; }

  // The residual stream between two layers: residual and delta.
  std::int64_t stream() const { return queries() * c.hidden_size * (kFloat + element); }

  // The bytes that backward needs of a layer: both residual sums, the normalised rows (alone, and behind the
  // context's), queries, keys and values before and after norm and rotation, the attention's result, and the MLP's
  // three products.
  std::int64_t layer_kept() const {
    const std::int64_t rows = queries() * (2 * c.hidden_size + 3 * query_width() + 3 * c.intermediate_size) +
                              keys() * (c.hidden_size + 3 * key_width());
    return element * rows + kFloat * (2 * queries() * c.hidden_size + queries() * c.num_heads) + cast(layer_weights());
  }

  // Backward has two peaks in a layer, each with the gradients of the weights that it has passed. At the first, in the
  // MLP, the gradients of its three products exist together with what is kept, less the product that down_proj has
  // used.
  std::int64_t in_mlp() const {
    return layer_kept() + element * queries() * (2 * c.intermediate_size + c.hidden_size) +
           kFloat * queries() * c.hidden_size + (kFloat + element) * mlp_weights() / 3;
  }
  // At the second peak, in the attention, what the MLP kept is freed, its weights' gradients exist, and those of
  // queries, keys and values are being made.
  std::int64_t in_attention() const {
    const std::int64_t gone = queries() * (3 * c.intermediate_size + c.hidden_size);
    return layer_kept() - element * gone - cast(mlp_weights()) +
           element * (2 * queries() * query_width() + keys() * (2 * key_width() + c.hidden_size)) +
           kFloat * (queries() * c.hidden_size + layer_weights());
  }

  // Features, fc's product, the context and the gradient that all layers add to it, embeddings, the result and its
  // gradient, angles.
  std::int64_t around() const {
    return element * (s.context * (c.num_taps() + 3) * c.hidden_size + 3 * queries() * c.hidden_size) +
           kFloat * 2 * keys() * c.head_dim + cast(fc_weights());
  }

  // A tile of logits and the rows that make it.
  std::int64_t head() const {
    const std::int64_t vocab = c.head_rows();
    const std::int64_t tile = std::min(s.logits_bytes, queries() * vocab * element);
    const std::int64_t rows = std::max<std::int64_t>(tile / (vocab * element), 1);
    return tile + (s.soft_labels ? queries() * c.hidden_size * element : 0) + 2 * rows * c.hidden_size * element;
  }
};

std::int64_t all_weights(const DrafterConfig& config) {
  std::int64_t count = 0;
  const DFlashParams shapes = dflash_shapes(config);
  visit_params(shapes, [&](const std::string&, const at::Tensor& tensor, Role) { count += tensor.numel(); });
  return count;
}

}  // namespace

std::int64_t dflash_step_bytes(const DrafterConfig& config, at::ScalarType compute, const StepSize& size) {
  const Counted n{config, size, static_cast<std::int64_t>(elementSize(compute))};
  const std::int64_t layers = config.num_layers;
  const std::int64_t kept = size.recompute ? n.stream() : n.layer_kept();
  const std::int64_t all_gradients = kFloat * all_weights(config);
  const std::int64_t held = size.gradients_held ? all_gradients : 0;
  const std::int64_t in_layer = std::max(n.in_mlp(), n.in_attention());
  std::int64_t peak = n.around() + layers * kept + n.head() + held;
  for (std::int64_t layer = layers - 1; layer >= 0; --layer) {
    const std::int64_t gradients = std::max(held, kFloat * (layers - 1 - layer) * n.layer_weights());
    peak = std::max(peak, n.around() + layer * kept + in_layer + gradients);
  }
  return static_cast<std::int64_t>(kAllocator * static_cast<double>(std::max(peak, all_gradients)));
}

StepFlops dflash_step_flops(const DrafterConfig& config, const BlockInputs& blocks) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double context = real(static_cast<std::int64_t>(blocks.context_position_ids.size())),
               queries = real(blocks.num_blocks * blocks.block_size), hidden = real(config.hidden_size),
               heads = real(config.num_heads), dim = real(config.head_dim),
               key_value = 2 * real(config.num_kv_heads) * dim;
  StepFlops out;
  out.projections = 6 * context * real(config.num_taps()) * hidden * hidden;
  for (const LayerKind kind : config.layer_kinds) {
    out.projections += 6 * hidden * (queries * 2 * heads * dim + (queries + context) * key_value);
    out.mlp += 6 * queries * 3 * hidden * real(config.intermediate_size);
    out.attention += 14 * dim * heads * real(blocks.mask(kind)->num_pairs());
  }
  double labels = 0;
  for (std::size_t i = 0; i < blocks.counts.size(); ++i)
    labels += blocks.counts[i] > 0 && blocks.labels[i] >= 0 ? 1 : 0;
  out.head = 4 * labels * real(config.head_rows()) * hidden;
  return out;
}

}  // namespace draftsmith
