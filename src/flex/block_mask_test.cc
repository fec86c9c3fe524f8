#include "flex/block_mask.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace flex {
namespace {

struct Seen {
  std::vector<char> bits;  // [Q][K]
  bool exact = true;       // no key appears twice, no segment is empty or holds keys of both sources
};

Seen seen_by(const BlockMask& mask, std::int64_t plane) {
  const BlockMaskShape& shape = mask.shape();
  Seen out{std::vector<char>(static_cast<std::size_t>(shape.num_queries * shape.num_keys))};
  for (std::int64_t tile = 0; tile < mask.num_tiles(); ++tile) {
    std::int64_t before = 0;
    for (const Segment& segment : mask.row(plane, tile)) {
      out.exact = out.exact && segment.begin >= before && segment.begin < segment.end &&
                  !(segment.begin < shape.num_context && segment.end > shape.num_context);
      before = segment.end;
      for (std::int64_t k = segment.begin; k < segment.end; ++k) {
        for (std::int64_t i = 0; i < mask.rows_in(tile); ++i) {
          const bool one =
              segment.bits < 0 || (mask.bits(segment)[static_cast<std::size_t>(k - segment.begin)] >> i & 1) != 0;
          out.bits[static_cast<std::size_t>((tile * shape.tile_rows + i) * shape.num_keys + k)] = one ? 1 : 0;
        }
      }
    }
  }
  return out;
}

template <Mask M>
BlockMask expect_equals_predicate(const M& mask, const BlockMaskShape& shape) {
  BlockMask built = BlockMask::build(mask, shape);
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < shape.num_batches; ++b) {
    for (std::int64_t h = 0; h < shape.num_heads; ++h) {
      const std::int64_t plane = built.plane(b, h);
      const Seen seen = seen_by(built, plane);
      EXPECT_TRUE(seen.exact);
      for (std::int64_t q = 0; q < shape.num_queries; ++q) {
        for (std::int64_t k = 0; k < shape.num_keys; ++k) {
          const bool expected = mask(b, h, q, k);
          pairs += expected ? 1 : 0;
          if (expected != (seen.bits[static_cast<std::size_t>(q * shape.num_keys + k)] != 0)) {
            ADD_FAILURE() << "query " << q << ", key " << k;
            return built;
          }
        }
      }
      // Columns must say the same.
      for (std::int64_t column = 0; column < built.num_columns(); ++column) {
        const std::int64_t begin = column * BlockMask::kColumnKeys,
                           end = std::min(shape.num_keys, begin + BlockMask::kColumnKeys);
        std::vector<int> listed(static_cast<std::size_t>(built.num_tiles()), 0);
        for (const BlockMask::ColumnEntry& entry : built.column(plane, column))
          listed[static_cast<std::size_t>(entry.tile)] = entry.full ? 2 : 1;
        for (std::int64_t tile = 0; tile < built.num_tiles(); ++tile) {
          std::int64_t count = 0;
          for (std::int64_t i = 0; i < built.rows_in(tile); ++i)
            for (std::int64_t k = begin; k < end; ++k) count += mask(b, h, tile * shape.tile_rows + i, k) ? 1 : 0;
          const bool full = count == built.rows_in(tile) * (end - begin);
          const int told = listed[static_cast<std::size_t>(tile)];
          EXPECT_TRUE(told == 0 ? count == 0 : told == 2 ? full : true) << "tile " << tile << ", column " << column;
          EXPECT_TRUE(count == 0 || told != 0);
        }
      }
    }
  }
  EXPECT_EQ(built.num_pairs(), pairs);
  return built;
}

