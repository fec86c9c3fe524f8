#include "draftsmith/train/measure_step.h"

#include <gtest/gtest.h>

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

// What `train --dry-run` says of a step, against the kernel's count.
TEST(MeasureStep, TheEstimateOfItsMemoryIsWithin15Percent) {
  for (const bool recompute : {false, true}) {
    for (const Compute compute : {Compute::kBFloat16, Compute::kFloat32}) {
      const StepShape shape = test_shape();
      StepMeasure measure(shape, compute, recompute);
      measure.step();
      const auto measured = static_cast<double>(measure.extra_bytes() + 4 * num_parameters(shape.drafter));
      const auto estimate = static_cast<double>(step_peak_bytes(shape.drafter, compute,
                                                                {.context = shape.row_tokens,
                                                                 .queries = shape.anchors * shape.drafter.block_size,
                                                                 .recompute = recompute,
                                                                 .logits_bytes = LossOptions().logits_bytes}));
      EXPECT_NEAR(estimate / measured, 1.0, 0.15) << "recompute " << recompute << ", " << measured / 1e6 << " MB";
    }
  }
}

}  // namespace
}  // namespace draftsmith
