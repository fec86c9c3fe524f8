#include "draftsmith/train/trainer.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <utility>

#include "draftsmith/base/check.h"
#include "draftsmith/base/stopwatch.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
// Held-out rows draw their anchors from a stream that no step has.
constexpr std::uint64_t kHeldOutStream = ~std::uint64_t{0};

FeatureCacheOptions cache_options(const Drafter& drafter, const TrainerParts& parts, std::int64_t memory_mb,
                                  std::int64_t disk_mb) {
  return {.taps = drafter.config().target_layer_ids,
          .with_final_state = parts.config.train.soft_labels > 0,
          .memory_bytes = memory_mb * kMegabyte,
          .disk_bytes = disk_mb * kMegabyte,
          .folder = parts.config.output,
          .notice = parts.notice};
}

ObjectiveOptions objective_of(const TrainConfig& train) {
  return {.loss = {.kind = train.loss,
                   .gamma = train.gamma,
                   .dpace_alpha = train.dpace_alpha,
                   .soft_share = train.soft_labels},
          .recompute = train.recompute};
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : config_(parts.config),
      data_(parts.data),
      objective_(objective_of(parts.config.train)),
      held_out_(held_out_documents(parts.data, parts.config)),
      rows_(parts.data.train, parts.config),
      drafter_(std::move(parts.drafter)),
      frozen_(freeze(parts.target.embedding(), parts.target.head(), parts.vocab, drafter_->place())),
      optimizer_(drafter_->params(), parts.config.train),
      features_(
          parts.target, parts.data.train,
          cache_options(*drafter_, parts, parts.config.train.feature_cache_mb, parts.config.train.feature_disk_mb)),
      held_out_features_(parts.target, held_out_, cache_options(*drafter_, parts, held_out_cache_mb(parts.config), 0)) {
}

StepReport Trainer::step(double learning_rate) {
  Stopwatch watch;
  const double feature_seconds = features_.computed_seconds();
  const std::int64_t step = num_steps();
  const StepRows step_rows = rows_.at(step);
  StepReport report;
  report.epoch = step_rows.epoch;
  for (std::size_t micro = 0; micro < step_rows.rows.size(); ++micro) {
    const Pack pack = make_pack(data_.train, step_rows.rows[micro], rows_.pack_options(step_rows.epoch));
    report.sums.add(add_pack(pack, step, micro));
    report.tokens += pack.num_tokens();
    ++report.rows;
  }
  require(std::isfinite(report.sums.loss_sum), "the loss of step ", step + 1,
          " is not finite; lower train.learning_rate or set train.compute to fp32");
  report.grad_norm = optimizer_.step(report.sums.weight_sum, learning_rate);
  report.seconds = watch.lap() - (features_.computed_seconds() - feature_seconds);
  return report;
}

LossSums Trainer::sums_of(const Pack& pack, FeatureCache& features, Rng rng) {
  const std::vector<std::int64_t> anchors = sample_anchors(pack, rows_.anchor_options(), rng);
  const PackFeatures states = features.pack_features(pack.documents, pack.length);
  return drafter_->objective(
      frozen_, {.pack = pack, .anchors = anchors, .taps = states.taps, .final_state = states.final_state}, objective_);
}

LossSums Trainer::add_pack(const Pack& pack, std::uint64_t step, std::uint64_t micro) {
  return sums_of(pack, features_, Rng(config_.seed, RngPurpose::kAnchors, {step, micro}));
}

StepReport Trainer::rehearse() {
  Stopwatch watch;
  const double feature_seconds = features_.computed_seconds();
  const StepRows step_rows = rows_.at(num_steps());
  StepReport report;
  const Pack pack = make_pack(data_.train, step_rows.rows.front(), rows_.pack_options(step_rows.epoch));
  report.sums.add(add_pack(pack, num_steps(), 0));
  optimizer_.clear_gradients();
  report.rows = 1;
  report.tokens = pack.num_tokens();
  report.seconds = watch.lap() - (features_.computed_seconds() - feature_seconds);
  return report;
}

LossSums Trainer::evaluate() {
  const at::NoGradGuard no_grad;
  LossSums sums;
  const PackOptions options = rows_.pack_options(0);
  const PackPlan plan = plan_packs(held_out_, options);
  for (std::size_t row = 0; row < plan.rows.size(); ++row) {
    const Pack pack = make_pack(held_out_, plan.rows[row], options);
    sums.add(sums_of(pack, held_out_features_, Rng(config_.seed, RngPurpose::kAnchors, {kHeldOutStream, row})));
  }
  return sums;
}

}  // namespace draftsmith