// Hides a mask's cover, so that every element is asked for.
template <Mask M>
struct WithoutCover {
  M mask;
  bool operator()(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const { return mask(b, h, q, k); }
};

template <Mask M>
void expect_equals_with_and_without_cover(const M& mask, const BlockMaskShape& shape) {
  expect_equals_predicate(mask, shape);
  expect_equals_predicate(WithoutCover<M>{mask}, shape);
}

const BlockMaskShape kShapes[] = {
    {1, 1, 50, 70, 0, 16}, {1, 1, 100, 230, 130, 32}, {1, 1, 1, 1, 1, 64}, {1, 1, 129, 300, 300, 64}};

TEST(BlockMask, EqualsItsPredicate) {
  for (const BlockMaskShape& shape : kShapes) {
    expect_equals_with_and_without_cover(Everything{}, shape);
    expect_equals_with_and_without_cover(Causal{}, shape);
    expect_equals_with_and_without_cover(Causal{-3}, shape);
    expect_equals_with_and_without_cover(SlidingWindow{17, 2}, shape);
    expect_equals_with_and_without_cover(Prefix{33}, shape);
    expect_equals_with_and_without_cover(all_of(Causal{20}, negation(Prefix{5})), shape);
    expect_equals_with_and_without_cover(any_of(Prefix{9}, SlidingWindow{8, 0}), shape);
    expect_equals_with_and_without_cover(negation(any_of(Causal{}, Prefix{40})), shape);
  }
}

TEST(BlockMask, DocumentsInAnyOrder) {
  std::vector<std::int32_t> q(90), k(170);
  for (const bool sorted : {true, false}) {
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<std::int32_t>(sorted ? i / 25 : i * 7 % 4) - 1;
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<std::int32_t>(sorted ? i / 40 : i * 5 % 4) - 1;
    expect_equals_with_and_without_cover(SameDocument(q, k), {1, 1, 90, 170, 100, 16});
  }
}

TEST(BlockMask, Ranges) {
  std::mt19937 random(2);
  std::vector<std::int32_t> lists[4];
  for (auto& list : lists)
    for (int i = 0; i < 77; ++i) list.push_back(static_cast<std::int32_t>(random() % 130));
  const TwoRanges mask{lists[0], lists[1], lists[2], lists[3]};
  expect_equals_with_and_without_cover(mask, {1, 1, 77, 130, 50, 16});
}

TEST(BlockMask, DFlashBlocks) {
  const std::vector<std::int64_t> anchors = {3, 9, 9, 40, 77}, begins = {0, 0, 0, 30, 30};
  for (const std::int64_t size : {1, 5, 16, 24}) {
    for (const std::int64_t window : {0, 6, 100}) {
      for (const auto in_block : {DFlashBlocks::InBlock::kBothWays, DFlashBlocks::InBlock::kCausal}) {
        const std::int64_t rows = size * 5;
        expect_equals_with_and_without_cover(DFlashBlocks{anchors, begins, 80, size, window, in_block},
                                             {1, 1, rows, 80 + rows, 80, 16});
      }
    }
  }
}

TEST(BlockMask, PlanesOfBatchesAndHeads) {
  const auto mask = [](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
    return (q + 2 * k + 3 * h + 5 * b) % 7 < 3;
  };
  expect_equals_predicate(mask, {2, 3, 40, 50, 20, 16});
}

TEST(BlockMask, RandomBits) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 40; ++round) {
    const auto queries = static_cast<std::int64_t>(random() % 100 + 1),
               keys = static_cast<std::int64_t>(random() % 200 + 1);
    const auto context = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(keys + 1));
    const std::uint64_t density = random() % 101;
    std::vector<char> bits(static_cast<std::size_t>(queries * keys));
    for (char& bit : bits) bit = random() % 100 < density ? 1 : 0;
    const auto mask = [&](std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) {
      return bits[static_cast<std::size_t>(q * keys + k)] != 0;
    };
    expect_equals_predicate(mask, {1, 1, queries, keys, context, round % 3 == 0 ? 16 : round % 3 == 1 ? 32 : 64});
  }
}

// Sixteen rows of one anchor see the same context, so the mask has no bits and no key too many.
TEST(BlockMask, ABlockOfRangesIsItsExactRanges) {
  const std::vector<std::int64_t> anchors = {37, 101}, begins = {0, 64};
  const BlockMask mask = BlockMask::build(DFlashBlocks{anchors, begins, 128, 16},
                                          {.num_queries = 32, .num_keys = 160, .num_context = 128});
  const auto expect_segments = [&](std::int64_t tile, std::vector<std::pair<int, int>> expected) {
    ASSERT_EQ(mask.row(0, tile).size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(mask.row(0, tile)[i].begin, expected[i].first);
      EXPECT_EQ(mask.row(0, tile)[i].end, expected[i].second);
      EXPECT_EQ(mask.row(0, tile)[i].bits, -1);
    }
  };
  expect_segments(0, {{0, 37}, {128, 144}});
  expect_segments(1, {{64, 101}, {144, 160}});
}

TEST(BlockMask, FullTileHasNoHoles) {
  const BlockMask mask = BlockMask::build(Causal{}, {.num_queries = 256, .num_keys = 256, .tile_rows = 64});
  for (std::int64_t column = 0; column < mask.num_columns(); ++column)
    for (const BlockMask::ColumnEntry& entry : mask.column(0, column)) EXPECT_EQ(entry.full, entry.tile > column);
}

TEST(BlockMask, ShapesWithoutSenseAreRefused) {
  const auto refusal = [](const BlockMaskShape& shape) -> std::string {
    try {
      BlockMask::build(Everything{}, shape);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.num_queries = 4, .num_keys = 3, .num_context = 5}),
            "[flex.block_mask] num_context is 5, num_keys 3; the context's keys are among all keys");
  EXPECT_EQ(refusal({.num_queries = 4, .num_keys = 3, .tile_rows = 8}),
            "[flex.block_mask] tile_rows is 8; it must be 16, 32 or 64");
}

}  // namespace
}  // namespace flex
