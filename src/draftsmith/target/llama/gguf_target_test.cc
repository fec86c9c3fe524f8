// Compares F32 GGUF twins of the golden folders with the hidden states and logits of the reference implementation, and
// tests what is refused.
#include "draftsmith/target/llama/gguf_target.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "draftsmith/store/safetensors.h"
#include "draftsmith/store/test_folder.h"
#include "draftsmith/target/llama/load.h"

namespace draftsmith {
namespace {

using Tokens = std::vector<std::int32_t>;
const std::string kGolden = DRAFTSMITH_SOURCE_DIR "/tests/golden/";

void run_python(const std::string& script, const std::string& arguments) {
  const std::string command = "PYTHONPATH=" DRAFTSMITH_DEPS_DIR "/llama.cpp/gguf-py " DRAFTSMITH_DEPS_DIR
                              "/python/bin/python " DRAFTSMITH_SOURCE_DIR "/tests/tools/" +
                              script + " " + arguments;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

// Each twin is made once for all tests of this program.
std::filesystem::path twin_path(const std::string& name) {
  static const TestFolder folder;
  static std::map<std::string, std::filesystem::path> made;
  std::filesystem::path& path = made[name];
  if (path.empty()) {
    path = folder / (name + ".gguf");
    run_python("make_gguf_twin.py", kGolden + name + "/target " + path.string());
  }
  return path;
}

std::unique_ptr<Target> load_twin(const std::string& name, std::int64_t threads = 1) {
  return load_gguf_target(twin_path(name), {.threads = threads, .compute = Compute::kFloat32});
}

at::Tensor floats(const SafetensorsFile& file, const std::string& name) {
  const std::vector<float> values = file.copy<float>(name, DType::kF32);
  return at::from_blob(const_cast<float*>(values.data()), file.info(name).shape, at::kFloat).clone();
}

Tokens golden_tokens(const SafetensorsFile& file) {
  const std::vector<std::int64_t> ids = file.copy<std::int64_t>("token_ids", DType::kI64);
  return {ids.begin(), ids.end()};
}

double relative_error(const at::Tensor& got, const at::Tensor& expected) {
  return ((got.to(at::kFloat) - expected).abs().max() / expected.abs().max()).item<double>();
}

DocumentFeatures features_of(Target& target, const Tokens& document, const std::vector<std::int64_t>& taps,
                             bool want_final_state = false) {
  return target.features(document, taps, want_final_state);
}

// Returns arbitrary token ids below 64.
Tokens some_tokens(std::size_t length) {
  Tokens tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = static_cast<std::int32_t>(i * i % 61 + 3);
  return tokens;
}

class Twin : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Twin, testing::Values("decode_llama", "decode_qwen3"),
                         [](const auto& i) { return i.param; });

// The tap of layer l is the reference's hidden state l + 1. A session gives the reference's numbers in one pass, token
// by token and after cutting back.
TEST_P(Twin, SessionGivesTheReferencesStatesAndLogits) {
  const SafetensorsFile golden(kGolden + GetParam() + "/target_forward.safetensors");
  const Tokens tokens = golden_tokens(golden);
  const std::vector<std::int64_t> taps = {0, 2, 4};
  const at::Tensor states = at::cat(
      {floats(golden, "hidden_states.1"), floats(golden, "hidden_states.3"), floats(golden, "hidden_states.5")}, 1);
  const at::Tensor logits = floats(golden, "logits");
  const auto target = load_twin(GetParam());
  const auto session = target->session(taps, 64);
  const TargetSession::Pass whole = session->extend(tokens);
  EXPECT_LT(relative_error(whole.features, states), 2e-6);
  EXPECT_LT(relative_error(whole.logits, logits), 2e-6);

  session->truncate(20);
  EXPECT_EQ(session->length(), 20);
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t i = 20; i < num_tokens; ++i) {
    const TargetSession::Pass one = session->extend(std::span(tokens).subspan(static_cast<std::size_t>(i), 1));
    EXPECT_LT(relative_error(one.features, states.narrow(0, i, 1)), 5e-6) << i;
    EXPECT_LT(relative_error(one.logits, logits.narrow(0, i, 1)), 5e-6) << i;
  }
  // Other tokens after a cut leave no trace.
  session->truncate(10);
  const Tokens others(7, 3);
  session->extend(others);
  session->truncate(10);
  const TargetSession::Pass rest = session->prefill(std::span(tokens).subspan(10));
  EXPECT_EQ(rest.logits.size(0), 1);
  EXPECT_LT(relative_error(rest.logits, logits.narrow(0, num_tokens - 1, 1)), 5e-6);
  EXPECT_LT(relative_error(rest.features, states.narrow(0, 10, num_tokens - 10)), 5e-6);
}

TEST_P(Twin, FeaturesAreTheReferencesStatesInBf16) {
  const SafetensorsFile golden(kGolden + GetParam() + "/target_forward.safetensors");
  const auto target = load_twin(GetParam());
  const DocumentFeatures features =
      features_of(*target, golden_tokens(golden), {4, 0}, true);  // in the order asked for
  const at::Tensor states = at::cat({floats(golden, "hidden_states.5"), floats(golden, "hidden_states.1")}, 1);
  EXPECT_EQ(features.taps.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_error(features.taps, states), 1.0 / 256);
  EXPECT_LT(relative_error(features.final_state, floats(golden, "hidden_states.6")), 1.0 / 256);
  // Each number differs by no more than the rounding to bf16.
  EXPECT_LT(((features.taps.to(at::kFloat) - states).abs() / (states.abs() + 1e-3)).max().item<double>(), 1.0 / 250);
}

// The cache and the context that an engine keeps between documents leave no trace: the features are, bit for bit, those
// of an engine that has read nothing yet.
TEST_P(Twin, FeaturesDoNotDependOnWhatWasReadBefore) {
  struct Request {
    std::size_t length;
    std::vector<std::int64_t> taps;
    bool want_final_state;
  };
  const std::vector<Request> requests = {{45, {0, 4}, true}, {7, {0, 4}, true}, {300, {0, 4}, true},
                                         {7, {0, 4}, true},  {0, {0, 4}, true}, {45, {0, 4}, true},
                                         {45, {2}, false},   {300, {2}, false}, {512, {2, 1}, true},
                                         {1, {2, 1}, true},  {45, {0, 4}, true}};
  const auto target = load_twin(GetParam());
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const auto& [length, taps, want_final_state] = requests[r];
    // The tokens differ each time, so that anything left behind would be seen.
    Tokens tokens = some_tokens(length + r);
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(r));
    const DocumentFeatures later = features_of(*target, tokens, taps, want_final_state);
    const DocumentFeatures first = features_of(*load_twin(GetParam()), tokens, taps, want_final_state);
    EXPECT_EQ(later.taps.size(0), static_cast<std::int64_t>(length));
    EXPECT_TRUE(later.taps.equal(first.taps)) << r;
    ASSERT_EQ(later.final_state.defined(), want_final_state);
    if (want_final_state) {
      EXPECT_TRUE(later.final_state.equal(first.final_state)) << r;
    }
  }
}

