#include "draftsmith/nn/row_kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace draftsmith {

void RowPieces::for_each(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) const {
  at::parallel_for(0, count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece)
      body(piece * rows_per_piece, std::min(rows, (piece + 1) * rows_per_piece), piece);
  });
}

}  // namespace draftsmith
