// Products of some rows with a matrix that no cache holds, such as the target's head. Each piece of the matrix is
// fetched while the piece before it is multiplied, so that the arithmetic bounds the time however few the rows are.
#pragma once

#include <ATen/core/Tensor.h>

namespace draftsmith {

// Tells whether there is a kernel for products with `weight` [out, in]: bf16, contiguous, `in` a multiple of 64, and a
// processor with products of bf16 pairs. Ask once for a matrix and keep the answer: the products do not ask again.
bool can_stream(const at::Tensor& weight);

// y [N, out] = x [N, in] W^T and y [N, in] = x [N, out] W. All are bf16 and contiguous; sums are fp32 and rounded once.
// The products are not differentiable, and their bits do not depend on the number of threads. `weight` must pass
// can_stream.
void streamed_product_transposed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y);
void streamed_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y);

}  // namespace draftsmith
