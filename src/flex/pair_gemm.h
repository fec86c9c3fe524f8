// Products of some rows of bf16 with a matrix that no cache holds, such as the head of a language model. Each piece of
// the matrix is fetched while the piece before it is multiplied. The kernels multiply pairs of bf16, for which not
// every processor has instructions: ask has_pair_gemm once and keep the answer. bf16 is given as its 16 bits, sums are
// fp32, results are rounded once. The caller shares the columns out to its threads; the bits do not depend on how.
#pragma once

#include <cstdint>

namespace flex {

constexpr std::int64_t kPairGemmColumns = 64;  // of the result at a time
constexpr std::int64_t kPairGemmTail = 512;    // rows of W at a time in y = x W

// One product, all of it dense: x [rows, in] and y [rows, out], or for y = x W x [rows, out] and y [rows, in].
struct PairGemm {
  const std::uint16_t* x;
  std::int64_t rows;
  const std::uint16_t* weight;  // W [out, in]
  std::int64_t out, in;
  std::uint16_t* y;

  // Floats of memory that a call for so many columns needs, aligned to 64 bytes.
  std::int64_t scratch_size(std::int64_t columns) const;
};

// Whether this processor has the kernels, and for that width.
bool has_pair_gemm(std::int64_t in);

// Columns begin .. end - 1 of y = x W^T (begin a multiple of kPairGemmColumns; columns beyond `out` do not exist). Its
// scratch is that of kPairGemmColumns columns.
void pair_gemm_transposed(const PairGemm& gemm, std::int64_t begin, std::int64_t end, float* scratch);

// Columns begin .. end - 1 of y = x W, both multiples of kPairGemmColumns. tail [rows, kPairGemmTail]: x's last columns
// that are no whole kPairGemmTail, zeros behind them.
void pair_gemm_plain(const PairGemm& gemm, const std::uint16_t* tail, std::int64_t begin, std::int64_t end,
                     float* scratch);

}  // namespace flex