TEST(GgufTarget, LongDocumentsEqualShortPasses) {
  const auto target = load_twin("decode_llama");
  const Tokens tokens = some_tokens(1300);
  const DocumentFeatures features = features_of(*target, tokens, {1, 3}, true);
  const auto session = target->session(std::vector<std::int64_t>{1, 3}, 1300);
  std::int64_t begin = 0;
  for (const std::int64_t count : {1, 99, 412, 1, 512, 275}) {
    const TargetSession::Pass pass = session->extend(std::span(tokens).subspan(begin, count));
    EXPECT_EQ(pass.logits.size(0), count);
    EXPECT_LT(relative_error(features.taps.narrow(0, begin, count), pass.features), 1.0 / 250);
    // The final state times the head gives the logits.
    const at::Tensor final_state = features.final_state.narrow(0, begin, count).to(at::kFloat);
    EXPECT_LT(relative_error(at::matmul(final_state, target->head().t()), pass.logits), 1.0 / 50);
    begin += count;
  }
  EXPECT_EQ(begin, 1300);
}

TEST_P(Twin, WeightsAreTheFolders) {
  const SafetensorsFile folder(kGolden + GetParam() + "/target/model.safetensors");
  const auto target = load_twin(GetParam());
  EXPECT_TRUE(target->embedding().equal(floats(folder, "model.embed_tokens.weight")));
  const bool tied = !folder.has("lm_head.weight");
  EXPECT_EQ(tied, GetParam() == "decode_llama");
  EXPECT_EQ(tied, target->head().is_same(target->embedding()));
  if (!tied) {
    EXPECT_TRUE(target->head().equal(floats(folder, "lm_head.weight")));
  }
  const std::map<DecoderParam, std::string> names = {{DecoderParam::kQ, "self_attn.q_proj"},
                                                     {DecoderParam::kK, "self_attn.k_proj"},
                                                     {DecoderParam::kV, "self_attn.v_proj"},
                                                     {DecoderParam::kO, "self_attn.o_proj"},
                                                     {DecoderParam::kGate, "mlp.gate_proj"},
                                                     {DecoderParam::kUp, "mlp.up_proj"},
                                                     {DecoderParam::kDown, "mlp.down_proj"},
                                                     {DecoderParam::kInputNorm, "input_layernorm"},
                                                     {DecoderParam::kPostAttentionNorm, "post_attention_layernorm"}};
  for (const auto& [param, folder_name] : names) {
    const at::Tensor weight = target->weight({param, 3});
    EXPECT_TRUE(weight.equal(floats(folder, "model.layers.3." + folder_name + ".weight"))) << folder_name;
  }
  EXPECT_TRUE(target->weight({DecoderParam::kOutputNorm}).equal(floats(folder, "model.norm.weight")));
  EXPECT_FALSE(target->weight({DecoderParam::kQBias, 3}).defined());
  EXPECT_FALSE(target->weight({DecoderParam::kQ, 6}).defined());  // it has six layers
}

