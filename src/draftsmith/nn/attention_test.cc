#include "draftsmith/nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "draftsmith/nn/definitions.h"
#include "draftsmith/nn/test_random.h"
#include "flex/mask.h"

namespace draftsmith {
namespace {

struct Inputs {
  at::Tensor q, k, v;
  MaskPtr mask;
};

// Blocks of random anchors in two documents, with a window or causal in the block.
Inputs make_inputs(std::int64_t num_blocks, std::int64_t block, std::int64_t heads, std::int64_t kv_heads,
                   std::int64_t dim, std::int64_t context = 150, std::int64_t window = 0) {
  Rng rng(num_blocks * 100 + dim, RngPurpose::kTest);
  std::vector<std::int64_t> anchors, begins;
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const bool second = b >= num_blocks / 2;
    begins.push_back(second ? context * 3 / 5 : 0);
    anchors.push_back(b == 0 || context == 0 ? begins.back() : begins.back() + rng.below(context * 2 / 5));
  }
  const flex::DFlashBlocks blocks{
      .anchors = anchors,
      .document_begins = begins,
      .num_context = context,
      .block_size = block,
      .window = window,
      .in_block = window > 0 ? flex::DFlashBlocks::InBlock::kCausal : flex::DFlashBlocks::InBlock::kBothWays};
  const std::int64_t rows = num_blocks * block, keys = context + rows;
  return {
      random_tensor(rng, {heads, rows, dim}), random_tensor(rng, {kv_heads, keys, dim}),
      random_tensor(rng, {kv_heads, keys, dim}),
      make_mask(blocks, {.num_queries = rows, .num_keys = keys, .num_context = context, .group = heads / kv_heads})};
}

using Attention = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const MaskPtr&);

// The result, dq, dk and dv.
std::vector<at::Tensor> result_and_gradients(const Inputs& in, Attention attend, at::ScalarType type) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : {in.q, in.k, in.v}) leaves.push_back(x.to(type).detach().clone().requires_grad_(true));
  const at::Tensor y = attend(leaves[0], leaves[1], leaves[2], in.mask);
  Rng rng(9, RngPurpose::kTest);
  y.backward(random_tensor(rng, y.sizes().vec()).to(y.scalar_type()));
  std::vector<at::Tensor> all = {y.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

// The definition in double, of inputs rounded to `type`.
std::vector<at::Tensor> exact(const Inputs& in, at::ScalarType type) {
  const auto rounded = [&](const at::Tensor& x) { return x.to(type).to(at::kDouble); };
  return result_and_gradients({rounded(in.q), rounded(in.k), rounded(in.v), in.mask}, definition::attention,
                              at::kDouble);
}

void expect_definition(const Inputs& in, at::ScalarType type, double bound) {
  const auto expected = exact(in, type), ours = result_and_gradients(in, attention, type);
  const char* names[] = {"out", "dq", "dk", "dv"};
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_LT(relative_error(ours[i], expected[i]), bound) << names[i];
}

TEST(Attention, EqualsItsDefinition) {
  expect_definition(make_inputs(12, 8, 6, 2, 64), at::kFloat, 3e-6);
  expect_definition(make_inputs(90, 4, 4, 4, 16), at::kFloat, 3e-6);
  expect_definition(make_inputs(9, 5, 3, 1, 32, 100, 20), at::kFloat, 3e-6);
}

TEST(Attention, HalfPrecisionRoundsInputsAndResultsOnly) {
  expect_definition(make_inputs(12, 8, 6, 2, 64), at::kBFloat16, 0.01);
}

TEST(Attention, TakesMasksOfNoContextAndOfNoBlock) {
  expect_definition(make_inputs(2, 4, 2, 2, 16, 0), at::kFloat, 3e-6);
  Inputs causal = make_inputs(10, 4, 4, 2, 16, 0);
  causal.mask = make_mask(flex::Causal{}, {.num_queries = 40, .num_keys = 40, .num_context = 40, .group = 2});
  expect_definition(causal, at::kFloat, 3e-6);
}

TEST(Attention, RowsWithoutKeysAreZeroAndGiveNoGradient) {
  Inputs in = make_inputs(4, 3, 2, 1, 16);
  in.mask = make_mask(flex::all_of(flex::Causal{.offset = 150},
                                   [](std::int64_t, std::int64_t, std::int64_t q, std::int64_t) { return q < 9; }),
                      {.num_queries = 12, .num_keys = 162, .num_context = 150, .group = 2});
  for (const Attention attend : {attention, definition::attention}) {
    const auto all = result_and_gradients(in, attend, at::kFloat);
    for (const std::size_t i : {0, 1}) EXPECT_EQ(all[i].narrow(1, 9, 3).abs().max().item<float>(), 0.0f) << i;
    for (const at::Tensor& t : all) EXPECT_TRUE(std::isfinite(t.sum().item<double>()));
  }
}

TEST(Attention, SameInputsGiveTheSameBits) {
  const Inputs in = make_inputs(40, 8, 6, 2, 64);
  const auto a = result_and_gradients(in, attention, at::kFloat), b = result_and_gradients(in, attention, at::kFloat);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
}

TEST(Attention, LargeScoresStayFinite) {
  Inputs in = make_inputs(6, 4, 2, 1, 16);
  in.q = in.q * 300;
  const auto all = result_and_gradients(in, attention, at::kFloat);
  for (const at::Tensor& t : all) EXPECT_TRUE(std::isfinite(t.sum().item<double>()));
  EXPECT_LT(relative_error(all[0], exact(in, at::kFloat)[0]), 1e-3);
}

}  // namespace
}  // namespace draftsmith
