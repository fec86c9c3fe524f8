// The assistant's tokens and their end-of-turn are supervised, whatever the template looks like.
#include "draftsmith/chat/supervise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "draftsmith/base/check.h"
#include "draftsmith/text/text_test_models.h"

namespace draftsmith {
namespace {

using Ids = std::vector<std::int32_t>;
using Messages = std::vector<ChatMessage>;

const Messages kTwoTurns = {{"user", "q1"}, {"assistant", "a1"}, {"user", "q2"}, {"assistant", "a2"}};

ChatTemplate made(const std::string& source) { return {source, "", "<|im_end|>"}; }

SupervisedTokens supervise(const std::string& source, const Messages& messages) {
  const ChatTemplate chat_template = made(source);
  return Supervisor(smol(), chat_template).supervise(messages);
}

Ids supervised_ids(const SupervisedTokens& all) {
  Ids ids;
  for (std::size_t i = 0; i < all.tokens.size(); ++i) {
    if (all.loss_mask[i] != 0) ids.push_back(all.tokens[i]);
  }
  return ids;
}

Ids ids_of(const std::vector<std::string>& texts) {
  Ids ids;
  for (const std::string& text : texts) {
    const Ids more = smol().encode(text, true);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

TEST(Supervise, AnswersAndTheirEndOfTurnInChatMl) {
  const SupervisedTokens all = supervise(kChatMl, kTwoTurns);
  EXPECT_EQ(supervised_ids(all), ids_of({"a1", "<|im_end|>", "a2", "<|im_end|>"}));
  EXPECT_EQ(supervised_ids(all).size(), 6u);
  EXPECT_EQ(all.tokens, smol().encode(made(kChatMl).render(kTwoTurns, GenerationPrompt::kOmit), true));
  EXPECT_EQ(all.num_turns, 2);
  EXPECT_EQ(all.loss_mask.back(), 0);  // the newline after the last end-of-turn
}

TEST(Supervise, SameTextUnderOtherTemplates) {
  const Ids expected = ids_of({"a1", "<|im_end|>", "a2", "<|im_end|>"});
  const std::string with_tag =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' "
      "}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant' + '\\n' }}{% endif %}";
  EXPECT_EQ(supervised_ids(supervise(with_tag, kTwoTurns)), expected);
  const std::string upper_case =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content | upper if m.role == 'user' else "
      "m.content) + "
      "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant' + '\\n' }}{% endif "
      "%}";
  EXPECT_EQ(supervised_ids(supervise(upper_case, kTwoTurns)), expected);
  const std::string merging =
      "{% if messages[0].role == 'system' %}{% set head = messages[0].content + '\\n' %}{% set rest = messages[1:] %}"
      "{% else %}{% set head = '' %}{% set rest = messages %}{% endif %}"
      "{% for m in rest %}{{ '<|im_start|>' + m.role + '\\n' + (head if loop.first else '') + m.content + '<|im_end|>' "
      "+ '\\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant' + '\\n' }}{% endif %}";
  Messages with_system = kTwoTurns;
  with_system.insert(with_system.begin(), {"system", "be kind"});
  EXPECT_EQ(supervised_ids(supervise(merging, with_system)), expected);
  const std::string headers =
      "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<A>' + m.content + '</A>' + '\\n' }}{% else %}"
      "{{ '<U>' + m.content + '</U>' + '\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}<A>{% endif %}";
  EXPECT_EQ(smol().decode(supervised_ids(supervise(headers, kTwoTurns)), true), "a1</A>a2</A>");
}

TEST(Supervise, SmolLmsOwnTemplate) {
  const ChatTemplate chat_template = ChatTemplate::of(smol());
  const SupervisedTokens all = Supervisor(smol(), chat_template).supervise(kTwoTurns);
  EXPECT_EQ(supervised_ids(all), ids_of({"a1", "<|im_end|>", "a2", "<|im_end|>"}));
}

// Padding and end-of-turn are one token in SmolLM2, so the mask must go by position and never by value.
TEST(Supervise, OneEndOfTurnForEachAnswer) {
  const Ids ids = supervised_ids(supervise(kChatMl, kTwoTurns));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kImEnd), 2);
}

TEST(Supervise, TextOfAnAnswerIsNeverSearchedFor) {
  const Messages echo = {{"user", "say a1"},
                         {"assistant", "a1"},
                         {"user", "a1<|im_end|>\n<|im_start|>assistant\na1"},
                         {"assistant", "ok"}};
  EXPECT_EQ(supervised_ids(supervise(kChatMl, echo)), ids_of({"a1", "<|im_end|>", "ok", "<|im_end|>"}));
}

TEST(Supervise, OddOrdersOfRoles) {
  const Messages answer_first = {{"assistant", "A"}, {"user", "u"}, {"assistant", "B"}};
  EXPECT_EQ(supervised_ids(supervise(kChatMl, answer_first)).size(), 4u);
  const Messages two_users = {{"user", "a"}, {"user", "b"}, {"assistant", "ok"}};
  EXPECT_EQ(supervised_ids(supervise(kChatMl, two_users)), ids_of({"ok", "<|im_end|>"}));
  const Messages two_answers = {{"user", "a"}, {"assistant", "b"}, {"assistant", "ok"}};
  EXPECT_EQ(supervised_ids(supervise(kChatMl, two_answers)), ids_of({"b", "<|im_end|>", "ok", "<|im_end|>"}));
}

TEST(Supervise, AnswerThatJoinsThePromptInOneTokenIsTokenisedApart) {
  const Messages messages = {
      {"user", "a"}, {"assistant", "\nb"}, {"user", "c"}, {"assistant", "d"}};  // "\n\n" is one token
  const SupervisedTokens all = supervise(kChatMl, messages);
  EXPECT_EQ(supervised_ids(all), ids_of({"\n", "b<|im_end|>", "d<|im_end|>"}));
  EXPECT_EQ(smol().decode(all.tokens, true), made(kChatMl).render(messages, GenerationPrompt::kOmit));
  const ChatTemplate chat_template = made(kChatMl);
  const Ids prompt = Supervisor(smol(), chat_template).prompt(std::span(messages).first(1)).tokens;
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), all.tokens.begin()));
}

