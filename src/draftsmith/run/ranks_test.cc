// A run on several ranks is the run of one: the same packs, anchors, sums and weights, one folder, one voice, one
// decision to stop.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/recipe.h"
#include "draftsmith/ranks/thread_ranks.h"
#include "draftsmith/run/test_run.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

void make_short(TinyRun& run) {
  run.config.train.accumulation = 3;
  run.config.train.row_length = 32;
  run.config.train.max_steps = 8;
}

struct RankOutcome {
  TrainSummary summary;
  std::int64_t lines = 0, notices = 0;
};

// Runs `run` on ranks that share its folder. Each has a target of its own, as processes have.
std::vector<RankOutcome> train_on_ranks(const TinyRun& run, std::int64_t size, bool resume,
                                        const std::function<bool(std::int64_t rank)>& stop = {}) {
  std::vector<RankOutcome> outcomes(size);
  on_thread_ranks(size, [&](Ranks& ranks) {
    ChainTarget target;
    RankOutcome& mine = outcomes[ranks.rank()];
    const DrafterConfig drafter = resolve_drafter_config(run.config, target.info(), 39);
    const TrainHooks hooks{.progress = [&](const Progress&) { ++mine.lines; },
                           .notice = [&](const std::string&) { ++mine.notices; },
                           .stop_requested = [&] { return stop && stop(ranks.rank()); }};
    mine.summary = train({.config = run.config,
                          .target = target,
                          .data = run.data,
                          .drafter = drafter,
                          .ranks = ranks,
                          .resume = resume},
                         hooks);
  });
  return outcomes;
}

std::vector<nlohmann::json> metrics_of(const TinyRun& run) {
  std::vector<nlohmann::json> out;
  std::ifstream in(run.config.output + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

void expect_close(const at::Tensor& a, const at::Tensor& b, double bound, const std::string& name) {
  const double difference = a.sub(b).abs().max().item<double>();
  EXPECT_LE(difference, bound * b.abs().max().item<double>()) << name;
}

TEST(RunOnRanks, SeveralRanksTrainTheDrafterOfOne) {
  TinyRun alone("rank_alone");
  make_short(alone);
  const TrainSummary one =
      train_alone(alone, resolve_drafter_config(alone.config, alone.target.info(), 39), false, TrainHooks{});
  const LoadedDrafter expected = read_drafter_folder(one.checkpoint);
  for (const std::int64_t size : {2, 3, 5}) {  // of five ranks two never have a pack
    TinyRun run("rank_" + std::to_string(size));
    make_short(run);
    const std::vector<RankOutcome> outcomes = train_on_ranks(run, size, false);
    const LoadedDrafter drafter = read_drafter_folder(outcomes[0].summary.checkpoint);
    for (const Param& param : expected.drafter->params())
      expect_close(param_of(*drafter.drafter, param.name), param.tensor, 2e-3, param.name);
    const auto lines = metrics_of(run), lines_alone = metrics_of(alone);
    ASSERT_EQ(lines.size(), lines_alone.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const char* key : {"loss", "eval_loss", "grad_norm"}) {
        if (!lines_alone[i].contains(key)) continue;
        const auto value = lines_alone[i].at(key).get<double>();
        EXPECT_NEAR(lines[i].at(key).get<double>(), value, 1e-4 * value) << key;
      }
    }
    for (const RankOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.summary.steps, 8);
      EXPECT_EQ(outcome.summary.loss, outcomes[0].summary.loss);
      EXPECT_EQ(outcome.summary.eval_loss, outcomes[0].summary.eval_loss);
    }
  }
}

TEST(RunOnRanks, OnlyTheFirstSpeaks) {
  TinyRun run("rank_voice");
  make_short(run);
  const std::vector<RankOutcome> outcomes = train_on_ranks(run, 2, false);
  EXPECT_EQ(outcomes[0].lines, 8);
  EXPECT_GT(outcomes[0].notices, 0);
  EXPECT_EQ(outcomes[1].lines, 0);
  EXPECT_EQ(outcomes[1].notices, 0);
}

TEST(RunOnRanks, AStopAskedOfOneStopsAllAndIsResumed) {
  TinyRun straight("rank_straight"), stopped("rank_stopped");
  make_short(straight);
  make_short(stopped);
  const TrainSummary whole = train_on_ranks(straight, 2, false)[0].summary;
  std::atomic<int> asked = 0;
  const std::vector<RankOutcome> first =
      train_on_ranks(stopped, 2, false, [&](std::int64_t rank) { return rank == 1 && ++asked > 6; });
  EXPECT_GT(first[0].summary.steps, 0);
  EXPECT_LT(first[0].summary.steps, 8);
  for (const RankOutcome& outcome : first) {
    EXPECT_TRUE(outcome.summary.stopped_early);
    EXPECT_EQ(outcome.summary.steps, first[0].summary.steps);
  }
  const TrainSummary resumed = train_on_ranks(stopped, 2, true)[0].summary;
  EXPECT_EQ(resumed.steps, 8);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(read_text_file(whole.checkpoint / file), read_text_file(resumed.checkpoint / file)) << file;
}

TEST(RunOnRanks, MinutesGiveAllRanksTheSameSteps) {
  TinyRun run("rank_minutes");
  run.config.train.accumulation = 2;
  run.config.train.max_minutes = 0.03;
  run.config.train.epochs = 100000;
  const std::vector<RankOutcome> outcomes = train_on_ranks(run, 2, false);
  EXPECT_GE(outcomes[0].summary.steps, 1);
  EXPECT_EQ(outcomes[0].summary.steps, outcomes[1].summary.steps);
  EXPECT_EQ(outcomes[0].summary.steps, outcomes[0].summary.total_steps);
}

}  // namespace
}  // namespace draftsmith
