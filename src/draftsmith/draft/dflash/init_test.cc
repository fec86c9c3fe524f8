#include "draftsmith/draft/dflash/init.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <map>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/test_drafter.h"
#include "draftsmith/nn/ops.h"

namespace draftsmith {
namespace {

std::map<std::string, at::Tensor> target_of(const DrafterConfig& config) {
  Rng rng(6, RngPurpose::kTest);
  std::map<std::string, at::Tensor> weights;
  const std::int64_t h = config.hidden_size, q = config.num_heads * config.head_dim,
                     kv = config.num_kv_heads * config.head_dim;
  for (std::int64_t i = 0; i < config.num_target_layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    const std::map<std::string, std::vector<std::int64_t>> shapes = {{"attn_norm", {h}},
                                                                     {"attn_q", {q, h}},
                                                                     {"attn_k", {kv, h}},
                                                                     {"attn_v", {kv, h}},
                                                                     {"ffn_norm", {h}},
                                                                     {"attn_output", {h, q}},
                                                                     {"ffn_gate", {config.intermediate_size, h}},
                                                                     {"ffn_up", {config.intermediate_size, h}},
                                                                     {"ffn_down", {h, config.intermediate_size}}};
    for (const auto& [name, shape] : shapes) weights[block + name + ".weight"] = random_tensor(rng, shape);
  }
  weights["output_norm.weight"] = random_tensor(rng, {h});
  return weights;
}

TargetWeightFn lookup(const std::map<std::string, at::Tensor>& weights) {
  return [&weights](const DecoderWeight& weight) {
    const auto it = weights.find(gguf_name(weight));
    return it == weights.end() ? at::Tensor() : it->second;
  };
}

TEST(FitFinalNorm, LogitsOfARandomStartHaveUnitVariance) {
  const DrafterConfig config = small_config();
  DFlashParams params = empty_dflash_params(config);
  Rng rng(7, RngPurpose::kTest);
  init_random(params, rng);
  const at::Tensor head = random_tensor(rng, {97, config.hidden_size}) * 3;
  fit_final_norm(params, head);
  const at::Tensor hidden = random_tensor(rng, {2000, config.hidden_size}) * params.norm;
  EXPECT_NEAR(at::matmul(hidden, head.t()).square().mean().item<double>(), 1.0, 0.1);
  fit_final_norm(params, head * 1e-3);  // small rows: the norm stays 1
  EXPECT_TRUE(params.norm.equal(at::ones_like(params.norm)));
}

TEST(InitFromTarget, LayersAreTheTargetsLastOnes) {
  const DrafterConfig config = small_config();
  const auto weights = target_of(config);
  DFlashParams params = empty_dflash_params(config);
  init_from_target(params, config, lookup(weights));
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string block = "blk." + std::to_string(3 + i) + ".";
    EXPECT_TRUE(params.layers[i].o_proj.equal(weights.at(block + "attn_output.weight")));
    EXPECT_TRUE(params.layers[i].down_proj.equal(weights.at(block + "ffn_down.weight")));
    EXPECT_TRUE(params.layers[i].post_attention_layernorm.equal(weights.at(block + "ffn_norm.weight")));
  }
  EXPECT_TRUE(params.norm.equal(weights.at("output_norm.weight")));
  const at::Tensor features = random_document(config, 5, 1).features;
  EXPECT_TRUE(linear(features, params.fc).equal(features.narrow(1, config.hidden_size, config.hidden_size)));
}

// v_proj(norm(x)) of the target's layer, for the block (through input_layernorm) and for the context (through
// hidden_norm).
TEST(InitFromTarget, BlockAndContextAreReadAsTheTargetReadsAState) {
  const DrafterConfig config = small_config();
  const auto weights = target_of(config);
  DFlashParams params = empty_dflash_params(config);
  init_from_target(params, config, lookup(weights));
  Rng rng(8, RngPurpose::kTest);
  const at::Tensor state = random_tensor(rng, {7, config.hidden_size});
  const double eps = config.norm_eps;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string block = "blk." + std::to_string(3 + i) + ".";
    const LayerParams& layer = params.layers[i];
    for (const auto& [name, matrix] : {std::pair("attn_k", layer.k_proj), std::pair("attn_v", layer.v_proj)}) {
      const at::Tensor expected = linear(rms_norm(state, weights.at(block + "attn_norm.weight"), eps, at::kFloat),
                                         weights.at(block + name + ".weight"));
      for (const at::Tensor& norm : {layer.input_layernorm, params.hidden_norm})
        EXPECT_TRUE(linear(rms_norm(state, norm, eps, at::kFloat), matrix).allclose(expected, 1e-4, 1e-5)) << name;
    }
  }
}

TEST(InitFromTarget, NormalisedQueriesAreAsLargeAsTheTargetsOwn) {
  const DrafterConfig config = small_config();
  const auto weights = target_of(config);
  DFlashParams params = empty_dflash_params(config);
  init_from_target(params, config, lookup(weights));
  Rng rng(9, RngPurpose::kTest);
  const LayerParams& layer = params.layers[1];
  const at::Tensor u = rms_norm(random_tensor(rng, {400, config.hidden_size}), layer.input_layernorm, 1e-6, at::kFloat);
  const double target_size = linear(u, layer.q_proj).square().mean().sqrt().item<double>();
  EXPECT_NEAR(layer.q_norm.mean().item<double>() / target_size, 1.0, 0.1);
}

TEST(InitFromTarget, OtherShapesAndMissingTensorsAreRefusedInWords) {
  const DrafterConfig config = small_config();
  auto weights = target_of(config);
  const auto refusal = [&](const DrafterConfig& wanted) -> std::string {
    DFlashParams params = empty_dflash_params(wanted);
    try {
      init_from_target(params, wanted, lookup(weights));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  DrafterConfig wide = config;
  wide.intermediate_size = 96;
  EXPECT_NE(refusal(wide).find("'blk.3.ffn_gate.weight': it is 80 x 48, but the drafter needs 96 x 48"),
            std::string::npos);
  weights.erase("blk.4.ffn_up.weight");
  EXPECT_NE(refusal(config).find("'blk.4.ffn_up.weight', which this model does not have"), std::string::npos);
}

}  // namespace
}  // namespace draftsmith
