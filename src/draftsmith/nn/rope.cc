#include "draftsmith/nn/rope.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace draftsmith {
namespace {

// Fast turns stay, slow ones are slowed by `factor`, and those between are blended by how many turns the original
// length holds.
float llama3_frequency(float frequency, const RopeScaling& s) {
  const auto length = static_cast<float>(s.original_max_position_embeddings);
  const auto low = static_cast<float>(s.low_freq_factor), high = static_cast<float>(s.high_freq_factor);
  const auto factor = static_cast<float>(s.factor);
  const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength > length / low) return frequency / factor;
  if (wavelength < length / high) return frequency;
  const float blend = (length / wavelength - low) / (high - low);
  return (1 - blend) * frequency / factor + blend * frequency;
}

// The share of pair i that is slowed down rises from 0 to 1 between the pairs that turn beta_fast and beta_slow times
// in the original length.
class YarnRamp {
 public:
  YarnRamp(std::int64_t head_dim, double theta, const RopeScaling& s) {
    const auto pair_of_turns = [&](double turns) {
      const auto length = static_cast<double>(s.original_max_position_embeddings);
      return static_cast<double>(head_dim) * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
    };
    low_ = pair_of_turns(s.beta_fast);
    high_ = pair_of_turns(s.beta_slow);
    if (s.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(head_dim - 1));
    if (low_ == high_) high_ += 0.001;
  }
  float at(std::int64_t pair) const {
    const double share = (static_cast<double>(pair) - low_) / (high_ - low_);
    return static_cast<float>(std::clamp(share, 0.0, 1.0));
  }

 private:
  double low_ = 0, high_ = 0;
};

}  // namespace

std::vector<float> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling) {
  std::vector<float> out(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    out[i] = 1.0f / std::pow(static_cast<float>(theta), exponent);
  }
  const auto factor = static_cast<float>(scaling.factor);
  switch (scaling.kind) {
    case RopeKind::kDefault:
      break;
    case RopeKind::kLinear:
      for (float& frequency : out) frequency /= factor;
      break;
    case RopeKind::kLlama3:
      for (float& frequency : out) frequency = llama3_frequency(frequency, scaling);
      break;
    case RopeKind::kYarn: {
      const YarnRamp ramp(head_dim, theta, scaling);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const float slowed = ramp.at(static_cast<std::int64_t>(i));
        out[i] = out[i] / factor * slowed + out[i] * (1 - slowed);
      }
    }
  }
  return out;
}

Rope make_rope(std::span<const std::int64_t> positions, std::int64_t head_dim, double theta, const RopeScaling& scaling,
               at::Device device) {
  const auto rows = static_cast<std::int64_t>(positions.size());
  const std::int64_t half = head_dim / 2;
  const Rope rope{at::empty({rows, half}, at::TensorOptions(at::kFloat)),
                  at::empty({rows, half}, at::TensorOptions(at::kFloat))};
  const std::vector<float> frequency = rope_frequencies(head_dim, theta, scaling);
  const float size = scaling.kind == RopeKind::kYarn ? static_cast<float>(scaling.attention_factor) : 1.0f;
  float *c = rope.cos.data_ptr<float>(), *s = rope.sin.data_ptr<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions[r]) * frequency[i];
      c[r * half + i] = std::cos(angle) * size;
      s[r * half + i] = std::sin(angle) * size;
    }
  }
  return {rope.cos.to(device), rope.sin.to(device)};
}

}  // namespace draftsmith
