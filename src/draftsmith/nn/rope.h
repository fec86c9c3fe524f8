// Rotary positions, with the scalings that a model's config.json can ask for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace draftsmith {

enum class RopeKind { kDefault, kLinear, kLlama3, kYarn };

// The change of the frequencies for texts longer than a model was first trained for. The numbers have config.json's
// names; each kind reads its own.
struct RopeScaling {
  RopeKind kind = RopeKind::kDefault;
  double factor = 1;                                  // linear, llama3, yarn
  std::int64_t original_max_position_embeddings = 0;  // llama3, yarn
  double low_freq_factor = 1, high_freq_factor = 4;   // llama3
  double beta_fast = 32, beta_slow = 1;               // yarn
  bool truncate = true;                               // yarn: the bounds of its ramp are whole numbers
  double attention_factor = 1;                        // yarn: scales cos and sin

  bool operator==(const RopeScaling&) const = default;
};

// The angle of each pair of a head's numbers per position: theta^(-2i/D), scaled. fp32, as the public implementations
// form them: angles of long texts differ visibly from exact ones.
std::vector<float> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling = {});

// cos and sin of position * frequency, fp32 [N, D/2], times the scaling's attention factor.
struct Rope {
  at::Tensor cos, sin;
};
Rope make_rope(std::span<const std::int64_t> positions, std::int64_t head_dim, double theta,
               const RopeScaling& scaling = {}, at::Device device = at::kCPU);

}  // namespace draftsmith
