// Rotary positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace draftsmith {

// cos and sin of position * theta^(-2i/D), fp32 [N, D/2].
struct Rope {
  at::Tensor cos, sin;
};
Rope make_rope(std::span<const std::int64_t> positions, std::int64_t head_dim, double theta,
               at::Device device = at::kCPU);

}  // namespace draftsmith
