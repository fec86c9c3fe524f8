#include "draftsmith/model/layer_names.h"

#include <gtest/gtest.h>

#include <set>

namespace draftsmith {
namespace {

std::vector<DecoderWeight> some_weights() {
  std::vector<DecoderWeight> weights;
  for (const DecoderParam param : all_decoder_params()) {
    weights.push_back({param, 0});
    if (is_of_layer(param)) weights.insert(weights.end(), {{param, 7}, {param, 120}});
  }
  return weights;
}

TEST(LayerNames, EveryNameSurvivesThereAndBack) {
  std::set<std::string> gguf, target, drafter;
  for (const DecoderWeight& weight : some_weights()) {
    gguf.insert(gguf_name(weight));
    target.insert(hugging_face_name(weight));
    drafter.insert(hugging_face_name(weight, ""));
    EXPECT_EQ(weight_of_gguf_name(gguf_name(weight)), weight) << gguf_name(weight);
    EXPECT_EQ(weight_of_hugging_face_name(hugging_face_name(weight)), weight) << hugging_face_name(weight);
    EXPECT_EQ(weight_of_hugging_face_name(hugging_face_name(weight, ""), ""), weight) << hugging_face_name(weight, "");
  }
  for (const auto* names : {&gguf, &target, &drafter})
    EXPECT_EQ(names->size(), some_weights().size());  // no name twice
}

TEST(LayerNames, AreThoseOfTheFiles) {
  EXPECT_EQ(gguf_name({DecoderParam::kQ, 7}), "blk.7.attn_q.weight");
  EXPECT_EQ(gguf_name({DecoderParam::kOBias, 11}), "blk.11.attn_output.bias");
  EXPECT_EQ(gguf_name({DecoderParam::kPostAttentionNorm, 0}), "blk.0.ffn_norm.weight");
  EXPECT_EQ(gguf_name({DecoderParam::kEmbedding}), "token_embd.weight");
  EXPECT_EQ(gguf_name({DecoderParam::kOutputNorm}), "output_norm.weight");
  EXPECT_EQ(gguf_name({DecoderParam::kHead}), "output.weight");
  EXPECT_EQ(hugging_face_name({DecoderParam::kQ, 7}), "model.layers.7.self_attn.q_proj.weight");
  EXPECT_EQ(hugging_face_name({DecoderParam::kDown, 7}, ""), "layers.7.mlp.down_proj.weight");
  EXPECT_EQ(hugging_face_name({DecoderParam::kEmbedding}), "model.embed_tokens.weight");
  EXPECT_EQ(hugging_face_name({DecoderParam::kOutputNorm}), "model.norm.weight");
  EXPECT_EQ(hugging_face_name({DecoderParam::kHead}), "lm_head.weight");  // beside the model, not in it
}

TEST(LayerNames, UnknownNamesMeanNothing) {
  for (const char* name : {"", "blk", "blk.", "blk.7", "blk.7.", "blk..attn_q.weight", "blk.x.attn_q.weight",
                           "blk.07.attn_q.weight", "blk.-1.attn_q.weight", "blk.+1.attn_q.weight",
                           "blk.99999999999999999999.attn_q.weight", "blk.7.attn_qkv.weight", "blk.7.output.weight",
                           "attn_q.weight", "fc.weight", "enc.output_norm.weight", "model.layers.7.mlp.up_proj.weight"})
    EXPECT_EQ(weight_of_gguf_name(name), std::nullopt) << name;
  for (const char* name :
       {"", "model.", "model.layers.", "model.layers.7", "model.layers.7.self_attn.q_proj",
        "layers.7.self_attn.q_proj.weight", "model.layers.7.mlp.experts.0.up_proj.weight", "model.layers.7.norm.weight",
        "model.lm_head.weight", "self_attn.q_proj.weight", "model.self_attn.q_proj.weight", "blk.7.attn_q.weight"})
    EXPECT_EQ(weight_of_hugging_face_name(name), std::nullopt) << name;
  for (const char* name : {"model.norm.weight", "fc.weight", "hidden_norm.weight"})
    EXPECT_EQ(weight_of_hugging_face_name(name, ""), std::nullopt) << name;
}

}  // namespace
}  // namespace draftsmith
