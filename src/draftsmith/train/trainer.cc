#include "draftsmith/train/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "draftsmith/base/check.h"
#include "draftsmith/base/stopwatch.h"
#include "draftsmith/draft/dflash/block_inputs.h"
#include "draftsmith/draft/dflash/layer.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
// Held-out rows draw their anchors from a stream that no step has.
constexpr std::uint64_t kHeldOutStream = ~std::uint64_t{0};

FeatureCacheOptions cache_options(const TrainerParts& parts, std::int64_t memory_mb, std::int64_t disk_mb) {
  return {.taps = parts.drafter.target_layer_ids,
          .with_final_state = parts.config.train.soft_labels > 0,
          .memory_bytes = memory_mb * kMegabyte,
          .disk_bytes = disk_mb * kMegabyte,
          .folder = parts.config.output,
          .notice = parts.notice};
}

}  // namespace

Compute compute_of(const RunConfig& config) {
  return config.train.compute == "fp32" ? Compute::kFloat32 : Compute::kBFloat16;
}

AttentionPath attention_path_of(const RunConfig& config, const DrafterConfig& drafter, const NoticeFn& notice,
                                std::int64_t most_score_bytes) {
  const bool plain = config.train.attention == "plain";
  const AttentionPath path = plain ? AttentionPath::kPlain : attention_path_for(drafter.head_dim);
  std::string text = text_of("attention: ", text_of_path(path));
  if (path == AttentionPath::kPlain) {
    if (!plain) text += text_of(" (heads are ", drafter.head_dim, " wide; fused kernels take 16 to 256)");
    const std::int64_t bytes = plain_score_bytes(drafter.num_heads, config.train.anchors_per_pack * drafter.block_size,
                                                 config.train.row_length);
    text += text_of(", ", bytes, " bytes of scores a layer");
    require(bytes <= most_score_bytes, text, ", more than ", most_score_bytes,
            "; set train.attention to fused, or allow it with --allow-unfused");
  }
  if (notice) notice(text);
  return path;
}

Trainer::Trainer(TrainerParts parts)
    : config_(parts.config),
      drafter_(parts.drafter),
      data_(parts.data),
      compute_(compute_of(parts.config)),
      attention_path_(attention_path_of(parts.config, parts.drafter, parts.notice, parts.most_plain_score_bytes)),
      loss_options_{.kind = parts.config.train.loss,
                    .gamma = parts.config.train.gamma,
                    .dpace_alpha = parts.config.train.dpace_alpha,
                    .soft_share = parts.config.train.soft_labels},
      held_out_(held_out_documents(parts.data, parts.config)),
      rows_(parts.data.train, parts.config),
      vocab_(std::move(parts.vocab)),
      head_rows_(vocab_.rows(parts.drafter.vocab_size)),
      embedding_(parts.target.embedding().to(scalar_type_of(compute_))),
      head_(draft_head(parts.target.head(), vocab_).to(scalar_type_of(compute_))),
      params_(std::move(parts.params)),
      optimizer_(params_, parts.config.train),
      features_(parts.target, parts.data.train,
                cache_options(parts, parts.config.train.feature_cache_mb, parts.config.train.feature_disk_mb)),
      held_out_features_(parts.target, held_out_, cache_options(parts, held_out_cache_mb(parts.config), 0)) {}

StepReport Trainer::step(double learning_rate) {
  Stopwatch watch;
  const double feature_seconds = features_.computed_seconds();
  const std::int64_t step = num_steps();
  const StepRows step_rows = rows_.at(step);
  StepReport report;
  report.epoch = step_rows.epoch;
  for (std::size_t micro = 0; micro < step_rows.rows.size(); ++micro) {
    const Pack pack = make_pack(data_.train, step_rows.rows[micro], rows_.pack_options(step_rows.epoch));
    report.sums.add(add_row(pack, step, micro));
    report.tokens += pack.num_tokens();
    ++report.rows;
  }
  require(std::isfinite(report.sums.loss_sum), "the loss of step ", step + 1,
          " is not finite; lower train.learning_rate or set train.compute to fp32");
  report.grad_norm = optimizer_.step(report.sums.weight_sum, learning_rate);
  report.seconds = watch.lap() - (features_.computed_seconds() - feature_seconds);
  return report;
}

