// Works on pieces of whole blocks. For each piece it gathers the rows that count, computes their logits, the figures of
// each row and the weights of each block, turns the logits into their gradient in the same memory, and multiplies that
// with the head. Rows with m = 0 are never multiplied with the head.
#include "draftsmith/draft/loss.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/loss_definition.h"
#include "draftsmith/draft/loss_rows.h"
#include "draftsmith/nn/elements.h"
#include "draftsmith/nn/kernels.h"
#include "draftsmith/nn/product.h"
#include "draftsmith/nn/step_clock.h"
#include "draftsmith/nn/streamed_product.h"

namespace draftsmith {
namespace {

// Weights w of one block's slots. D-PACE: q_j = (1 - alpha) p_j + alpha (1 where m = 0), C_j = prod_{i<=j} q_i,
// w_j = sum_{i>=j} C_i m_i. The p are the model's own confidences, taken as constants; p_j is 0 for a label without a
// row.
std::vector<float> block_weights(const LossOptions& options, const std::vector<float>& decay, const float* mask,
                                 const float* nll, const std::int32_t* labels) {
  if (options.kind != LossKind::kDpace) return decay;
  const auto size = static_cast<std::int64_t>(decay.size());
  std::vector<float> weights(decay.size(), 0.0f);
  std::vector<double> confidence(decay.size(), 0.0);
  double product = 1.0;
  for (std::int64_t j = 1; j < size; ++j) {
    const double p = labels[j] < 0 ? 0.0 : std::exp(-static_cast<double>(nll[j]));
    if (mask[j] > 0) product *= (1.0 - options.dpace_alpha) * p + options.dpace_alpha;
    confidence[j] = product;
  }
  double sum = 0;
  for (std::int64_t j = size - 1; j >= 1; --j) {
    if (mask[j] > 0) sum += confidence[j];
    weights[j] = static_cast<float>(sum);
  }
  return weights;
}

class Pass {
 public:
  Pass(const at::Tensor& hidden, const at::Tensor& head, const BlockLabels& blocks, const LossOptions& options,
       const at::Tensor& target_states)
      : hidden_(hidden),
        head_(head),
        streamed_(can_stream(head)),
        blocks_(blocks),
        options_(options),
        target_states_(target_states),
        decay_(decay_weights(blocks.block_size, options.gamma)) {
    const std::int64_t a = blocks.num_blocks, b = blocks.block_size;
    result_.slot_mask.assign(static_cast<std::size_t>(b), 0.0);
    result_.slot_correct.assign(static_cast<std::size_t>(b), 0.0);
    result_.accepted.assign(static_cast<std::size_t>(a), 0);
    result_.nll = at::zeros({a, b}, at::TensorOptions(at::kFloat));
    result_.weights = at::zeros({a, b}, at::TensorOptions(at::kFloat));
    if (c10::GradMode::is_enabled()) result_.grad_hidden = at::zeros_like(hidden);
    correct_.assign(static_cast<std::size_t>(a * b), 0);
    divergence_.assign(static_cast<std::size_t>(a * b), 0.0f);
  }

  LossResult run() {
    const std::int64_t size = blocks_.block_size;
    const std::int64_t row_bytes = head_.size(0) * static_cast<std::int64_t>(head_.element_size());
    const std::int64_t tiles = soft() ? 2 : 1;
    const std::int64_t max_rows = std::max<std::int64_t>(1, options_.logits_bytes / (row_bytes * tiles));
    std::vector<LossRow> rows;
    std::int64_t first = 0;  // block
    for (std::int64_t block = 0; block < blocks_.num_blocks; ++block) {
      const std::size_t before = rows.size();
      add_rows(block, rows);
      if (static_cast<std::int64_t>(rows.size()) <= max_rows || before == 0) continue;
      std::vector<LossRow> next(rows.begin() + static_cast<std::ptrdiff_t>(before), rows.end());
      rows.resize(before);
      piece(first, block, rows);
      rows = std::move(next);
      first = block;
    }
    piece(first, blocks_.num_blocks, rows);
    for (std::int64_t block = 0; block < blocks_.num_blocks; ++block) count_block(block, size);
    return std::move(result_);
  }

 private:
  void add_rows(std::int64_t block, std::vector<LossRow>& rows) const {
    for (std::int64_t j = 0; j < blocks_.block_size; ++j) {
      const std::int64_t index = block * blocks_.block_size + j;
      if (blocks_.counts[index] > 0 && blocks_.labels[index] >= 0)
        rows.push_back({index, blocks_.labels[index], {}, 0, 0});
    }
  }

