// What a training step has to compute: operations of its products, whatever way they are carried out.
#pragma once

#include "draftsmith/draft/dflash/block_inputs.h"
#include "draftsmith/draft/drafter_config.h"

namespace draftsmith {

// Forward and backward: 6 for each trainable weight and row that it sees, 4 for the frozen head and each row whose
// label counts, 14 D Hq for each query and key that it sees.
struct StepFlops {
  double projections = 0, attention = 0, mlp = 0, head = 0;
  double total() const { return projections + attention + mlp + head; }
};
StepFlops step_flops(const DrafterConfig& config, const BlockInputs& blocks);

}  // namespace draftsmith