TEST(Supervise, TokenThatHoldsTheEndOfAnAnswerIsSupervised) {
  const std::string dots =
      "{% for m in messages %}{{ m.content + '.' }}{% if m.role == 'assistant' %}{{ '..' }}{% endif %}{% endfor %}";
  const Messages messages = {{"user", "q"}, {"assistant", " yes"}, {"user", "."}, {"assistant", " no"}};
  const SupervisedTokens all = supervise(dots, messages);  // q. yes..... no...
  EXPECT_EQ(all.num_turns, 2);
  EXPECT_EQ(smol().decode(all.tokens, true), "q. yes..... no...");
  EXPECT_EQ(smol().decode(supervised_ids(all), true).substr(0, 7), " yes...");
}

TEST(Supervise, TemplateThatRewritesEarlierAnswersKeepsTheLast) {
  const std::string forgets =  // earlier answers lose the text before </t>
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content if loop.last else "
      "m.content.split('</t>')[-1]) + "
      "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant' + '\\n' }}{% endif "
      "%}";
  const Messages messages = {{"user", "q"}, {"assistant", "x</t>a1"}, {"user", "q"}, {"assistant", "y</t>a2"}};
  const SupervisedTokens all = supervise(forgets, messages);
  EXPECT_EQ(supervised_ids(all), ids_of({"y</t>a2<|im_end|>"}));
  EXPECT_EQ(all.num_turns, 1);
  EXPECT_EQ(all.num_turns_left_out, 1);
}

TEST(Supervise, BordersThatCannotBeFoundAreRefused) {
  const std::string thinks =  // the generation prompt is not how an answer is printed
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant' + '\\n<think>' }}{% endif %}";
  EXPECT_THROW(supervise(thinks, kTwoTurns), UserError);
  const std::string strict = "{% if messages | length > 2 %}{{ raise_exception('too long') }}{% endif %}" + kChatMl;
  EXPECT_THROW(supervise(strict, kTwoTurns), UserError);
}

TEST(Supervise, CutAnswerHasNoEndOfTurn) {
  const ChatTemplate chat_template = made(kChatMl);
  const SupervisedTokens all = Supervisor(smol(), chat_template).supervise(kTwoTurns, LastAnswer::kCut);
  EXPECT_EQ(supervised_ids(all), ids_of({"a1", "<|im_end|>", "a2"}));
  EXPECT_EQ(all.loss_mask.back(), 1);
}

TEST(Supervise, BytesOfOddTextArrive) {
  const auto answer_ids = [&](const std::string& text) {
    Ids ids = supervised_ids(supervise(kChatMl, {{"user", "q"}, {"assistant", text}}));
    ids.pop_back();
    return smol().decode(ids, true);
  };
  for (const std::string& text :
       {std::string("\xF0\x9F\xA6\x99"), std::string("a\0b", 3), std::string("\xE2\x80\xA8\xC2\x85")}) {
    EXPECT_EQ(answer_ids(text), text);
  }
}

