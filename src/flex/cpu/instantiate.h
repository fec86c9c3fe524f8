// FLEX_DETAIL_CPU_KERNELS(S) gives the kernels of every instruction set for a score (flex/score.h), as an array by Isa.
// kernels.inc is read again for each set, in its own namespace, under its own target, and with internal linkage.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "flex/attention.h"
#include "flex/cpu/intrinsics.h"
#include "flex/cpu/kernel_types.h"
#include "flex/exp_constants.h"
#include "flex/score.h"

// The order of these files matters.
// clang-format off
#define FLEX_USING       \
  using detail::Into;    \
  using detail::Problem; \
  using detail::Tile;

namespace flex::scalar {
namespace {
FLEX_USING
#include "flex/cpu/convert.inc"
#include "flex/cpu/simd_scalar.inc"
#include "flex/cpu/kernels.inc"
}  // namespace
}  // namespace flex::scalar

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace flex::avx2 {
namespace {
FLEX_USING
#include "flex/cpu/convert.inc"
#include "flex/cpu/simd_avx2.inc"
#include "flex/cpu/kernels.inc"
}  // namespace
}  // namespace flex::avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")
namespace flex::avx512 {
namespace {
FLEX_USING
#include "flex/cpu/convert.inc"
#include "flex/cpu/simd_avx512.inc"
#include "flex/cpu/kernels.inc"
}  // namespace
}  // namespace flex::avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma")
namespace flex::avx512_bf16 {
namespace {
FLEX_USING
#include "flex/cpu/convert.inc"
#include "flex/cpu/simd_avx512.inc"
#include "flex/cpu/kernels.inc"
#include "flex/cpu/pair_product.inc"
#include "flex/cpu/kernels_bf16.inc"
}  // namespace
}  // namespace flex::avx512_bf16
#pragma GCC pop_options
#endif

#undef FLEX_USING
// clang-format on

// One set's four kernels.
#define FLEX_DETAIL_KERNELS(set, S)                                                                      \
  {                                                                                                      \
    ::flex::set::forward_tile<float, S>, ::flex::set::backward_tile<float, S>,                           \
        ::flex::set::forward_tile<::flex::BFloat16, S>, ::flex::set::backward_tile<::flex::BFloat16, S>, \
        ::flex::set::narrow_row                                                                          \
  }

#if defined(__x86_64__)
#define FLEX_DETAIL_CPU_KERNELS(S)                                                                  \
  {                                                                                                 \
    FLEX_DETAIL_KERNELS(scalar, S), FLEX_DETAIL_KERNELS(avx2, S), FLEX_DETAIL_KERNELS(avx512, S), { \
      ::flex::avx512::forward_tile<float, S>, ::flex::avx512::backward_tile<float, S>,              \
          ::flex::avx512_bf16::forward_tile_pairs<S>, ::flex::avx512_bf16::backward_tile_pairs<S>,  \
          ::flex::avx512::narrow_row, ::flex::avx512_bf16::pack_pairs                               \
    }                                                                                               \
  }
#else
#define FLEX_DETAIL_CPU_KERNELS(S)             \
  {                                            \
    FLEX_DETAIL_KERNELS(scalar, S), {}, {}, {} \
  }
#endif