TEST_P(Twin, TheHeadAloneIsTheModels) {
  const auto target = load_twin(GetParam());
  const TargetHead head = read_gguf_head(twin_path(GetParam()));
  EXPECT_TRUE(head.rows.equal(target->head()));
  EXPECT_EQ(head.tensor, target->info().tied_head ? "token_embd.weight" : "output.weight");
}

TEST_P(Twin, HalfPrecisionIsKeptOnRequest) {
  const auto target = load_gguf_target(twin_path(GetParam()), {.threads = 1, .compute = Compute::kBFloat16});
  EXPECT_EQ(target->embedding().scalar_type(), at::kBFloat16);
  EXPECT_TRUE(target->embedding().equal(load_twin(GetParam())->embedding().to(at::kBFloat16)));
}

TEST_P(Twin, GreedyAnswersDoNotDependOnWhatRunsBeside) {
  const auto target = load_twin(GetParam());
  std::vector<Tokens> prompts;
  for (std::int32_t i = 0; i < 7; ++i) prompts.push_back(Tokens(static_cast<std::size_t>(1 + 5 * i), 10 + i));
  std::vector<std::int64_t> finished;
  const auto note = [&](std::int64_t i, const Target::Answer&) { finished.push_back(i); };
  const auto together = target->generate(prompts, {.max_new_tokens = 24, .parallel = 3}, note);
  std::sort(finished.begin(), finished.end());
  EXPECT_EQ(finished, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = target->generate(std::span(prompts).subspan(i, 1), {.max_new_tokens = 24, .parallel = 1}, {});
    EXPECT_EQ(together[i].tokens, alone[0].tokens) << i;
    EXPECT_TRUE(together[i].ended || together[i].tokens.size() == 24);
    // A session that takes the likeliest token each time says the same.
    const auto session = target->session({}, 64);
    at::Tensor logits = session->prefill(prompts[i]).logits;
    for (const std::int32_t token : together[i].tokens) {
      EXPECT_EQ(logits.argmax(-1).item<std::int64_t>(), token);
      logits = session->extend(std::span(&token, 1)).logits;
    }
  }
}

TEST_P(Twin, SampledAnswersDependOnSeedAndIndexOnly) {
  const auto target = load_twin(GetParam());
  const std::vector<Tokens> prompts(5, Tokens{4, 8, 15});
  const GenerateOptions options = {.max_new_tokens = 16, .temperature = 1.5, .seed = 11, .parallel = 5};
  const auto first = target->generate(prompts, options, {});
  GenerateOptions alone = options, other = options;
  alone.parallel = 1;
  other.seed = 12;
  const auto second = target->generate(prompts, alone, {});
  const auto third = target->generate(prompts, other, {});
  int same = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(first[i].tokens, second[i].tokens);
    same += first[i].tokens == third[i].tokens || (i > 0 && first[i].tokens == first[0].tokens) ? 1 : 0;
  }
  EXPECT_LE(same, 1);
}

