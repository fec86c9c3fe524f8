#include "draftsmith/nn/streamed_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/kernels.h"
#include "flex/pair_gemm.h"

namespace draftsmith {
namespace {

std::uint16_t* bits_of(const at::Tensor& t) {
  DRAFTSMITH_ASSERT(t.scalar_type() == at::kBFloat16 && t.is_contiguous());
  return static_cast<std::uint16_t*>(t.data_ptr());
}

flex::PairGemm operands(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y) {
  DRAFTSMITH_ASSERT(weight.size(1) % flex::kPairGemmColumns == 0 && y.size(0) == x.size(0));
  return {.x = bits_of(x),
          .rows = x.size(0),
          .weight = bits_of(weight),
          .out = weight.size(0),
          .in = weight.size(1),
          .y = bits_of(y)};
}

at::Tensor scratch(const flex::PairGemm& o, std::int64_t columns) {
  return at::empty({o.scratch_size(columns)}, at::TensorOptions(at::kFloat));
}

// x's columns behind the last whole flex::kPairGemmTail, then zeros.
at::Tensor tail_of(const flex::PairGemm& o) {
  at::Tensor tail = at::zeros({o.rows, flex::kPairGemmTail}, at::TensorOptions(at::kBFloat16));
  const std::int64_t whole = o.out / flex::kPairGemmTail * flex::kPairGemmTail;
  for (std::int64_t r = 0; r < o.rows; ++r)
    std::copy(o.x + r * o.out + whole, o.x + (r + 1) * o.out, bits_of(tail) + r * flex::kPairGemmTail);
  return tail;
}

}  // namespace

bool can_stream(const at::Tensor& weight) {
  return has_kernels(weight) && weight.scalar_type() == at::kBFloat16 && weight.is_contiguous() &&
         flex::has_pair_gemm(weight.size(1));
}

void streamed_product_transposed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y) {
  const flex::PairGemm o = operands(x, weight, y);
  DRAFTSMITH_ASSERT(x.size(1) == o.in && y.size(1) == o.out);
  const std::int64_t panels = (o.out + flex::kPairGemmColumns - 1) / flex::kPairGemmColumns;
  at::parallel_for(0, panels, 1, [&](std::int64_t begin, std::int64_t end) {
    flex::pair_gemm_transposed(o, begin * flex::kPairGemmColumns, end * flex::kPairGemmColumns,
                               scratch(o, flex::kPairGemmColumns).data_ptr<float>());
  });
}

void streamed_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y) {
  const flex::PairGemm o = operands(x, weight, y);
  DRAFTSMITH_ASSERT(x.size(1) == o.out && y.size(1) == o.in);
  const at::Tensor tail = tail_of(o);
  at::parallel_for(0, o.in / flex::kPairGemmColumns, 1, [&](std::int64_t begin, std::int64_t end) {
    flex::pair_gemm_plain(o, bits_of(tail), begin * flex::kPairGemmColumns, end * flex::kPairGemmColumns,
                          scratch(o, (end - begin) * flex::kPairGemmColumns).data_ptr<float>());
  });
}

}  // namespace draftsmith
