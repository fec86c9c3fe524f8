// A matrix product for decoding. It has a handful of rows, so its time goes into reading the weights once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace draftsmith {

constexpr std::int64_t kFewRows = 8;

// Tells whether linear_few_rows is quicker than the library, whose own instructions win for bf16 from five rows on.
constexpr bool are_few_rows(std::int64_t rows, at::ScalarType type) {
  return rows >= 1 && rows <= (type == at::kBFloat16 ? 4 : kFewRows);
}

// y = x W^T for 1 to kFewRows rows. x [N, in] and weight [out, in] are contiguous and both fp32 or both bf16; y [N,
// out] has that type, and sums are fp32. It is not differentiable. The bits do not depend on the number of threads.
at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight);

}  // namespace draftsmith
