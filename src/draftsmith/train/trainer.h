// The trainer: one optimizer step from packed rows to new weights, and the same objective measured on held-out
// documents. It holds the drafter's masters, the optimizer and the features it has seen; what a run is around it (when
// to save, log, stop) is train.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/nn/attention.h"
#include "draftsmith/target/target.h"
#include "draftsmith/train/feature_cache.h"
#include "draftsmith/train/optimizer.h"
#include "draftsmith/train/rows.h"

namespace draftsmith {

struct StepReport {
  LossResult sums;  // over the step's rows; sums only
  double grad_norm = 0;
  std::int64_t epoch = 0;
  std::int64_t rows = 0, tokens = 0;  // rows and context tokens of the step
  double seconds = 0;                 // without the target's forward
};

struct TrainerParts {
  const RunConfig& config;
  const DrafterConfig& drafter;
  Target& target;
  const DataFolder& data;
  DrafterParams params;  // fp32 masters; trained in place
  DraftVocab vocab;
  NoticeFn notice;
  // What plain attention may compute of scores in a layer; more is refused.
  std::int64_t most_plain_score_bytes = std::int64_t{2} << 30;
};

// What train.compute asks for.
Compute compute_of(const RunConfig& config);

// Which way the attention of a run takes, and what that means, in words. Throws UserError where plain attention would
// compute more than `most_score_bytes` of scores.
AttentionPath attention_path_of(const RunConfig& config, const DrafterConfig& drafter, const NoticeFn& notice,
                                std::int64_t most_score_bytes);

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
  LossResult evaluate();

  std::int64_t num_steps() const { return optimizer_.num_steps(); }
  const DrafterParams& params() const { return params_; }
  const DraftVocab& vocab() const { return vocab_; }
  Optimizer& optimizer() { return optimizer_; }
  RowSchedule& rows() { return rows_; }
  const FeatureCache& features() const { return features_; }
  const DataSet& held_out() const { return held_out_; }

 private:
  BlockInputs block_inputs(const Pack& pack, const std::vector<std::int64_t>& anchors) const;
  at::Tensor embed(const BlockInputs& blocks) const;
  at::Tensor forward(const BlockInputs& blocks, const PackFeatures& features) const;
  // The loss of hidden states [A*B, H]; soft labels come from the features' final states.
  LossResult loss(const at::Tensor& hidden, const BlockInputs& blocks, const PackFeatures& features) const;
  // Adds the gradient of one row; returns its sums.
  LossResult add_row(const Pack& pack, std::uint64_t step, std::uint64_t micro);

  const RunConfig& config_;
  const DrafterConfig drafter_;
  const DataFolder& data_;
  const Compute compute_;
  const AttentionPath attention_path_;
  const LossOptions loss_options_;
  const DataSet held_out_;
  RowSchedule rows_;
  const DraftVocab vocab_;
  const std::vector<std::int32_t> head_rows_;  // of the target's ids; empty when the vocabulary is whole
  at::Tensor embedding_, head_;                // [V, H], [V_draft, H], frozen, in the compute type
  DrafterParams params_;
  Optimizer optimizer_;
  FeatureCache features_, held_out_features_;
};

}  // namespace draftsmith
