// The reference decoder's prompts, outputs and accepted length of every step, met on F32 GGUF twins of its tiny
// targets.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "draftsmith/decode/evaluate.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/target/open.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

const std::string kGolden = DRAFTSMITH_SOURCE_DIR "/tests/golden/";

struct Case {
  Ids prompt, output;
  std::vector<std::int64_t> lengths;
};

struct Golden {
  std::unique_ptr<Target> target;
  LoadedDrafter drafter;
  std::vector<Case> cases;
  std::int64_t max_new_tokens = 0;
};

// Goes away with the program: a target reads its file as long as it lives.
struct TwinFolder {
  TwinFolder() {
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  }
  ~TwinFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path = (fs::temp_directory_path() / "draftsmith-twin-XXXXXX").string();
};

Golden load(const std::string& name) {
  at::set_num_threads(1);
  static const TwinFolder folder;
  const std::string twin = folder.path + "/" + name + ".gguf";
  const std::string command = "PYTHONPATH=" DRAFTSMITH_DEPS_DIR "/llama.cpp/gguf-py " DRAFTSMITH_DEPS_DIR
                              "/python/bin/python " DRAFTSMITH_SOURCE_DIR "/tests/tools/make_gguf_twin.py " +
                              kGolden + name + "/target " + twin;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot make " + twin);
  Golden golden{.target = open_target(twin, {.threads = 1, .compute = Compute::kFloat32}),
                .drafter = read_drafter_folder(kGolden + name + "/drafter"),
                .cases = {}};
  const auto expected = nlohmann::json::parse(std::ifstream(kGolden + name + "/expected.json"));
  golden.max_new_tokens = expected["max_new_tokens"];
  for (const auto& entry : expected["cases"]) {
    Case c{.prompt = entry["prompt"], .output = entry["output"], .lengths = entry["acceptance_lengths"]};
    c.output.erase(c.output.begin(), c.output.begin() + static_cast<std::ptrdiff_t>(c.prompt.size()));
    golden.cases.push_back(std::move(c));
  }
  return golden;
}

const Golden& golden(const std::string& name) {
  static std::map<std::string, Golden> loaded;
  if (!loaded.contains(name)) loaded.emplace(name, load(name));
  return loaded.at(name);
}

class GoldenDecoding : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, GoldenDecoding, testing::Values("decode_qwen3", "decode_llama"),
                         [](const auto& name) { return name.param; });

TEST_P(GoldenDecoding, EveryStepAcceptsWhatTheReferenceAccepts) {
  const Golden& g = golden(GetParam());
  SpeculativeDecoder decoder(*g.target, g.drafter, Place{.compute = at::kFloat});
  DecodeOptions options{.max_new_tokens = g.max_new_tokens};
  options.end_ids = Ids{};
  options.limit_rule = LimitRule::kWholeBlocks;
  ASSERT_FALSE(g.cases.empty());
  for (const Case& c : g.cases) {
    const DecodeResult result = decoder.decode(c.prompt, options);
    EXPECT_EQ(result.tokens, c.output);
    std::vector<std::int64_t> lengths;
    for (const DecodeStep& step : result.steps) lengths.push_back(step.num_accepted + 1);
    EXPECT_EQ(lengths, c.lengths);
  }
}

TEST_P(GoldenDecoding, StopsExactlyAtAnyEndIdAndAnyLimit) {
  const Golden& g = golden(GetParam());
  SpeculativeDecoder decoder(*g.target, g.drafter, Place{.compute = at::kFloat});
  std::int64_t inside_a_block = 0;
  for (const Case& c : g.cases) {
    std::set<std::int32_t> ends(c.output.begin(), c.output.end());
    ends.insert(-1);  // none
    for (const std::int32_t end : ends) {
      for (const std::int64_t limit : {1, 2, 3, 7, 8, 9, 40}) {
        Ids expected(c.output.begin(), c.output.begin() + limit);
        const auto found = std::find(expected.begin(), expected.end(), end);
        const bool ended = found != expected.end();
        if (ended) expected.erase(found + 1, expected.end());
        DecodeOptions options{.max_new_tokens = limit};
        options.end_ids = Ids{end};
        const DecodeResult result = decoder.decode(c.prompt, options);
        ASSERT_EQ(result.tokens, expected) << "end " << end << ", limit " << limit;
        EXPECT_EQ(result.ended, ended);
        std::int64_t produced = 1;
        for (const DecodeStep& step : result.steps) produced += step.num_accepted + 1;
        if (produced > static_cast<std::int64_t>(expected.size())) ++inside_a_block;
      }
    }
  }
  // The outputs of decode_llama repeat one token too long to have a first occurrence inside an accepted block.
  EXPECT_TRUE(inside_a_block > 0 || GetParam() == "decode_llama");
}

// Held-out prompts, both decodings, the same model in fp32: nothing differs, and tau is that of the reference's steps.
TEST_P(GoldenDecoding, EvaluationAgreesWithTheReference) {
  const Golden& g = golden(GetParam());
  DataSet data;
  double sum = 0, steps = 0;
  for (const Case& c : g.cases) {
    Ids tokens = c.prompt;
    std::vector<std::uint8_t> mask(tokens.size(), 0);
    tokens.push_back(c.output[0]);
    mask.push_back(1);
    data.add_document(tokens, mask);
    std::int64_t produced = 1;
    for (const std::int64_t length : c.lengths) {
      if (g.max_new_tokens - produced < g.drafter.config().block_size) break;  // shortened: left out
      // An end id inside the step cuts it; the target's own end ids apply here.
      const auto begin = c.output.begin() + produced - 1, end = begin + length + 1;
      const auto& ids = g.target->info().end_ids;
      const auto is_end = [&](std::int32_t id) { return std::count(ids.begin(), ids.end(), id) > 0; };
      const auto found = std::find_if(begin, end, is_end);
      if (found == begin || found < end - 1) break;
      sum += double(length);
      steps += 1;
      produced += length;
      if (found == end - 1) break;
    }
  }
  const EvalReport report =
      evaluate(*g.target, g.drafter, data, {.prompts = 0, .max_new_tokens = g.max_new_tokens}, nullptr);
  EXPECT_TRUE(report.lossless());
  EXPECT_EQ(report.num_ties, 0);
  EXPECT_LT(report.noise, 1e-3);
  EXPECT_EQ(report.all.acceptance.num_steps(), static_cast<std::int64_t>(steps));
  EXPECT_NEAR(report.all.acceptance.tau_over_steps(), sum / steps, 1e-9);
}

}  // namespace
}  // namespace draftsmith
