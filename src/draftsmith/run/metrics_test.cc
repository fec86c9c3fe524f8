// Metrics and the picture drawn from them.
#include "draftsmith/run/metrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "draftsmith/run/plot.h"
#include "draftsmith/store/files.h"
#include "draftsmith/train/fake_target.h"

namespace draftsmith {
namespace {

std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> out;
  std::istringstream in(read_text_file(file));
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

TrainLine line_of(std::int64_t step) {
  TrainLine line;
  line.step = step;
  line.seconds = 30.0 * static_cast<double>(step);
  line.figures.loss = 5.0 / static_cast<double>(step);
  line.figures.accepted_length = 1.0 + 0.1 * static_cast<double>(step);
  line.figures.accuracy_per_slot = {0.5, 0.25};
  return line;
}

TEST(Metrics, FiguresAreRatiosOfSumsAndCountTheBonusToken) {
  LossSums sums;
  sums.loss_sum = 6, sums.weight_sum = 4, sums.mask_sum = 8, sums.correct_sum = 2;
  sums.slot_mask = {0, 4, 4}, sums.slot_correct = {0, 2, 0};
  sums.accepted_sum = 3, sums.num_blocks = 4;
  const Figures figures = figures_of(sums);
  EXPECT_DOUBLE_EQ(figures.loss, 1.5);
  EXPECT_DOUBLE_EQ(figures.accuracy, 0.25);
  EXPECT_EQ(figures.accuracy_per_slot, (std::vector<double>{0.5, 0}));
  EXPECT_DOUBLE_EQ(figures.accepted_length, 1.75);
  EXPECT_DOUBLE_EQ(figures_of(LossSums()).loss, 0);
}

TEST(Metrics, AResumedRunCutsLaterLinesAndTornOnes) {
  TinyRun run("metrics");
  {
    MetricsLog log(run.folder, 0);
    for (std::int64_t step = 1; step <= 5; ++step) log.add(line_of(step));
    log.add(EvalLine{.step = 5, .figures = {}, .seconds = 150});
  }
  const std::string whole = read_text_file(run.folder / "metrics.jsonl");
  write_text_file(run.folder / "metrics.jsonl", whole + "{\"step\": 3, \"lo");
  {
    MetricsLog log(run.folder, 3);
    log.add(line_of(4));
  }
  const auto lines = lines_of(run.folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(lines[i]["step"], i + 1);
  for (const char* key : {"step", "epoch", "loss", "accuracy", "accuracy_per_slot", "accepted_length", "learning_rate",
                          "grad_norm", "tokens_per_second", "seconds", "weight_sum"})
    EXPECT_TRUE(lines[3].contains(key)) << key;
  { MetricsLog log(run.folder, 0); }
  EXPECT_TRUE(lines_of(run.folder / "metrics.jsonl").empty());  // a fresh run begins a fresh file
}

TEST(Plot, ShowsBothCurvesAndTheExtraPoints) {
  TinyRun run("plot");
  MetricsLog log(run.folder, 0);
  for (std::int64_t step = 1; step <= 5; ++step) log.add(line_of(step));
  log.add(EvalLine{.step = 5, .figures = line_of(5).figures, .seconds = 150});
  const auto file =
      write_plot(run.folder, {.title = "a < b", .points = {{.minutes = 3, .value = 1.9, .label = "tau 1.9"}}});
  const std::string svg = read_text_file(file);
  std::size_t curves = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++curves;
  EXPECT_EQ(curves, 2u);
  for (const char* text : {"a &lt; b", "tau 1.9", "minutes of training (5 steps)", "held out 1.5", "</svg>"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Plot, ARunWithoutMetricsGivesAPictureThatSaysSo) {
  TinyRun run("empty_plot");
  const std::string svg = read_text_file(write_plot(run.folder, {.title = "t", .points = {}}));
  EXPECT_NE(svg.find("no metrics"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace draftsmith
