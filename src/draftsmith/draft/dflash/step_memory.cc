#include "draftsmith/draft/dflash/step_memory.h"

#include <algorithm>

#include "draftsmith/draft/dflash/layer.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr double kAllocator = 1.01;  // what freed pieces leave between those in use, as measured

struct Counted {
  const DrafterConfig& c;
  const StepSize& s;
  std::int64_t element;  // bytes of the compute type

  std::int64_t query_width() const { return c.num_heads * c.head_dim; }
  std::int64_t key_width() const { return c.num_kv_heads * c.head_dim; }
  std::int64_t keys() const { return s.context + s.queries; }

  std::int64_t mlp_weights() const { return 3 * c.hidden_size * c.intermediate_size; }
  std::int64_t layer_weights() const { return c.hidden_size * (2 * query_width() + 2 * key_width()) + mlp_weights(); }
  std::int64_t fc_weights() const { return c.num_taps() * c.hidden_size * c.hidden_size; }
  // A matrix of fp32 masters is cast for its product and the cast is kept for backward.
  std::int64_t cast(std::int64_t weights) const { return element < kFloat ? weights * element : 0; }

  // The stream between two layers: residual and delta.
  std::int64_t stream() const { return s.queries * c.hidden_size * (kFloat + element); }

  // What backward needs of a layer: both sums of the stream, its normalised rows (alone, and behind the context's),
  // queries, keys and values before and after norm and rotation, the attention's result, the MLP's three products.
  std::int64_t layer_kept() const {
    const std::int64_t rows = s.queries * (2 * c.hidden_size + 3 * query_width() + 3 * c.intermediate_size) +
                              keys() * (c.hidden_size + 3 * key_width());
    return element * rows + kFloat * (2 * s.queries * c.hidden_size + s.queries * c.num_heads) + cast(layer_weights());
  }

  // Backward has two high places in a layer, each with the gradients of the weights it has passed. In the MLP: those of
  // its three products stand beside what is kept, less the product that down_proj is done with.
  std::int64_t in_mlp() const {
    return layer_kept() + element * s.queries * (2 * c.intermediate_size + c.hidden_size) +
           kFloat * s.queries * c.hidden_size + (kFloat + element) * mlp_weights() / 3;
  }
  // In the attention: what the MLP kept is gone, its weights' gradients are there, those of queries, keys and values
  // come.
  std::int64_t in_attention() const {
    const std::int64_t gone = s.queries * (3 * c.intermediate_size + c.hidden_size);
    return layer_kept() - element * gone - cast(mlp_weights()) +
           element * (2 * s.queries * query_width() + keys() * (2 * key_width() + c.hidden_size)) +
           kFloat * (s.queries * c.hidden_size + layer_weights());
  }

  // Features, fc's product, the context and the gradient that all layers add to it, embeddings, the result and its
  // gradient, angles.
  std::int64_t around() const {
    return element * (s.context * (c.num_taps() + 3) * c.hidden_size + 3 * s.queries * c.hidden_size) +
           kFloat * 2 * keys() * c.head_dim + cast(fc_weights());
  }

  // A tile of logits and the rows that make it.
  std::int64_t head() const {
    const std::int64_t vocab = c.head_rows();
    const std::int64_t tile = std::min(s.logits_bytes, s.queries * vocab * element);
    const std::int64_t rows = std::max<std::int64_t>(tile / (vocab * element), 1);
    return tile + (s.soft_labels ? s.queries * c.hidden_size * element : 0) + 2 * rows * c.hidden_size * element;
  }
};

}  // namespace

std::int64_t step_peak_bytes(const DrafterConfig& config, Compute compute, const StepSize& size) {
  const Counted n{config, size, static_cast<std::int64_t>(elementSize(scalar_type_of(compute)))};
  const std::int64_t layers = config.num_layers;
  const std::int64_t kept = size.recompute ? n.stream() : n.layer_kept();
  const std::int64_t all_gradients = kFloat * num_parameters(config);
  const std::int64_t held = size.gradients_held ? all_gradients : 0;
  const std::int64_t in_layer = std::max(n.in_mlp(), n.in_attention());
  std::int64_t peak = n.around() + layers * kept + n.head() + held;
  for (std::int64_t layer = layers - 1; layer >= 0; --layer) {
    const std::int64_t gradients = std::max(held, kFloat * (layers - 1 - layer) * n.layer_weights());
    peak = std::max(peak, n.around() + layer * kept + in_layer + gradients);
  }
  return static_cast<std::int64_t>(kAllocator * static_cast<double>(std::max(peak, all_gradients)));
}

}  // namespace draftsmith
