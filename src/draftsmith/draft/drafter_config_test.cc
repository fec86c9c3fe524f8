#include "draftsmith/draft/drafter_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/families.h"

namespace draftsmith {
namespace {

using nlohmann::json;

json plain_config() {
  return {{"hidden_size", 48},        {"intermediate_size", 96},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"head_dim", 16},
          {"vocab_size", 67},         {"num_target_layers", 6},
          {"block_size", 6},          {"dflash_config", {{"mask_token_id", 66}, {"target_layer_ids", {1, 3}}}}};
}

DrafterConfig read(const json& document) { return drafter_config_from_json(document.dump(), "config.json"); }

std::string refusal(const json& document) {
  try {
    read(document);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// `change` is merged into a config that is right.
std::string refusal_with(const json& change) {
  json document = plain_config();
  document.merge_patch(change);
  return refusal(document);
}

TEST(DrafterConfigJson, RopeBaseIsTheNestedOneThenTheFlatOneThenTheDefault) {
  json document = plain_config();
  EXPECT_EQ(read(document).rope_theta, 10000.0);
  document["rope_theta"] = 500000;
  document["rope_scaling"] = nullptr;
  EXPECT_EQ(read(document).rope_theta, 500000.0);
  document["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1000000}};
  EXPECT_EQ(read(document).rope_theta, 1000000.0);
  document["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_EQ(read(document).rope_theta, 500000.0);
}

TEST(DrafterConfigJson, ScaledRotationsAreRefusedByName) {
  for (const char* type : {"linear", "llama3", "yarn", "longrope"}) {
    for (const char* key : {"rope_type", "type"}) {
      EXPECT_NE(refusal_with({{"rope_parameters", {{key, type}}}}).find("'" + std::string(type) + "'"),
                std::string::npos);
      EXPECT_NE(refusal_with({{"rope_scaling", {{key, type}}}}).find("'" + std::string(type) + "'"), std::string::npos);
    }
  }
}

TEST(DrafterConfigJson, TheArchitectureChoosesTheFamily) {
  EXPECT_EQ(refusal_with({{"architectures", {architecture_of(DrafterFamily::kDFlash)}}}), "");
  EXPECT_NE(refusal_with({{"architectures", {"Qwen3DSparkModel"}}})
                .find("'architectures' is 'Qwen3DSparkModel', which is no drafter that can be read"),
            std::string::npos);
  EXPECT_NE(refusal_with({{"architectures", "DFlashDraftModel"}}).find("list of strings"), std::string::npos);
  EXPECT_NE(refusal_with({{"architectures", {"A", "B"}}}).find("list of one name"), std::string::npos);
  EXPECT_EQ(family_of_architecture("DFlashDraftModel"), DrafterFamily::kDFlash);
  EXPECT_FALSE(family_of_architecture("LlamaForCausalLM").has_value());
}

TEST(DrafterConfigJson, NullsAreAbsent) {
  json document = plain_config();
  for (const char* key : {"head_dim", "sliding_window", "rope_scaling", "pad_token_id", "rope_parameters",
                          "layer_types", "is_causal", "num_key_value_heads"}) {
    document[key] = nullptr;
  }
  const DrafterConfig config = read(document);
  EXPECT_EQ(config.head_dim, 12);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.layer_kinds, (std::vector<LayerKind>(2, LayerKind::kFull)));
  EXPECT_FALSE(config.is_causal.has_value());
}

TEST(DrafterConfigJson, BlockSizeMayStandInside) {
  json document = plain_config();
  document.erase("block_size");
  EXPECT_NE(refusal(document).find("'dflash_config.block_size' is missing"), std::string::npos);
  document["dflash_config"]["block_size"] = 9;
  EXPECT_EQ(read(document).block_size, 9);
  document["block_size"] = 8;
  EXPECT_NE(refusal(document).find("differ"), std::string::npos);
}

TEST(DrafterConfigJson, WhatCannotBeIsRefused) {
  EXPECT_EQ(refusal(plain_config()), "");
  EXPECT_NE(refusal_with({{"num_key_value_heads", 3}}).find("multiple"), std::string::npos);
  EXPECT_NE(refusal_with({{"head_dim", 15}}).find("even"), std::string::npos);
  EXPECT_NE(refusal_with({{"block_size", 1}}).find("block_size"), std::string::npos);
  EXPECT_NE(refusal_with({{"hidden_size", -4}}).find("hidden_size"), std::string::npos);
  EXPECT_NE(refusal_with({{"hidden_size", "48"}}).find("hidden_size"), std::string::npos);
  EXPECT_NE(refusal_with({{"num_attention_heads", 0}}).find("num_attention_heads"), std::string::npos);
  EXPECT_NE(refusal_with({{"num_hidden_layers", 2000000000}}).find("num_hidden_layers"), std::string::npos);
  EXPECT_NE(refusal_with({{"vocab_size", nullptr}}).find("'vocab_size' is missing"), std::string::npos);
  EXPECT_NE(refusal_with({{"attention_bias", true}}).find("attention_bias"), std::string::npos);
  EXPECT_NE(refusal_with({{"hidden_act", "gelu"}}).find("gelu"), std::string::npos);
  EXPECT_NE(refusal_with({{"rms_norm_eps", 0}}).find("rms_norm_eps"), std::string::npos);
  EXPECT_NE(refusal_with({{"dflash_config", {{"mask_token_id", 67}}}}).find("mask_token_id"), std::string::npos);
  EXPECT_NE(refusal_with({{"dflash_config", {{"mask_token_id", -1}}}}).find("mask_token_id"), std::string::npos);
  EXPECT_NE(refusal_with({{"dflash_config", {{"selector_rank", 256}}}}).find("selector_rank"), std::string::npos);
  EXPECT_NE(refusal(json::array()).find("object"), std::string::npos);
  EXPECT_THROW(drafter_config_from_json("{\"a\": ", "config.json"), UserError);
}

TEST(DrafterConfigJson, TapsThatRepeatOrLeaveTheTargetAreRefused) {
  const auto taps = [](const std::vector<int>& list) {
    return refusal_with({{"dflash_config", {{"target_layer_ids", list}}}});
  };
  EXPECT_EQ(taps({0, 4}), "");
  EXPECT_NE(taps({2, 2}).find("twice"), std::string::npos);
  EXPECT_NE(taps({5}).find("target layer 5"), std::string::npos);
  EXPECT_NE(taps({-1}).find("target layer -1"), std::string::npos);
  EXPECT_NE(taps({}).find("target_layer_ids"), std::string::npos);
}

TEST(DrafterConfigJson, SlidingLayersNeedAWindow) {
  const json types = {"sliding_attention", "full_attention"};
  EXPECT_NE(refusal_with({{"layer_types", types}}).find("sliding_window"), std::string::npos);
  EXPECT_NE(refusal_with({{"layer_types", types}, {"sliding_window", 8}, {"use_sliding_window", false}})
                .find("use_sliding_window"),
            std::string::npos);
  EXPECT_NE(refusal_with({{"layer_types", {"chunked_attention", "full_attention"}}}).find("chunked_attention"),
            std::string::npos);
  EXPECT_NE(refusal_with({{"layer_types", {"full_attention"}}}).find("2 layers"), std::string::npos);
  json document = plain_config();
  document.merge_patch({{"layer_types", types}, {"sliding_window", 8}});
  const DrafterConfig config = read(document);
  EXPECT_EQ(config.sliding_window, 8);
  EXPECT_TRUE(config.causal_in_block(config.layer_kinds[0]));
  EXPECT_FALSE(config.causal_in_block(config.layer_kinds[1]));
}

TEST(DrafterConfigJson, WhatIsWrittenReadsTheSame) {
  for (const std::optional<bool> causal :
       {std::optional<bool>(), std::optional<bool>(false), std::optional<bool>(true)}) {
    json document = plain_config();
    document.merge_patch(
        {{"layer_types", {"sliding_attention", "sliding_attention"}}, {"sliding_window", 8}, {"rope_theta", 12345.5}});
    DrafterConfig config = read(document);
    config.is_causal = causal;
    const std::string text = drafter_config_to_json(config, "bfloat16");
    EXPECT_EQ(drafter_config_to_json(drafter_config_from_json(text, "x"), "bfloat16"), text);
    EXPECT_EQ(json::parse(text).contains("is_causal"), causal.has_value());
  }
}

TEST(DrafterConfigJson, EveryKeyThatReadersWantIsWritten) {
  const json out = json::parse(drafter_config_to_json(read(plain_config()), "float32"));
  EXPECT_EQ(out.at("architectures"), json({"DFlashDraftModel"}));
  EXPECT_EQ(out.at("model_type"), "qwen3");
  EXPECT_EQ(out.at("dtype"), "float32");
  EXPECT_EQ(out.at("torch_dtype"), "float32");
  EXPECT_EQ(out.at("block_size"), 6);
  EXPECT_EQ(out.at("dflash_config"), (json{{"block_size", 6}, {"mask_token_id", 66}, {"target_layer_ids", {1, 3}}}));
  EXPECT_EQ(out.at("rope_theta"), out.at("rope_parameters").at("rope_theta"));
  EXPECT_TRUE(out.at("sliding_window").is_null());
  EXPECT_FALSE(out.contains("is_causal"));
}

}  // namespace
}  // namespace draftsmith
