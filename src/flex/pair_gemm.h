// Multiplies some rows of bf16 with a matrix that no cache holds, such as the head of a language model. Each piece of
// the matrix is fetched while the piece before it is multiplied. The kernels multiply pairs of bf16, for which not
// every processor has instructions: ask has_pair_gemm once and keep the answer. bf16 is given as its 16 bits, sums are
// fp32, results are rounded once. The caller divides the columns among its threads; the bits do not depend on how.
#pragma once

#include <cstdint>

namespace flex {

constexpr std::int64_t kPairGemmColumns = 64;  // of the result at a time
constexpr std::int64_t kPairGemmTail = 512;    // rows of W at a time in y = x W

// Describes one product, all of it dense: x [rows, in] and y [rows, out], or for y = x W x [rows, out] and y [rows,
// in].
struct PairGemm {
  const std::uint16_t* x;
  std::int64_t rows;
  const std::uint16_t* weight;  // W [out, in]
  std::int64_t out, in;
  std::uint16_t* y;

  // Returns the floats of memory, aligned to 64 bytes, that a call for a number of columns needs.
  std::int64_t scratch_size(std::int64_t columns) const;
};

// True when this processor has the kernels and they take that width.
bool has_pair_gemm(std::int64_t in);

// Computes columns begin .. end - 1 of y = x W^T. begin is a multiple of kPairGemmColumns; columns beyond `out` do not
// exist. The scratch is that of kPairGemmColumns columns.
void pair_gemm_transposed(const PairGemm& gemm, std::int64_t begin, std::int64_t end, float* scratch);

// Computes columns begin .. end - 1 of y = x W, both multiples of kPairGemmColumns. tail [rows, kPairGemmTail] holds
// x's last columns that fill no whole kPairGemmTail, and zeros behind them.
void pair_gemm_plain(const PairGemm& gemm, const std::uint16_t* tail, std::int64_t begin, std::int64_t end,
                     float* scratch);

}  // namespace flex
