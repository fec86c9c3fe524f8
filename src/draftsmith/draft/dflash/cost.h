// What a training step of a DFlash drafter costs: operations of its products, bytes at its peak.
#pragma once

#include <cstdint>

#include "draftsmith/draft/dflash/block_inputs.h"
#include "draftsmith/draft/drafter.h"

namespace draftsmith {

// Forward and backward: 6 for each trainable weight and row that it sees, 4 for the frozen head and each row whose
// label counts, 14 D Hq for each query and key that it sees.
StepFlops dflash_step_flops(const DrafterConfig& config, const BlockInputs& blocks);

// Peak bytes of one step: activations kept by the forward pass, then, walking backward, activations freed minus
// gradients allocated. Tensor sizes are exact; allocator overhead is a fixed 1 %.
std::int64_t dflash_step_bytes(const DrafterConfig& config, at::ScalarType compute, const StepSize& size);

}  // namespace draftsmith