TEST(GgufTarget, InfoSaysWhatTheFolderSays) {
  const TargetInfo llama = load_twin("decode_llama")->info();
  EXPECT_EQ(llama.architecture, "llama");
  EXPECT_EQ(llama.name, "target twin");
  EXPECT_EQ(llama.num_layers, 6);
  EXPECT_EQ(llama.hidden_size, 48);
  EXPECT_EQ(llama.intermediate_size, 96);
  EXPECT_EQ(llama.num_heads, 4);
  EXPECT_EQ(llama.num_kv_heads, 1);
  EXPECT_EQ(llama.head_dim, 12);
  EXPECT_EQ(llama.vocab_size, 67);
  EXPECT_EQ(llama.context_length, 2048);
  EXPECT_DOUBLE_EQ(llama.rope_theta, 500000);
  EXPECT_NEAR(llama.norm_eps, 1e-6, 1e-12);
  EXPECT_EQ(llama.end_ids, (Tokens{2}));
  EXPECT_TRUE(llama.can_rewind);
  const TargetInfo qwen3 = load_twin("decode_qwen3")->info();
  EXPECT_EQ(qwen3.head_dim, 24);
  EXPECT_EQ(qwen3.num_kv_heads, 2);
}

#define EXPECT_REFUSED(statement, words) EXPECT_USER_ERROR(statement, words, "")

TEST(GgufTarget, BadRequestsAreRefusedInWords) {
  const auto target = load_twin("decode_qwen3");
  EXPECT_REFUSED(features_of(*target, Tokens{1}, {5}), "tap 5 is the last layer");
  EXPECT_REFUSED(features_of(*target, Tokens{1}, {0, 0}), "listed twice");
  EXPECT_REFUSED(features_of(*target, Tokens{1}, {}), "no features were asked for");
  EXPECT_REFUSED(features_of(*target, Tokens{1, 67}, {0}),
                 "a document holds token 67, but the target's ids are 0 .. 66");
  EXPECT_REFUSED(features_of(*target, Tokens{-1}, {0}), "a document holds token -1");
  EXPECT_REFUSED(features_of(*target, Tokens(513, 3), {0}), "a document of 513 tokens is longer than the 512");
  EXPECT_REFUSED(target->session({}, 513), "longer than the 512");
  EXPECT_REFUSED(target->session({}, 0), "at least one token");
  const auto session = target->session({}, 4);
  EXPECT_REFUSED(session->extend(Tokens{}), "at least one token");
  EXPECT_REFUSED(session->extend(Tokens{1, 2, 3, 4, 5}), "would grow to 5 tokens, but its session holds 4");
  session->extend(Tokens{1, 2, 3, 4});
  EXPECT_REFUSED(session->extend(Tokens{1}), "would grow to 5 tokens");
  EXPECT_REFUSED(session->truncate(5), "cannot cut a sequence of 4 tokens back to 5");
  EXPECT_REFUSED(target->generate(std::vector<Tokens>{{}}, {}, {}), "prompt 0 is empty");
  EXPECT_REFUSED(target->generate(std::vector<Tokens>{{1}}, {.max_new_tokens = 512}, {}), "more than the 512");
  EXPECT_REFUSED(target->generate(std::vector<Tokens>{{1}}, {.parallel = 0}, {}), "1 .. 128");
  EXPECT_REFUSED(target->generate(std::vector<Tokens>{{1}}, {.top_p = 0}, {}), "top_p");
  EXPECT_TRUE(target->generate({}, {}, {}).empty());
  EXPECT_EQ(features_of(*target, {}, {0}).taps.size(0), 0);
  // Everything still works after a refusal.
  session->truncate(2);
  EXPECT_EQ(session->extend(Tokens{5}).logits.size(1), 67);
}

// A recurrent memory only goes forward: it gives features of documents but cannot be cut back.
TEST(GgufTarget, ARecurrentTargetGivesFeaturesButCannotBeCutBack) {
  const TestFolder folder;
  run_python("make_gguf_mamba.py", (folder / "mamba.gguf").string());
  const auto target = load_gguf_target(folder / "mamba.gguf", {.threads = 1, .compute = Compute::kFloat32});
  EXPECT_EQ(target->info().architecture, "mamba");
  EXPECT_FALSE(target->info().can_rewind);
  const std::vector<Tokens> documents = {Tokens(9, 5), some_tokens(700), Tokens{7, 8}};
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const DocumentFeatures features = features_of(*target, documents[d], {0, 2}, true);
    const auto session = target->session(std::vector<std::int64_t>{0, 2}, 1024);
    const TargetSession::Pass pass = session->extend(documents[d]);
    EXPECT_LT(relative_error(features.taps, pass.features), 1.0 / 200) << d;
    EXPECT_LT(relative_error(at::matmul(features.final_state.to(at::kFloat), target->head().t()), pass.logits),
              1.0 / 50)
        << d;
    EXPECT_REFUSED(session->truncate(1), "architecture mamba cannot forget tokens");
    EXPECT_EQ(session->length(), static_cast<std::int64_t>(documents[d].size()));
  }
  const std::vector<Tokens> prompts = {Tokens{4, 5, 6}, Tokens(20, 9), Tokens{11}};
  const auto answers = target->generate(prompts, {.max_new_tokens = 12, .parallel = 2}, {});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = target->generate(std::span(prompts).subspan(i, 1), {.max_new_tokens = 12, .parallel = 1}, {});
    EXPECT_EQ(answers[i].tokens, alone[0].tokens) << i;
  }
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Writes the twin with one text of its header replaced by another of the same length.
std::filesystem::path changed_twin(const TestFolder& folder, const std::string& from, const std::string& to) {
  std::string bytes = bytes_of(twin_path("decode_qwen3"));
  for (std::size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + to.size())) {
    bytes.replace(at, from.size(), to);
  }
  std::ofstream(folder / "changed.gguf", std::ios::binary) << bytes;
  return folder / "changed.gguf";
}

