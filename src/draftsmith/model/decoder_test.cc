// Compares the decoder layer with small Llama and Qwen3 models, whose hidden states and logits the public
// implementation computed, and a layer with biases with its formula.
#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/tril.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "draftsmith/model/decoder_config.h"
#include "draftsmith/model/layer.h"
#include "draftsmith/model/layer_names.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

at::Tensor tensor_of(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> values = file.copy<float>(name, DType::kF32);
  return at::from_blob(values.data(), file.info(name).shape, at::kFloat).clone();
}

// Reads every parameter by its Hugging Face name.
LayerParams read_layer(const SafetensorsFile& file, const DecoderShape& shape, std::int64_t index) {
  LayerParams layer = layer_shapes(shape);
  visit_layer(layer, "model.layers." + std::to_string(index) + ".",
              [&](const std::string& name, at::Tensor& tensor, Role) {
                const at::Tensor value = tensor_of(file, name);
                ASSERT_EQ(value.sizes(), tensor.sizes()) << name;
                tensor = value;
              });
  return layer;
}

std::vector<std::int64_t> positions_to(std::int64_t length) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  return positions;
}

// Runs one layer over a document; every position sees itself and the positions before it.
Residual causal_layer(const DecoderShape& shape, const LayerParams& layer, const Residual& x) {
  const std::int64_t length = x.residual.size(0);
  const Rope rope = rope_of(shape, positions_to(length));
  const MaskPtr mask = causal_mask(length, shape.num_heads / shape.num_kv_heads);
  const auto keys = [&](const at::Tensor& u) { return key_value(shape, layer, u, rope); };
  return layer_forward(shape, layer, x, {rope, mask, keys}, at::kFloat);
}

void expect_near(const at::Tensor& got, const at::Tensor& expected, double bound, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  EXPECT_LE((got - expected).abs().max().item<double>(), bound * expected.abs().max().item<double>()) << what;
}

void expect_golden_target(const std::string& name) {
  const fs::path folder = fs::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden" / name;
  const DecoderConfig config =
      decoder_config_from_json(read_text_file(folder / "target/config.json"), (folder / "target/config.json").string());
  const SafetensorsFile weights(folder / "target/model.safetensors"), golden(folder / "target_forward.safetensors");
  const at::Tensor embedding = tensor_of(weights, hugging_face_name({.param = DecoderParam::kEmbedding}));
  const at::Tensor norm = tensor_of(weights, hugging_face_name({.param = DecoderParam::kOutputNorm}));
  const at::Tensor head =
      config.tied_head ? embedding : tensor_of(weights, hugging_face_name({.param = DecoderParam::kHead}));
  const std::vector<std::int64_t> tokens = golden.copy<std::int64_t>("token_ids", DType::kI64);

  Residual x{at::embedding(embedding, at::tensor(tokens)), {}};
  expect_near(x.residual, tensor_of(golden, "hidden_states.0"), 0, name + " embedding");
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    x = causal_layer(config, read_layer(weights, config, i), x);
    if (i + 1 < config.num_layers)
      expect_near(x.residual + x.delta, tensor_of(golden, "hidden_states." + std::to_string(i + 1)), 1e-5,
                  name + " layer " + std::to_string(i));
  }
  const at::Tensor last = add_rms_norm(x, norm, config.norm_eps, at::kFloat).normed;
  expect_near(last, tensor_of(golden, "hidden_states." + std::to_string(config.num_layers)), 1e-5, name + " last");
  expect_near(linear(last, head), tensor_of(golden, "logits"), 1e-5, name + " logits");
}

TEST(DecoderLayer, MakesLlamaWithScaledPositionsAndATiedHead) { expect_golden_target("decode_llama"); }
TEST(DecoderLayer, MakesQwen3) { expect_golden_target("decode_qwen3"); }

at::Tensor normed(const at::Tensor& x, double eps) { return x * at::rsqrt(x.square().mean(-1, true) + eps); }

// Turns x by each position's angle, [N, h * D] -> [h, N, D], with whole heads as the public implementations do.
at::Tensor turned(const at::Tensor& x, std::int64_t dim, const Rope& rope) {
  const at::Tensor heads = x.view({x.size(0), -1, dim}).transpose(0, 1);
  const at::Tensor cos = rope.cos.repeat({1, 2}), sin = rope.sin.repeat({1, 2});
  const std::vector<at::Tensor> halves = heads.chunk(2, -1);
  at::Tensor swapped = heads.clone();
  swapped.narrow(-1, 0, dim / 2).copy_(-halves[1]);
  swapped.narrow(-1, dim / 2, dim / 2).copy_(halves[0]);
  return heads * cos + swapped * sin;
}

// The layer has biases on all four projections, one key/value head for two query heads and no norms of heads.
TEST(DecoderLayer, WithBiasesAndWithoutNormsIsItsFormula) {
  DecoderShape s;
  s.hidden_size = 24;
  s.intermediate_size = 40;
  s.num_heads = 4;
  s.num_kv_heads = 2;
  s.head_dim = 6;
  s.qk_norm = false;
  s.qkv_bias = s.o_bias = true;
  LayerParams p = layer_shapes(s);
  EXPECT_FALSE(p.q_norm.defined());
  std::vector<std::string> biases;
  visit_layer(p, "", [&](const std::string& name, at::Tensor& tensor, Role role) {
    tensor = role == Role::kNorm ? at::ones(tensor.sizes()) : at::randn(tensor.sizes()) * 0.2;
    if (role == Role::kBias) biases.push_back(name);
  });
  EXPECT_EQ(biases, (std::vector<std::string>{"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias",
                                              "self_attn.o_proj.bias"}));
  const std::int64_t length = 9;
  const at::Tensor x = at::randn({length, s.hidden_size});
  const Residual y = causal_layer(s, p, {x, {}});

  const Rope rope = rope_of(s, positions_to(length));
  const at::Tensor u = normed(x, s.norm_eps);
  const at::Tensor q = turned(u.matmul(p.q_proj.t()) + p.q_bias, s.head_dim, rope);
  const at::Tensor k = turned(u.matmul(p.k_proj.t()) + p.k_bias, s.head_dim, rope).repeat_interleave(2, 0);
  const at::Tensor v =
      (u.matmul(p.v_proj.t()) + p.v_bias).view({length, 2, s.head_dim}).transpose(0, 1).repeat_interleave(2, 0);
  const at::Tensor hidden = at::ones({length, length}, at::kBool).tril().logical_not();
  const at::Tensor scores = (q.matmul(k.transpose(1, 2)) / std::sqrt(6.0)).masked_fill(hidden, -1e30);
  const at::Tensor seen = at::softmax(scores, -1).matmul(v).transpose(0, 1).reshape({length, 24});
  const at::Tensor middle = x + seen.matmul(p.o_proj.t()) + p.o_bias;
  const at::Tensor w = normed(middle, s.norm_eps);
  const at::Tensor mlp = (at::silu(w.matmul(p.gate_proj.t())) * w.matmul(p.up_proj.t())).matmul(p.down_proj.t());
  expect_near(y.residual + y.delta, middle + mlp, 1e-5, "layer");
}

}  // namespace
}  // namespace draftsmith
