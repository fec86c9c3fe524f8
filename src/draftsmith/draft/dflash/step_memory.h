// Memory that one training step needs beside what is always kept: masters, moments, embedding and head, features of
// other rows.
#pragma once

#include <cstdint>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

struct StepSize {
  std::int64_t context = 0;  // S tokens of the row
  std::int64_t queries = 0;  // A * B
  bool recompute = false;
  bool soft_labels = false;
  bool gradients_held = false;  // of the step's rows before this one
  std::int64_t logits_bytes = 0;
};
// Bytes at the peak, gradients included: what forward keeps, and on the way back, layer by layer, what is freed against
// the gradients that come. An estimate: tensors by their sizes, the allocator by a share.
std::int64_t step_peak_bytes(const DrafterConfig& config, Compute compute, const StepSize& size);

}  // namespace draftsmith
