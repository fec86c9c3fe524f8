// Holds a mask as data that kernels read. Queries are grouped in tiles of `tile_rows`; each tile holds, in order of
// keys, the segments of keys that it sees: full ones (every row sees every key) and partial ones with a bit for each
// row and key. If a mask is made of ranges, the segments are its exact ranges. A mask is built once and serves every
// layer and both passes; no [Q, K] array is made. A plane is one (batch, head) of the mask, or all of them together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flex/mask.h"
#include "flex/view.h"

namespace flex {

struct BlockMaskShape {
  std::int64_t num_batches = 1;  // planes of the mask: 1 = the same for the whole batch
  std::int64_t num_heads = 1;    // 1 = the same for all query heads
  std::int64_t num_queries = 0;
  std::int64_t num_keys = 0;     // context and block together
  std::int64_t num_context = 0;  // keys of the first source; a segment never holds keys of both
  std::int64_t tile_rows = 16;   // 16, 32 or 64: see tile_rows_for
};

// Returns the tile rows that suit a number of query heads per key/value head: heads and rows together fill 64 lanes.
inline std::int64_t tile_rows_for(std::int64_t group) { return group >= 3 ? 16 : group == 2 ? 32 : 64; }

struct Segment {
  std::int32_t begin = 0, end = 0;  // keys
  std::int64_t bits = -1;           // first word of a partial segment; -1: full
};

class BlockMask {
 public:
  // Throws flex::Error for a shape that makes no sense.
  template <Mask M>
  static BlockMask build(const M& mask, const BlockMaskShape& shape);

  const BlockMaskShape& shape() const { return shape_; }
  std::int64_t num_tiles() const { return (shape_.num_queries + shape_.tile_rows - 1) / shape_.tile_rows; }
  std::int64_t plane(std::int64_t b, std::int64_t h) const {
    return (shape_.num_batches > 1 ? b : 0) * shape_.num_heads + (shape_.num_heads > 1 ? h : 0);
  }
  std::int64_t num_planes() const { return shape_.num_batches * shape_.num_heads; }
  std::int64_t rows_in(std::int64_t tile) const {
    const std::int64_t left = shape_.num_queries - tile * shape_.tile_rows;
    return left < shape_.tile_rows ? left : shape_.tile_rows;
  }

  // Returns the segments of one tile of queries, in order of keys.
  std::span<const Segment> row(std::int64_t plane, std::int64_t tile) const;
  // Returns a word for each key of a partial segment; bit i is set when row i of the tile sees the key.
  std::span<const std::uint64_t> bits(const Segment& segment) const {
    return {bits_.data() + segment.bits, static_cast<std::size_t>(segment.end - segment.begin)};
  }
  const std::uint64_t* all_bits() const { return bits_.data(); }

  // A column is kColumnKeys keys. Its entries are the tiles of queries that see any of them, and say whether they see
  // all.
  static constexpr std::int64_t kColumnKeys = 64;
  struct ColumnEntry {
    std::int32_t tile = 0;
    bool full = false;
  };
  std::int64_t num_columns() const { return (shape_.num_keys + kColumnKeys - 1) / kColumnKeys; }
  std::span<const ColumnEntry> column(std::int64_t plane, std::int64_t column) const;

  // Both count the pairs of a query and a key that it sees, over all planes or in one tile.
  std::int64_t num_pairs() const { return num_pairs_; }
  std::int64_t pairs_in(std::int64_t plane, std::int64_t tile) const;
  std::int64_t bytes() const;

 private:
  explicit BlockMask(const BlockMaskShape& shape);
  // Builds one tile, key range after key range in order.
  class TileBuilder {
   public:
    TileBuilder(BlockMask& mask, std::uint64_t all_rows) : mask_(mask), all_rows_(all_rows) {}
    void full(std::int64_t begin, std::int64_t end);
    void words(std::int64_t begin, std::span<const std::uint64_t> words);

