// A score function changes a score before the softmax: it gives y = value(s, at) with s = scale * q k, and its
// derivative dy/ds. It is plain scalar code that kernels apply to whole rows; the compiler makes vectors of it. The
// functions here allow that (they have no branches and no library calls), so use them in your own scores. To use your
// own, write in one of your files
//     FLEX_INSTANTIATE_SCORE(MyScore)          (flex/instantiate.h; an example: flex/user_score_test.cc)
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include "flex/exp_constants.h"

namespace flex {

// The place of a score: batch, query head, query, key (in one numbering of context and block).
struct Place {
  std::int32_t b = 0, h = 0, q = 0, k = 0;
};

template <class S>
concept Score = requires(const S& score, float s, const Place& at) {
  { score.value(s, at) } -> std::same_as<float>;
  { score.derivative(s, at) } -> std::same_as<float>;
};

// Returns exp(x) with a relative error below 3e-7; 0 below -87, 3e38 above 88.7.
inline float exp(float x) {
  using namespace exp_constants;
  const float clamped = x < kLeast ? kLeast : x > 88.7f ? 88.7f : x;
  const float n = (clamped * kLog2E + kRound) - kRound;  // the nearest integer
  const float f = (clamped - n * kLn2High) + n * kLn2Low;
  float p = kTerm7;
  p = p * f + kTerm6;
  p = p * f + kTerm5;
  p = p * f + kTerm4;
  p = p * f + kTerm3;
  p = p * f + kTerm2;
  p = p * f * f + f + 1.0f;
  const float half = std::bit_cast<float>((static_cast<std::int32_t>(n) - 1 + 127) << 23);  // 2^n may be too large
  const float y = p * half * 2.0f;
  return x < kLeast ? 0.0f : y;
}

// Returns tanh(x) with a relative error below 3e-7.
inline float tanh(float x) {
  const float z = x * x, size = x < 0 ? -x : x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = p * z * x + x;
  const float bounded = size > 10.0f ? 10.0f : size;
  const float far = 1.0f - 2.0f / (exp(2.0f * bounded) + 1.0f);
  return size < 0.625f ? near : x < 0 ? -far : far;
}

struct Identity {
  float value(float s, const Place&) const { return s; }
  float derivative(float, const Place&) const { return 1.0f; }
};

// Gives cap * tanh(s / cap), as Gemma caps its logits.
struct SoftCap {
  float cap = 50.0f;
  float value(float s, const Place&) const { return cap * tanh(s / cap); }
  float derivative(float s, const Place&) const {
    const float t = tanh(s / cap);
    return 1.0f - t * t;
  }
};

// Gives s + slopes[h] * (k - (q + offset)); slopes [Hq] stay the caller's.
struct Alibi {
  const float* slopes = nullptr;
  std::int32_t offset = 0;
  float value(float s, const Place& at) const { return s + slopes[at.h] * static_cast<float>(at.k - (at.q + offset)); }
  float derivative(float, const Place&) const { return 1.0f; }
};

// Gives s + bias[h, q, k] with any strides (0: the same for all); the bias stays the caller's and gets no gradient.
struct AdditiveBias {
  const float* bias = nullptr;
  std::int64_t head_stride = 0, query_stride = 0, key_stride = 0;
  float value(float s, const Place& at) const {
    return s + bias[at.h * head_stride + at.q * query_stride + at.k * key_stride];
  }
  float derivative(float, const Place&) const { return 1.0f; }
};

}  // namespace flex
