// A matrix product for decoding: a handful of rows, where the time goes into reading the weights once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace draftsmith {

constexpr std::int64_t kFewRows = 8;

// Whether linear_few_rows is the quicker way: for bf16 the library's own instructions win from five rows on.
constexpr bool are_few_rows(std::int64_t rows, at::ScalarType type) {
  return rows >= 1 && rows <= (type == at::kBFloat16 ? 4 : kFewRows);
}

// y = x W^T for 1 to kFewRows rows. x [N, in] and weight [out, in], both fp32 or both bf16, contiguous; y [N, out] of
// that type, sums in fp32. Not differentiable. The same bits whatever the number of threads.
at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight);

}  // namespace draftsmith
