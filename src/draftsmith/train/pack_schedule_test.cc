// Laws of the order of packs: every pack of an epoch once, partial steps kept, bounds of epochs and max_steps.
#include "draftsmith/train/pack_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/train/fake_target.h"

namespace draftsmith {
namespace {

TEST(PackSchedule, EveryDocumentComesOnceAnEpoch) {
  TinyRun run("packs");
  run.config.train.accumulation = 2;
  PackSchedule schedule(run.data.train, run.config);
  std::map<std::int64_t, std::vector<std::int64_t>> seen;
  for (std::int64_t step = 0; schedule.has(step); ++step) {
    const StepPacks step_packs = schedule.at(step);
    EXPECT_LE(step_packs.packs.size(), 2u);
    EXPECT_GE(step_packs.packs.size(), 1u);
    for (const auto& pack : step_packs.packs)
      seen[step_packs.epoch].insert(seen[step_packs.epoch].end(), pack.begin(), pack.end());
  }
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_NE(seen[0], seen[1]);  // another order
  for (auto& [epoch, documents] : seen) {
    std::sort(documents.begin(), documents.end());
    ASSERT_EQ(documents.size(), 40u);
    for (std::int64_t d = 0; d < 40; ++d) EXPECT_EQ(documents[d], d);
  }
}

TEST(PackSchedule, AStepIsTheSameHoweverItIsReached) {
  TinyRun run("reach");
  PackSchedule forward(run.data.train, run.config), direct(run.data.train, run.config);
  const std::int64_t last = forward.num_steps() - 1;
  for (std::int64_t step = 0; step < last; ++step) forward.at(step);
  EXPECT_EQ(forward.at(last).packs, direct.at(last).packs);
  EXPECT_EQ(forward.at(0).packs, direct.at(0).packs);
  EXPECT_FALSE(direct.has(last + 1));
}

TEST(PackSchedule, DataSmallerThanAStepStillGivesOne) {
  TinyRun run("small");
  run.data.train = chain_data(3, 12, 24, 1);
  run.config.train.accumulation = 32;
  run.config.train.epochs = 1;
  PackSchedule schedule(run.data.train, run.config);
  EXPECT_EQ(schedule.num_steps(), 1);
}

TEST(PackSchedule, MaxStepsAndEpochsBothBound) {
  TinyRun run("bounds");
  run.config.train.max_steps = 7;
  EXPECT_EQ(PackSchedule(run.data.train, run.config).num_steps(), 7);
  run.config.train.max_steps = 1000000;
  const std::int64_t all = PackSchedule(run.data.train, run.config).num_steps();
  run.config.train.max_steps = 0;
  EXPECT_EQ(PackSchedule(run.data.train, run.config).num_steps(), all);
}

TEST(PackSchedule, DataWithoutAnAnchorIsRefused) {
  TinyRun run("nothing");
  run.data.train = DataSet();
  run.data.train.add_document(std::vector<std::int32_t>{1, 2, 3}, std::vector<std::uint8_t>{0, 0, 1});
  try {
    PackSchedule schedule(run.data.train, run.config);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("nothing to train on"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace draftsmith
