// The drafter's attention behind one call: queries see a range of context keys and a range of block keys each.
// Shapes: q [Hq, Q, D], k/v [Hkv, N, D] with the S context keys first and the Q block keys behind them (N = S + Q),
// result [Hq, Q, D] over memory [Q, Hq, D]; Hq is a multiple of Hkv. Scale is 1/sqrt(D). fp32 or bf16 (softmax in
// fp32).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flex/block_mask.h"

namespace draftsmith {

// Keys visible to each query row, as half-open ranges. Rows come in blocks of `block_size` consecutive rows; a block is
// one anchor's, and its rows' context ranges end at the same key. Rows that see no key give 0 and no gradient.
struct KeyRanges {
  std::int64_t num_context = 0;  // S
  std::int64_t block_size = 1;
  std::vector<std::int32_t> context_begin, context_end;  // [Q]
  std::vector<std::int32_t> block_begin, block_end;      // [Q], indices of query rows
  std::optional<flex::BlockMask> tiles;                  // the same for the fused kernels; see make_tiles
  std::int64_t num_rows() const { return static_cast<std::int64_t>(context_begin.size()); }
  bool sees_context(std::int64_t row, std::int64_t key) const {
    return context_begin[row] <= key && key < context_end[row];
  }
  bool sees_block(std::int64_t row, std::int64_t key) const { return block_begin[row] <= key && key < block_end[row]; }
};

enum class AttentionPath { kFused, kPlain };

// The fused kernels (flex) take heads from 16 to 256 wide; others go the plain way.
constexpr AttentionPath attention_path_for(std::int64_t head_dim) {
  return head_dim >= 16 && head_dim <= 256 ? AttentionPath::kFused : AttentionPath::kPlain;
}

// Lets attention over these ranges run on the fused kernels; `group` = query heads of a key/value head. Once for all
// layers.
void make_tiles(KeyRanges& ranges, std::int64_t group);

// Whether this machine multiplies bf16 by itself: figures that are asked of bf16 hold only there.
bool fused_attention_has_bf16_products();

// "fused kernels (avx512_bf16)" or "plain tensor operations".
std::string text_of_path(AttentionPath path);

// Gives back the memory that the fused kernels work in and keep from call to call, of this thread.
void release_attention_workspace();

// Bytes of the scores of one layer, which the plain way computes (in pieces) and the fused one never holds.
constexpr std::int64_t plain_score_bytes(std::int64_t heads, std::int64_t queries, std::int64_t context) {
  return heads * queries * (context + queries) * 4;
}

// Differentiable in q, k and v. Fused where the ranges have tiles; the plain way otherwise.
at::Tensor range_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges);

}  // namespace draftsmith
