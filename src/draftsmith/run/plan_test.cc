// The plan of a run: what 0 in the configuration stands for, and what the target refuses.
#include "draftsmith/run/plan.h"

#include <gtest/gtest.h>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/draft/recipe.h"
#include "draftsmith/model/tap_rules.h"
#include "draftsmith/train/fake_target.h"

namespace draftsmith {
namespace {

void expect_refused(const RunConfig& config, const TargetInfo& target, std::int32_t mask, const std::string& key) {
  try {
    resolve_drafter_config(config, target, mask);
    ADD_FAILURE() << "not refused: " << key;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
  }
}

TEST(Plan, ZeroMeansTheTargets) {
  TinyRun run("plan");
  const TargetInfo& target = run.target.info();
  const DrafterConfig config = resolve_drafter_config(run.config, target, 39);
  EXPECT_EQ(config.hidden_size, target.hidden_size);
  EXPECT_EQ(config.intermediate_size, target.intermediate_size);
  EXPECT_EQ(config.num_heads, target.num_heads);
  EXPECT_EQ(config.num_kv_heads, target.num_kv_heads);
  EXPECT_EQ(config.head_dim, target.head_dim);
  EXPECT_EQ(config.target_layer_ids, default_taps(2, target.num_layers));
  EXPECT_EQ(config.num_target_layers, target.num_layers);
  EXPECT_DOUBLE_EQ(config.rope_theta, target.rope_theta);
  run.config.draft.num_taps = 3;
  run.config.draft.intermediate_size = 48;
  run.config.draft.sliding_layers = {1};
  run.config.draft.sliding_window = 8;
  const DrafterConfig other = resolve_drafter_config(run.config, target, 39);
  EXPECT_EQ(other.num_taps(), 3);
  EXPECT_EQ(other.intermediate_size, 48);
  EXPECT_EQ(other.layer_kinds, (std::vector<LayerKind>{LayerKind::kFull, LayerKind::kSliding}));
}

TEST(Plan, WhatDoesNotFitTheTargetIsRefusedByKey) {
  TinyRun run("refused");
  const TargetInfo& target = run.target.info();
  RunConfig config = run.config;
  config.draft.hidden_size = 31;
  expect_refused(config, target, 39, "draft.hidden_size");
  expect_refused(run.config, target, 40, "draft.mask_token_id");
  config = run.config;
  config.draft.vocab_size = target.vocab_size + 1;
  expect_refused(config, target, 39, "draft.vocab_size");
  config = run.config;
  config.draft.init.kind = DraftInit::Kind::kTarget;
  config.draft.layers = target.num_layers + 1;
  expect_refused(config, target, 39, "draft.layers is 9 and the target has 8");
}

TEST(Plan, CountsWhatAnEpochHolds) {
  TinyRun run("counts");
  run.config.train.accumulation = 2;
  run.data.train.add_document(std::vector<std::int32_t>{1, 2}, std::vector<std::uint8_t>{0, 1});  // no anchor
  run.config.data.max_length = 20;
  const DrafterConfig drafter = resolve_drafter_config(run.config, run.target.info(), 39);
  const TrainPlan plan = plan_training(run.config, run.target.info(), run.data, drafter);
  EXPECT_EQ(plan.parameters, num_parameters(*drafter_shapes(drafter)));
  EXPECT_EQ(plan.documents, 41);
  EXPECT_EQ(plan.documents_left_out, 1);
  EXPECT_GT(plan.documents_cut, 0);
  EXPECT_EQ(plan.supervised_tokens, plan.tokens - 3 * 40);
  EXPECT_EQ(plan.anchors, plan.supervised_tokens - 40);  // the last supervised token of a document is no anchor
  EXPECT_EQ(plan.steps_an_epoch, (plan.packs + 1) / 2);
  EXPECT_GE(plan.total_steps, 3);
  const std::string text = to_text(plan, run.config);
  EXPECT_NE(text.find("41 documents"), std::string::npos) << text;
  run.config.train.max_minutes = 5;
  EXPECT_NE(
      to_text(plan_training(run.config, run.target.info(), run.data, drafter), run.config).find("fitted to 5 minutes"),
      std::string::npos);
}

TEST(Plan, TheProcessIsMeasuredWithTheLongestDocumentRead) {
  TinyRun run("process");
  run.config.data.max_length = 20;
  const DrafterConfig drafter = resolve_drafter_config(run.config, run.target.info(), 39);
  const TrainPlan plan = plan_training(run.config, run.target.info(), run.data, drafter);
  EXPECT_EQ(run.target.tokens_computed, 0);  // a plan asks nothing of the target
  EXPECT_GT(process_bytes(plan, run.config, run.target, run.data.train), plan.bytes());
  EXPECT_EQ(run.target.tokens_computed, 20);  // as much of it as training keeps
}

}  // namespace
}  // namespace draftsmith
