// The trainer: one optimizer step from packs to new weights, and the same objective measured on held-out documents. It
// holds the drafter's masters, the optimizer and the features it has seen; run/ holds what a run is around it (when to
// save, log, stop).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/ranks/ranks.h"
#include "draftsmith/target/target.h"
#include "draftsmith/train/feature_cache.h"
#include "draftsmith/train/optimizer.h"
#include "draftsmith/train/pack_schedule.h"

namespace draftsmith {

// Figures of all ranks together, but for the seconds.
struct StepReport {
  LossSums sums;  // over the step's packs
  double grad_norm = 0;
  std::int64_t epoch = 0;
  std::int64_t packs = 0, tokens = 0;  // packs and context tokens of the step
  double seconds = 0;                  // of this rank, without the target's forward
};

struct TrainerParts {
  const RunConfig& config;
  std::unique_ptr<Drafter> drafter;  // fp32 masters; trained in place
  Target& target;
  const DataFolder& data;
  Ranks& ranks;
  DraftVocab vocab;
  NoticeFn notice;
};

class Trainer {
 public:
  // Keeps references to the configuration, the target, the data and the ranks. Every rank starts with the first one's
  // drafter.
  explicit Trainer(TrainerParts parts);

  // The next optimizer step: each rank takes its share of the packs, then all take the same step.
  StepReport step(double learning_rate);
  // The work of the next step's first pack without its effect: the gradient is thrown away, the features stay. For
  // timing; every rank does it alone.
  StepReport rehearse();
  // Loss sums over held-out documents (at most eval.prompts, spread evenly), always with the same anchors; num_blocks 0
  // when there are none.
  LossSums evaluate();

  std::int64_t num_steps() const { return optimizer_.num_steps(); }
  const Drafter& drafter() const { return *drafter_; }
  const DraftVocab& vocab() const { return frozen_.vocab; }
  Optimizer& optimizer() { return optimizer_; }
  PackSchedule& schedule() { return schedule_; }
  const FeatureCache& features() const { return features_; }
  const DataSet& held_out() const { return held_out_; }

 private:
  // The objective of one pack, with gradients unless they are off.
  LossSums sums_of(const Pack& pack, FeatureCache& features, Rng rng);
  // Adds the gradient of pack number `index` of a step; returns its sums.
  LossSums add_pack(const StepPacks& packs, std::int64_t index);
  void sum_over_ranks(LossSums& sums);

  const RunConfig& config_;
  Ranks& ranks_;
  const ObjectiveOptions objective_;
  const DataSet held_out_;
  PackSchedule schedule_;
  const std::unique_ptr<Drafter> drafter_;
  const Frozen frozen_;
  Optimizer optimizer_;
  FeatureCache features_, held_out_features_;
};

}  // namespace draftsmith
