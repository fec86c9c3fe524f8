// Laws of the learning rate: finite and above zero for every step of every run, peak reached, floor approached.
#include "draftsmith/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace draftsmith {
namespace {

TEST(Schedule, RisesToThePeakAndFallsTowardsTheFloor) {
  const Schedule s{.peak = 1.0, .floor = 0.1, .warmup = 5, .total_steps = 30};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 5), 1.0);
  for (std::int64_t step = 5; step + 1 < 30; ++step) EXPECT_GT(learning_rate(s, step), learning_rate(s, step + 1));
  EXPECT_GT(learning_rate(s, 29), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 30), 0.1);
}

TEST(Schedule, AShareCountsOfAllSteps) {
  EXPECT_EQ(warmup_steps({.warmup = 0.04, .total_steps = 1000}), 40);
  EXPECT_EQ(warmup_steps({.warmup = 0.04, .total_steps = 1}), 0);
  EXPECT_EQ(warmup_steps({.warmup = 1, .total_steps = 1000}), 1);
  EXPECT_EQ(warmup_steps({.warmup = 0, .total_steps = 1000}), 0);
}

TEST(Schedule, EveryStepOfEveryRunHasAFinitePositiveRate) {
  for (const double warmup : {0.0, 0.04, 0.5, 0.999, 1.0, 5.0, 1000.0, 1e300})
    for (std::int64_t total = 1; total <= 12; ++total)
      for (std::int64_t step = 0; step < total; ++step) {
        const double rate = learning_rate({.peak = 6e-4, .floor = 0, .warmup = warmup, .total_steps = total}, step);
        EXPECT_TRUE(std::isfinite(rate) && rate > 0 && rate <= 6e-4) << warmup << ' ' << total << ' ' << step;
      }
}

}  // namespace
}  // namespace draftsmith
