#include "draftsmith/nn/product.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include "draftsmith/nn/test_random.h"

namespace draftsmith {
namespace {

// The product is the same in pieces of the result and in pieces of the sum, of any size.
TEST(WidenedProduct, IsTheProductRoundedOnce) {
  Rng rng(3, RngPurpose::kTest);
  for (const auto& [rows, inner, columns] : {std::tuple{7, 20, 90}, {7, 90, 20}, {1, 1, 1}, {5, 0, 4}}) {
    const at::Tensor a = random_tensor(rng, {rows, inner}).to(at::kBFloat16),
                     b = random_tensor(rng, {inner, columns}).to(at::kBFloat16);
    const at::Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
    for (const std::int64_t most : {1, 100, 1 << 20}) {
      const at::Tensor out = at::empty({rows, columns}, a.options());
      widened_product(out, a, b, most);
      EXPECT_TRUE(out.to(at::kDouble).allclose(exact, 1.0 / 256, 1e-5)) << rows << ' ' << inner << ' ' << columns;
    }
    EXPECT_TRUE(product(a, b).to(at::kDouble).allclose(exact, 1.0 / 128, 1e-3));
  }
}

}  // namespace
}  // namespace draftsmith
