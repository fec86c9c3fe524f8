#include "draftsmith/nn/rope.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <vector>

namespace draftsmith {

Rope make_rope(std::span<const std::int64_t> positions, std::int64_t head_dim, double theta, at::Device device) {
  const auto rows = static_cast<std::int64_t>(positions.size());
  const std::int64_t half = head_dim / 2;
  Rope rope{at::empty({rows, half}, at::TensorOptions(at::kFloat)),
            at::empty({rows, half}, at::TensorOptions(at::kFloat))};
  // The public implementations form the frequencies and the angles in fp32; angles of long texts differ visibly from
  // exact ones.
  std::vector<float> frequency(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    frequency[i] = 1.0f / std::pow(static_cast<float>(theta), exponent);
  }
  float *c = rope.cos.data_ptr<float>(), *s = rope.sin.data_ptr<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions[r]) * frequency[i];
      c[r * half + i] = std::cos(angle);
      s[r * half + i] = std::sin(angle);
    }
  }
  return {rope.cos.to(device), rope.sin.to(device)};
}

}  // namespace draftsmith
