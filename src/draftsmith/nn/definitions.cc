#include "draftsmith/nn/definitions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/silu.h>

#include <cmath>

namespace draftsmith::definition {
namespace {

// Arithmetic is fp32 (double where a test asks for it).
at::Tensor wide(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

at::Tensor normed(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * (x.square().mean(-1, /*keepdim=*/true) + eps).rsqrt() * weight;
}

// [N, h, D] -> [h, N, D], each half turned against the other.
at::Tensor turned(const at::Tensor& heads, const Rope& rope) {
  const at::Tensor y = heads.transpose(0, 1);
  const std::int64_t half = y.size(-1) / 2;
  const at::Tensor first = y.narrow(-1, 0, half), second = y.narrow(-1, half, half);
  return at::cat({first * rope.cos - second * rope.sin, second * rope.cos + first * rope.sin}, -1);
}

}  // namespace

at::Tensor attention(const at::Tensor& q_HQD, const at::Tensor& k_HKD, const at::Tensor& v_HKD, const MaskPtr& mask) {
  const std::int64_t group = q_HQD.size(0) / k_HKD.size(0);
  const at::Tensor k = wide(k_HKD).repeat_interleave(group, 0), v = wide(v_HKD).repeat_interleave(group, 0);
  const at::Tensor seen = dense_mask(*mask).to(q_HQD.device());
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_HQD.size(2)));
  const at::Tensor scores = at::matmul(wide(q_HQD), k.transpose(1, 2)) * scale;
  // Rows that see nothing would be NaN: they are softmaxed over any keys and then set to zero.
  const at::Tensor p = scores.masked_fill(~seen, -1e30).softmax(-1) * seen;
  return at::matmul(p, v).to(q_HQD.scalar_type());
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  return at::matmul(x, weight.to(x.scalar_type()).t());
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result) {
  return normed(wide(x), weight, eps).to(result);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return (at::silu(wide(gate)) * wide(up)).to(gate.scalar_type());
}

at::Tensor head_norm_rope(const at::Tensor& x, const at::Tensor& weight, double eps, const Rope& rope) {
  const at::Tensor heads = wide(x).view({x.size(0), -1, weight.numel()});
  return turned(normed(heads, weight, eps), rope).to(x.scalar_type());
}

at::Tensor head_rope(const at::Tensor& x, std::int64_t head_dim, const Rope& rope) {
  return turned(wide(x).view({x.size(0), -1, head_dim}), rope).to(x.scalar_type());
}

at::Tensor add_bias(const at::Tensor& y, const at::Tensor& bias) { return (wide(y) + bias).to(y.scalar_type()); }

}  // namespace draftsmith::definition
