#include "draftsmith/train/measure_step.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/draft/step_memory.h"

namespace draftsmith {
namespace {

StepShape test_shape() {
  StepShape shape = step_shape("small");
  shape.drafter.vocab_size = 20000, shape.drafter.mask_token_id = 19999;
  shape.row_tokens = 400, shape.anchors = 160;
  return shape;
}

TEST(MeasureStep, PartsAddUpToTheStep) {
  StepMeasure measure(test_shape(), Compute::kBFloat16, false);
  measure.step();
  const StepTime time = measure.step();
  for (const double part : time.parts) EXPECT_GT(part, 0);
  EXPECT_GT(time.rest(), 0);
  EXPECT_LT(time.rest(), time.seconds / 2);
  EXPECT_GT(measure.flops().total(), 0);
  EXPECT_THROW(step_shape("large"), UsageError);
}

// What `train --dry-run` says of a step, against the kernel's count. The gaps that an allocator leaves differ from run
// to run (for steps this small by a fifth), so the least of a few counts.
void expect_estimate(Compute compute, bool recompute) {
  const StepShape shape = test_shape();
  double measured = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    StepMeasure measure(shape, compute, recompute);
    measure.step();
    const auto bytes = static_cast<double>(measure.extra_bytes() + 4 * num_parameters(shape.drafter));
    measured = attempt == 0 ? bytes : std::min(measured, bytes);
  }
  const StepSize size{.context = shape.row_tokens,
                      .queries = shape.anchors * shape.drafter.block_size,
                      .recompute = recompute,
                      .logits_bytes = LossOptions().logits_bytes};
  EXPECT_NEAR(static_cast<double>(step_peak_bytes(shape.drafter, compute, size)) / measured, 1.0, 0.15)
      << measured / 1e6 << " MB";
}

TEST(StepMemory, OfABFloat16StepIsWithin15Percent) { expect_estimate(Compute::kBFloat16, false); }
TEST(StepMemory, OfAFloatStepIsWithin15Percent) { expect_estimate(Compute::kFloat32, false); }
TEST(StepMemory, OfLayersComputedAgainInBFloat16IsWithin15Percent) { expect_estimate(Compute::kBFloat16, true); }
TEST(StepMemory, OfLayersComputedAgainInFloatIsWithin15Percent) { expect_estimate(Compute::kFloat32, true); }

}  // namespace
}  // namespace draftsmith
