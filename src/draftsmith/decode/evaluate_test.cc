#include "draftsmith/decode/evaluate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "draftsmith/decode/fake_target.h"
#include "draftsmith/decode/report.h"
#include "draftsmith/draft/drafter_folder.h"

namespace draftsmith {
namespace {

using Ids = std::vector<std::int32_t>;

DataSet two_kinds() {
  DataSet data;
  const std::vector<std::uint8_t> mask = {0, 0, 1, 1};
  for (int i = 0; i < 6; ++i) data.add_document(Ids{4, 4, 5, 5}, mask);
  data.add_document(Ids{4, 4}, std::vector<std::uint8_t>{0, 0});  // no answer
  data.kind = {0, 0, 0, 0, 1, 1, 1};
  data.kind_names = {"code", "talk"};
  return data;
}

EvalReport run(TableTarget& target, const LoadedDrafter& drafter) {
  return evaluate(target, drafter, two_kinds(), {.prompts = 4, .max_new_tokens = 20}, nullptr);
}

TEST(Evaluation, TakesTheKindsInTurn) {
  TableTarget target({{4, 5}, {5, 5}}, {});
  std::int64_t skipped = 0;
  EXPECT_EQ(choose_prompts(two_kinds(), target.info(), {.prompts = 3}, &skipped), (std::vector<std::int64_t>{0, 1, 4}));
  EXPECT_EQ(skipped, 1);
  EXPECT_EQ(choose_prompts(two_kinds(), target.info(), {.prompts = 0}, &skipped).size(), 6u);
  EXPECT_TRUE(choose_prompts(two_kinds(), target.info(), {.max_new_tokens = 255}, &skipped).empty());
  EXPECT_EQ(skipped, 7);
}

TEST(Evaluation, CountsWhatTheDrafterSaves) {
  TableTarget target({{4, 5}, {5, 5}}, {});
  const EvalReport report = run(target, target.constant_drafter(5, 8));
  EXPECT_TRUE(report.lossless());
  EXPECT_EQ(report.noise, 0);
  EXPECT_EQ(report.num_compared_positions, 4 * 20);
  EXPECT_EQ(report.all.acceptance.num_requests(), 4);
  EXPECT_DOUBLE_EQ(report.all.acceptance.tau_over_steps(), 8);  // 1 + 8 + 8, then a cut step
  EXPECT_EQ(report.all.acceptance.num_cut_steps(), 4);
  EXPECT_EQ(report.all.plain_tokens, 4 * 19);
  ASSERT_EQ(report.kinds.size(), 2u);
  EXPECT_EQ(report.kinds[0].kind, "code");
  EXPECT_EQ(report.kinds[1].acceptance.num_requests(), 2);

  const auto json = nlohmann::json::parse(eval_report_json(report));
  EXPECT_EQ(json["all"]["tau_over_steps"], 8);
  EXPECT_EQ(json["lossless"]["passed"], true);
  EXPECT_EQ(json["requests"].size(), 4u);
  EXPECT_EQ(json["requests"][0]["steps"].size(), 3u);
  const std::string table = eval_report_table(report);
  EXPECT_NE(table.find("lossless: yes"), std::string::npos) << table;
  EXPECT_NE(table.find("talk"), std::string::npos) << table;
}

// Rounding that depends on the size of the pass turns the choice at one position over.
TEST(Evaluation, ADifferenceWithinTheNoiseIsATieAndAnyOtherAFailure) {
  for (const auto& [margin, noise, tie] : {std::tuple{0.02f, 0.03f, true}, {0.3f, 0.4f, true}, {0.5f, 0.7f, false}}) {
    TableTarget target({{4, 5}, {5, 5}, {6, 5}}, {});
    target.disturb = [&, margin = margin, noise = noise](std::int64_t n, std::int64_t position, float* row) {
      if (position != 6) return;
      row[6] = 4 - margin;
      if (n > 1) row[6] += noise;
    };
    const EvalReport report = run(target, target.constant_drafter(5, 8));
    EXPECT_NEAR(report.noise, noise, 1e-6);
    EXPECT_EQ(report.num_ties, tie ? 4 : 0);
    EXPECT_EQ(report.num_failures, tie ? 0 : 4);
    EXPECT_FALSE(report.lossless());  // ties in more than 1 % of the requests
    EXPECT_EQ(report.requests[0].first_difference, 4);
    EXPECT_NEAR(report.requests[0].margin, margin, 1e-6);
  }
}

TEST(Evaluation, ADifferenceLargerThanTheNoiseIsAFailure) {
  TableTarget target({{4, 5}, {5, 5}, {6, 5}}, {});
  // The block pass chooses another token although logits differ little elsewhere: noise is kept from seeing that row.
  target.disturb = [](std::int64_t n, std::int64_t position, float* row) {
    if (n > 1 && position == 6) std::swap(row[5], row[6]);
  };
  EvalOptions options{.prompts = 2, .max_new_tokens = 20};
  options.logits_bytes = 2 * TableTarget::kVocab * static_cast<std::int64_t>(sizeof(float));
  const EvalReport report = evaluate(target, target.constant_drafter(5, 8), two_kinds(), options, nullptr);
  EXPECT_EQ(report.num_compared_positions, 4);
  EXPECT_EQ(report.noise, 0);
  EXPECT_EQ(report.num_failures, 2);
}

TEST(Evaluation, ASetWithoutPromptsIsRefused) {
  TableTarget target({{4, 5}, {5, 5}}, {});
  const LoadedDrafter drafter = TableTarget::random_drafter(8, 1);
  EXPECT_TRUE(says(error_of([&] { evaluate(target, drafter, DataSet{}, {}, nullptr); }), "no held-out document",
                   "lower --max-new-tokens"));
}

}  // namespace
}  // namespace draftsmith
