#include "draftsmith/draft/dflash/params.h"

#include <ATen/ops/empty.h>

namespace draftsmith {

DFlashParams dflash_shapes(const DrafterConfig& c) {
  const auto shape = [](at::IntArrayRef sizes) {
    return at::empty(sizes, at::TensorOptions(at::kFloat).device(at::kMeta));
  };
  DFlashParams params{.fc = shape({c.hidden_size, c.num_taps() * c.hidden_size}),
                      .hidden_norm = shape({c.hidden_size}),
                      .norm = shape({c.hidden_size}),
                      .layers = {}};
  params.layers.assign(static_cast<std::size_t>(c.num_layers), layer_shapes(c));
  return params;
}

DFlashParams empty_dflash_params(const DrafterConfig& config) {
  DFlashParams params = dflash_shapes(config);
  visit_params(params, [](const std::string&, at::Tensor& tensor, Role) {
    tensor = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
  });
  return params;
}

void init_random(DFlashParams& params, Rng& rng) {
  visit_params(params, [&](const std::string&, at::Tensor& tensor, Role role) { fill_first_value(tensor, role, rng); });
}

}  // namespace draftsmith
