// Both ways take 64 columns of the result at a time. The pairs of the matrix for them are laid side by side in a panel
// that the second-level cache holds, and all rows are multiplied with it, six at a time. In between, lines of the next
// panel are prefetched.
#include "flex/pair_gemm.h"

#include <algorithm>
#include <cstring>

#include "flex/cpu/intrinsics.h"
#include "flex/cpu/kernel_types.h"
#include "flex/exp_constants.h"
#include "flex/isa.h"

namespace flex {
namespace {

constexpr std::int64_t kWidthAtOnce = 1024;  // of W's rows in y = x W^T
constexpr std::int64_t kSumsPad = 16;        // keeps rows of sums away from each other's cache sets

}  // namespace
}  // namespace flex

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma")
namespace flex {
namespace {

using detail::Into;
// clang-format off
#include "flex/cpu/simd_avx512.inc"
#include "flex/cpu/pair_product.inc"
// clang-format on

constexpr std::int64_t kColumns = kPairGemmColumns;  // of a panel
static_assert(kColumns == kVectorsAtOnce * kLanes);
constexpr std::int64_t kLine = 64;  // bytes of a cache line
constexpr std::int64_t kBf16 = 2;   // bytes

// Adds x (pairs at x + row * x_row) times a panel [steps][kColumns] to the sums of `rows` rows and kColumns columns.
struct PanelProduct {
  const char* x;
  std::int64_t x_row, rows;
  const std::uint32_t* panel;
  std::int64_t steps;
  float* sums;
  std::int64_t sums_row;
};

// Prefetches the lines of the next piece of the matrix, a few at a time.
class Ahead {
 public:
  // Spreads `rows` rows of `bytes` bytes (a multiple of kLine), `row_bytes` apart, over `calls` calls of some().
  Ahead(const char* from, std::int64_t rows, std::int64_t bytes, std::int64_t row_bytes, std::int64_t calls)
      : row_(from),
        rows_(rows),
        lines_(bytes / kLine),
        row_bytes_(row_bytes),
        a_call_((rows * lines_ + calls - 1) / calls) {}

  void some() {
    for (std::int64_t i = 0; i < a_call_ && rows_ > 0; ++i) {
      _mm_prefetch(row_ + line_ * kLine, _MM_HINT_T1);
      if (++line_ < lines_) continue;
      line_ = 0, --rows_, row_ += row_bytes_;
    }
  }

 private:
  const char* row_;
  std::int64_t rows_, lines_, row_bytes_, a_call_, line_ = 0;
};

std::int64_t num_calls(std::int64_t rows) { return (rows + kRowsAtOnce - 1) / kRowsAtOnce; }

void add_product(const PanelProduct& p, bool first, Ahead& ahead) {
  for (std::int64_t row = 0; row < p.rows; row += kRowsAtOnce) {
    ahead.some();
    const PairProduct product{.a = p.x + row * p.x_row,
                              .a_row = p.x_row,
                              .a_step = 2 * kBf16,
                              .b = p.panel,
                              .b_row = kColumns,
                              .c = p.sums + row * p.sums_row,
                              .c_row = p.sums_row,
                              .rows = std::min<std::int64_t>(kRowsAtOnce, p.rows - row),
                              .steps = p.steps,
                              .columns = kColumns};
    if (first)
      multiply<Into::kSet>(product);
    else
      multiply<Into::kAdd>(product);
  }
}

void store_rounded(std::uint16_t* to, V v, std::int64_t left) {
  const __m256i narrow = (__m256i)_mm512_cvtneps_pbh(v);
  if (left >= kLanes)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
  else if (left > 0)
    std::memcpy(to, &narrow, static_cast<std::size_t>(left * kBf16));
}

// ---- y = x W^T: a panel is 64 rows of W, transposed in pairs ----

void pack_rows(const std::uint16_t* weight, std::int64_t row, std::int64_t out, std::int64_t in, std::int64_t first,
               std::int64_t width, std::uint32_t* panel) {
  for (std::int64_t group = 0; group < kColumns; group += kLanes) {
    const char* from[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i)
      from[i] = bytes_of(weight + std::min(row + group + i, out - 1) * in + first);
    transpose_rows(from, width / 2, panel + group, kColumns);
  }
}

// Computes columns row .. row + 63 of y; W's rows from `end` on are not needed.
void panel_transposed(const PairGemm& o, std::int64_t row, std::int64_t end, std::uint32_t* panel, float* sums) {
  for (std::int64_t first = 0; first < o.in; first += kWidthAtOnce) {
    const std::int64_t width = std::min(kWidthAtOnce, o.in - first), next = first + width;
    pack_rows(o.weight, row, o.out, o.in, first, width, panel);
    const bool same_rows = next < o.in;
    const std::int64_t ahead_row = same_rows ? row : row + kColumns, ahead_first = same_rows ? next : 0;
    Ahead ahead(bytes_of(o.weight + ahead_row * o.in + ahead_first),
                std::clamp<std::int64_t>(end - ahead_row, 0, kColumns),
                std::min(kWidthAtOnce, o.in - ahead_first) * kBf16, o.in * kBf16, num_calls(o.rows));
    add_product({.x = bytes_of(o.x + first),
                 .x_row = o.in * kBf16,
                 .rows = o.rows,
                 .panel = panel,
                 .steps = width / 2,
                 .sums = sums,
                 .sums_row = kColumns},
                first == 0, ahead);
  }
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t column = 0; column < kColumns; column += kLanes)
      store_rounded(o.y + r * o.out + row + column, load(sums + r * kColumns + column), o.out - row - column);
}

// ---- y = x W: a panel is 64 columns of some rows of W, the rows two by two side by side ----

// Makes pairs of two rows, 64 columns. Within each 32, the first result has columns 8 i .. 8 i + 3 and the second 8 i +
// 4 .. 8 i + 7 (i = 0 .. 3), which unmix() puts right.
void pack_pair(const std::uint16_t* even, const std::uint16_t* odd, std::uint32_t* to) {
  for (std::int64_t i = 0; i < kColumns; i += 2 * kLanes) {
    const __m512i a = _mm512_loadu_si512(even + i), b = _mm512_loadu_si512(odd + i);
    _mm512_storeu_si512(to + i, _mm512_unpacklo_epi16(a, b));
    _mm512_storeu_si512(to + i + kLanes, _mm512_unpackhi_epi16(a, b));
  }
}

void unmix(const float* sums, std::uint16_t* to) {
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i high = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  for (std::int64_t i = 0; i < kColumns; i += 2 * kLanes) {
    const V a = load(sums + i), b = load(sums + i + kLanes);
    store_rounded(to + i, _mm512_permutex2var_ps(a, low, b), kLanes);
    store_rounded(to + i + kLanes, _mm512_permutex2var_ps(a, high, b), kLanes);
  }
}

// Packs rows first .. end - 1 of the 64 columns at `weight`, then a row of zeros if their number is odd.
void pack_columns(const std::uint16_t* weight, std::int64_t in, std::int64_t first, std::int64_t end,
                  std::uint32_t* panel) {
  static const std::uint16_t zeros[kColumns] = {};
  for (std::int64_t row = first; row < end; row += 2)
    pack_pair(weight + row * in, row + 1 < end ? weight + (row + 1) * in : zeros, panel + (row - first) / 2 * kColumns);
}

}  // namespace

