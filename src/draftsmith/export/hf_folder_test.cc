#include "draftsmith/export/hf_folder.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/test_loaded.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/nn/test_random.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/safetensors.h"
#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

// One full and one sliding layer, every size another number.
LoadedDrafter small_drafter() {
  DrafterConfig config;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_layers = 2;
  config.num_heads = 3;
  config.num_kv_heads = 1;
  config.head_dim = 16;
  config.vocab_size = 50;
  config.block_size = 7;
  config.mask_token_id = 49;
  config.target_layer_ids = {1, 4, 5};
  config.num_target_layers = 9;
  config.norm_eps = 1e-5;
  config.rope_theta = 123456.0;
  config.layer_kinds = {LayerKind::kFull, LayerKind::kSliding};
  config.sliding_window = 33;
  config.context_length = 777;
  return loaded_drafter(config, 5);
}

// A folder as an export in two shards would leave it.
void write_sharded_export(const LoadedDrafter& drafter, const fs::path& folder) {
  fs::create_directories(folder);
  std::vector<TensorToWrite> shards[2];
  nlohmann::json index;
  int i = 0;
  for (const auto& [name, tensor, role] : drafter.drafter->params()) {
    shards[i % 2].push_back(
        {.name = name, .dtype = DType::kF32, .shape = tensor.sizes().vec(), .bytes = bytes_of(tensor)});
    index["weight_map"][name] = "model-0000" + std::to_string(1 + i++ % 2) + "-of-00002.safetensors";
  }
  write_safetensors(folder / "model-00001-of-00002.safetensors", shards[0], {});
  write_safetensors(folder / "model-00002-of-00002.safetensors", shards[1], {});
  write_text_file(folder / "model.safetensors.index.json", index.dump());
  write_text_file(folder / "config.json", drafter_config_to_json(drafter.config(), "float32"));
}

void expect_same(const LoadedDrafter& read, const LoadedDrafter& written, at::ScalarType rounded_to) {
  EXPECT_EQ(read.drafter->params().size(), written.drafter->params().size());
  for (const Param& param : written.drafter->params())
    EXPECT_TRUE(at::equal(param_of(*read.drafter, param.name), param.tensor.to(rounded_to).to(at::kFloat)))
        << param.name;
  EXPECT_EQ(drafter_config_to_json(read.config(), "float32"), drafter_config_to_json(written.config(), "float32"));
}

// vLLM's convention: target id = row + d2t[row], and rows of the head under lm_head.
TEST(HfFolder, HoldsASmallerVocabulary) {
  const TestFolder folder;
  LoadedDrafter drafter = small_drafter();
  drafter.vocab.ids = {1, 5, 49};
  reconfigure(drafter, [&](DrafterConfig& c) { c.draft_vocab_size = 3; });
  Rng rng(9, RngPurpose::kTest);
  const at::Tensor head = random_tensor(rng, {3, 24});
  export_hf(drafter, folder / "out", StoredType::kFloat32, head);
  const SafetensorsFile file(folder / "out" / "model.safetensors");
  EXPECT_EQ(file.copy<std::int64_t>("d2t", DType::kI64), (std::vector<std::int64_t>{1, 4, 47}));
  EXPECT_TRUE(float_tensor_from_safetensors(file, "lm_head.weight", {3, 24}).equal(head));
  const LoadedDrafter read = read_drafter_folder(folder / "out");
  EXPECT_EQ(read.vocab.ids, drafter.vocab.ids);
  EXPECT_EQ(read.config().draft_vocab_size, 3);
}

TEST(HfFolder, IsReadBackAsItWasWritten) {
  const TestFolder folder;
  const LoadedDrafter drafter = small_drafter();
  export_hf(drafter, folder / "f32", StoredType::kFloat32);
  expect_same(read_drafter_folder(folder / "f32"), drafter, at::kFloat);
  export_hf(drafter, folder / "bf16/", StoredType::kBFloat16);
  expect_same(read_drafter_folder(folder / "bf16"), drafter, at::kBFloat16);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"bf16", "f32"}));
}

TEST(HfFolder, AnOlderExportLeavesNothingBehind) {
  const TestFolder folder;
  LoadedDrafter drafter = small_drafter();
  write_sharded_export(drafter, folder / "out");
  expect_same(read_drafter_folder(folder / "out"), drafter, at::kFloat);
  param_of(*drafter.drafter, "fc.weight").mul_(2);
  export_hf(drafter, folder / "out", StoredType::kBFloat16);
  EXPECT_EQ(names_in(folder / "out"), (std::vector<std::string>{"config.json", "model.safetensors"}));
  expect_same(read_drafter_folder(folder / "out"), drafter, at::kBFloat16);
}

