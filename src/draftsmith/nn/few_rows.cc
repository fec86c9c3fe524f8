// Multiplies four weight rows at a time with all rows of x, which stay in the first-level cache as fp32. Each weight is
// loaded once, widened once and used for every row.
#include "draftsmith/nn/few_rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <utility>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/vec.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kWorkPerTask = 1 << 18;  // multiplications that are worth another thread

// Columns of y at once. Registers hold that many sums in addition to what is loaded.
constexpr int columns_for(int rows) { return rows <= 4 ? 4 : 2; }

// Computes columns begin .. end of y. x [R, stride] in fp32, zero beyond `width`; y [R, out].
template <int R, class T>
DRAFTSMITH_CLONES void few_rows(const float* x, std::int64_t stride, const T* weight, std::int64_t width, T* y,
                                std::int64_t out, std::int64_t begin, std::int64_t end) {
  constexpr int kColumns = columns_for(R);
  const std::int64_t whole = width / kLanes * kLanes;
  for (std::int64_t column = begin; column < end; column += kColumns) {
    const T* rows[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) rows[c] = weight + (column + c < end ? column + c : column) * width;
    Vec sums[R][kColumns] = {};
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      Vec w[kColumns];
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) load(w[c], rows[c] + i, kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        Vec v;
        load(v, x + r * stride + i, kLanes);
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) sums[r][c] += v * w[c];
      }
    }
    if (whole < width) {
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        Vec w;
        load(w, rows[c] + whole, width - whole);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          Vec v;
          load(v, x + r * stride + whole, kLanes);
          sums[r][c] += v * w;
        }
      }
    }
    for (int c = 0; c < kColumns && column + c < end; ++c) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec sum = Vec{} + sum_of(sums[r][c]);
        store(y + r * out + column + c, sum, 1);
      }
    }
  }
}

template <class T>
using Kernel = void (*)(const float*, std::int64_t, const T*, std::int64_t, T*, std::int64_t, std::int64_t,
                        std::int64_t);

template <class T, int... R>
std::array<Kernel<T>, sizeof...(R)> kernels(std::integer_sequence<int, R...>) {
  return {few_rows<R + 1, T>...};
}

template <class T>
void run(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y) {
  static const auto by_rows = kernels<T>(std::make_integer_sequence<int, kFewRows>());
  const Kernel<T> kernel = by_rows[static_cast<std::size_t>(x.size(0) - 1)];
  const std::int64_t width = weight.size(1), out = weight.size(0);
  const std::int64_t stride = (width + kLanes - 1) / kLanes * kLanes;
  const at::Tensor wide = at::zeros({x.size(0), stride}, x.options().dtype(at::kFloat));
  wide.narrow(1, 0, width).copy_(x);
  const std::int64_t grain = std::max<std::int64_t>(16, kWorkPerTask / (width * x.size(0)));
  at::parallel_for(0, out, grain, [&](std::int64_t begin, std::int64_t end) {
    kernel(wide.const_data_ptr<float>(), stride, static_cast<const T*>(weight.const_data_ptr()), width,
           static_cast<T*>(y.data_ptr()), out, begin, end);
  });
}

}  // namespace

at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight) {
  DRAFTSMITH_ASSERT(x.size(0) >= 1 && x.size(0) <= kFewRows && x.size(1) == weight.size(1));
  DRAFTSMITH_ASSERT(x.scalar_type() == weight.scalar_type() && weight.is_contiguous());
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  if (x.scalar_type() == at::kBFloat16) {
    run<std::uint16_t>(x, weight, y);
  } else {
    DRAFTSMITH_ASSERT(x.scalar_type() == at::kFloat);
    run<float>(x, weight, y);
  }
  return y;
}

}  // namespace draftsmith
