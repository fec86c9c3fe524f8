#include "draftsmith/train/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <utility>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/base/stopwatch.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
// Held-out packs draw their anchors from a stream that no step has.
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
      ranks_(parts.ranks),
      objective_(objective_of(parts.config.train)),
      held_out_(held_out_documents(parts.data, parts.config)),
      schedule_(parts.data.train, parts.config),
      drafter_(std::move(parts.drafter)),
      frozen_(freeze(parts.target.embedding(), parts.target.head(), parts.vocab, drafter_->place())),
      optimizer_(drafter_->params(), parts.config.train),
      features_(
          parts.target, parts.data.train,
          cache_options(*drafter_, parts, parts.config.train.feature_cache_mb, parts.config.train.feature_disk_mb)),
      held_out_features_(parts.target, held_out_, cache_options(*drafter_, parts, held_out_cache_mb(parts.config), 0)) {
  for (const Param& param : drafter_->params()) ranks_.broadcast(param.tensor.detach());
}

StepReport Trainer::step(double learning_rate) {
  Stopwatch watch;
  const double feature_seconds = features_.computed_seconds();
  const StepPacks packs = schedule_.at(num_steps());
  StepReport report{.sums = {}, .epoch = packs.epoch, .packs = static_cast<std::int64_t>(packs.packs.size())};
  for (std::int64_t i = 0; i < report.packs; ++i) {
    report.tokens += schedule_.num_tokens(packs.packs[i]);
    if (ranks_.takes(i)) report.sums.add(add_pack(packs, i));
  }
  sum_over_ranks(report.sums);
  require(std::isfinite(report.sums.loss_sum), "the loss of step ", num_steps() + 1,
          " is not finite; lower train.learning_rate or set train.compute to fp32");
  optimizer_.sum_gradients(ranks_);
  report.grad_norm = optimizer_.step(report.sums.weight_sum, learning_rate);
  report.seconds = watch.lap() - (features_.computed_seconds() - feature_seconds);
  return report;
}

LossSums Trainer::sums_of(const Pack& pack, FeatureCache& features, Rng rng) {
  const std::vector<std::int64_t> anchors = sample_anchors(pack, anchor_options(config_), rng);
  const PackFeatures states = features.pack_features(pack.documents, pack.length);
  return drafter_->objective(
      frozen_, {.pack = pack, .anchors = anchors, .taps = states.taps, .final_state = states.final_state}, objective_);
}

LossSums Trainer::add_pack(const StepPacks& packs, std::int64_t index) {
  const Rng rng(config_.seed, RngPurpose::kAnchors,
                {static_cast<std::uint64_t>(num_steps()), static_cast<std::uint64_t>(index)});
  return sums_of(schedule_.make(packs.packs[index], packs.epoch), features_, rng);
}

void Trainer::sum_over_ranks(LossSums& sums) {
  const auto slots = static_cast<std::size_t>(drafter_->config().block_size);
  sums.slot_mask.resize(slots);  // a rank without a pack has none
  sums.slot_correct.resize(slots);
  std::vector<double*> numbers = {&sums.loss_sum,    &sums.weight_sum,   &sums.mask_sum,
                                  &sums.correct_sum, &sums.accepted_sum, &sums.num_blocks};
  for (double& number : sums.slot_mask) numbers.push_back(&number);
  for (double& number : sums.slot_correct) numbers.push_back(&number);
  const at::Tensor all = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kDouble);
  double* values = all.mutable_data_ptr<double>();
  for (std::size_t i = 0; i < numbers.size(); ++i) values[i] = *numbers[i];
  ranks_.sum(all);
  for (std::size_t i = 0; i < numbers.size(); ++i) *numbers[i] = values[i];
}

StepReport Trainer::rehearse() {
  Stopwatch watch;
  const double feature_seconds = features_.computed_seconds();
  const StepPacks packs = schedule_.at(num_steps());
  StepReport report{.sums = add_pack(packs, 0),
                    .epoch = packs.epoch,
                    .packs = 1,
                    .tokens = schedule_.num_tokens(packs.packs.front())};
  optimizer_.clear_gradients();
  report.seconds = watch.lap() - (features_.computed_seconds() - feature_seconds);
  return report;
}

LossSums Trainer::evaluate() {
  const at::NoGradGuard no_grad;
  LossSums sums;
  const PackOptions options = pack_options(config_, 0);
  const PackPlan plan = plan_packs(held_out_, options);
  for (std::size_t i = 0; i < plan.packs.size(); ++i) {
    if (!ranks_.takes(static_cast<std::int64_t>(i))) continue;
    const Pack pack = make_pack(held_out_, plan.packs[i], options);
    sums.add(sums_of(pack, held_out_features_, Rng(config_.seed, RngPurpose::kAnchors, {kHeldOutStream, i})));
  }
  sum_over_ranks(sums);
  return sums;
}

}  // namespace draftsmith