   private:
    Segment* last_ending_at(std::int64_t key);
    void partial(std::int64_t begin, std::span<const std::uint64_t> words);
    BlockMask& mask_;
    std::uint64_t all_rows_;
    std::size_t first_ = mask_.segments_.size();
  };
  void close_tile() { tile_ends_.push_back(static_cast<std::int64_t>(segments_.size())); }
  void finish();  // columns and counts

  BlockMaskShape shape_;
  std::vector<Segment> segments_;
  std::vector<std::int64_t> tile_ends_;  // the tiles of one plane follow those of another
  std::vector<std::uint64_t> bits_;
  std::vector<ColumnEntry> entries_;
  std::vector<std::int64_t> column_ends_;
  std::int64_t num_pairs_ = 0;

  template <Mask M>
  struct Builder;
};

// ---- building ----------------------------------------------------------------------------------------------------

// Halves a range of keys until the mask answers for it, or until it is short enough to ask for every element.
template <Mask M>
struct BlockMask::Builder {
  static constexpr std::int64_t kLeaf = 16;
  const M& mask;
  std::int64_t b, h, q_begin, q_end;
  TileBuilder tile;

  void visit(std::int64_t begin, std::int64_t end) {
    switch (cover_of(mask, b, h, {q_begin, q_end, begin, end})) {
      case Cover::kNone:
        return;
      case Cover::kAll:
        return tile.full(begin, end);
      case Cover::kMixed:
        break;
    }
    if (end - begin <= kLeaf) return ask(begin, end);
    const std::int64_t middle = begin + (end - begin) / 2 / kLeaf * kLeaf;
    const std::int64_t cut = middle > begin ? middle : begin + kLeaf;
    visit(begin, cut);
    visit(cut, end);
  }
  // Bit i is set when query q sees key begin + i. Most queries of a mixed rectangle see all or nothing of a short range
  // of keys.
  std::uint64_t keys_seen_by(std::int64_t q, std::int64_t begin, std::int64_t end) const {
    switch (cover_of(mask, b, h, {q, q + 1, begin, end})) {
      case Cover::kNone:
        return 0;
      case Cover::kAll:
        return (std::uint64_t{1} << (end - begin)) - 1;
      case Cover::kMixed:
        break;
    }
    std::uint64_t seen = 0;
    for (std::int64_t k = begin; k < end; ++k)
      seen |= static_cast<std::uint64_t>(mask(b, h, q, k) ? 1 : 0) << (k - begin);
    return seen;
  }
  void ask(std::int64_t begin, std::int64_t end) {
    std::uint64_t words[kLeaf] = {};
    for (std::int64_t q = q_begin; q < q_end; ++q) {
      const std::uint64_t seen = keys_seen_by(q, begin, end);
      for (std::int64_t i = 0; i < kLeaf; ++i) words[i] |= (seen >> i & 1) << (q - q_begin);
    }
    tile.words(begin, {words, static_cast<std::size_t>(end - begin)});
  }
};

template <Mask M>
BlockMask BlockMask::build(const M& mask, const BlockMaskShape& shape) {
  BlockMask out(shape);
  for (std::int64_t b = 0; b < shape.num_batches; ++b) {
    for (std::int64_t h = 0; h < shape.num_heads; ++h) {
      for (std::int64_t t = 0; t < out.num_tiles(); ++t) {
        const std::int64_t rows = out.rows_in(t), q = t * shape.tile_rows;
        const std::uint64_t all_rows = rows == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << rows) - 1;
        Builder<M> builder{mask, b, h, q, q + rows, TileBuilder(out, all_rows)};
        if (shape.num_context > 0) builder.visit(0, shape.num_context);
        if (shape.num_keys > shape.num_context) builder.visit(shape.num_context, shape.num_keys);
        out.close_tile();
      }
    }
  }
  out.finish();
  return out;
}

}  // namespace flex
