#include "draftsmith/nn/product.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "flex/isa.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMostWidened = std::int64_t{1} << 24;  // 64 MiB

bool library_multiplies(const at::Tensor& x) {
  static const bool cpu_has_bf16_products = flex::is_supported(flex::Isa::kAvx512);
  return x.scalar_type() != at::kBFloat16 || !x.device().is_cpu() || cpu_has_bf16_products;
}

}  // namespace

void widened_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, std::int64_t most_elements) {
  const std::int64_t inner = b.size(0), columns = b.size(1);
  const at::Tensor wide = a.to(at::kFloat);
  if (columns >= inner) {  // pieces of the result
    const std::int64_t at_once = std::max<std::int64_t>(1, most_elements / std::max<std::int64_t>(inner, 1));
    for (std::int64_t begin = 0; begin < columns; begin += at_once) {
      const std::int64_t count = std::min(at_once, columns - begin);
      out.narrow(1, begin, count).copy_(at::mm(wide, b.narrow(1, begin, count).to(at::kFloat)));
    }
    return;
  }
  at::Tensor sum = at::zeros({a.size(0), columns}, wide.options());
  const std::int64_t at_once = std::max<std::int64_t>(1, most_elements / std::max<std::int64_t>(columns, 1));
  for (std::int64_t begin = 0; begin < inner; begin += at_once) {
    const std::int64_t count = std::min(at_once, inner - begin);
    sum.addmm_(wide.narrow(1, begin, count), b.narrow(0, begin, count).to(at::kFloat));
  }
  out.copy_(sum);
}

void product_out(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  DRAFTSMITH_ASSERT(a.scalar_type() == b.scalar_type() && a.size(1) == b.size(0));
  if (!library_multiplies(a)) return widened_product(out, a, b, kMostWidened);
  at::Tensor result = out;
  at::mm_out(result, a, b);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (library_multiplies(a)) return at::mm(a, b);
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  product_out(out, a, b);
  return out;
}

}  // namespace draftsmith
