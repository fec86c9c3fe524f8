// The small operations of a transformer layer. Each is differentiable and takes one pass over memory. N rows, D width,
// h heads. Arithmetic is fp32 for arguments of any type; norm weights are fp32, and every parameter gets a gradient of
// its own type.
#pragma once

#include <ATen/core/Tensor.h>

#include "draftsmith/nn/rope.h"

namespace draftsmith {

// y = x W^T. x [N, in] is in the compute type (fp32 or bf16); weight [out, in] is cast to x's type inside. A few rows
// without gradients go to linear_few_rows.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);

// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension; x fp32 or bf16, y of type `result`.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result);

// The residual stream x = residual + delta. residual is fp32; delta is undefined before the first layer.
struct Residual {
  at::Tensor residual, delta;
};
// Adds delta to the residual and normalises the sum, in one pass each way.
struct Normed {
  at::Tensor sum;     // x, fp32
  at::Tensor normed;  // rms_norm(x) in `result`
};
Normed add_rms_norm(const Residual& x, const at::Tensor& weight, double eps, at::ScalarType result);

// silu(gate) * up, both [N, D] of one type.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// Maps [N, h * D] to [h, N, D]: RMSNorm of each head over D, then the rotation of its halves (x1, x2) to (x1 c - x2 s,
// x2 c + x1 s).
at::Tensor head_norm_rope(const at::Tensor& x, const at::Tensor& weight, double eps, const Rope& rope);

// [N, h * D] -> [h, N, D]: that rotation alone.
at::Tensor head_rope(const at::Tensor& x, std::int64_t head_dim, const Rope& rope);

// y + bias on every row, in y's type. bias [out] fp32.
at::Tensor add_bias(const at::Tensor& y, const at::Tensor& bias);

}  // namespace draftsmith
