// The head and its loss beside plain cross-entropy and PyTorch's chunks of it, through libtorch in one process: time
// and memory beyond the hidden states and the head, forward and backward to the hidden states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

struct HeadShape {
  std::int64_t rows = 2048, hidden = 5120, vocab = 248320, block_size = 16;
};

struct HeadTime {
  std::string name;
  std::vector<double> seconds;
  std::int64_t extra_bytes = 0;
  double median() const;
};

// Ours, plain cross-entropy over all rows at once, and chunks of 8, 32 and 128 blocks, each differentiated before the
// next begins; `repeats` interleaved rounds.
std::vector<HeadTime> measure_head(const HeadShape& shape, const Place& place, std::int64_t repeats);

}  // namespace draftsmith
