// Vectors of sixteen floats, in the compiler's own vector types, and the clones that run them: a function marked
// DRAFTSMITH_CLONES is compiled for plain x86-64, AVX2 and AVX-512 and the loader picks one. Everything here is inlined
// and takes vectors by reference, so that no vector type crosses a call. Loads and stores take the number of elements
// left; lanes beyond it read as `fill` and are not written.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "flex/exp_constants.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DRAFTSMITH_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define DRAFTSMITH_CLONES
#endif
#define DRAFTSMITH_INLINE __attribute__((always_inline)) inline

namespace draftsmith {
namespace {  // own copy a file: clones of one file must not be merged with another's

typedef float Vec __attribute__((vector_size(64)));
typedef std::int32_t VecI __attribute__((vector_size(64)));
typedef std::uint32_t VecU __attribute__((vector_size(64)));
typedef std::uint16_t VecH __attribute__((vector_size(32)));
constexpr std::int64_t kLanes = 16;

DRAFTSMITH_INLINE void load(Vec& v, const float* p, std::int64_t left, float fill = 0.0f) {
  if (left >= kLanes) {
    std::memcpy(&v, p, sizeof(v));
  } else {
    v = Vec{} + fill;
    for (std::int64_t i = 0; i < left; ++i) v[i] = p[i];
  }
}

DRAFTSMITH_INLINE void store(float* p, const Vec& v, std::int64_t left) {
  if (left >= kLanes) {
    std::memcpy(p, &v, sizeof(v));
  } else {
    for (std::int64_t i = 0; i < left; ++i) p[i] = v[i];
  }
}

DRAFTSMITH_INLINE void from_bf16(Vec& v, const VecH& h) {
  const VecU bits = __builtin_convertvector(h, VecU) << 16;
  std::memcpy(&v, &bits, sizeof(v));
}

// Rounds to nearest even; a NaN stays a NaN.
DRAFTSMITH_INLINE void to_bf16(VecH& h, const Vec& v) {
  VecU bits;
  std::memcpy(&bits, &v, sizeof(v));
  const VecU rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const VecU quiet = (bits >> 16) | 0x40u;
  h = __builtin_convertvector(v == v ? rounded : quiet, VecH);  // NOLINT(misc-redundant-expression): false for a NaN
}

DRAFTSMITH_INLINE void load(Vec& v, const std::uint16_t* p, std::int64_t left, float fill = 0.0f) {
  VecH h;
  if (left >= kLanes) {
    std::memcpy(&h, p, sizeof(h));
    from_bf16(v, h);
  } else {
    v = Vec{} + fill;
    for (std::int64_t i = 0; i < left; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(p[i]) << 16;
      float x;
      std::memcpy(&x, &bits, sizeof(x));
      v[i] = x;
    }
  }
}

DRAFTSMITH_INLINE void store(std::uint16_t* p, const Vec& v, std::int64_t left) {
  VecH h;
  to_bf16(h, v);
  std::memcpy(p, &h, static_cast<std::size_t>(left >= kLanes ? kLanes : left) * sizeof(std::uint16_t));
}

// v = exp(v) for v <= 88, relative error below 1e-6; anything below -87 gives about 1e-38.
DRAFTSMITH_INLINE void exp_in_place(Vec& x) {
  using namespace flex::exp_constants;
  x = x < kLeast ? Vec{} + kLeast : x;
  const Vec n = (x * kLog2E + kRound) - kRound;    // rounds to the nearest integer
  const Vec r = (x - n * kLn2High) + n * kLn2Low;  // x - n ln 2, in two pieces
  Vec p = r * kTerm7 + kTerm6;
  p = p * r + kTerm5;
  p = p * r + kTerm4;
  p = p * r + kTerm3;
  p = p * r + kTerm2;
  p = p * r * r + r + 1.0f;
  const VecI bits = (__builtin_convertvector(n, VecI) + 127) << 23;
  Vec scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  x = p * scale;
}

// Adds halves to halves until one number is left.
DRAFTSMITH_INLINE float sum_of(const Vec& v) {
  typedef float Vec8 __attribute__((vector_size(32)));
  typedef float Vec4 __attribute__((vector_size(16)));
  Vec8 eight[2];
  std::memcpy(eight, &v, sizeof(v));
  eight[0] += eight[1];
  Vec4 four[2];
  std::memcpy(four, &eight[0], sizeof(four));
  four[0] += four[1];
  return (four[0][0] + four[0][2]) + (four[0][1] + four[0][3]);
}

DRAFTSMITH_INLINE float max_of(const Vec& v) {
  float m = v[0];
  for (std::int64_t i = 1; i < kLanes; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// 1 / sqrt(mean(x^2) + eps) over a row of floats or bf16 bits.
template <class X>
DRAFTSMITH_INLINE float inverse_rms(const X* x, std::int64_t width, double eps) {
  Vec squares = {};
  for (std::int64_t i = 0; i < width; i += kLanes) {
    Vec v;
    load(v, x + i, width - i);
    squares += v * v;
  }
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(sum_of(squares)) / static_cast<double>(width) + eps));
}

// Largest of n values; -infinity when n is 0.
template <class X>
DRAFTSMITH_INLINE float largest_of(const X* x, std::int64_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  Vec m = Vec{} + kLowest;
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec v;
    load(v, x + i, n - i, kLowest);
    m = v > m ? v : m;
  }
  return max_of(m);
}

}  // namespace
}  // namespace draftsmith
