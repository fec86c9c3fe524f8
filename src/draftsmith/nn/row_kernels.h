// The kernels over rows share the pieces of rows that threads take, and the gradient of a norm.
#pragma once

#include <cstdint>
#include <functional>

#include "draftsmith/nn/vec.h"

namespace draftsmith {

// Rows cut into pieces of a fixed size. A sum over rows is taken over each piece first, so that its bits do not depend
// on the number of threads.
struct RowPieces {
  std::int64_t rows = 0, rows_per_piece = 64;
  std::int64_t count() const { return (rows + rows_per_piece - 1) / rows_per_piece; }
  // Calls body(first row, row after the last, piece) for every piece, pieces in parallel.
  void for_each(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) const;
};

namespace {  // inlined into the clones of each file

// Gradient of y = x * scale * weight with scale = 1 / rms(x), for one row. With n = x * scale and g = dy * weight:
// dx = scale * (g - n mean(g n)), dweight += dy n.
template <class X, class Y>
DRAFTSMITH_INLINE void norm_row_backward(const X* x, const float* weight, double eps, const Y* dy, X* dx,
                                         float* dweight, std::int64_t width) {
  const float scale = inverse_rms(x, width, eps);
  Vec sums = {};
  for (std::int64_t i = 0; i < width; i += kLanes) {
    Vec n, g, w, dw;
    load(n, x + i, width - i);
    load(g, dy + i, width - i);
    load(w, weight + i, width - i);
    load(dw, dweight + i, width - i);
    n *= scale;
    dw += g * n;
    store(dweight + i, dw, width - i);
    sums += g * w * n;
  }
  const float mean = sum_of(sums) / static_cast<float>(width);
  for (std::int64_t i = 0; i < width; i += kLanes) {
    Vec n, g, w;
    load(n, x + i, width - i);
    load(g, dy + i, width - i);
    load(w, weight + i, width - i);
    n = (g * w - n * (scale * mean)) * scale;
    store(dx + i, n, width - i);
  }
}

}  // namespace
}  // namespace draftsmith
