// AdamW against its formula, and the order of division, norm and clipping.
#include "draftsmith/train/optimizer.h"

#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/draft/recipe.h"
#include "draftsmith/train/fake_target.h"

namespace draftsmith {
namespace {

struct OptimizerTest : testing::Test {
  TinyRun run{"optimizer"};
  std::unique_ptr<Drafter> drafter =
      empty_drafter(resolve_drafter_config(run.config, run.target.info(), 39), {.compute = at::kFloat});
  ParamList params = drafter->params();
  std::int64_t count = num_parameters(*drafter);

  OptimizerTest() {
    for (const Param& param : params) param.tensor.fill_(0.5);
  }
  void set_gradients(double value) {
    for (const Param& param : params) param.tensor.mutable_grad() = at::full_like(param.tensor.detach(), value);
  }
};

TEST_F(OptimizerTest, FollowsTheFormula) {
  TrainConfig config;
  config.clip = 0;
  config.weight_decay = 0.1;
  Optimizer optimizer(params, config);
  double matrix = 0.5, norm_weight = 0.5, m = 0, v = 0;
  for (int t = 1; t <= 3; ++t) {
    const double sum = 3.0 * t, weights = 6.0, rate = 0.01 * t, g = sum / weights;
    set_gradients(sum);
    EXPECT_NEAR(optimizer.step(weights, rate), g * std::sqrt(static_cast<double>(count)), 1e-3);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double move = rate * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    matrix = matrix * (1 - rate * 0.1) - move;
    norm_weight -= move;  // no decay on norms
    EXPECT_NEAR(param_of(*drafter, "fc.weight").max().item<double>(), matrix, 1e-5);
    EXPECT_NEAR(param_of(*drafter, "fc.weight").min().item<double>(), matrix, 1e-5);
    EXPECT_NEAR(param_of(*drafter, "norm.weight").max().item<double>(), norm_weight, 1e-5);
    EXPECT_FALSE(param_of(*drafter, "fc.weight").grad().defined());
  }
  EXPECT_EQ(optimizer.num_steps(), 3);
}

TEST_F(OptimizerTest, ClipsTheGlobalNormAfterDividing) {
  TrainConfig config;
  config.clip = 2;
  Optimizer optimizer(params, config);
  set_gradients(10);
  const double norm = 2.5 * std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(optimizer.step(4, 1e-3), norm, 1e-3 * norm);
  const double clipped = 2.5 * 2 / norm;  // each element
  EXPECT_NEAR(optimizer.state()[0].tensor.max().item<double>(), 0.1 * clipped, 1e-6 * clipped);
}

TEST_F(OptimizerTest, AGradientThatIsNotFiniteStopsTheRunUntouched) {
  Optimizer optimizer(params, TrainConfig());
  set_gradients(1);
  param_of(*drafter, "norm.weight").mutable_grad()[0] = std::nan("");
  try {
    optimizer.step(1, 1e-3);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("step 1"), std::string::npos);
  }
  EXPECT_EQ(param_of(*drafter, "fc.weight").detach().max().item<double>(), 0.5);
  EXPECT_EQ(optimizer.num_steps(), 0);
}

}  // namespace
}  // namespace draftsmith
