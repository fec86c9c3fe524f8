// The signature of training is the losses of ten steps of two small fixed runs, as literals. Whoever changes what is
// computed sees it here first; a change that is meant changes the literals and says why. The runs use fp32 and the
// scalar kernels (the test's environment sets FLEX_ISA), so that the numbers are the same on every processor but for
// the last bits of the library's products.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "draftsmith/draft/recipe.h"
#include "draftsmith/nn/kernels.h"
#include "draftsmith/run/test_run.h"
#include "flex/isa.h"

namespace draftsmith {
namespace {

constexpr double kBound = 1e-6;  // relative; the library's products differ by less than 1e-7 between processors

std::vector<double> losses_of(TinyRun& run) {
  run.config.train.max_steps = 10;
  const DrafterConfig drafter = resolve_drafter_config(run.config, run.target.info(), 39);
  train_alone(run, drafter, /*resume=*/false, TrainHooks{});
  std::vector<double> losses;
  std::ifstream in(run.config.output + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (losses.size() < 10) losses.push_back(object.at("loss").get<double>());
  }
  return losses;
}

void expect_losses(const std::vector<double>& losses, const std::vector<double>& expected) {
  ASSERT_EQ(flex::default_isa(), flex::Isa::kScalar) << "run with FLEX_ISA=scalar";
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], kBound * expected[i]) << "step " << i + 1;
  }
}

void expect_full_layers() {
  TinyRun run("signature_full");
  expect_losses(losses_of(run), {5.749438624, 5.239317719, 4.687391736, 4.028971426, 4.001012584, 3.785160318,
                                 3.577349800, 3.727463858, 3.640417105, 3.593033391});
}

// This run has sliding layers, D-PACE, soft labels, a smaller vocabulary, two packs a step, and recomputed layers.
void expect_everything_else() {
  TinyRun run("signature_all");
  run.config.draft.sliding_layers = {1};
  run.config.draft.sliding_window = 6;
  run.config.draft.vocab_size = 32;
  run.config.train.loss = LossKind::kDpace;
  run.config.train.soft_labels = 0.3;
  run.config.train.accumulation = 2;
  run.config.train.recompute = true;
  expect_losses(losses_of(run), {3.725142498, 3.669288582, 3.489447071, 3.218604122, 2.899019562, 2.781424226,
                                 2.428250050, 2.271260181, 2.133709501, 2.174974755});
}

TEST(Signature, TenStepsOfFullLayers) { expect_full_layers(); }
TEST(Signature, TenStepsOfEverythingElse) { expect_everything_else(); }

// The definitions alone give the same losses, so a device without kernels of ours only needs ATen.
TEST(Signature, DefinitionsAloneTrainFullLayersAlike) {
  const OnDefinitions definitions;
  expect_full_layers();
}
TEST(Signature, DefinitionsAloneTrainEverythingElseAlike) {
  const OnDefinitions definitions;
  expect_everything_else();
}

}  // namespace
}  // namespace draftsmith
