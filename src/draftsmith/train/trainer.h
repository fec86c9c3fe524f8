// The trainer: one optimizer step from packed rows to new weights, and the same objective measured on held-out
// documents. It holds the drafter's masters, the optimizer and the features it has seen; what a run is around it (when
// to save, log, stop) is train.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/target/target.h"
#include "draftsmith/train/feature_cache.h"
#include "draftsmith/train/optimizer.h"
#include "draftsmith/train/rows.h"

namespace draftsmith {

struct StepReport {
  LossSums sums;  // over the step's packs
  double grad_norm = 0;
  std::int64_t epoch = 0;
  std::int64_t rows = 0, tokens = 0;  // rows and context tokens of the step
  double seconds = 0;                 // without the target's forward
};

struct TrainerParts {
  const RunConfig& config;
  std::unique_ptr<Drafter> drafter;  // fp32 masters; trained in place
  Target& target;
  const DataFolder& data;
  DraftVocab vocab;
  NoticeFn notice;
};

class Trainer {
 public:
  // Keeps references to the configuration, the target and the data.
  explicit Trainer(TrainerParts parts);

  // The next optimizer step.
  StepReport step(double learning_rate);
  // The work of the next step's first row without its effect: the gradient is thrown away, the features stay. For
  // timing.
  StepReport rehearse();
  // Loss sums over held-out documents (at most eval.prompts, spread evenly), always with the same anchors; num_blocks 0
  // when there are none.
  LossSums evaluate();

  std::int64_t num_steps() const { return optimizer_.num_steps(); }
  const Drafter& drafter() const { return *drafter_; }
  const DraftVocab& vocab() const { return frozen_.vocab; }
  Optimizer& optimizer() { return optimizer_; }
  RowSchedule& rows() { return rows_; }
  const FeatureCache& features() const { return features_; }
  const DataSet& held_out() const { return held_out_; }

 private:
  // The objective of one pack, with gradients unless they are off.
  LossSums sums_of(const Pack& pack, FeatureCache& features, Rng rng);
  // Adds the gradient of one pack of a step; returns its sums.
  LossSums add_pack(const Pack& pack, std::uint64_t step, std::uint64_t micro);

  const RunConfig& config_;
  const DataFolder& data_;
  const ObjectiveOptions objective_;
  const DataSet held_out_;
  RowSchedule rows_;
  const std::unique_ptr<Drafter> drafter_;
  const Frozen frozen_;
  Optimizer optimizer_;
  FeatureCache features_, held_out_features_;
};

}  // namespace draftsmith
