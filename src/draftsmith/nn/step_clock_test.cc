#include "draftsmith/nn/step_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace draftsmith {
namespace {

constexpr std::chrono::milliseconds kWork(5);
constexpr double kWorkSeconds = 0.005;

void work(StepPart part) {
  const TimedPart timed(part);
  std::this_thread::sleep_for(kWork);
}

double seconds_of(const StepClock& clock, StepPart part) { return clock.seconds()[static_cast<std::size_t>(part)]; }

TEST(StepClock, TheTimeOfAScopeBelongsToItsPartAlone) {
  const StepClock clock;
  work(StepPart::kMlp);
  work(StepPart::kMlp);
  work(StepPart::kHead);
  EXPECT_GE(seconds_of(clock, StepPart::kMlp), 2 * kWorkSeconds);
  EXPECT_GE(seconds_of(clock, StepPart::kHead), kWorkSeconds);
  for (const StepPart part : {StepPart::kProjections, StepPart::kAttention, StepPart::kOptimizer})
    EXPECT_EQ(seconds_of(clock, part), 0);
}

TEST(StepClock, TheInnerClockMeasuresWhileItIsAlive) {
  const StepClock outer;
  {
    const StepClock inner;
    work(StepPart::kHead);
    EXPECT_GE(seconds_of(inner, StepPart::kHead), kWorkSeconds);
  }
  EXPECT_EQ(seconds_of(outer, StepPart::kHead), 0);
  work(StepPart::kMlp);
  EXPECT_GE(seconds_of(outer, StepPart::kMlp), kWorkSeconds);
}

TEST(StepClock, WorkOfAnotherThreadIsNotCounted) {
  const StepClock clock;
  std::thread([] { work(StepPart::kHead); }).join();
  EXPECT_EQ(seconds_of(clock, StepPart::kHead), 0);
}

TEST(ProductsOf, AScopeNamesThePartAndTheOuterOneComesBack) {
  EXPECT_EQ(ProductsOf::current(), StepPart::kProjections);
  {
    const ProductsOf mlp(StepPart::kMlp);
    EXPECT_EQ(ProductsOf::current(), StepPart::kMlp);
    {
      const ProductsOf head(StepPart::kHead);
      EXPECT_EQ(ProductsOf::current(), StepPart::kHead);
    }
    EXPECT_EQ(ProductsOf::current(), StepPart::kMlp);
  }
  EXPECT_EQ(ProductsOf::current(), StepPart::kProjections);
}

}  // namespace
}  // namespace draftsmith
