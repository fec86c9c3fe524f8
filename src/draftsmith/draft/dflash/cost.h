// The cost of a training step of a DFlash drafter: the operations of its products, and its peak bytes.
#pragma once

#include <cstdint>

#include "draftsmith/draft/dflash/block_inputs.h"
#include "draftsmith/draft/drafter.h"

namespace draftsmith {

// Counts forward and backward: 6 operations for each trainable weight and row that it multiplies, 4 for each weight of
// the frozen head and row whose label counts, 14 D Hq for each pair of a query and a visible key.
StepFlops dflash_step_flops(const DrafterConfig& config, const BlockInputs& blocks);

// Peak bytes of one step: activations kept by the forward pass, then, walking backward, activations freed minus
// gradients allocated. Tensor sizes are exact; allocator overhead is a fixed 1 %.
std::int64_t dflash_step_bytes(const DrafterConfig& config, at::ScalarType compute, const StepSize& size);

}  // namespace draftsmith
