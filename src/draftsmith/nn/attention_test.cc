#include "draftsmith/nn/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "draftsmith/nn/test_random.h"

namespace draftsmith {
namespace {

struct Inputs {
  std::vector<at::Tensor> tensors;  // q, k_context, v_context, k_block, v_block
  std::shared_ptr<KeyRanges> ranges;
};

// Blocks of random anchors in two documents, some with a window, one that sees nothing at all.
Inputs make_inputs(std::int64_t num_blocks, std::int64_t block, std::int64_t heads, std::int64_t kv_heads,
                   std::int64_t dim) {
  Rng rng(num_blocks * 100 + dim, RngPurpose::kTest);
  const std::int64_t context = 150, rows = num_blocks * block;
  auto ranges = std::make_shared<KeyRanges>();
  ranges->num_context = context;
  ranges->block_size = block;
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const bool second = b >= num_blocks / 2, nothing = b == num_blocks - 1;
    const std::int64_t anchor = nothing ? 0 : second ? 90 + rng.below(60) : b == 0 ? 0 : rng.below(90);
    for (std::int64_t j = 0; j < block; ++j) {
      const std::int64_t begin = b % 3 == 1 ? std::max<std::int64_t>(second ? 90 : 0, anchor + j - 20)
                                 : second   ? 90
                                            : 0;
      ranges->context_begin.push_back(static_cast<std::int32_t>(std::min(begin, anchor)));
      ranges->context_end.push_back(static_cast<std::int32_t>(anchor));
      ranges->block_begin.push_back(static_cast<std::int32_t>(b * block));
      ranges->block_end.push_back(
          static_cast<std::int32_t>(nothing ? b * block : b * block + (b % 3 == 2 ? j + 1 : block)));
    }
  }
  return {{random_tensor(rng, {heads, rows, dim}), random_tensor(rng, {kv_heads, context, dim}),
           random_tensor(rng, {kv_heads, context, dim}), random_tensor(rng, {kv_heads, rows, dim}),
           random_tensor(rng, {kv_heads, rows, dim})},
          ranges};
}

// The definition, in double, with a dense mask.
at::Tensor dense(const std::vector<at::Tensor>& in, const KeyRanges& ranges) {
  const std::int64_t group = in[0].size(0) / in[1].size(0), rows = ranges.num_rows(), keys = ranges.num_context + rows;
  at::Tensor mask = at::zeros({rows, keys}, at::TensorOptions(at::kBool));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < keys; ++k) {
      mask.data_ptr<bool>()[r * keys + k] =
          k < ranges.num_context ? ranges.sees_context(r, k) : ranges.sees_block(r, k - ranges.num_context);
    }
  }
  const at::Tensor k = at::cat({in[1], in[3]}, 1).to(at::kDouble).repeat_interleave(group, 0);
  const at::Tensor v = at::cat({in[2], in[4]}, 1).to(at::kDouble).repeat_interleave(group, 0);
  const at::Tensor s =
      at::matmul(in[0].to(at::kDouble), k.transpose(1, 2)) / std::sqrt(static_cast<double>(in[0].size(2)));
  const at::Tensor e = at::where(mask, s, s * 0 - 1e30).softmax(-1);
  return at::matmul(e * mask, v);
}

enum class Way { kFused, kPlain, kDense };

at::Tensor attend(Way way, const std::vector<at::Tensor>& x, const Inputs& in) {
  if (way == Way::kDense) return dense(x, *in.ranges);
  const auto ranges = std::make_shared<KeyRanges>(*in.ranges);
  if (way == Way::kFused) make_tiles(*ranges, x[0].size(0) / x[1].size(0));
  return range_attention(x[0], at::cat({x[1], x[3]}, 1), at::cat({x[2], x[4]}, 1), ranges);
}

std::vector<at::Tensor> result_and_gradients(const Inputs& in, Way way, at::ScalarType type) {
  std::vector<at::Tensor> leaves, all;
  for (const at::Tensor& x : in.tensors) leaves.push_back(x.to(type).detach().clone().requires_grad_(true));
  const at::Tensor y = attend(way, leaves, in);
  Rng rng(9, RngPurpose::kTest);
  y.backward(random_tensor(rng, y.sizes().vec()).to(y.scalar_type()));
  all.push_back(y.detach());
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

void expect_dense(const Inputs& in, at::ScalarType type, double bound) {
  const auto exact = result_and_gradients(in, Way::kDense, type);
  const char* names[] = {"out", "dq", "dk context", "dv context", "dk block", "dv block"};
  for (const Way way : {Way::kFused, Way::kPlain}) {
    if (way == Way::kFused && attention_path_for(in.tensors[0].size(2)) == AttentionPath::kPlain) continue;
    const auto ours = result_and_gradients(in, way, type);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_LT(relative_error(ours[i], exact[i]), bound) << names[i] << (way == Way::kFused ? ", fused" : ", plain");
  }
}

TEST(RangeAttention, EqualsTheDenseDefinition) {
  expect_dense(make_inputs(12, 8, 6, 2, 64), at::kFloat, 3e-6);
  expect_dense(make_inputs(90, 4, 4, 4, 16), at::kFloat, 3e-6);
  expect_dense(make_inputs(7, 5, 3, 1, 12), at::kFloat, 3e-6);
}

TEST(RangeAttention, HalfPrecisionRoundsInputsAndResultsOnly) {
  expect_dense(make_inputs(12, 8, 6, 2, 64), at::kBFloat16, 0.01);
}

TEST(RangeAttention, RowsWithoutKeysAreZeroAndGiveNoGradient) {
  const Inputs in = make_inputs(4, 3, 2, 1, 16);
  for (const Way way : {Way::kFused, Way::kPlain}) {
    const auto all = result_and_gradients(in, way, at::kFloat);
    for (std::size_t i : {0, 1, 4, 5}) {
      EXPECT_EQ(all[i].narrow(1, 9, 3).abs().max().item<float>(), 0.0f) << i;
    }
    for (const at::Tensor& t : all) EXPECT_TRUE(std::isfinite(t.sum().item<double>()));
  }
}

TEST(RangeAttention, WithoutContextTheBlockIsEnough) {
  Inputs in = make_inputs(2, 4, 2, 2, 16);
  in.tensors[1] = in.tensors[1].narrow(1, 0, 0);
  in.tensors[2] = in.tensors[2].narrow(1, 0, 0);
  in.ranges->num_context = 0;
  for (std::int32_t& x : in.ranges->context_begin) x = 0;
  for (std::int32_t& x : in.ranges->context_end) x = 0;
  expect_dense(in, at::kFloat, 3e-6);
}

TEST(RangeAttention, SameInputsGiveTheSameBits) {
  const Inputs in = make_inputs(40, 8, 6, 2, 64);
  for (const Way way : {Way::kFused, Way::kPlain}) {
    const auto a = result_and_gradients(in, way, at::kFloat), b = result_and_gradients(in, way, at::kFloat);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
  }
}

TEST(RangeAttention, LargeScoresStayFinite) {
  Inputs in = make_inputs(6, 4, 2, 1, 16);
  in.tensors[0] = in.tensors[0] * 300;
  for (const Way way : {Way::kFused, Way::kPlain}) {
    const auto all = result_and_gradients(in, way, at::kFloat);
    for (const at::Tensor& t : all) EXPECT_TRUE(std::isfinite(t.sum().item<double>()));
    EXPECT_LT(relative_error(all[0], result_and_gradients(in, Way::kDense, at::kFloat)[0]), 1e-3);
  }
}

}  // namespace
}  // namespace draftsmith
