#include "draftsmith/bench/measure_step.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "draftsmith/base/check.h"
#include "draftsmith/base/median.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/base/stopwatch.h"
#include "draftsmith/bench/random_batch.h"
#include "draftsmith/nn/attention.h"
#include "draftsmith/nn/large_blocks.h"
#include "draftsmith/nn/product.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/train/optimizer.h"

namespace draftsmith {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kLearningRate = 1e-4;

DrafterConfig shape_of(std::int64_t hidden, std::int64_t intermediate, std::int64_t layers, std::int64_t vocab) {
  DrafterConfig config;
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_layers = layers;
  config.vocab_size = vocab;
  config.mask_token_id = static_cast<std::int32_t>(vocab - 1);
  config.target_layer_ids = {1, 7, 14, 20, 26};
  config.num_target_layers = 30;
  config.layer_kinds.assign(static_cast<std::size_t>(layers), LayerKind::kFull);
  return config;
}

}  // namespace

StepShape step_shape(const std::string& name) {
  StepShape shape{.name = name, .drafter = {}};
  if (name == "small") {
    shape.drafter = shape_of(576, 1536, 3, 49152);
    shape.drafter.num_heads = 9, shape.drafter.num_kv_heads = 3, shape.drafter.head_dim = 64;
    shape.drafter.block_size = 8;
    shape.row_tokens = 512, shape.anchors = 192, shape.held_ratio = 0.55;
  } else if (name == "mid") {
    shape.drafter = shape_of(2048, 6144, 5, 151936);
    shape.drafter.num_heads = 16, shape.drafter.num_kv_heads = 8, shape.drafter.head_dim = 128;
    shape.drafter.block_size = 16;
    shape.row_tokens = 2048, shape.anchors = 128, shape.held_ratio = 0.67;
  } else {
    throw UsageError("the shape of a step is '" + name + "', but it must be small or mid");
  }
  return shape;
}

double StepTime::rest() const { return seconds - std::accumulate(parts.begin(), parts.end(), 0.0); }

struct StepMeasure::State {
  StepShape shape;
  bool recompute;
  Frozen frozen;  // embedding and head are one tensor
  std::unique_ptr<Drafter> drafter;
  TrainConfig train;
  std::unique_ptr<Optimizer> optimizer;
  Pack pack;
  std::vector<std::int64_t> anchors;
  at::Tensor taps;

  Batch batch() const { return {.pack = pack, .anchors = anchors, .taps = taps}; }
};

StepMeasure::StepMeasure(StepShape shape, const Place& place, bool recompute) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.shape = std::move(shape), s.recompute = recompute;
  const DrafterConfig& config = s.shape.drafter;
  s.frozen = random_frozen(config, place, 0.1, kSeed);
  s.drafter = random_drafter(config, place, at::kFloat, kSeed);
  s.optimizer = std::make_unique<Optimizer>(s.drafter->params(), s.train);
  const std::vector<std::int64_t> lengths = {s.shape.row_tokens};
  s.pack = random_pack(config, lengths, kSeed);
  s.anchors = random_anchors(s.pack, s.shape.anchors, kSeed);
  s.shape.anchors = static_cast<std::int64_t>(s.anchors.size());
  s.taps = random_taps(config, s.pack.length, at::kBFloat16, kSeed);
}

StepMeasure::~StepMeasure() = default;

const StepShape& StepMeasure::shape() const { return state_->shape; }

StepTime StepMeasure::step() {
  State& s = *state_;
  StepClock clock;
  Stopwatch watch;
  const LossSums sums = s.drafter->objective(s.frozen, s.batch(), {.recompute = s.recompute});
  s.optimizer->step(sums.weight_sum, kLearningRate);
  return {.seconds = watch.lap(), .parts = clock.seconds()};
}

std::int64_t StepMeasure::extra_bytes() {
  release_attention_workspace();
  empty_block_cache();
  reset_peak_memory();
  const std::int64_t kept = resident_bytes();
  step();
  const std::int64_t gradients = 4 * num_parameters(*state_->drafter);
  return peak_resident_bytes() - kept - gradients;
}

StepFlops StepMeasure::flops() const { return state_->drafter->step_flops(state_->frozen, state_->batch()); }

double StepMeasure::visible_pairs() const {
  const DrafterConfig& config = state_->shape.drafter;
  return flops().attention / (14.0 * static_cast<double>(config.head_dim * config.num_heads * config.num_layers));
}

void StepMeasure::write_batch(const std::filesystem::path& file) const {
  const State& s = *state_;
  const at::Tensor tokens = at::tensor(s.pack.token_ids).to(at::kLong),
                   mask = at::ones({s.pack.length}, at::TensorOptions(at::kFloat)), anchors = at::tensor(s.anchors);
  const std::vector<TensorToWrite> tensors = {tensor_to_write("token_ids", tokens), tensor_to_write("loss_mask", mask),
                                              tensor_to_write("target_hidden", s.taps),
                                              tensor_to_write("anchors", anchors)};
  write_safetensors(file, tensors, {});
}

GemmReference::GemmReference(at::ScalarType type) {
  for (const std::int64_t size : {1024, 2048, 4096}) {
    factors_.push_back(random_matrix(size, size, 1.0, type, kSeed, 1));
    products_.push_back(at::empty_like(factors_.back()));
  }
}

double GemmReference::rate() {
  double best = 0;
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    product_out(products_[i], factors_[i], factors_[i]);
    Stopwatch watch;
    product_out(products_[i], factors_[i], factors_[i]);
    const auto n = static_cast<double>(factors_[i].size(0));
    best = std::max(best, 2 * n * n * n / watch.lap());
  }
  return best;
}

StepResult measure_step(const StepShape& shape, const Place& place, bool recompute, std::int64_t repeats) {
  StepMeasure measure(shape, place, recompute);
  GemmReference reference(place.compute);
  StepResult result;
  result.shape = measure.shape();
  result.flops = measure.flops();
  measure.step();
  result.extra_bytes = measure.extra_bytes();
  std::vector<StepTime> times;
  std::vector<double> rates;
  for (std::int64_t i = 0; i < repeats; ++i) {
    rates.push_back(reference.rate());
    times.push_back(measure.step());
    result.seconds.push_back(times.back().seconds);
  }
  std::sort(times.begin(), times.end(), [](const StepTime& a, const StepTime& b) { return a.seconds < b.seconds; });
  result.gemm_rate = median_of(rates);
  result.median = times[times.size() / 2];
  return result;
}

}  // namespace draftsmith
