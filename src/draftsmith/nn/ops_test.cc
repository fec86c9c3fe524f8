#include "draftsmith/nn/ops.h"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <functional>

#include "draftsmith/nn/definitions.h"
#include "draftsmith/nn/kernels.h"
#include "draftsmith/nn/test_random.h"

namespace draftsmith {
namespace {

using Op = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Runs both on copies of the same inputs; results and all gradients must agree.
void expect_same(const Op& kernel, const Op& defined, const std::vector<at::Tensor>& inputs, double bound) {
  const auto run = [&](const Op& op) {
    std::vector<at::Tensor> leaves, all;
    for (const at::Tensor& x : inputs) leaves.push_back(x.detach().clone().requires_grad_(true));
    const at::Tensor y = op(leaves);
    Rng rng(5, RngPurpose::kTest);
    y.backward(random_tensor(rng, y.sizes().vec()).to(y.scalar_type()));
    all.push_back(y.detach());
    for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
    return all;
  };
  const std::vector<at::Tensor> a = run(kernel), b = run(defined);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].scalar_type(), b[i].scalar_type()) << i;
    EXPECT_LT(relative_error(a[i], b[i]), bound) << (i == 0 ? "result" : "gradient ") << i;
  }
}

// The definitions (definitions.h) compute in double what they are given in double.
at::Tensor wide(const at::Tensor& x) { return x.to(at::kDouble); }

at::Tensor defined_norm(const at::Tensor& x, const at::Tensor& weight, at::ScalarType result) {
  return definition::rms_norm(wide(x), wide(weight), 1e-6, result);
}

TEST(RmsNorm, EqualsItsDefinitionAtAnyWidth) {
  Rng rng(1, RngPurpose::kTest);
  for (const std::int64_t width : {3, 8, 48, 65}) {
    expect_same([](const auto& x) { return rms_norm(x[0], x[1], 1e-6, at::kFloat); },
                [](const auto& x) { return defined_norm(x[0], x[1], at::kFloat); },
                {random_tensor(rng, {130, width}), random_tensor(rng, {width})}, 2e-6);
  }
}

TEST(RmsNorm, HalfPrecisionRoundsOnce) {
  Rng rng(2, RngPurpose::kTest);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    expect_same([](const auto& x) { return rms_norm(x[0], x[1], 1e-6, at::kBFloat16); },
                [](const auto& x) { return defined_norm(x[0], x[1], at::kBFloat16); },
                {random_tensor(rng, {70, 40}).to(type), random_tensor(rng, {40})}, 1.0 / 256);
  }
}

// Both results count: the sum goes on as the residual, the norm into the next product.
TEST(AddRmsNorm, EqualsASumAndItsNorm) {
  Rng rng(7, RngPurpose::kTest);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t width : {3, 48, 65}) {
      for (const bool use_sum : {true, false}) {
        const auto joined = [&](const at::Tensor& sum, const at::Tensor& normed) {
          return use_sum ? at::cat({sum, normed.to(at::kFloat)}, 1) : normed.to(at::kFloat);
        };
        const auto kernel = [&](const auto& x) {
          const Normed y = add_rms_norm({x[0], x[1]}, x[2], 1e-6, type);
          return joined(y.sum, y.normed);
        };
        const auto defined = [&](const auto& x) {
          const at::Tensor sum = x[0] + x[1].to(at::kFloat);
          return joined(sum, defined_norm(sum, x[2], type));
        };
        expect_same(
            kernel, defined,
            {random_tensor(rng, {130, width}), random_tensor(rng, {130, width}).to(type), random_tensor(rng, {width})},
            type == at::kFloat ? 3e-6 : 1.0 / 128);
      }
    }
  }
}

TEST(AddRmsNorm, WithoutDeltaIsTheNormAlone) {
  Rng rng(8, RngPurpose::kTest);
  const at::Tensor x = random_tensor(rng, {5, 12}), w = random_tensor(rng, {12});
  const Normed y = add_rms_norm({x, {}}, w, 1e-6, at::kBFloat16);
  EXPECT_TRUE(y.sum.equal(x));
  EXPECT_TRUE(y.normed.equal(rms_norm(x, w, 1e-6, at::kBFloat16)));
}

TEST(Swiglu, EqualsItsDefinitionAlsoFarOut) {
  Rng rng(3, RngPurpose::kTest);
  const auto kernel = [](const auto& x) { return swiglu(x[0], x[1]); };
  const auto defined = [](const auto& x) { return definition::swiglu(wide(x[0]), wide(x[1])).to(x[0].scalar_type()); };
  for (const double scale : {3.0, 200.0}) {
    const at::Tensor gate = random_tensor(rng, {9, 37}, scale), up = random_tensor(rng, {9, 37});
    expect_same(kernel, defined, {gate, up}, 2e-6);
    expect_same(kernel, defined, {gate.to(at::kBFloat16), up.to(at::kBFloat16)}, 1.0 / 256);
  }
}

TEST(Linear, EqualsItsDefinitionAndGivesGradientsToTheFp32Master) {
  Rng rng(4, RngPurpose::kTest);
  const auto kernel = [](const auto& x) { return linear(x[0], x[1]); };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto defined = [&](const auto& x) {  // the weight is rounded to x's type before the product
      return definition::linear(wide(x[0]), wide(x[1].to(type))).to(type);
    };
    expect_same(kernel, defined, {random_tensor(rng, {20, 12}).to(type), random_tensor(rng, {7, 12})},
                type == at::kFloat ? 2e-6 : 1.0 / 128);
  }
}

