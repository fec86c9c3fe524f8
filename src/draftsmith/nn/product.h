// The library's matrix products, in fp32 or bf16. They are not differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace draftsmith {

// Multiplies a [N, K] with b [K, M], both fp32 or both bf16. Sums are fp32 and rounded once. On a CPU for which the
// library has no products of bf16 (x86 without AVX-512) bf16 goes through widened_product, since the library's own
// loops are ten times slower there.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);
void product_out(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

// Computes the bf16 product in fp32, with at most `most_elements` of b widened at a time.
void widened_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, std::int64_t most_elements);

}  // namespace draftsmith
