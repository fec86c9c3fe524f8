// Compares the head and its loss with plain cross-entropy and with chunks of it, all through libtorch in one process:
// the time, and the memory beyond the hidden states and the head, forward and backward to the hidden states.
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

// Measures our head, plain cross-entropy over all rows at once, and chunks of 8, 32 and 128 blocks, each of which is
// differentiated before the next begins. The ways take turns, `repeats` times.
std::vector<HeadTime> measure_head(const HeadShape& shape, const Place& place, std::int64_t repeats);

}  // namespace draftsmith
