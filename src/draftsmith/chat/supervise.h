// Turns a conversation into token ids and a loss mask. The ids are those of the whole rendered text, as llama.cpp's
// server would tokenise it (control tokens are parsed, and bos is added once if the model asks for it). The tokens of
// each assistant turn and its end-of-turn are supervised; they are found by rendering prefixes:
//   P = render(messages[:i], with generation prompt)   Q = render(messages[:i+1])   the turn = what Q has beyond P,
// less the white space at its end (the newline that templates print after the end-of-turn). P and Q must both be
// prefixes of the whole text; a turn whose borders the template does not keep is left unsupervised and counted. If P
// ends inside a token of the whole text, the text is cut there and tokenised in pieces, because the model is given P
// alone to answer. If a turn ends inside a token, that token is supervised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draftsmith/text/chat_template.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

struct SupervisedTokens {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> loss_mask;  // 1 = supervised
  std::int64_t num_turns = 0;           // assistant turns that are supervised
  std::int64_t num_turns_left_out = 0;  // assistant turns whose borders the template does not keep
};

// With kCut, the last answer stopped at a limit: the document ends with its content and has no end-of-turn.
enum class LastAnswer { kComplete, kCut };

class Supervisor {
 public:
  // Keeps references: tokenizer and template must outlive it.
  Supervisor(const Tokenizer& tokenizer, const ChatTemplate& chat_template);

  // Takes a conversation with at least one assistant message. Throws a UserError when the template refuses it or no
  // turn can be found.
  SupervisedTokens supervise(std::span<const ChatMessage> messages,
                             LastAnswer last_answer = LastAnswer::kComplete) const;

  // Gives the tokens that the model is given to answer `messages`: the rendered text with the generation prompt.
  // Answers that are already among the messages are supervised.
  SupervisedTokens prompt(std::span<const ChatMessage> messages) const;

  // Returns the tokens that follow an answer kept as token ids (and its end-of-turn), up to the next generation prompt.
  // messages[answer] is that answer as text; the messages after it have no answer yet. Throws a UserError when the
  // template does not keep the borders of the answer.
  std::vector<std::int32_t> after_answer(std::span<const ChatMessage> messages, std::size_t answer) const;

 private:
  struct Turn;
  std::vector<Turn> turns_in(const std::string& text, std::span<const ChatMessage> messages,
                             std::int64_t& left_out) const;
  SupervisedTokens tokenise(const std::string& text, std::span<const Turn> turns) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
};

}  // namespace draftsmith
