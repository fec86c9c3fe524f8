#include "draftsmith/bench/smoke.h"

#include <gtest/gtest.h>

#include <limits>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

RunConfig small_recipe() {
  RunConfig config;
  config.model.vocab_size = 500, config.model.num_layers = 12;
  config.draft.layers = 2, config.draft.block_size = 4;
  config.draft.hidden_size = 64, config.draft.intermediate_size = 96;
  config.draft.heads = 4, config.draft.kv_heads = 2, config.draft.head_dim = 32;
  config.train.compute = Compute::kFloat32;
  return config;
}

std::string failures(const SmokeReport& report) {
  std::string text;
  for (const SmokeCheck& check : report.checks)
    if (!check.ok) text += check.name + ": " + check.detail + "\n";
  return text;
}

TEST(Smoke, ASmallDrafterPasses) {
  for (const Compute compute : {Compute::kFloat32, Compute::kBFloat16}) {
    for (const bool recompute : {false, true}) {
      RunConfig config = small_recipe();
      config.train.compute = compute, config.train.recompute = recompute;
      const SmokeReport report = smoke(config, drafter_config_without_target(config), {});
      EXPECT_TRUE(report.all_ok()) << failures(report);
      ASSERT_EQ(report.passes.size(), 3u);
      EXPECT_EQ(report.passes[0].anchors, 78);  // 49 + 29
      EXPECT_EQ(report.passes[2].anchors, 79);
      EXPECT_NE(to_text(report).find("no gradient crosses documents"), std::string::npos);
    }
  }
}

TEST(Smoke, AWholeRowPassesWithASmallerVocabulary) {
  RunConfig config = small_recipe();
  config.draft.vocab_size = 100;
  const SmokeReport report = smoke(config, drafter_config_without_target(config), {.row_tokens = 200, .anchors = 30});
  EXPECT_TRUE(report.all_ok()) << failures(report);
  ASSERT_EQ(report.passes.size(), 1u);
  EXPECT_EQ(report.passes[0].anchors, 30);
}

// A drafter whose numbers overflow is found out.
TEST(Smoke, ALossThatIsNotFiniteFails) {
  RunConfig config = small_recipe();
  DrafterConfig drafter = drafter_config_without_target(config);
  drafter.norm_eps = std::numeric_limits<double>::quiet_NaN();
  const SmokeReport report = smoke(config, drafter, {});
  EXPECT_FALSE(report.all_ok());
  EXPECT_NE(failures(report).find("loss is finite"), std::string::npos);
  EXPECT_NE(to_text(report).find("FAILED"), std::string::npos);
}

TEST(Smoke, ARecipeWithoutASizeIsRefusedByItsKey) {
  RunConfig config = small_recipe();
  config.draft.head_dim = 0;
  try {
    drafter_config_without_target(config);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("draft.head_dim"), std::string::npos);
  }
}

}  // namespace
}  // namespace draftsmith