  // Blocks first .. end, whose rows that count are `rows`.
  void piece(std::int64_t first, std::int64_t end, std::vector<LossRow>& rows) {
    if (rows.empty()) return;  // no row has a weight
    const auto count = static_cast<std::int64_t>(rows.size());
    const at::Tensor index = at::empty({count}, at::TensorOptions(at::kLong));
    for (std::int64_t i = 0; i < count; ++i) index.data_ptr<std::int64_t>()[i] = rows[i].index;
    const at::Tensor here = index.to(hidden_.device());
    const at::Tensor logits = logits_of(logits_, hidden_, here),
                     target = soft() ? logits_of(target_logits_, target_states_, here) : at::Tensor();
    measure(rows, logits, target);
    keep_figures(rows);
    weigh_blocks(first, end);
    if (!result_.grad_hidden.defined()) return;
    differentiate(rows, logits, target, result_.weights.view({-1}).index_select(0, index));
    result_.grad_hidden.index_copy_(0, here, times_head(logits));
  }

  bool soft() const { return options_.soft_share > 0; }

  // Multiplies rows of `states` with the head, in memory that the next piece uses again.
  at::Tensor logits_of(at::Tensor& kept, const at::Tensor& states, const at::Tensor& index) const {
    const std::int64_t count = index.size(0);
    if (!kept.defined() || kept.size(0) < count) kept = at::empty({count, head_.size(0)}, head_.options());
    at::Tensor logits = kept.narrow(0, 0, count);
    const at::Tensor rows = states.index_select(0, index);
    if (streamed_)
      streamed_product_transposed(rows, head_, logits);
    else
      product_out(logits, rows, head_.t());
    return logits;
  }

  at::Tensor times_head(const at::Tensor& gradients) const {
    if (!streamed_) return product(gradients, head_);
    at::Tensor out = at::empty({gradients.size(0), head_.size(1)}, head_.options());
    streamed_product(gradients, head_, out);
    return out;
  }