LossResult Trainer::add_row(const Pack& pack, std::uint64_t step, std::uint64_t micro) {
  Rng rng(config_.seed, RngPurpose::kAnchors, {step, micro});
  const std::vector<std::int64_t> anchors = sample_anchors(pack, rows_.anchor_options(), rng);
  const PackFeatures features = features_.pack_features(pack.documents, pack.length);
  const BlockInputs blocks = block_inputs(pack, anchors);
  const at::Tensor hidden = forward(blocks, features);
  LossResult result = loss(hidden.detach(), blocks, features);
  hidden.backward(result.grad_hidden);  // d loss_sum: the optimizer divides by the step's weight sum
  return result;
}

BlockInputs Trainer::block_inputs(const Pack& pack, const std::vector<std::int64_t>& anchors) const {
  BlockInputs blocks = make_block_inputs(pack, anchors, drafter_, attention_path_);
  if (!vocab_.whole())
    for (std::int32_t& label : blocks.labels) label = head_rows_[static_cast<std::size_t>(label)];
  return blocks;
}

LossResult Trainer::loss(const at::Tensor& hidden, const BlockInputs& blocks, const PackFeatures& features) const {
  if (loss_options_.soft_share == 0) return head_loss(hidden, head_, blocks, loss_options_);
  // The target says what it expects at a position in its state one position before.
  std::vector<std::int64_t> before;
  const auto last = static_cast<std::int64_t>(blocks.context_position_ids.size()) - 1;
  for (const std::int64_t anchor : blocks.anchors)
    for (std::int64_t j = 0; j < blocks.block_size; ++j)
      before.push_back(std::clamp<std::int64_t>(anchor + j - 1, 0, last));
  const at::Tensor states = features.final_state.index_select(0, at::tensor(before)).to(scalar_type_of(compute_));
  return head_loss(hidden, head_, blocks, loss_options_, states);
}

at::Tensor Trainer::forward(const BlockInputs& blocks, const PackFeatures& features) const {
  const ForwardInputs inputs{.features = features.taps,
                             .block_embeddings = embed(blocks),
                             .blocks = &blocks,
                             .recompute = config_.train.recompute};
  return drafter_forward(drafter_, params_, inputs, compute_);
}

at::Tensor Trainer::embed(const BlockInputs& blocks) const {
  const std::vector<std::int32_t>& ids = blocks.block_token_ids;
  const at::Tensor index =
      at::from_blob(const_cast<std::int32_t*>(ids.data()), {static_cast<std::int64_t>(ids.size())}, at::kInt);
  return embedding_.index_select(0, index);
}

StepReport Trainer::rehearse() {
  Stopwatch watch;
  const double feature_seconds = features_.computed_seconds();
  const StepRows step_rows = rows_.at(num_steps());
  StepReport report;
  const Pack pack = make_pack(data_.train, step_rows.rows.front(), rows_.pack_options(step_rows.epoch));
  report.sums.add(add_row(pack, num_steps(), 0));
  optimizer_.clear_gradients();
  report.rows = 1;
  report.tokens = pack.num_tokens();
  report.seconds = watch.lap() - (features_.computed_seconds() - feature_seconds);
  return report;
}

LossResult Trainer::evaluate() {
  const at::NoGradGuard no_grad;
  LossResult sums;
  const PackOptions options = rows_.pack_options(0);
  const PackPlan plan = plan_packs(held_out_, options);
  for (std::size_t row = 0; row < plan.rows.size(); ++row) {
    const Pack pack = make_pack(held_out_, plan.rows[row], options);
    Rng rng(config_.seed, RngPurpose::kAnchors, {kHeldOutStream, row});
    const std::vector<std::int64_t> anchors = sample_anchors(pack, rows_.anchor_options(), rng);
    const PackFeatures features = held_out_features_.pack_features(pack.documents, pack.length);
    const BlockInputs blocks = block_inputs(pack, anchors);
    sums.add(loss(forward(blocks, features), blocks, features));
  }
  return sums;
}

}  // namespace draftsmith
