#include "draftsmith/nn/few_rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include "draftsmith/nn/test_random.h"

namespace draftsmith {
namespace {

TEST(LinearFewRows, IsTheMatrixProduct) {
  Rng rng(3, RngPurpose::kTest);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (std::int64_t rows = 1; rows <= kFewRows; ++rows) {
      for (const auto& [in, out] : {std::pair(16, 4), std::pair(1, 1), std::pair(37, 5), std::pair(576, 1531)}) {
        const at::Tensor x = random_tensor(rng, {rows, in}).to(type), weight = random_tensor(rng, {out, in}).to(type);
        const at::Tensor exact = at::mm(x.to(at::kDouble), weight.to(at::kDouble).t());
        const at::Tensor y = linear_few_rows(x, weight);
        ASSERT_EQ(y.scalar_type(), type);
        const double bound = type == at::kFloat ? 1e-5 : 1.0 / 256;  // half a unit in the last place of the result
        EXPECT_TRUE(y.to(at::kDouble).allclose(exact, bound, 1e-5)) << rows << " x " << in << " x " << out;
      }
    }
  }
}

TEST(LinearFewRows, ThreadsDoNotChangeABit) {
  Rng rng(4, RngPurpose::kTest);
  const at::Tensor x = random_tensor(rng, {3, 576}), weight = random_tensor(rng, {4099, 576});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = linear_few_rows(x, weight);
  at::set_num_threads(2);
  EXPECT_TRUE(linear_few_rows(x, weight).equal(one));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace draftsmith