  template <class Body>
  static void for_rows(std::int64_t count, const Body& body) {
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  // Computes the figures of the rows; target [N, V] is undefined without soft labels.
  void measure(std::vector<LossRow>& rows, const at::Tensor& logits, const at::Tensor& target) const {
    if (!has_kernels(logits)) return definition::measure_rows(rows, logits, target);
    const std::int64_t vocab = logits.size(1);
    with_data(logits, [&](auto* data) {
      const auto* teacher = soft() ? static_cast<decltype(data)>(target.data_ptr()) : data;
      for_rows(logits.size(0), [&](std::int64_t i) {
        LossRow& row = rows[i];
        const auto *ours = data + i * vocab, *theirs = teacher + i * vocab;
        row.figures = row_figures(ours, vocab, row.label);
        if (!soft()) return;
        row.target_log_sum = row_log_sum(theirs, vocab);
        row.divergence = row_divergence(theirs, row.target_log_sum, ours, row.figures.log_sum, vocab);
      });
    });
  }

  // Turns logits into their gradient, in the same memory; weights [N].
  void differentiate(const std::vector<LossRow>& rows, const at::Tensor& logits, const at::Tensor& target,
                     const at::Tensor& weights) const {
    if (!has_kernels(logits)) return definition::gradient_of_rows(rows, logits, target, weights, options_.soft_share);
    const std::int64_t vocab = logits.size(1);
    const auto share = static_cast<float>(options_.soft_share);
    const float* weight = weights.const_data_ptr<float>();
    with_data(logits, [&](auto* data) {
      const auto* teacher = soft() ? static_cast<decltype(data)>(target.data_ptr()) : data;
      for_rows(logits.size(0), [&](std::int64_t i) {
        const LossRow& row = rows[i];
        row_gradient(data + i * vocab, vocab, row.label, row.figures.log_sum,
                     {.all = weight[i], .label = weight[i] * (1 - share)});
        if (soft())
          row_subtract_softmax(data + i * vocab, teacher + i * vocab, row.target_log_sum, weight[i] * share, vocab);
      });
    });
  }

  void keep_figures(const std::vector<LossRow>& rows) {
    float* nll = result_.nll.data_ptr<float>();
    for (const LossRow& row : rows) {
      nll[row.index] = row.figures.nll;
      correct_[row.index] = row.figures.best == row.label;
      divergence_[row.index] = row.divergence;
    }
  }

  void weigh_blocks(std::int64_t first, std::int64_t end) {
    const std::int64_t size = blocks_.block_size;
    const float* nll = result_.nll.const_data_ptr<float>();
    float* weights = result_.weights.data_ptr<float>();
    for (std::int64_t block = first; block < end; ++block) {
      const float* mask = blocks_.counts.data() + block * size;
      const std::int32_t* labels = blocks_.labels.data() + block * size;
      const std::vector<float> w = block_weights(options_, decay_, mask, nll + block * size, labels);
      for (std::int64_t j = 0; j < size; ++j) weights[block * size + j] = labels[j] < 0 ? 0.0f : mask[j] * w[j];
    }
  }

  // A = sum_j m_j prod_{i<=j} (correct_i or m_i = 0).
  void count_block(std::int64_t block, std::int64_t size) {
    bool any = false, open = true;
    for (std::int64_t j = 0; j < size; ++j) {
      const std::int64_t index = block * size + j;
      if (blocks_.counts[index] <= 0) continue;
      const double weight = static_cast<double>(result_.weights.const_data_ptr<float>()[index]);
      const bool correct = correct_[index] != 0;
      any = true;
      open = open && correct;
      const double nll = static_cast<double>(result_.nll.const_data_ptr<float>()[index]);
      const double divergence = static_cast<double>(divergence_[index]);
      result_.loss_sum += weight * ((1 - options_.soft_share) * nll + options_.soft_share * divergence);
      result_.weight_sum += weight;
      result_.mask_sum += 1;
      result_.slot_mask[j] += 1;
      if (correct) result_.correct_sum += 1, result_.slot_correct[j] += 1;
      if (open) result_.accepted[block] += 1;
    }
    result_.accepted_sum += static_cast<double>(result_.accepted[block]);
    if (any) result_.num_blocks += 1;
  }

  const at::Tensor hidden_, head_;
  const bool streamed_;  // products with the head go through our own kernels
  const BlockLabels& blocks_;
  const LossOptions& options_;
  const at::Tensor target_states_;
  const std::vector<float> decay_;
  std::vector<std::uint8_t> correct_;
  std::vector<float> divergence_;
  at::Tensor logits_, target_logits_;  // of one piece, used again by the next
  LossResult result_;
};

}  // namespace

std::vector<float> decay_weights(std::int64_t block_size, double gamma) {
  if (gamma <= 0) {
    const double size = static_cast<double>(block_size);
    const double between = size <= 10 ? 4.0 + (size - 8.0) * 0.5 : 5.0 + (size - 10.0) / 3.0;
    gamma = std::max(1.0, between);
  }
  std::vector<float> weights(static_cast<std::size_t>(block_size), 0.0f);
  for (std::int64_t j = 1; j < block_size; ++j) {
    weights[j] = static_cast<float>(std::exp(-static_cast<double>(j - 1) / gamma));
  }
  return weights;
}

void LossSums::add(const LossSums& other) {
  loss_sum += other.loss_sum;
  weight_sum += other.weight_sum;
  mask_sum += other.mask_sum;
  correct_sum += other.correct_sum;
  accepted_sum += other.accepted_sum;
  num_blocks += other.num_blocks;
  slot_mask.resize(std::max(slot_mask.size(), other.slot_mask.size()));
  slot_correct.resize(slot_mask.size());
  for (std::size_t j = 0; j < other.slot_mask.size(); ++j) {
    slot_mask[j] += other.slot_mask[j];
    slot_correct[j] += other.slot_correct[j];
  }
}

LossResult head_loss(const at::Tensor& hidden, const at::Tensor& head, const BlockLabels& blocks,
                     const LossOptions& options, const at::Tensor& target_states) {
  const TimedPart timed(StepPart::kHead);
  DRAFTSMITH_ASSERT(hidden.scalar_type() == head.scalar_type() && hidden.size(1) == head.size(1));
  DRAFTSMITH_ASSERT(hidden.size(0) == blocks.num_blocks * blocks.block_size);
  DRAFTSMITH_ASSERT(options.soft_share == 0 ||
                    (target_states.sizes() == hidden.sizes() && target_states.scalar_type() == head.scalar_type()));
  return Pass(hidden.detach(), head.detach(), blocks, options, target_states).run();
}

}  // namespace draftsmith