TEST(HfFolder, NamesTypesAndKeysAreThoseThatReadersExpect) {
  const TestFolder folder;
  for (const auto& [type, dtype, spelling] :
       {std::tuple{StoredType::kFloat32, DType::kF32, "float32"}, {StoredType::kBFloat16, DType::kBF16, "bfloat16"}}) {
    export_hf(small_drafter(), folder / "out", type);
    const SafetensorsFile file(folder / "out" / "model.safetensors");
    EXPECT_EQ(file.tensors().size(), 11u * 2 + 3);
    for (const auto& [name, info] : file.tensors()) {
      EXPECT_EQ(info.dtype, dtype) << name;
      EXPECT_TRUE(name == "fc.weight" || name == "hidden_norm.weight" || name == "norm.weight" ||
                  name.starts_with("layers."))
          << name;
    }
    EXPECT_EQ(file.info("fc.weight").shape, (std::vector<std::int64_t>{24, 72}));
    EXPECT_EQ(file.info("layers.1.self_attn.k_proj.weight").shape, (std::vector<std::int64_t>{16, 24}));
    EXPECT_EQ(file.metadata().at("format"), "pt");

    const auto config = nlohmann::json::parse(read_text_file(folder / "out" / "config.json"));
    EXPECT_EQ(config["dtype"], spelling);
    EXPECT_EQ(config["architectures"], nlohmann::json::array({"DFlashDraftModel"}));
    EXPECT_EQ(config["model_type"], "qwen3");
    EXPECT_EQ(config["block_size"], 7);
    EXPECT_EQ(config["dflash_config"]["block_size"], 7);
    EXPECT_EQ(config["dflash_config"]["mask_token_id"], 49);
    EXPECT_EQ(config["dflash_config"]["target_layer_ids"], nlohmann::json::array({1, 4, 5}));
    EXPECT_EQ(config["num_target_layers"], 9);
    EXPECT_EQ(config["layer_types"], nlohmann::json::array({"full_attention", "sliding_attention"}));
    EXPECT_EQ(config["sliding_window"], 33);
    EXPECT_EQ(config["use_sliding_window"], true);
    EXPECT_EQ(config["rope_theta"], 123456.0);
    EXPECT_EQ(config["rope_parameters"]["rope_theta"], 123456.0);
    EXPECT_FALSE(config.contains("is_causal"));
  }
}

TEST(HfFolder, AFolderThatIsNoExportIsNeverReplaced) {
  const TestFolder folder;
  const LoadedDrafter drafter = small_drafter();
  export_hf(drafter, folder / "out", StoredType::kFloat32);
  std::ofstream(folder / "out" / "notes.txt") << "mine";
  EXPECT_USER_ERROR(export_hf(drafter, folder / "out", StoredType::kFloat32), "notes.txt", "no export wrote");
  fs::create_directories(folder / "model");
  std::ofstream(folder / "model" / "config.json") << R"({"architectures": ["LlamaForCausalLM"]})";
  EXPECT_USER_ERROR(export_hf(drafter, folder / "model", StoredType::kFloat32), "config.json", "not a drafter's");
  std::ofstream(folder / "file") << "x";
  EXPECT_USER_ERROR(export_hf(drafter, folder / "file", StoredType::kFloat32), "file", "is no folder");
  fs::create_directories(folder / "empty");
  export_hf(drafter, folder / "empty", StoredType::kFloat32);
}

TEST(HfFolder, WeightsThatAreNoNumbersAreRefused) {
  const TestFolder folder;
  LoadedDrafter drafter = small_drafter();
  param_of(*drafter.drafter, "layers.1.mlp.up_proj.weight").data_ptr<float>()[3] = NAN;
  EXPECT_USER_ERROR(export_hf(drafter, folder / "out", StoredType::kFloat32), "layers.1.mlp.up_proj.weight",
                    "no numbers");
  EXPECT_TRUE(folder.names().empty());
  EXPECT_USER_ERROR(export_hf(small_drafter(), folder / "out", StoredType::kFloat16), "bf16 or f32",
                    "cannot be stored as f16");
  EXPECT_THROW(stored_type_from_text("int8"), UsageError);
  EXPECT_EQ(stored_type_from_text("bf16"), StoredType::kBFloat16);
}

}  // namespace
}  // namespace draftsmith
