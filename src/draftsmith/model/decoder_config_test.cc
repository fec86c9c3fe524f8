// Tests what is read from config.json for each architecture, and what is refused by name.
#include "draftsmith/model/decoder_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

using nlohmann::json;

json plain_config(const char* architecture) {
  return {{"architectures", {architecture}},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 2},
          {"vocab_size", 100},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5}};
}

DecoderConfig read_with(const char* architecture, const json& change) {
  json document = plain_config(architecture);
  document.merge_patch(change);
  return decoder_config_from_json(document.dump(), "config.json");
}

std::string refusal(const char* architecture, const json& change) {
  try {
    read_with(architecture, change);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(DecoderConfig, EachArchitectureHasItsNormsAndBiases) {
  const DecoderConfig llama = read_with("LlamaForCausalLM", json::object());
  EXPECT_EQ(llama.head_dim, 8);
  EXPECT_FALSE(llama.qk_norm || llama.qkv_bias || llama.o_bias || llama.tied_head);
  const DecoderConfig biased = read_with("LlamaForCausalLM", {{"attention_bias", true}});
  EXPECT_TRUE(biased.qkv_bias && biased.o_bias);
  const DecoderConfig qwen2 = read_with("Qwen2ForCausalLM", {{"tie_word_embeddings", true}});
  EXPECT_TRUE(qwen2.qkv_bias && qwen2.tied_head);
  EXPECT_FALSE(qwen2.o_bias || qwen2.qk_norm);
  const DecoderConfig qwen3 = read_with("Qwen3ForCausalLM", {{"head_dim", 16}});
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 16);
  EXPECT_FALSE(read_with("MistralForCausalLM", {{"sliding_window", nullptr}}).qkv_bias);
}

TEST(DecoderConfig, RotaryScalingsAreReadFromBothForms) {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 512}};
  json nested = llama3;
  nested["rope_theta"] = 5e5;
  const RopeScaling expected{
      .kind = RopeKind::kLlama3, .factor = 8, .original_max_position_embeddings = 512, .low_freq_factor = 1};
  const DecoderConfig old_form = read_with("LlamaForCausalLM", {{"rope_theta", 5e5}, {"rope_scaling", llama3}});
  const DecoderConfig new_form = read_with("LlamaForCausalLM", {{"rope_parameters", nested}});
  for (const DecoderConfig& config : {old_form, new_form}) {
    EXPECT_EQ(config.rope_scaling, expected);
    EXPECT_EQ(config.rope_theta, 5e5);
  }
  EXPECT_EQ(read_with("Qwen3ForCausalLM", {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}).rope_scaling,
            (RopeScaling{.kind = RopeKind::kLinear, .factor = 2}));
}

TEST(DecoderConfig, YarnKnowsItsAttentionFactor) {
  const auto factor_of = [](const json& more) {
    json rope = {{"rope_type", "yarn"}, {"factor", 4.0}};
    rope.merge_patch(more);
    const RopeScaling scaling = read_with("Qwen3ForCausalLM", {{"rope_scaling", rope}}).rope_scaling;
    EXPECT_EQ(scaling.original_max_position_embeddings, 4096);
    return scaling.attention_factor;
  };
  EXPECT_NEAR(factor_of(json::object()), 1.1386294361, 1e-9);  // 0.1 ln 4 + 1
  EXPECT_EQ(factor_of({{"attention_factor", 1.5}}), 1.5);
  EXPECT_NEAR(factor_of({{"mscale", 1.0}, {"mscale_all_dim", 0.5}}), 1.1386294361 / 1.0693147181, 1e-9);
}

TEST(DecoderConfig, WhatTheLayerDoesNotComputeIsRefusedByName) {
  const auto expect = [](const json& change, const std::string& words) {
    const std::string text = refusal("LlamaForCausalLM", change);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("config.json: ")) << text;
  };
  expect({{"architectures", {"GemmaForCausalLM"}}},
         "'architectures' is 'GemmaForCausalLM'; known are LlamaForCausalLM");
  expect({{"hidden_act", "gelu"}}, "'hidden_act' is 'gelu'");
  expect({{"mlp_bias", true}}, "'mlp_bias'");
  expect({{"sliding_window", 4096}}, "'sliding_window'");
  expect({{"layer_types", {"full_attention", "linear_attention"}}}, "holds 'linear_attention'");
  expect({{"final_logit_softcapping", 30.0}}, "'final_logit_softcapping'");
  expect({{"rope_scaling", {{"rope_type", "longrope"}}}}, "'rope_scaling.rope_type' is 'longrope'");
  expect({{"rope_scaling", {{"rope_type", "linear"}}}}, "'rope_scaling.factor' is missing");
  expect({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}}}, "must be positive");
  expect({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}, "partial_rotary_factor");
  expect({{"num_key_value_heads", 3}}, "multiple of num_key_value_heads");
  expect({{"num_hidden_layers", 0}}, "at least 1");
  expect({{"vocab_size", nullptr}}, "'vocab_size' is missing");
  EXPECT_THROW(decoder_config_from_json("[]", "config.json"), UserError);
}

}  // namespace
}  // namespace draftsmith
