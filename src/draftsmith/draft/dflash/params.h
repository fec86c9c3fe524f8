// The parameters of a DFlash drafter: fc and its norm read the taps, decoder layers read the context and the blocks,
// and a last norm stands before the target's head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/base/rng.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/model/layer.h"

namespace draftsmith {

struct DFlashParams {
  at::Tensor fc, hidden_norm, norm;
  std::vector<LayerParams> layers;
};

// Calls visit(name, tensor, role) for every parameter under its z-lab name, always in the same order.
template <class Params, class Visit>
void visit_params(Params& params, Visit visit) {
  visit(std::string("fc.weight"), params.fc, Role::kMatrix);
  visit(std::string("hidden_norm.weight"), params.hidden_norm, Role::kNorm);
  for (std::size_t i = 0; i < params.layers.size(); ++i)
    visit_layer(params.layers[i], "layers." + std::to_string(i) + ".", visit);
  visit(std::string("norm.weight"), params.norm, Role::kNorm);
}

// Names and shapes without memory (meta tensors).
DFlashParams dflash_shapes(const DrafterConfig& config);
// Uninitialised fp32 tensors.
DFlashParams empty_dflash_params(const DrafterConfig& config);
// Draws the first values in the order of visit_params.
void init_random(DFlashParams& params, Rng& rng);

}  // namespace draftsmith