TEST(HeadNormRope, EqualsItsDefinition) {
  Rng rng(6, RngPurpose::kTest);
  const std::int64_t rows = 70, heads = 3;
  for (const std::int64_t dim : {4, 16, 64}) {
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < rows; ++i) positions.push_back(i * 7 % 90);
    const Rope rope = make_rope(positions, dim, 10000.0);
    const auto kernel = [&](const auto& x) { return head_norm_rope(x[0], x[1], 1e-6, rope); };
    const auto defined = [&](const auto& x) {
      return definition::head_norm_rope(wide(x[0]), wide(x[1]), 1e-6, rope).to(x[0].scalar_type());
    };
    const at::Tensor x = random_tensor(rng, {rows, heads * dim}), w = random_tensor(rng, {dim});
    expect_same(kernel, defined, {x, w}, 3e-6);
    expect_same(kernel, defined, {x.to(at::kBFloat16), w}, 1.0 / 128);
  }
}

// A device without kernels computes by the definitions in the types it is given: the contract of ops.h holds there too.
TEST(OnDefinitions, EveryOperationIsItsDefinition) {
  Rng rng(9, RngPurpose::kTest);
  const std::vector<std::int64_t> positions = {0, 3, 8, 1, 2};
  const Rope rope = make_rope(positions, 8, 10000.0);
  const at::Tensor x = random_tensor(rng, {5, 16}).to(at::kBFloat16), w = random_tensor(rng, {16});
  const at::Tensor head_weight = random_tensor(rng, {8}), matrix = random_tensor(rng, {6, 16});
  const at::Tensor residual = random_tensor(rng, {5, 16});
  const OnDefinitions forced;
  EXPECT_TRUE(rms_norm(x, w, 1e-6, at::kFloat).equal(definition::rms_norm(x, w, 1e-6, at::kFloat)));
  EXPECT_TRUE(swiglu(x, x).equal(definition::swiglu(x, x)));
  EXPECT_TRUE(linear(x, matrix).equal(definition::linear(x, matrix)));
  EXPECT_TRUE(head_norm_rope(x, head_weight, 1e-6, rope).equal(definition::head_norm_rope(x, head_weight, 1e-6, rope)));
  const Normed y = add_rms_norm({residual, x}, w, 1e-6, at::kBFloat16);
  EXPECT_TRUE(y.sum.equal(residual + x));
  EXPECT_TRUE(y.normed.equal(definition::rms_norm(residual + x, w, 1e-6, at::kBFloat16)));
}

TEST(Rope, FirstFrequencyTurnsByThePositionItself) {
  const std::vector<std::int64_t> positions = {0, 1, 5};
  const Rope rope = make_rope(positions, 8, 1e6);
  EXPECT_EQ(rope.cos.sizes(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(rope.cos.select(0, 0).min().item<float>(), 1.0f);
  EXPECT_NEAR(rope.sin.select(0, 2).select(0, 0).item<float>(), std::sin(5.0), 1e-6);
  EXPECT_NEAR(rope.sin.select(0, 2).select(0, 1).item<float>(), std::sin(5.0 * std::pow(1e6, -0.25)), 1e-6);
}

// Numbers of the published formulae for a head of 8 and theta 10000 (frequencies 1, 0.1, 0.01, 0.001), by hand.
TEST(Rope, ScalingsSlowTheFrequenciesTheyShould) {
  const auto expect = [](const RopeScaling& scaling, const std::vector<double>& expected) {
    const std::vector<float> got = rope_frequencies(8, 10000.0, scaling);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6 * expected[i]) << i;
  };
  expect({}, {1, 0.1, 0.01, 0.001});
  expect({.kind = RopeKind::kLinear, .factor = 4}, {0.25, 0.025, 0.0025, 0.00025});
  // Wavelengths 6.28, 62.8, 628, 6283; below 100 / 4 they stay, above 100 they are slowed, and 62.8 is blended with the
  // share (100 / 62.83 - 1) / 3 of the fast one.
  const double blend = (100.0 / (2 * std::acos(-1.0) / 0.1) - 1) / 3;
  expect({.kind = RopeKind::kLlama3, .factor = 8, .original_max_position_embeddings = 100},
         {1, (1 - blend) * 0.1 / 8 + blend * 0.1, 0.01 / 8, 0.001 / 8});
  // 32 turns fall on pair 4 ln(1000 / (32 * 2 pi)) / ln 10000 = 0.70, one turn on 2.20: the ramp runs from 0 to 3.
  expect({.kind = RopeKind::kYarn, .factor = 4, .original_max_position_embeddings = 1000},
         {1, 0.1 * (0.25 / 3 + 2.0 / 3), 0.01 * (0.25 * 2 / 3 + 1.0 / 3), 0.00025});
}

TEST(Rope, YarnScalesTheRotationItself) {
  const std::vector<std::int64_t> positions = {0, 3};
  RopeScaling scaling{.kind = RopeKind::kYarn, .factor = 1, .original_max_position_embeddings = 100};
  const Rope plain = make_rope(positions, 8, 10000.0);
  scaling.attention_factor = 1.5;
  const Rope scaled = make_rope(positions, 8, 10000.0, scaling);
  EXPECT_LE((scaled.cos - plain.cos * 1.5).abs().max().item<double>(), 1e-6);
  EXPECT_LE((scaled.sin - plain.sin * 1.5).abs().max().item<double>(), 1e-6);
}

}  // namespace
}  // namespace draftsmith
