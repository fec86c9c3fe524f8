// Measures a training step of a drafter of a given shape on one random pack: the time of each part (forward, head and
// loss, backward, optimizer), the number of its operations, and the memory that it needs beyond what must be kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "draftsmith/draft/drafter.h"
#include "draftsmith/nn/step_clock.h"

namespace draftsmith {

struct StepShape {
  std::string name;
  DrafterConfig drafter;
  std::int64_t row_tokens = 0, anchors = 0;
  double held_ratio = 0;  // share of the GEMM rate that a step of this shape must reach; 0 = no threshold
};
// "small": 576 / 1536, 9/3 heads of 64, 3 layers, 5 taps, 49,152 ids, 512 tokens, 192 anchors of 8; "mid": 2048 / 6144,
// 16/8 heads of 128, 5 layers, 5 taps, 151,936 ids, 2048 tokens, 128 anchors of 16. UsageError for other names.
StepShape step_shape(const std::string& name);

struct StepTime {
  double seconds = 0;
  std::array<double, kNumStepParts> parts = {};
  double rest() const;  // the time that belongs to no part
};

class StepMeasure {
 public:
  StepMeasure(StepShape shape, const Place& place, bool recompute);
  ~StepMeasure();
  StepTime step();
  // Does one more step and returns its peak bytes beyond parameters, gradients, moments, embedding and head. The
  // attention's workspace counts.
  std::int64_t extra_bytes();
  const StepShape& shape() const;
  StepFlops flops() const;
  double visible_pairs() const;  // queries times keys they see, of one head and layer
  // Writes what another trainer needs to do the same step: token_ids I64 [S], loss_mask F32 [S], target_hidden BF16
  // [S, K*H], anchors I64 [A].
  void write_batch(const std::filesystem::path& file) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Measures the best of three square products (1024, 2048, 4096). Its matrices stay allocated, so that a step measured
// between two rates finds the memory of the step before.
class GemmReference {
 public:
  explicit GemmReference(at::ScalarType type);
  double rate();  // operations a second, once over each size

 private:
  std::vector<at::Tensor> factors_, products_;
};

struct StepResult {
  StepShape shape;
  StepFlops flops;
  StepTime median;              // of the step in the middle
  std::vector<double> seconds;  // of every step
  double gemm_rate = 0;         // median of the interleaved measurements
  std::int64_t extra_bytes = 0;
  double ratio() const { return flops.total() / median.seconds / gemm_rate; }
};
// Measures `repeats` steps and the GEMM before each of them. Two steps before that are not counted.
StepResult measure_step(const StepShape& shape, const Place& place, bool recompute, std::int64_t repeats);

}  // namespace draftsmith
