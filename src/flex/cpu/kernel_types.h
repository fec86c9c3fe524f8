// Plain structs pass between the drivers (forward.cc, backward.cc) and the kernels of one instruction set. They hold no
// containers, so that nothing compiled for a newer processor can leak into the rest of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flex/attention.h"
#include "flex/block_mask.h"
#include "flex/view.h"

namespace flex::detail {

constexpr std::int64_t kMaxRows = 64;   // rows of a tile: heads x queries
constexpr std::int64_t kMaxKeys = 128;  // keys of a tile

constexpr std::int64_t padded(std::int64_t dim) { return (dim + 15) / 16 * 16; }

enum class Into { kSet, kAdd };  // what a product does to its result

// The tensors of a call. Index 0 is the context, 1 the block; keys of both are numbered from 0 here.
template <class T>
struct Problem {
  std::int64_t num_queries = 0, dim = 0, num_context = 0;
  float scale = 1;
  View<const T> q, k[2], v[2];
  View<T> o;                // forward
  View<float> lse;          // forward writes, backward reads
  View<const T> o_in, d_o;  // backward
  View<T> dq;
  // bf16 with pair products: V (forward) or K (backward) with two keys' values side by side, [B, Hkv, pairs, dim].
  const std::uint32_t* pairs[2] = {nullptr, nullptr};
  std::int64_t pairs_stride[2] = {0, 0};  // of one (b, kv head)
  std::int64_t kv_heads = 1;
};

// A tile is `num_heads` query heads from `head` on, which share a key/value head, times the rows of a query tile. Row r
// of the tile is head r / tile_rows, query first_query + r % tile_rows.
struct Tile {
  std::int64_t b = 0, kv_head = 0, head = 0, num_heads = 1;
  std::int64_t first_query = 0, num_queries = 0, tile_rows = 16;
  const Segment* segments = nullptr;
  std::int64_t num_segments = 0;
  const std::uint64_t* bits = nullptr;  // of the mask; a segment says where its words begin
  std::int64_t num_rows() const { return num_heads * tile_rows; }
};

// Gradients of keys and values are added here, in fp32 and padded(dim) wide. Row n of source s is at
// dk[s] + (n - begin[s]) * dk_stride[s].
struct KeyGradients {
  float *dk[2] = {nullptr, nullptr}, *dv[2] = {nullptr, nullptr};
  std::int64_t dk_stride[2] = {0, 0}, dv_stride[2] = {0, 0};
  std::int64_t begin[2] = {0, 0};
};

template <class T>
using ForwardTile = void (*)(const Problem<T>&, const Tile&, const void* score, std::byte* scratch);
template <class T>
using BackwardTile = void (*)(const Problem<T>&, const Tile&, const void* score, const KeyGradients&,
                              std::byte* scratch);

// Returns the bytes that a thread needs in addition to the tensors.
constexpr std::int64_t scratch_bytes(std::int64_t dim) {
  return 4 * (5 * kMaxRows * padded(dim) + 5 * kMaxKeys * kMaxRows + 2 * kMaxKeys * padded(dim) + 8 * kMaxRows);
}

struct IsaKernels {
  ForwardTile<float> forward_f32 = nullptr;
  BackwardTile<float> backward_f32 = nullptr;
  ForwardTile<BFloat16> forward_bf16 = nullptr;
  BackwardTile<BFloat16> backward_bf16 = nullptr;
  void (*narrow_row)(const float* from, BFloat16* to, std::int64_t count) = nullptr;
  // Lays keys side by side in pairs begin .. end - 1, for kernels that multiply pairs; null for other kernels.
  void (*pack_pairs)(const View<const BFloat16>& x, std::int64_t b, std::int64_t h, std::int64_t begin,
                     std::int64_t end, std::uint32_t* to) = nullptr;
};

struct CompiledScore {
  IsaKernels cpu[4];  // by Isa
};

}  // namespace flex::detail
