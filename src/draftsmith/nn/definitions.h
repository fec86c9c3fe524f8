// What each operation of this room means, in ATen's own operations: they run on any device and differentiate by
// themselves. Tests compare the kernels with them, and a device without kernels of ours computes by them.
#pragma once

#include <ATen/core/Tensor.h>

#include "draftsmith/nn/mask.h"
#include "draftsmith/nn/rope.h"

namespace draftsmith::definition {

// As draftsmith::attention: scores of all queries and keys in memory.
at::Tensor attention(const at::Tensor& q_HQD, const at::Tensor& k_HKD, const at::Tensor& v_HKD, const MaskPtr& mask);

// As the operations of ops.h.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result);
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor head_norm_rope(const at::Tensor& x, const at::Tensor& weight, double eps, const Rope& rope);
at::Tensor head_rope(const at::Tensor& x, std::int64_t head_dim, const Rope& rope);
at::Tensor add_bias(const at::Tensor& y, const at::Tensor& bias);

}  // namespace draftsmith::definition