void pair_gemm_transposed(const PairGemm& o, std::int64_t begin, std::int64_t end, float* scratch) {
  auto* panel = reinterpret_cast<std::uint32_t*>(scratch);
  float* sums = scratch + kWidthAtOnce / 2 * kColumns;
  for (std::int64_t row = begin; row < end; row += kColumns)
    panel_transposed(o, row, std::min(end, o.out), panel, sums);
}

void pair_gemm_plain(const PairGemm& o, const std::uint16_t* tail, std::int64_t begin, std::int64_t end,
                     float* scratch) {
  auto* panel = reinterpret_cast<std::uint32_t*>(scratch);
  float* sums = scratch + kPairGemmTail / 2 * kColumns;
  const std::int64_t sums_row = end - begin + kSumsPad;
  for (std::int64_t first = 0; first < o.out; first += kPairGemmTail) {
    const std::int64_t next = std::min(first + kPairGemmTail, o.out);
    const bool whole = next - first == kPairGemmTail;
    for (std::int64_t column = begin; column < end; column += kColumns) {
      pack_columns(o.weight + column, o.in, first, next, panel);
      const bool same_rows = column + kColumns < end;
      const std::int64_t ahead_first = same_rows ? first : next;
      Ahead ahead(bytes_of(o.weight + ahead_first * o.in + (same_rows ? column + kColumns : begin)),
                  std::min(kPairGemmTail, o.out - ahead_first), kColumns * kBf16, o.in * kBf16, num_calls(o.rows));
      add_product({.x = bytes_of(whole ? o.x + first : tail),
                   .x_row = (whole ? o.out : kPairGemmTail) * kBf16,
                   .rows = o.rows,
                   .panel = panel,
                   .steps = (next - first + 1) / 2,
                   .sums = sums + column - begin,
                   .sums_row = sums_row},
                  first == 0, ahead);
    }
  }
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t column = begin; column < end; column += kColumns)
      unmix(sums + r * sums_row + column - begin, o.y + r * o.in + column);
}

}  // namespace flex
#pragma GCC pop_options
#endif

namespace flex {

bool has_pair_gemm(std::int64_t in) { return in % kPairGemmColumns == 0 && default_isa() == Isa::kAvx512Bf16; }

std::int64_t PairGemm::scratch_size(std::int64_t columns) const {
  return std::max(kWidthAtOnce, kPairGemmTail) / 2 * kPairGemmColumns + rows * (columns + kSumsPad);
}

#if !defined(__x86_64__)
void pair_gemm_transposed(const PairGemm&, std::int64_t, std::int64_t, float*) {}
void pair_gemm_plain(const PairGemm&, const std::uint16_t*, std::int64_t, std::int64_t, float*) {}
#endif

}  // namespace flex
