#include "flex/block_mask.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <string>

namespace flex {
namespace {

// A run of full keys inside a partial stretch gets a segment of its own only if it is at least this long.
constexpr std::int64_t kShortRun = 16;

void check(bool fine, const std::string& text) {
  if (!fine) throw Error("[flex.block_mask] " + text);
}

}  // namespace

BlockMask::BlockMask(const BlockMaskShape& shape) : shape_(shape) {
  check(shape.num_batches >= 1 && shape.num_heads >= 1, "num_batches and num_heads must be at least 1");
  check(shape.num_queries >= 0 && shape.num_keys >= 0, "num_queries and num_keys must not be negative");
  check(shape.num_context >= 0 && shape.num_context <= shape.num_keys,
        "num_context is " + std::to_string(shape.num_context) + ", num_keys " + std::to_string(shape.num_keys) +
            "; the context's keys are among all keys");
  check(shape.num_keys <= std::numeric_limits<std::int32_t>::max(), "at most 2^31 - 1 keys");
  check(shape.tile_rows == 16 || shape.tile_rows == 32 || shape.tile_rows == 64,
        "tile_rows is " + std::to_string(shape.tile_rows) + "; it must be 16, 32 or 64");
}

std::span<const Segment> BlockMask::row(std::int64_t plane, std::int64_t tile) const {
  const auto at = static_cast<std::size_t>(plane * num_tiles() + tile);
  const std::int64_t begin = at == 0 ? 0 : tile_ends_[at - 1];
  return {segments_.data() + begin, static_cast<std::size_t>(tile_ends_[at] - begin)};
}

std::span<const BlockMask::ColumnEntry> BlockMask::column(std::int64_t plane, std::int64_t column) const {
  const auto at = static_cast<std::size_t>(plane * num_columns() + column);
  const std::int64_t begin = at == 0 ? 0 : column_ends_[at - 1];
  return {entries_.data() + begin, static_cast<std::size_t>(column_ends_[at] - begin)};
}

std::int64_t BlockMask::pairs_in(std::int64_t plane, std::int64_t tile) const {
  std::int64_t pairs = 0;
  for (const Segment& segment : row(plane, tile)) {
    if (segment.bits < 0) {
      pairs += (segment.end - segment.begin) * rows_in(tile);
    } else {
      for (const std::uint64_t word : bits(segment)) pairs += std::popcount(word);
    }
  }
  return pairs;
}

std::int64_t BlockMask::bytes() const {
  return static_cast<std::int64_t>(segments_.size() * sizeof(Segment) + tile_ends_.size() * sizeof(std::int64_t) +
                                   bits_.size() * sizeof(std::uint64_t) + entries_.size() * sizeof(ColumnEntry) +
                                   column_ends_.size() * sizeof(std::int64_t));
}

// ---- one tile ----------------------------------------------------------------------------------------------------

Segment* BlockMask::TileBuilder::last_ending_at(std::int64_t key) {
  if (mask_.segments_.size() == first_) return nullptr;
  Segment& last = mask_.segments_.back();
  // Segments never hold keys of both sources.
  return last.end == key && key != mask_.shape_.num_context ? &last : nullptr;
}

void BlockMask::TileBuilder::full(std::int64_t begin, std::int64_t end) {
  Segment* last = last_ending_at(begin);
  if (last != nullptr && last->bits < 0) {
    last->end = static_cast<std::int32_t>(end);
  } else {
    mask_.segments_.push_back({static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end), -1});
  }
}

void BlockMask::TileBuilder::partial(std::int64_t begin, std::span<const std::uint64_t> words) {
  const auto end = static_cast<std::int32_t>(begin + static_cast<std::int64_t>(words.size()));
  Segment* last = last_ending_at(begin);
  if (last != nullptr && last->bits >= 0) {
    last->end = end;
  } else {
    mask_.segments_.push_back({static_cast<std::int32_t>(begin), end, static_cast<std::int64_t>(mask_.bits_.size())});
  }
  mask_.bits_.insert(mask_.bits_.end(), words.begin(), words.end());
}

// Keys that no row sees are left out at both ends; a long full run at the beginning becomes a full segment.
void BlockMask::TileBuilder::words(std::int64_t begin, std::span<const std::uint64_t> words) {
  while (!words.empty() && words.front() == 0) words = words.subspan(1), ++begin;
  while (!words.empty() && words.back() == 0) words = words.first(words.size() - 1);
  if (words.empty()) return;
  const auto is_full = [&](std::uint64_t word) { return word == all_rows_; };
  const auto count = static_cast<std::int64_t>(words.size());
  const std::int64_t leading = std::find_if_not(words.begin(), words.end(), is_full) - words.begin();
  if (leading == count) return full(begin, begin + count);
  // A full run that continues a full segment costs none of its own.
  const Segment* last = last_ending_at(begin);
  std::int64_t kept = 0;
  if (leading >= kShortRun || (leading > 0 && last != nullptr && last->bits < 0)) {
    full(begin, begin + leading);
    kept = leading;
  }
  partial(begin + kept, words.subspan(static_cast<std::size_t>(kept)));
}

// ---- columns -----------------------------------------------------------------------------------------------------

void BlockMask::finish() {
  const std::int64_t columns = num_columns();
  std::vector<std::vector<ColumnEntry>> lists(static_cast<std::size_t>(columns));
  for (std::int64_t plane = 0; plane < num_planes(); ++plane) {
    for (auto& list : lists) list.clear();
    for (std::int64_t tile = 0; tile < num_tiles(); ++tile) {
      num_pairs_ += pairs_in(plane, tile);
      std::int64_t open = -1, full_keys = 0;  // the column that is being filled
      const auto close = [&] {
        if (open < 0) return;
        const std::int64_t keys = std::min(kColumnKeys, shape_.num_keys - open * kColumnKeys);
        lists[static_cast<std::size_t>(open)].push_back({static_cast<std::int32_t>(tile), full_keys == keys});
      };
      for (const Segment& segment : row(plane, tile)) {
        for (std::int64_t key = segment.begin; key < segment.end;) {
          const std::int64_t column = key / kColumnKeys;
          const std::int64_t stop = std::min<std::int64_t>(segment.end, (column + 1) * kColumnKeys);
          if (column != open) {
            close();
            open = column;
            full_keys = 0;
          }
          if (segment.bits < 0) full_keys += stop - key;
          key = stop;
        }
      }
      close();
    }
    for (const auto& list : lists) {
      entries_.insert(entries_.end(), list.begin(), list.end());
      column_ends_.push_back(static_cast<std::int64_t>(entries_.size()));
    }
  }
}

}  // namespace flex
