#include "draftsmith/bench/measure_step.h"

#include <gtest/gtest.h>

#include <numeric>

#include "draftsmith/base/check.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/nn/large_blocks.h"

namespace draftsmith {
namespace {

// The parts together have no more time than the step: time that is counted twice would be in two parts.
TEST(MeasureStep, EveryPartHasTimeAndNoTimeIsCountedTwice) {
  StepShape shape = step_shape("small");
  shape.drafter.vocab_size = 20000, shape.drafter.mask_token_id = 19999;
  shape.row_tokens = 400, shape.anchors = 160;
  StepMeasure measure(shape, {.compute = at::kBFloat16}, false);
  measure.step();
  const StepTime time = measure.step();
  for (std::size_t part = 0; part < kNumStepParts; ++part) EXPECT_GT(time.parts[part], 0) << kStepPartNames[part];
  EXPECT_LT(std::accumulate(time.parts.begin(), time.parts.end(), 0.0), time.seconds);
}

TEST(MeasureStep, AShapeThatIsNotKnownIsRefusedByItsName) {
  try {
    step_shape("large");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "the shape of a step is 'large', but it must be small or mid");
  }
}

// Compares what `train --dry-run` says of a step with the kernel's count. The shape's tensors are large blocks, since
// smaller ones would leave gaps that depend on what ran before.
void expect_estimate(at::ScalarType compute, bool recompute) {
  lower_mmap_threshold();
  install_block_cache();
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
