// The kernels of streamed_product.h, without torch, so that nothing of it is compiled for a newer processor. bf16 is
// given as its 16 bits.
#pragma once

#include <cstdint>

namespace draftsmith {

constexpr std::int64_t kStreamedColumns = 64;  // of the result at a time
constexpr std::int64_t kStreamedTail = 512;    // rows of W at a time in y = x W

struct StreamedOperands {
  const std::uint16_t* x;
  std::int64_t rows;
  const std::uint16_t* weight;  // [out, in]
  std::int64_t out, in;
  std::uint16_t* y;

  // Floats of memory that a call for so many columns needs, aligned to 64 bytes.
  std::int64_t scratch_size(std::int64_t columns) const;
};

// Whether this processor has the kernels, and for that width.
bool can_stream(std::int64_t in);

// Columns begin .. end - 1 of y = x W^T (begin a multiple of kStreamedColumns; columns beyond `out` do not exist). Its
// scratch is that of kStreamedColumns columns.
void streamed_transposed(const StreamedOperands& o, std::int64_t begin, std::int64_t end, float* scratch);

// Columns begin .. end - 1 of y = x W, both multiples of kStreamedColumns. tail [rows, kStreamedTail]: x's last columns
// that are no whole kStreamedTail, zeros behind them.
void streamed_plain(const StreamedOperands& o, const std::uint16_t* tail, std::int64_t begin, std::int64_t end,
                    float* scratch);

}  // namespace draftsmith
