// Forward and backward share this: it cuts the workspace into pieces, divides work among threads, and makes tiles for
// the kernels.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "flex/cpu.h"
#include "flex/cpu/kernel_types.h"

namespace flex::detail {

// Checks what only the CPU backend needs of a call.
inline void check_call(const char* where, const CpuCall& call, std::int64_t needed) {
  if (!is_supported(call.isa)) refuse(where, "this machine cannot run " + std::string(name_of(call.isa)));
  if (call.executor.num_threads() < 1) refuse(where, "the executor has no thread");
  if (static_cast<std::int64_t>(call.workspace.size()) < needed)
    refuse(where,
           "the workspace has " + std::to_string(call.workspace.size()) + " bytes; it needs " + std::to_string(needed));
}

constexpr std::int64_t kAlignment = 64;

// Cuts the workspace into aligned pieces; with no workspace it only counts.
class Arena {
 public:
  explicit Arena(std::byte* begin = nullptr) : begin_(begin) {}
  template <class T>
  T* take(std::int64_t count) {
    const std::int64_t at = used_;
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + at);
  }
  std::int64_t used() const { return used_ + kAlignment; }  // the workspace itself need not be aligned

 private:
  std::byte* begin_;
  std::int64_t used_ = 0;
};

inline std::byte* aligned(std::span<std::byte> workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  return workspace.data() + (kAlignment - address % kAlignment) % kAlignment;
}

// Calls body(index, thread) for 0 .. count - 1; a thread that is free takes the next index.
template <class Body>
void share_out(Executor& executor, std::int64_t count, const Body& body) {
  std::atomic<std::int64_t> next{0};
  executor.run([&](int thread) {
    for (std::int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed))
      body(i, thread);
  });
}

// Heads of one key/value head that go into a tile together.
struct HeadPacks {
  std::int64_t group = 1, at_once = 1;
  HeadPacks(const BlockMask& mask, std::int64_t heads, std::int64_t kv_heads) : group(heads / kv_heads) {
    at_once = mask.shape().num_heads > 1 ? 1 : std::min(group, kMaxRows / mask.shape().tile_rows);
  }
  std::int64_t count() const { return (group + at_once - 1) / at_once; }
};

inline Tile tile_of(const BlockMask& mask, std::int64_t b, std::int64_t kv_head, std::int64_t head,
                    std::int64_t num_heads, std::int64_t tile) {
  const std::span<const Segment> segments = mask.row(mask.plane(b, head), tile);
  return {.b = b,
          .kv_head = kv_head,
          .head = head,
          .num_heads = num_heads,
          .first_query = tile * mask.shape().tile_rows,
          .num_queries = mask.rows_in(tile),
          .tile_rows = mask.shape().tile_rows,
          .segments = segments.data(),
          .num_segments = static_cast<std::int64_t>(segments.size()),
          .bits = mask.all_bits()};
}

template <class T>
Problem<T> problem_of(const Inputs<T>& in) {
  Problem<T> p;
  p.num_queries = in.q.size[2];
  p.dim = in.q.size[3];
  p.num_context = in.context.k.size[2];
  p.scale = in.scale > 0 ? in.scale : 1.0f / std::sqrt(static_cast<float>(p.dim));
  p.q = in.q;
  p.k[0] = in.context.k, p.k[1] = in.block.k;
  p.v[0] = in.context.v, p.v[1] = in.block.v;
  p.kv_heads = in.context.k.size[1];
  return p;
}

// ---- pairs of keys for bf16 ----

template <class T>
bool uses_pairs(const IsaKernels& kernels, std::int64_t dim) {
  return std::is_same_v<T, BFloat16> && kernels.pack_pairs != nullptr && dim % 16 == 0;
}

inline std::int64_t pairs_of(std::int64_t keys) { return (keys + 1) / 2; }

// Takes room for [B, Hkv, pairs, D] of both sources. Every instruction set takes it, so that one size serves all.
template <class T>
void take_pairs(Arena& arena, const Inputs<T>& in, std::uint32_t* (&pairs)[2]) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const std::int64_t planes = in.q.size[0] * in.context.k.size[1], dim = in.q.size[3];
    pairs[0] = arena.take<std::uint32_t>(planes * pairs_of(in.context.k.size[2]) * dim);
    pairs[1] = arena.take<std::uint32_t>(planes * pairs_of(in.block.k.size[2]) * dim);
  }
}

template <class T>
void fill_pairs(Executor& executor, const IsaKernels& kernels, Problem<T>& problem, const View<const T> (&from)[2],
                std::uint32_t* (&pairs)[2]) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    constexpr std::int64_t kPiece = 256;  // pairs
    struct Piece {
      int source;
      std::int64_t b, h, begin, end;
    };
    std::vector<Piece> pieces;
    for (int source = 0; source < 2; ++source) {
      const std::int64_t count = pairs_of(from[source].size[2]);
      problem.pairs[source] = pairs[source];
      problem.pairs_stride[source] = count * problem.dim;
      for (std::int64_t b = 0; b < from[source].size[0]; ++b)
        for (std::int64_t h = 0; h < problem.kv_heads; ++h)
          for (std::int64_t i = 0; i < count; i += kPiece)
            pieces.push_back({source, b, h, i, std::min(count, i + kPiece)});
    }
    share_out(executor, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      kernels.pack_pairs(
          from[piece.source], piece.b, piece.h, piece.begin, piece.end,
          pairs[piece.source] + (piece.b * problem.kv_heads + piece.h) * problem.pairs_stride[piece.source]);
    });
  }
}

}  // namespace flex::detail
