// Defines each operation of this room in ATen's own operations, which run on any device and are differentiated by
// autograd. Tests compare the kernels with these definitions, and a device without kernels of ours computes with them.
#pragma once

#include <ATen/core/Tensor.h>

#include "draftsmith/nn/mask.h"
#include "draftsmith/nn/rope.h"

namespace draftsmith::definition {

// Defines draftsmith::attention; the scores of all queries and keys are in memory.
at::Tensor attention(const at::Tensor& q_HQD, const at::Tensor& k_HKD, const at::Tensor& v_HKD, const MaskPtr& mask);

// Define the operations of ops.h.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result);
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor head_norm_rope(const at::Tensor& x, const at::Tensor& weight, double eps, const Rope& rope);
at::Tensor head_rope(const at::Tensor& x, std::int64_t head_dim, const Rope& rope);
at::Tensor add_bias(const at::Tensor& y, const at::Tensor& bias);

}  // namespace draftsmith::definition
