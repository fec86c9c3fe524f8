// Cuts backward into units that may run at the same time. Keys that tiles of queries share tie these tiles together:
// tiles in different components touch different keys, so a component adds to its keys' gradients alone and in order.
// A component with too large a share of the work is cut into chunks of tiles; each chunk but the first adds to sums of
// its own, which are then added in the order of the chunks. The cuts follow from the mask and the heads alone, never
// from the threads, and so do the bits of the result.
#pragma once

#include <cstdint>
#include <vector>

#include "flex/block_mask.h"

namespace flex::detail {

// A half-open range of keys of one source.
struct KeySpan {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end > begin ? end - begin : 0; }
};

// A tile of a chunk. `head` counts from the first query head of the key/value head; it is 0 when all heads share the
// mask, since the tile then stands for all of them.
struct PlanTile {
  std::int32_t tile = 0, head = 0;
};

struct Chunk {
  std::int64_t b = 0, kv_head = 0;
  std::vector<PlanTile> tiles;
  KeySpan keys[2];        // that its tiles see: context, block
  std::int64_t work = 0;  // pairs
  std::int64_t component = 0;
  std::int64_t num_keys() const { return keys[0].size() + keys[1].size(); }
};

struct BackwardPlan {
  std::vector<Chunk> chunks;              // component after component, each one's chunks in order
  std::vector<std::int64_t> first_chunk;  // of each component, and one past the last
  std::vector<std::int64_t> by_work;      // chunks, the largest first
};

BackwardPlan plan_backward(const BlockMask& mask, std::int64_t num_batches, std::int64_t num_kv_heads,
                           std::int64_t group);

}  // namespace flex::detail
