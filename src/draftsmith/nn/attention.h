// Masked attention as one differentiable call, in which queries see the keys that a mask shows them. Shapes: q [Hq, Q,
// D], k and v [Hkv, K, D], result [Hq, Q, D] over memory [Q, Hq, D]; Hq is a multiple of Hkv, D lies in 1 .. 256. fp32
// or bf16 (sums and softmax in fp32); the scale is 1/sqrt(D). A query that sees no key gets 0 and gives no gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "draftsmith/nn/mask.h"

namespace draftsmith {

// Differentiable in q, k and v. Keeps the result and the log-sum-exp for backward; scores are never in memory on a CPU.
at::Tensor attention(const at::Tensor& q_HQD, const at::Tensor& k_HKD, const at::Tensor& v_HKD, const MaskPtr& mask);

// Tells whether this machine has instructions for products of bf16; performance thresholds for bf16 hold only there.
bool attention_has_bf16_products();

// The name of the kernels, such as "fused kernels (avx512_bf16)".
std::string attention_kernels();

// Frees the workspace that this thread's attention keeps from call to call.
void release_attention_workspace();

}  // namespace draftsmith