TEST(GgufTarget, FilesThatAreNoTargetAreRefusedByName) {
  const TestFolder folder;
  const TargetOptions options;
  EXPECT_REFUSED(load_gguf_target(folder / "none.gguf", options), "none.gguf");
  std::ofstream(folder / "text.gguf") << "not a model";
  EXPECT_REFUSED(load_gguf_target(folder / "text.gguf", options), "text.gguf");
  EXPECT_REFUSED(load_gguf_target(changed_twin(folder, "token_embd.weight", "token_embx.weight"), options),
                 "changed.gguf: has no tensor token_embd.weight");
  EXPECT_REFUSED(load_gguf_target(changed_twin(folder, "blk.3.ffn_up.weight", "blk.3.ffn_ux.weight"), options),
                 "changed.gguf: llama.cpp cannot load this model: ");
  EXPECT_REFUSED(load_gguf_target(changed_twin(folder, "blk.3.ffn_up.weight", "blk.3.ffn_ux.weight"), options),
                 "blk.3.ffn_up.weight");
  EXPECT_REFUSED(load_gguf_target(changed_twin(folder, "tokenizer.ggml.model", "tokenizer.ggml.modex"), options),
                 "llama.cpp cannot load this model: ");
  EXPECT_REFUSED(load_gguf_target(changed_twin(folder, "qwen3", "qwenX"), options), "qwenX");
  EXPECT_REFUSED(load_gguf_target(DRAFTSMITH_DEPS_DIR "/llama.cpp/models/ggml-vocab-gpt-2.gguf", options),
                 "without weights");
}

// A file that llama.cpp would assert on never reaches it.
TEST(GgufTarget, WhatWouldStopTheEngineIsRefusedBefore) {
  const GgufFile good = read_gguf(twin_path("decode_qwen3"));
  EXPECT_NO_THROW(check_is_target(good));
  const auto with = [&](const std::string& key, const GgufValue& value) {
    GgufFile file = good;
    file.keys[key] = value;
    check_is_target(file);
  };
  EXPECT_REFUSED(with("general.architecture", "dflash"), "holds a drafter (architecture dflash), not a target");
  EXPECT_REFUSED(with("general.architecture", "clip"), "image encoder");
  EXPECT_REFUSED(with("general.type", "adapter"), "of type adapter, not a whole model");
  EXPECT_REFUSED(with("qwen3.block_count", std::int64_t{0}), "qwen3.block_count is 0; a model has 1 .. 512 layers");
  EXPECT_REFUSED(with("qwen3.block_count", std::int64_t{100000}), "block_count is 100000");
  EXPECT_REFUSED(with("qwen3.block_count", "six"), "block_count is missing");
  EXPECT_REFUSED(with("qwen3.attention.layer_norm_rms_epsilon", -1.0), "layer_norm_rms_epsilon is -1");
  EXPECT_REFUSED(with("qwen3.attention.layer_norm_rms_epsilon", std::nan("")), "layer_norm_rms_epsilon is nan");
  EXPECT_REFUSED(with("tokenizer.ggml.tokens", std::vector<std::int64_t>{1}),
                 "tokenizer.ggml.tokens is not a list of strings");
  EXPECT_REFUSED(with("tokenizer.ggml.token_type", std::vector<std::string>{"1"}),
                 "token_type is not a list of numbers");
}

}  // namespace
}  // namespace draftsmith
