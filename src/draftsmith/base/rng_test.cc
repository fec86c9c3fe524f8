#include "draftsmith/base/rng.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace draftsmith {
namespace {

TEST(Rng, SameSeedAndKeysGiveTheSameNumbersForEver) {
  Rng a(7, RngPurpose::kAnchors, {3, 5}), b(7, RngPurpose::kAnchors, {3, 5});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
  // Written down, so that a change of the generator cannot pass unseen: old runs would no longer repeat.
  Rng fixed(1, RngPurpose::kTest);
  EXPECT_EQ(fixed.next(), 2284281539426569796ULL);
  EXPECT_EQ(fixed.next(), 16386946572564138230ULL);
}

TEST(Rng, AnyDifferentKeyGivesAnotherStream) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed : {0, 1, 2}) {
    for (RngPurpose purpose : {RngPurpose::kInit, RngPurpose::kAnchors}) {
      firsts.insert(Rng(seed, purpose).next());
      for (std::uint64_t x = 0; x < 20; ++x) {
        firsts.insert(Rng(seed, purpose, {x}).next());
        for (std::uint64_t y = 0; y < 20; ++y) firsts.insert(Rng(seed, purpose, {x, y}).next());
      }
    }
  }
  EXPECT_EQ(firsts.size(), 3u * 2u * (1u + 20u + 400u));
}

TEST(Rng, UniformFillsTheUnitInterval) {
  Rng rng(1, RngPurpose::kTest);
  const int n = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.005);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
}

TEST(Rng, BelowIsEvenAndStaysBelow) {
  Rng rng(1, RngPurpose::kTest);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) counts.at(static_cast<std::size_t>(rng.below(7)))++;
  for (int count : counts) EXPECT_NEAR(count, 10000, 400);  // four standard deviations
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.below(1), 0);
  const std::int64_t large = std::int64_t{3} << 61;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t x = rng.below(large);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, large);
  }
}

TEST(Rng, NormalHasItsMoments) {
  Rng rng(1, RngPurpose::kTest);
  const int n = 100000;
  double sum = 0, squares = 0, cubes = 0;
  for (int i = 0; i < n; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
    cubes += x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.015);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(cubes / n, 0, 0.06);
}

}  // namespace
}  // namespace draftsmith
