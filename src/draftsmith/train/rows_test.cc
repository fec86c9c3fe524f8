// Laws of the order of rows: every row of an epoch once, partial steps kept, bounds of epochs and max_steps.
#include "draftsmith/train/rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/train/fake_target.h"

namespace draftsmith {
namespace {

TEST(RowSchedule, EveryDocumentComesOnceAnEpoch) {
  TinyRun run("rows");
  run.config.train.accumulation = 2;
  RowSchedule rows(run.data.train, run.config);
  std::map<std::int64_t, std::vector<std::int64_t>> seen;
  for (std::int64_t step = 0; rows.has(step); ++step) {
    const StepRows step_rows = rows.at(step);
    EXPECT_LE(step_rows.rows.size(), 2u);
    EXPECT_GE(step_rows.rows.size(), 1u);
    for (const auto& row : step_rows.rows)
      seen[step_rows.epoch].insert(seen[step_rows.epoch].end(), row.begin(), row.end());
  }
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_NE(seen[0], seen[1]);  // another order
  for (auto& [epoch, documents] : seen) {
    std::sort(documents.begin(), documents.end());
    ASSERT_EQ(documents.size(), 40u);
    for (std::int64_t d = 0; d < 40; ++d) EXPECT_EQ(documents[d], d);
  }
}

TEST(RowSchedule, AStepIsTheSameHoweverItIsReached) {
  TinyRun run("reach");
  RowSchedule forward(run.data.train, run.config), direct(run.data.train, run.config);
  const std::int64_t last = forward.num_steps() - 1;
  for (std::int64_t step = 0; step < last; ++step) forward.at(step);
  EXPECT_EQ(forward.at(last).rows, direct.at(last).rows);
  EXPECT_EQ(forward.at(0).rows, direct.at(0).rows);
  EXPECT_FALSE(direct.has(last + 1));
}

TEST(RowSchedule, DataSmallerThanAStepStillGivesOne) {
  TinyRun run("small");
  run.data.train = chain_data(3, 12, 24, 1);
  run.config.train.accumulation = 32;
  run.config.train.epochs = 1;
  RowSchedule rows(run.data.train, run.config);
  EXPECT_EQ(rows.num_steps(), 1);
}

TEST(RowSchedule, MaxStepsAndEpochsBothBound) {
  TinyRun run("bounds");
  run.config.train.max_steps = 7;
  EXPECT_EQ(RowSchedule(run.data.train, run.config).num_steps(), 7);
  run.config.train.max_steps = 1000000;
  const std::int64_t all = RowSchedule(run.data.train, run.config).num_steps();
  run.config.train.max_steps = 0;
  EXPECT_EQ(RowSchedule(run.data.train, run.config).num_steps(), all);
}

TEST(RowSchedule, DataWithoutAnAnchorIsRefused) {
  TinyRun run("nothing");
  run.data.train = DataSet();
  run.data.train.add_document(std::vector<std::int32_t>{1, 2, 3}, std::vector<std::uint8_t>{0, 0, 1});
  try {
    RowSchedule rows(run.data.train, run.config);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("nothing to train on"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace draftsmith
