#include "flex/score.h"

#include <gtest/gtest.h>

#include <cmath>

#include "flex/executor.h"
#include "flex/isa.h"

namespace flex {
namespace {

TEST(Score, FunctionsAreAsExactAsTheySay) {
  for (float x = -86.9f; x < 88.0f; x += 0.0137f) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(exp(x) / exact, 1.0, 3e-7) << x;
  }
  EXPECT_EQ(exp(-87.5f), 0.0f);
  for (float x = -20.0f; x < 20.0f; x += 0.00371f) {
    const double exact = std::tanh(static_cast<double>(x));
    EXPECT_NEAR(tanh(x), exact, 3e-7 * std::fabs(exact)) << x;
  }
}

template <class S>
void expect_slope_of_value(const S& score) {
  const Place at{0, 1, 7, 3};
  for (float s = -8.0f; s < 8.0f; s += 0.37f) {
    const float step = 1e-2f;
    const float slope = (score.value(s + step, at) - score.value(s - step, at)) / (2 * step);
    EXPECT_NEAR(score.derivative(s, at), slope, 2e-3) << s;
  }
}

TEST(Score, DerivativesAreTheSlopes) {
  const float numbers[] = {0.25f, 0.5f, 0.75f, 1.0f};
  expect_slope_of_value(Identity{});
  expect_slope_of_value(SoftCap{3.0f});
  expect_slope_of_value(Alibi{numbers, 2});
  expect_slope_of_value(AdditiveBias{numbers, 1, 0, 0});
}

TEST(Isa, NamesAreTheirOwn) {
  for (const Isa isa : kAllIsas) EXPECT_EQ(isa_from_name(name_of(isa)), isa);
  EXPECT_FALSE(isa_from_name("sse9").has_value());
  EXPECT_TRUE(is_supported(Isa::kScalar));
  EXPECT_TRUE(is_supported(default_isa()));
}

TEST(Executor, CallsEveryThreadOnceARun) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.num_threads(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);
    for (int round = 0; round < 200; ++round) pool.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    for (const int count : calls) EXPECT_EQ(count, 200);
  }
}

}  // namespace
}  // namespace flex
