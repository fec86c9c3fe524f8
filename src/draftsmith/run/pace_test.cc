// Tests how many steps fit into a time, with and without a cache of features.
#include "draftsmith/run/pace.h"

#include <gtest/gtest.h>

#include "draftsmith/train/fake_target.h"

namespace draftsmith {
namespace {

TEST(Pace, LaterEpochsDoNotPayForTheTarget) {
  TinyRun run("pace");
  run.config.train.epochs = 100;
  PackSchedule schedule(run.data.train, run.config);
  FeatureCache cache(run.target, run.data.train, {.taps = {1}, .memory_bytes = 1 << 24, .folder = run.folder});
  FeatureCache no_cache(run.target, run.data.train, {.taps = {1}, .folder = run.folder});
  const Pace pace{.seconds_a_pack = 1, .seconds_a_token = 0.1};
  std::int64_t epoch_tokens = run.data.train.num_tokens();
  const auto epoch_packs = static_cast<std::int64_t>(schedule.plan(0).packs.size());
  // One epoch exactly, then ten seconds more of packs only.
  const double first_epoch = static_cast<double>(epoch_packs) + 0.1 * static_cast<double>(epoch_tokens);
  EXPECT_EQ(steps_that_fit(schedule, cache, pace, 0, first_epoch + 10.5), epoch_packs + 10);
  EXPECT_LT(steps_that_fit(schedule, no_cache, pace, 0, first_epoch + 10.5), epoch_packs + 10);
  const auto seconds_of = [&](const FeatureCache& features, std::int64_t n) {
    return seconds_of_packs(schedule.epoch_size(), features, pace, static_cast<double>(n), static_cast<double>(n));
  };
  EXPECT_DOUBLE_EQ(seconds_of(cache, epoch_packs), first_epoch);
  EXPECT_DOUBLE_EQ(seconds_of(cache, epoch_packs + 10), first_epoch + 10);
  EXPECT_DOUBLE_EQ(seconds_of(no_cache, 3 * epoch_packs), 3 * first_epoch);
  EXPECT_EQ(steps_that_fit(schedule, cache, pace, 5, -1), 5);
  EXPECT_EQ(steps_that_fit(schedule, cache, pace, 0, -1), 1);
  EXPECT_EQ(steps_that_fit(schedule, cache, {}, 0, 1e9), schedule.num_steps());
}

}  // namespace
}  // namespace draftsmith
