// Turns conversations into documents: decides which answers they need and lets the target give them in rounds. A
// generated answer keeps the ids that it was generated as; its text is used only in later prompts and JSON lines.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/chat/conversations.h"
#include "draftsmith/chat/supervise.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

// The target's answer to a prompt: its tokens as generated, the end token included when it came.
struct Answer {
  std::vector<std::int32_t> tokens;
  bool ended = false;
};
// Answers many prompts at once, one answer each, in their order.
using AnswerFn = std::function<std::vector<Answer>(std::span<const std::vector<std::int32_t>> prompts)>;

enum class AnswerMode {
  kMissing,  // only the last answer of a conversation, where it is missing
  kAll,      // every answer of every conversation is replaced, turn by turn
};

// A conversation read from a line of JSON, and the document made of it.
struct PendingDocument {
  std::string where;          // "file:line"
  Conversation conversation;  // generated answers are in it as text
  SupervisedTokens document;
  std::string skip_reason;  // "" = the document is good
  std::string skip_detail;
  std::int64_t num_answers = 0;  // that were generated
};

struct AnswerOptions {
  AnswerMode mode = AnswerMode::kMissing;
  std::int64_t max_length = 0;  // prompts that fill it are not answered; 0 = no limit
};

// Fills `document` (or skip_reason) of all of them. Each round asks `answer` for the next answer of all conversations
// that need one.
void answer_documents(std::span<PendingDocument* const> pending, const AnswerOptions& options,
                      const Tokenizer& tokenizer, const Supervisor& supervisor, const AnswerFn& answer);

// Tells whether the conversation, prepared again from its text, gives the tokens that the document has now.
bool survives_as_text(const PendingDocument& pending, const Supervisor& supervisor);

}  // namespace draftsmith
