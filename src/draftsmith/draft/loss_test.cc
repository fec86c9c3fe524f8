#include "draftsmith/draft/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/test_drafter.h"

namespace draftsmith {
namespace {

struct Problem {
  BlockLabels blocks;
  at::Tensor hidden, head;
};

Problem make_problem(std::int64_t num_blocks, std::int64_t block_size, std::int64_t vocab) {
  Rng rng(11, RngPurpose::kTest);
  Problem p;
  p.blocks.num_blocks = num_blocks;
  p.blocks.block_size = block_size;
  for (std::int64_t i = 0; i < num_blocks * block_size; ++i) {
    p.blocks.labels.push_back(static_cast<std::int32_t>(rng.below(vocab)));
    p.blocks.counts.push_back(i % block_size > 0 && i / block_size != 2 && rng.uniform() < 0.8 ? 1.0f : 0.0f);
  }
  p.hidden = random_tensor(rng, {num_blocks * block_size, 32});
  p.head = random_tensor(rng, {vocab, 32}, 0.5);
  return p;
}

// Weights by the formula, straight from the definition.
std::vector<double> dpace_weights(const Problem& p, const at::Tensor& nll, double alpha) {
  const std::int64_t size = p.blocks.block_size;
  std::vector<double> weights(p.blocks.counts.size(), 0.0);
  const auto q = [&](std::int64_t at) {
    return p.blocks.counts[at] > 0 ? (1 - alpha) * std::exp(-nll.const_data_ptr<double>()[at]) + alpha : 1.0;
  };
  for (std::int64_t b = 0; b < p.blocks.num_blocks; ++b) {
    for (std::int64_t j = 1; j < size; ++j) {
      for (std::int64_t i = j; i < size; ++i) {
        double product = 1;
        for (std::int64_t k = 1; k <= i; ++k) product *= q(b * size + k);
        weights[b * size + j] += p.blocks.counts[b * size + i] > 0 ? product : 0;
      }
    }
  }
  return weights;
}

void expect_reference(const Problem& p, const LossOptions& options, at::ScalarType type, double bound) {
  const at::Tensor hidden = p.hidden.to(type).to(at::kDouble).requires_grad_(true);
  const at::Tensor logits = at::matmul(hidden, p.head.to(type).to(at::kDouble).t());
  at::Tensor labels = at::zeros({hidden.size(0), 1}, at::TensorOptions(at::kLong));
  for (std::int64_t i = 0; i < hidden.size(0); ++i) labels.data_ptr<std::int64_t>()[i] = p.blocks.labels[i];
  const at::Tensor nll = -logits.log_softmax(-1).gather(1, labels).select(1, 0);
  const std::vector<float> decay = decay_weights(p.blocks.block_size, options.gamma);
  const std::vector<double> dpace = dpace_weights(p, nll.detach().contiguous(), options.dpace_alpha);
  std::vector<double> weights;
  for (std::size_t i = 0; i < p.blocks.counts.size(); ++i) {
    const double w = options.kind == LossKind::kDpace ? dpace[i] : static_cast<double>(decay[i % p.blocks.block_size]);
    weights.push_back(static_cast<double>(p.blocks.counts[i]) * w);
  }
  const at::Tensor w = at::tensor(weights, at::TensorOptions(at::kDouble));
  const at::Tensor loss = (nll * w).sum();
  loss.backward();

  const LossResult got = head_loss(p.hidden.to(type), p.head.to(type), p.blocks, options);
  EXPECT_NEAR(got.loss_sum / loss.item<double>(), 1.0, bound);
  EXPECT_NEAR(got.weight_sum / w.sum().item<double>(), 1.0, bound);
  EXPECT_LT(relative_error(got.weights.view({-1}), w), bound);
  EXPECT_LT(relative_error(got.grad_hidden, hidden.grad()), bound);
  EXPECT_EQ(got.grad_hidden.scalar_type(), type);
}

TEST(HeadLoss, EqualsItsFormulaInPiecesOfAnySize) {
  const Problem p = make_problem(9, 6, 301);
  for (const LossKind kind : {LossKind::kDecay, LossKind::kDpace}) {
    for (const std::int64_t bytes : {1, 301 * 4 * 7, 1 << 26}) {
      expect_reference(p, {.kind = kind, .gamma = 3, .logits_bytes = bytes}, at::kFloat, 3e-6);
      expect_reference(p, {.kind = kind, .gamma = 3, .logits_bytes = bytes}, at::kBFloat16, 0.03);
    }
  }
}

// (1 - share) CE + share KL(target || drafter), through autograd in double.
TEST(HeadLoss, SoftLabelsAreTheDivergenceFromTheTargetsOwnDistribution) {
  const Problem p = make_problem(9, 6, 301);
  Rng rng(12, RngPurpose::kTest);
  const at::Tensor states = random_tensor(rng, p.hidden.sizes().vec());
  for (const double share : {0.3, 1.0}) {
    for (const std::int64_t bytes : {1, 301 * 4 * 14, 1 << 26}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor hidden = p.hidden.to(type).to(at::kDouble).requires_grad_(true);
        const at::Tensor head = p.head.to(type).to(at::kDouble);
        const at::Tensor drafter = at::matmul(hidden, head.t()).log_softmax(-1),
                         target = at::matmul(states.to(type).to(at::kDouble), head.t()).log_softmax(-1);
        const at::Tensor divergence = (target.exp() * (target - drafter)).sum(-1);
        at::Tensor loss = at::zeros({}, at::TensorOptions(at::kDouble));
        const std::vector<float> decay = decay_weights(6, 3);
        for (std::int64_t i = 0; i < hidden.size(0); ++i) {
          if (p.blocks.counts[i] == 0) continue;
          const double weight = static_cast<double>(decay[i % 6]);
          loss = loss +
                 (divergence.select(0, i) * share - drafter.select(0, i).select(0, p.blocks.labels[i]) * (1 - share)) *
                     weight;
        }
        loss.backward();
        const LossResult got = head_loss(
            p.hidden.to(type), p.head.to(type), p.blocks,
            {.kind = LossKind::kDecay, .gamma = 3, .soft_share = share, .logits_bytes = bytes}, states.to(type));
        const double bound = type == at::kFloat ? 1e-5 : 0.03;
        EXPECT_NEAR(got.loss_sum / loss.item<double>(), 1.0, bound);
        EXPECT_LT(relative_error(got.grad_hidden, hidden.grad()), bound);
      }
    }
  }
}

TEST(HeadLoss, RowsThatDoNotCountGetNoGradient) {
  const Problem p = make_problem(5, 4, 40);
  const LossResult loss = head_loss(p.hidden, p.head, p.blocks, {});
  for (std::size_t i = 0; i < p.blocks.counts.size(); ++i) {
    const double size = loss.grad_hidden.select(0, static_cast<std::int64_t>(i)).abs().sum().item<double>();
    EXPECT_EQ(size > 0, p.blocks.counts[i] > 0) << i;
  }
}

// With a label that the head has no row for, the loss is that of the other labels, and the slot is wrong in every
// figure.
TEST(HeadLoss, ALabelOutsideHasNoWeightAndIsWrong) {
  for (const LossKind kind : {LossKind::kDecay, LossKind::kDpace}) {
    Problem p = make_problem(6, 5, 40), without = p;
    const std::vector<std::size_t> outside = {3, 7, 22};
    for (const std::size_t i : outside) {
      p.blocks.counts[i] = 1, p.blocks.labels[i] = -1;
      without.blocks.counts[i] = 0;
    }
    const LossResult got = head_loss(p.hidden, p.head, p.blocks, {.kind = kind}),
                     rest = head_loss(without.hidden, without.head, without.blocks, {.kind = kind});
    EXPECT_EQ(got.mask_sum, rest.mask_sum + 3);
    EXPECT_EQ(got.correct_sum, rest.correct_sum);
    EXPECT_LE(got.accepted_sum, rest.accepted_sum);
    EXPECT_EQ(got.slot_mask[2], rest.slot_mask[2] + 2);
    for (const std::size_t i : outside) {
      EXPECT_EQ(got.weights.const_data_ptr<float>()[i], 0);
      EXPECT_EQ(got.grad_hidden.select(0, static_cast<std::int64_t>(i)).abs().sum().item<double>(), 0);
    }
    if (kind == LossKind::kDpace) continue;  // there the lost label lowers the weights around it
    EXPECT_EQ(got.loss_sum, rest.loss_sum);
    EXPECT_EQ(got.weight_sum, rest.weight_sum);
    EXPECT_TRUE(got.grad_hidden.equal(rest.grad_hidden));
  }
}

// The slots are right, outside and right, so the second one ends what is accepted. With D-PACE its probability is 0
// (q = alpha); C of the slots and the weights of the first and the last follow by hand.
TEST(HeadLoss, ALabelOutsideEndsABlock) {
  Problem p;
  p.blocks.num_blocks = 1, p.blocks.block_size = 4;
  p.blocks.labels = {3, 3, -1, 3};
  p.blocks.counts = {0, 1, 1, 1};
  p.head = at::zeros({8, 8}, at::TensorOptions(at::kFloat));
  p.head.fill_diagonal_(1.0);
  p.hidden = at::zeros({4, 8}, at::TensorOptions(at::kFloat));
  for (std::int64_t j = 0; j < 4; ++j) p.hidden.select(0, j).select(0, 3).fill_(4.0);
  const LossResult decay = head_loss(p.hidden, p.head, p.blocks, {});
  EXPECT_EQ(decay.accepted, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(decay.mask_sum, 3);
  EXPECT_EQ(decay.correct_sum, 2);
  EXPECT_EQ(decay.slot_correct, (std::vector<double>{0, 1, 0, 1}));
  const LossResult dpace = head_loss(p.hidden, p.head, p.blocks, {.kind = LossKind::kDpace, .dpace_alpha = 0.5});
  const double q = 0.5 * std::exp(4.0) / (std::exp(4.0) + 7) + 0.5;
  const double c1 = q, c2 = c1 * 0.5, c3 = c2 * q;
  const float* weights = dpace.weights.const_data_ptr<float>();
  EXPECT_NEAR(weights[1], c1 + c2 + c3, 1e-6);
  EXPECT_EQ(weights[2], 0);
  EXPECT_NEAR(weights[3], c3, 1e-6);
}

TEST(HeadLoss, WithoutGradientModeThereIsNone) {
  const Problem p = make_problem(5, 4, 40);
  const c10::NoGradGuard no_gradients;
  EXPECT_FALSE(head_loss(p.hidden, p.head, p.blocks, {}).grad_hidden.defined());
}

// A head that is the identity: the hidden state of a slot says which token it drafts.
TEST(HeadLoss, AcceptedCountsTheLeadingRightDraftsAndUnsupervisedSlotsPass) {
  Problem p;
  const std::int64_t size = 5;
  const std::vector<std::string> blocks = {"xrrrr", "xrrwr", "xwrrr",
                                           "x-r-w", "x----", "xr-wr"};  // r right, w wrong, - m = 0
  p.blocks.num_blocks = static_cast<std::int64_t>(blocks.size());
  p.blocks.block_size = size;
  p.head = at::zeros({8, 8}, at::TensorOptions(at::kFloat));
  p.head.fill_diagonal_(1.0);
  p.hidden = at::zeros({p.blocks.num_blocks * size, 8}, at::TensorOptions(at::kFloat));
  for (std::size_t i = 0; i < blocks.size() * size; ++i) {
    const char slot = blocks[i / size][i % size];
    p.blocks.labels.push_back(3);
    p.blocks.counts.push_back(slot == 'r' || slot == 'w' ? 1.0f : 0.0f);
    p.hidden.select(0, static_cast<std::int64_t>(i)).select(0, slot == 'r' ? 3 : 5).fill_(4.0);
  }
  LossResult loss = head_loss(p.hidden, p.head, p.blocks, {});
  EXPECT_EQ(loss.accepted, (std::vector<std::int64_t>{4, 2, 0, 1, 0, 1}));
  EXPECT_EQ(loss.accepted_sum, 8);
  EXPECT_EQ(loss.num_blocks, 5);
  EXPECT_EQ(loss.mask_sum, 17);
  EXPECT_EQ(loss.correct_sum, 13);
  EXPECT_EQ(loss.slot_mask, (std::vector<double>{0, 4, 4, 4, 5}));
  EXPECT_EQ(loss.slot_correct, (std::vector<double>{0, 3, 4, 2, 4}));
  const LossResult same = loss;
  loss.add(same);
  EXPECT_EQ(loss.accepted_sum, 16);
  EXPECT_EQ(loss.slot_mask, (std::vector<double>{0, 8, 8, 8, 10}));
}

}  // namespace
}  // namespace draftsmith
