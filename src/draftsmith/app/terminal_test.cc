#include "draftsmith/app/terminal.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(ProgressLine, ShowsShareRateAndTimeLeft) {
  const Progress progress{.done = 150, .total = 200, .unit = "rows", .detail = "loss 4.20"};
  EXPECT_EQ(progress_line("training", progress, 100, 10), "training  150/200 rows (75%)  5/s  10s left  loss 4.20");
}

TEST(ProgressLine, SaysSecondsEachWhenOneTakesLonger) {
  const Progress progress{.done = 2, .total = 4, .unit = "steps", .detail = ""};
  EXPECT_EQ(progress_line("training", progress, 0, 8), "training  2/4 steps (50%)  4.0 s each  8s left");
}

TEST(ProgressLine, TakesTheTimeLeftFromWorkThatKnowsIt) {
  const Progress progress{.done = 2, .total = 4, .unit = "steps", .detail = "", .seconds_left = 70};
  EXPECT_EQ(progress_line("training", progress, 0, 8), "training  2/4 steps (50%)  4.0 s each  1m 10s left");
}

TEST(ProgressLine, CountsFromWhereAResumedWorkBegan) {
  const Progress progress{.done = 100, .total = 200, .unit = "steps", .detail = ""};
  EXPECT_EQ(progress_line("training", progress, 100, 5), "training  100/200 steps (50%)");
}

TEST(ProgressLine, HasNoTimeLeftWithoutATotal) {
  const Progress progress{.done = 20, .total = 0, .unit = "rows", .detail = ""};
  EXPECT_EQ(progress_line("reading", progress, 0, 2), "reading  20 rows  10/s");
}

}  // namespace
}  // namespace draftsmith
