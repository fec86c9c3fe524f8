#include "draftsmith/nn/streamed_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include "draftsmith/nn/test_random.h"

namespace draftsmith {
namespace {

constexpr double kHalfUnit = 1.0 / 256, kSmall = 1e-4;  // of a bf16 result; small next to sums of about 1

struct Operands {
  at::Tensor weight, hidden, logits;
};
Operands operands(std::int64_t rows, std::int64_t out, std::int64_t in) {
  Rng rng(static_cast<std::uint64_t>(rows + out + in), RngPurpose::kTest);
  return {random_tensor(rng, {out, in}).to(at::kBFloat16), random_tensor(rng, {rows, in}).to(at::kBFloat16),
          random_tensor(rng, {rows, out}).to(at::kBFloat16)};
}

at::Tensor transposed(const Operands& o) {
  at::Tensor y = at::empty_like(o.logits);
  streamed_product_transposed(o.hidden, o.weight, y);
  return y;
}
at::Tensor plain(const Operands& o) {
  at::Tensor y = at::empty_like(o.hidden);
  streamed_product(o.logits, o.weight, y);
  return y;
}

at::Tensor wide(const at::Tensor& t) { return t.to(at::kDouble); }

class StreamedProduct : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_stream(operands(1, 1, 64).weight)) GTEST_SKIP() << "needs AVX512_BF16";
  }
};

TEST_F(StreamedProduct, IsTheMatrixProductAtAnySize) {
  for (const std::int64_t rows : {1, 5, 6, 7, 70}) {
    for (const std::int64_t out : {1, 2, 63, 64, 65, 129, 1001}) {
      for (const std::int64_t in : {64, 320, 1344}) {
        const Operands o = operands(rows, out, in);
        const std::string shape = std::to_string(rows) + " x " + std::to_string(out) + " x " + std::to_string(in);
        EXPECT_TRUE(wide(transposed(o)).allclose(at::mm(wide(o.hidden), wide(o.weight).t()), kHalfUnit, kSmall))
            << shape;
        EXPECT_TRUE(wide(plain(o)).allclose(at::mm(wide(o.logits), wide(o.weight)), kHalfUnit, kSmall)) << shape;
      }
    }
  }
}

TEST_F(StreamedProduct, ARowOfNaNStaysAlone) {
  Operands o = operands(8, 65, 128);
  o.logits[3].fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor y = plain(o).isnan().all(1);
  for (std::int64_t row = 0; row < 8; ++row) EXPECT_EQ(y[row].item<bool>(), row == 3) << row;
}

TEST_F(StreamedProduct, ThreadsDoNotChangeABit) {
  const Operands o = operands(9, 4099, 2624);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = transposed(o), other = plain(o);
  at::set_num_threads(2);
  EXPECT_TRUE(transposed(o).equal(one));
  EXPECT_TRUE(plain(o).equal(other));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace draftsmith
