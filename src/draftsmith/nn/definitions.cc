#include "draftsmith/nn/definitions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>

#include <cmath>

namespace draftsmith::definition {

at::Tensor attention(const at::Tensor& q_HQD, const at::Tensor& k_HKD, const at::Tensor& v_HKD, const MaskPtr& mask) {
  const std::int64_t group = q_HQD.size(0) / k_HKD.size(0);
  const auto wide = [](const at::Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); };
  const at::Tensor k = wide(k_HKD).repeat_interleave(group, 0), v = wide(v_HKD).repeat_interleave(group, 0);
  const at::Tensor seen = dense_mask(*mask).to(q_HQD.device());
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_HQD.size(2)));
  const at::Tensor scores = at::matmul(wide(q_HQD), k.transpose(1, 2)) * scale;
  // Rows that see nothing would be NaN: they are softmaxed over any keys and then set to zero.
  const at::Tensor p = scores.masked_fill(~seen, -1e30).softmax(-1) * seen;
  return at::matmul(p, v).to(q_HQD.scalar_type());
}

}  // namespace draftsmith::definition
