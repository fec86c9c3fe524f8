#include "draftsmith/target/llama/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

std::vector<double> frequencies(const std::vector<float>& logits, const SamplingOptions& options, int draws = 20000) {
  std::vector<double> share(logits.size());
  for (int i = 0; i < draws; ++i) {
    Rng rng(7, RngPurpose::kTest, {static_cast<std::uint64_t>(i)});
    share[static_cast<std::size_t>(sample_token(logits, options, rng))] += 1.0 / draws;
  }
  return share;
}

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

TEST(Sampling, GreedyTakesTheLowestOfTheLargest) {
  EXPECT_EQ(greedy_token(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(greedy_token(std::vector<float>{std::nanf(""), -5, std::nanf(""), -4}), 3);
  EXPECT_EQ(greedy_token(std::vector<float>{std::nanf(""), std::nanf("")}), 0);
  Rng rng(1, RngPurpose::kTest);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0}, rng), 1);
}

TEST(Sampling, FollowsTheDistribution) {
  const std::vector<double> share = frequencies(kLogits, {.temperature = 1});
  const double expected[] = {0.1, 0.4, 0.2, 0.3};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(share[i], expected[i], 0.015) << i;
}

TEST(Sampling, TemperatureSharpens) {  // squares: .01 .16 .04 .09 of .30
  const std::vector<double> share = frequencies(kLogits, {.temperature = 0.5});
  EXPECT_NEAR(share[1], 0.16 / 0.30, 0.015);
  EXPECT_NEAR(share[0], 0.01 / 0.30, 0.015);
}

TEST(Sampling, TopKKeepsTheLargestAndLowerIdsAmongEquals) {
  const std::vector<double> share = frequencies(kLogits, {.temperature = 1, .top_k = 2});
  EXPECT_NEAR(share[1], 4.0 / 7, 0.015);
  EXPECT_NEAR(share[3], 3.0 / 7, 0.015);
  EXPECT_EQ(share[0] + share[2], 0);
  EXPECT_EQ(frequencies({1, 1, 1}, {.temperature = 1, .top_k = 1}, 200)[0],
            frequencies({2, 1}, {.temperature = 1, .top_k = 1}, 200)[0]);
}

TEST(Sampling, TopPKeepsTheSmallestSetThatHoldsIt) {
  const std::vector<double> share = frequencies(kLogits, {.temperature = 1, .top_p = 0.65});
  EXPECT_NEAR(share[1], 4.0 / 7, 0.015);
  EXPECT_NEAR(share[3], 3.0 / 7, 0.015);
  EXPECT_EQ(share[0] + share[2], 0);
  EXPECT_NEAR(frequencies(kLogits, {.temperature = 1, .top_p = 1e-9}, 200)[1], 1, 1e-9);  // never empty
}

TEST(Sampling, InfinityAndNanAreNoChoice) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<double> share = frequencies({-inf, 0, std::nanf(""), -inf}, {.temperature = 1}, 500);
  EXPECT_NEAR(share[1], 1, 1e-9);
}

TEST(Sampling, BadOptionsAreRefusedByName) {
  EXPECT_THROW(check_sampling({.temperature = -1}), UserError);
  EXPECT_THROW(check_sampling({.top_k = -1}), UserError);
  EXPECT_THROW(check_sampling({.top_p = 0}), UserError);
  EXPECT_THROW(check_sampling({.top_p = 1.5}), UserError);
  EXPECT_NO_THROW(check_sampling({.temperature = 0.7, .top_k = 40, .top_p = 0.9}));
}

}  // namespace
}  // namespace draftsmith
