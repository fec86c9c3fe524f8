#include "draftsmith/bench/smoke.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "draftsmith/base/check.h"
#include "draftsmith/bench/random_batch.h"
#include "draftsmith/nn/kernels.h"

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

TEST(Smoke, AWholePackPassesWithASmallerVocabulary) {
  RunConfig config = small_recipe();
  config.draft.vocab_size = 100;
  const SmokeReport report = smoke(config, drafter_config_without_target(config), {.row_tokens = 200, .anchors = 30});
  EXPECT_TRUE(report.all_ok()) << failures(report);
  ASSERT_EQ(report.passes.size(), 1u);
  EXPECT_EQ(report.passes[0].anchors, 30);
}

// A drafter whose loss is not a number is found.
TEST(Smoke, ALossThatIsNotFiniteFails) {
  RunConfig config = small_recipe();
  DrafterConfig drafter = drafter_config_without_target(config);
  drafter.norm_eps = std::numeric_limits<double>::quiet_NaN();
  const SmokeReport report = smoke(config, drafter, {});
  EXPECT_FALSE(report.all_ok());
  EXPECT_NE(failures(report).find("loss is finite"), std::string::npos);
  EXPECT_NE(to_text(report).find("FAILED"), std::string::npos);
}

// A drafter whose objective does something that it must not: each check of the smoke test has to find it.
class FaultyDrafter final : public Drafter {
 public:
  using Fault = std::function<void(LossSums& sums, const Batch& batch)>;
  FaultyDrafter(const DrafterConfig& config, const Place& place, Fault fault)
      : inner_(random_drafter(config, place, place.compute, 1)), fault_(std::move(fault)) {}
  const DrafterConfig& config() const override { return inner_->config(); }
  const Place& place() const override { return inner_->place(); }
  ParamList params() const override { return inner_->params(); }
  LossSums objective(const Frozen& frozen, const Batch& batch, const ObjectiveOptions& options) override {
    LossSums sums = inner_->objective(frozen, batch, options);
    fault_(sums, batch);
    return sums;
  }
  std::unique_ptr<Drafter> for_decoding(const Place& place) const override { return inner_->for_decoding(place); }
  std::unique_ptr<DraftSession> session(const Frozen& frozen, std::int64_t capacity) const override {
    return inner_->session(frozen, capacity);
  }
  std::int64_t max_drafts() const override { return inner_->max_drafts(); }
  void start_random(Rng& rng, const at::Tensor& head) override { inner_->start_random(rng, head); }
  void start_from_target(const TargetWeightFn& weight) override { inner_->start_from_target(weight); }
  GgufDescription gguf() const override { return inner_->gguf(); }
  StepFlops step_flops(const Frozen& frozen, const Batch& batch) const override {
    return inner_->step_flops(frozen, batch);
  }
  std::int64_t step_bytes(const StepSize& size) const override { return inner_->step_bytes(size); }

 private:
  std::unique_ptr<Drafter> inner_;
  Fault fault_;
};

std::string failures_of(const FaultyDrafter::Fault& fault) {
  const RunConfig config = small_recipe();
  const DrafterConfig shape = drafter_config_without_target(config);
  const Place place = place_of(config.train.compute);
  FaultyDrafter drafter(shape, place, fault);
  return failures(smoke(drafter, random_frozen(shape, place, 0.02, 1), config, {}));
}

TEST(Smoke, EveryCheckFindsItsFault) {
  EXPECT_EQ(failures_of([](LossSums&, const Batch&) {}), "");
  const auto expect_found = [](const char* check, const FaultyDrafter::Fault& fault) {
    EXPECT_NE(failures_of(fault).find(check), std::string::npos) << check;
  };
  expect_found("accuracy lies in 0 .. 1", [](LossSums& sums, const Batch&) { sums.correct_sum = 2 * sums.mask_sum; });
  expect_found("no gradient crosses documents", [](LossSums&, const Batch& batch) {
    if (batch.taps.grad().defined()) batch.taps.grad().add_(1e-3);
  });
  expect_found("no document reads another", [](LossSums& sums, const Batch& batch) {
    for (const std::int32_t id : batch.pack.token_ids) sums.loss_sum += id;
  });
  // Only the result of the kernels is wrong here, not that of the definitions.
  expect_found("kernels as their definitions, backward", [](LossSums&, const Batch& batch) {
    if (batch.taps.grad().defined() && has_kernels(batch.taps)) batch.taps.grad().mul_(1.01);
  });
}

TEST(Smoke, AGradientThatNeverComesIsFound) {
  const RunConfig config = small_recipe();
  const DrafterConfig shape = drafter_config_without_target(config);
  const Place place = place_of(config.train.compute);
  const auto drafter = random_drafter(shape, place, place.compute, 1);
  param_of(*drafter, "layers.0.self_attn.o_proj.weight").zero_();  // nothing of the attention reaches the loss
  const std::string found = failures(smoke(*drafter, random_frozen(shape, place, 0.02, 1), config, {}));
  EXPECT_NE(found.find("every gradient is finite and not zero"), std::string::npos) << found;
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