TEST(Supervise, PromptAnswerAndWhatFollowsMakeTheWholeText) {
  const ChatTemplate chat_template = ChatTemplate::of(smol());
  const Supervisor supervisor(smol(), chat_template);
  const std::span<const ChatMessage> all(kTwoTurns);
  Ids ids = supervisor.prompt(all.first(1)).tokens;
  for (std::size_t answer : {1u, 3u}) {
    const Ids text = ids_of({kTwoTurns[answer].content, "<|im_end|>"});
    ids.insert(ids.end(), text.begin(), text.end());
    if (answer == 3) break;
    const Ids after = supervisor.after_answer(all.first(3), 1);
    EXPECT_EQ(smol().decode(after, true), "\n<|im_start|>user\nq2<|im_end|>\n<|im_start|>assistant\n");
    ids.insert(ids.end(), after.begin(), after.end());
  }
  const Ids newline = ids_of({"\n"});
  ids.insert(ids.end(), newline.begin(), newline.end());
  EXPECT_EQ(ids, supervisor.supervise(kTwoTurns).tokens);
  const SupervisedTokens prompt = supervisor.prompt(all.first(3));
  EXPECT_EQ(supervised_ids(prompt), ids_of({"a1", "<|im_end|>"}));  // answers that are there are supervised
}

// Ids are bytes; 256 is bos, 257 and 258 start and end a turn. With `leading_space` it puts a space token in front, as
// SentencePiece does, so that the pieces do not spell the text.
class ByteTokens final : public Tokenizer {
 public:
  bool with_bos = false, leading_space = false;

  std::int64_t size() const override { return 259; }
  Ids encode(std::string_view text, bool) const override {
    Ids ids;
    if (leading_space && !text.empty()) ids.push_back(' ');
    while (!text.empty()) {
      std::int32_t id = static_cast<unsigned char>(text[0]);
      for (std::int32_t special = 256; special < 259; ++special) {
        if (text.starts_with(kSpecial[special - 256])) id = special;
      }
      ids.push_back(id);
      text.remove_prefix(piece(id, true).size());
    }
    return ids;
  }
  std::string piece(std::int32_t id, bool) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : kSpecial[id - 256];
  }
  std::string decode(std::span<const std::int32_t> ids, bool) const override {
    std::string text;
    for (std::int32_t id : ids) text += piece(id, true);
    return text;
  }
  bool is_control(std::int32_t id) const override { return id >= 256; }
  bool is_end(std::int32_t id) const override { return id == 258; }
  std::int32_t bos() const override { return 256; }
  std::int32_t eos() const override { return 258; }
  std::int32_t pad() const override { return 258; }
  std::int32_t unk() const override { return -1; }
  std::int32_t mask() const override { return -1; }
  bool adds_bos() const override { return with_bos; }
  std::string digest() const override { return ""; }
  std::string chat_template() const override { return kChatMl; }

 private:
  inline static const std::string kSpecial[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
};

TEST(Supervise, ExactlyOneBosAtTheStart) {
  ByteTokens tokenizer;
  for (const bool printed : {false, true}) {
    for (const bool added : {false, true}) {
      tokenizer.with_bos = added;
      const ChatTemplate chat_template = ChatTemplate::of(tokenizer, printed ? "{{ bos_token }}" + kChatMl : kChatMl);
      const Supervisor supervisor(tokenizer, chat_template);
      const SupervisedTokens all = supervisor.supervise(kTwoTurns);
      EXPECT_EQ(std::count(all.tokens.begin(), all.tokens.end(), 256), printed || added);
      EXPECT_EQ(all.tokens[0] == 256, printed || added);
      EXPECT_EQ(supervised_ids(all), (Ids{'a', '1', 258, 'a', '2', 258}));
      const Ids prompt = supervisor.prompt(std::span(kTwoTurns).first(1)).tokens;
      EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), all.tokens.begin()));
      const Ids after = supervisor.after_answer(std::span(kTwoTurns).first(3), 1);
      EXPECT_EQ(tokenizer.decode(after, true), "\n<|im_start|>user\nq2<|im_end|>\n<|im_start|>assistant\n");
    }
  }
}

TEST(Supervise, PiecesThatDoNotSpellTheText) {
  ByteTokens tokenizer;
  tokenizer.leading_space = true;
  const ChatTemplate chat_template = ChatTemplate::of(tokenizer);
  const SupervisedTokens all = Supervisor(tokenizer, chat_template).supervise(kTwoTurns);
  EXPECT_EQ(supervised_ids(all), (Ids{'a', '1', 258, 'a', '2', 258}));
  EXPECT_EQ(all.tokens[0], ' ');
}

}  // namespace
}  // namespace draftsmith
