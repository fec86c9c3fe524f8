// Compares the mask of DFlash blocks with its definition, painted by plain loops: full, with a window and causal within
// the block, for blocks and contexts that no tile divides, and for anchors that coincide.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "flex/block_mask.h"

namespace flex {
namespace {

using InBlock = DFlashBlocks::InBlock;

// Blocks with anchors 0, the whole context, the same one twice, and one at its document's first token.
struct Blocks {
  std::int64_t num_context, size;
  std::vector<std::int64_t> anchors, begins;
  std::int64_t num_queries() const { return size * static_cast<std::int64_t>(anchors.size()); }
  std::int64_t num_keys() const { return num_context + num_queries(); }
  DFlashBlocks mask(std::int64_t window, InBlock in_block) const {
    return {anchors, begins, num_context, size, window, in_block};
  }
};

Blocks blocks_of(std::int64_t num_context, std::int64_t size) {
  const std::int64_t document = num_context / 3;
  return {num_context,
          size,
          {0, 1, document, document + 9, document + 9, num_context - 1, num_context, num_context},
          {0, 0, document, document, document, document, document, 0}};
}

// Paints [Q][K] as the definition says: each slot sees its document up to the anchor, no further back than the window,
// and slots of its own block.
std::vector<char> painted(const Blocks& blocks, std::int64_t window, InBlock in_block) {
  std::vector<char> seen(static_cast<std::size_t>(blocks.num_queries() * blocks.num_keys()), 0);
  for (std::size_t block = 0; block < blocks.anchors.size(); ++block) {
    const std::int64_t anchor = blocks.anchors[block], first = static_cast<std::int64_t>(block) * blocks.size;
    for (std::int64_t slot = 0; slot < blocks.size; ++slot) {
      char* row = seen.data() + (first + slot) * blocks.num_keys();
      const std::int64_t furthest = window > 0 ? anchor + slot - (window - 1) : 0;
      for (std::int64_t t = std::max(blocks.begins[block], furthest); t < anchor; ++t) row[t] = 1;
      const std::int64_t others = in_block == InBlock::kCausal ? slot + 1 : blocks.size;
      for (std::int64_t other = 0; other < others; ++other) row[blocks.num_context + first + other] = 1;
    }
  }
  return seen;
}

std::vector<char> seen_by(const BlockMask& mask) {
  const BlockMaskShape& shape = mask.shape();
  std::vector<char> seen(static_cast<std::size_t>(shape.num_queries * shape.num_keys), 0);
  for (std::int64_t tile = 0; tile < mask.num_tiles(); ++tile)
    for (const Segment& segment : mask.row(0, tile))
      for (std::int64_t k = segment.begin; k < segment.end; ++k)
        for (std::int64_t i = 0; i < mask.rows_in(tile); ++i)
          if (segment.bits < 0 || (mask.bits(segment)[static_cast<std::size_t>(k - segment.begin)] >> i & 1) != 0)
            ++seen[static_cast<std::size_t>((tile * shape.tile_rows + i) * shape.num_keys + k)];
  return seen;
}

// Calls body(blocks, window, in_block) for every kind of mask.
template <class Body>
void for_masks(const Body& body) {
  for (const std::int64_t num_context : {48, 80, 131}) {
    for (const std::int64_t size : {1, 4, 7, 16, 24, 33}) {
      for (const std::int64_t window : {0, 1, 5, 20, 500}) {
        for (const InBlock in_block : {InBlock::kBothWays, InBlock::kCausal}) {
          SCOPED_TRACE("context " + std::to_string(num_context) + ", blocks of " + std::to_string(size) + ", window " +
                       std::to_string(window) + (in_block == InBlock::kCausal ? ", causal" : ""));
          body(blocks_of(num_context, size), window, in_block);
        }
      }
    }
  }
}

TEST(DFlashMask, IsItsDefinition) {
  for_masks([](const Blocks& blocks, std::int64_t window, InBlock in_block) {
    const std::vector<char> expected = painted(blocks, window, in_block);
    for (const std::int64_t tile_rows : {16, 32, 64}) {
      const BlockMask built = BlockMask::build(blocks.mask(window, in_block), {.num_queries = blocks.num_queries(),
                                                                               .num_keys = blocks.num_keys(),
                                                                               .num_context = blocks.num_context,
                                                                               .tile_rows = tile_rows});
      EXPECT_EQ(seen_by(built), expected) << "tiles of " << tile_rows;
      EXPECT_EQ(built.num_pairs(), std::count(expected.begin(), expected.end(), 1));
    }
  });
}

// Cover tells the truth about the keys of one source, and says mixed only where rows or keys differ. A mask that said
// mixed too often would be built slowly, and its segments would hold useless bits.
TEST(DFlashMask, CoverIsExact) {
  for_masks([](const Blocks& blocks, std::int64_t window, InBlock in_block) {
    const std::vector<char> seen = painted(blocks, window, in_block);
    const DFlashBlocks mask = blocks.mask(window, in_block);
    for (std::int64_t q = 0; q < blocks.num_queries(); q += 5) {
      for (std::int64_t k = 0; k < blocks.num_keys(); k += 3) {
        for (const std::int64_t length : {1, 2, 16, 50}) {
          const std::int64_t end = k < blocks.num_context ? blocks.num_context : blocks.num_keys();
          const Box box{q, std::min(blocks.num_queries(), q + 16), k, std::min(end, k + length)};
          std::int64_t count = 0;
          for (std::int64_t row = box.q_begin; row < box.q_end; ++row)
            for (std::int64_t key = box.k_begin; key < box.k_end; ++key)
              count += seen[static_cast<std::size_t>(row * blocks.num_keys() + key)];
          const std::int64_t all = (box.q_end - box.q_begin) * (box.k_end - box.k_begin);
          const Cover truth = count == 0 ? Cover::kNone : count == all ? Cover::kAll : Cover::kMixed;
          ASSERT_EQ(mask.cover(0, 0, box), truth) << "queries from " << q << ", keys from " << k << ", " << length;
        }
      }
    }
  });
}

}  // namespace
}  // namespace flex
