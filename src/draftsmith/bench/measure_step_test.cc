#include "draftsmith/bench/measure_step.h"

#include <gtest/gtest.h>

#include "draftsmith/base/check.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/nn/large_blocks.h"

namespace draftsmith {
namespace {

TEST(MeasureStep, PartsAddUpToTheStep) {
  StepShape shape = step_shape("small");
  shape.drafter.vocab_size = 20000, shape.drafter.mask_token_id = 19999;
  shape.row_tokens = 400, shape.anchors = 160;
  StepMeasure measure(shape, {.compute = at::kBFloat16}, false);
  measure.step();
  const StepTime time = measure.step();
  for (const double part : time.parts) EXPECT_GT(part, 0);
  EXPECT_GT(time.rest(), 0);
  EXPECT_LT(time.rest(), time.seconds / 2);
  EXPECT_GT(measure.flops().total(), 0);
  EXPECT_THROW(step_shape("large"), UsageError);
}

// What `train --dry-run` says of a step, against the kernel's count, on a shape whose tensors are large blocks: smaller
// ones leave gaps that depend on what ran before.
void expect_estimate(at::ScalarType compute, bool recompute) {
  give_large_blocks_back();
  reuse_large_blocks();
  StepShape shape = step_shape("mid");
  shape.drafter.num_layers = 2, shape.drafter.layer_kinds.resize(2);
  shape.drafter.vocab_size = 8192, shape.drafter.mask_token_id = 8191;
  shape.row_tokens = 1024, shape.anchors = 64;
  StepMeasure measure(shape, {.compute = compute}, recompute);
  measure.step();
  const std::int64_t features = shape.row_tokens * shape.drafter.num_taps() * shape.drafter.hidden_size * 2,
                     gradients = 4 * num_parameters(*drafter_shapes(shape.drafter));
  const auto measured = static_cast<double>(measure.extra_bytes() + gradients + features);
  const StepSize size{.context = shape.row_tokens,
                      .anchors = shape.anchors,
                      .recompute = recompute,
                      .logits_bytes = LossOptions().logits_bytes};
  const auto expected = static_cast<double>(drafter_shapes(shape.drafter, {.compute = compute})->step_bytes(size));
  EXPECT_NEAR(expected / measured, 1.0, 0.15) << measured / 1e6 << " MB";
}

TEST(StepMemoryBars, OfABFloat16StepIsWithin15Percent) { expect_estimate(at::kBFloat16, false); }
TEST(StepMemoryBars, OfAFloatStepIsWithin15Percent) { expect_estimate(at::kFloat, false); }
TEST(StepMemoryBars, OfLayersComputedAgainInBFloat16IsWithin15Percent) { expect_estimate(at::kBFloat16, true); }
TEST(StepMemoryBars, OfLayersComputedAgainInFloatIsWithin15Percent) { expect_estimate(at::kFloat, true); }

}  // namespace
}  // namespace draftsmith
