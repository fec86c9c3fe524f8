// The drafter's attention behind one call: queries see a range of context keys and a range of block keys each.
// Shapes: q [Hq, Q, D], context k/v [Hkv, S, D], block k/v [Hkv, Q, D], result [Hq, Q, D]; Hq is a multiple of Hkv.
// The two key/value sources are never concatenated by the caller. Scale is 1/sqrt(D). fp32 or bf16 (softmax in fp32).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace draftsmith {

// Keys visible to each query row, as half-open ranges. Rows come in blocks of `block_size` consecutive rows; a block is
// one anchor's, and its rows' context ranges end at the same key. Rows that see no key give 0 and no gradient.
struct KeyRanges {
  std::int64_t num_context = 0;  // S
  std::int64_t block_size = 1;
  std::vector<std::int32_t> context_begin, context_end;  // [Q]
  std::vector<std::int32_t> block_begin, block_end;      // [Q], indices of query rows
  std::int64_t num_rows() const { return static_cast<std::int64_t>(context_begin.size()); }
  bool sees_context(std::int64_t row, std::int64_t key) const {
    return context_begin[row] <= key && key < context_end[row];
  }
  bool sees_block(std::int64_t row, std::int64_t key) const { return block_begin[row] <= key && key < block_end[row]; }
};

// Differentiable in all five tensors.
at::Tensor range_attention(const at::Tensor& q_HQD, const at::Tensor& k_context_HSD, const at::Tensor& v_context_HSD,
                           const at::Tensor& k_block_HQD, const at::Tensor& v_block_HQD,
                           const std::shared_ptr<const KeyRanges>& ranges);

}  // namespace draftsmith
