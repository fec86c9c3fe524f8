// Rows on their way to documents: which answers they need, the rounds in which the target gives them, and what becomes
// of them. Generated answers stay the ids they were generated as; their text is only for later prompts and for JSON
// lines.
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

// What the target says to a prompt: its tokens as generated, the end token included when it came.
struct Answer {
  std::vector<std::int32_t> tokens;
  bool ended = false;
};
// Answers many prompts at once, one answer each, in their order.
using AnswerFn = std::function<std::vector<Answer>(std::span<const std::vector<std::int32_t>> prompts)>;

enum class AnswerMode {
  kMissing,  // only rows whose last answer is missing
  kAll,      // every answer of every row is replaced, turn by turn
};

struct DraftedRow {
  std::string where;          // "file:line"
  Conversation conversation;  // with generated answers as text once they are there
  SupervisedTokens document;
  std::string skip_reason;  // "" = the document is good
  std::string skip_detail;
  std::int64_t num_answers = 0;  // generated
};

struct AnswerOptions {
  AnswerMode mode = AnswerMode::kMissing;
  std::int64_t max_length = 0;  // prompts that fill it are not answered; 0 = no limit
};

// Fills document (or skip_reason) of every row. Each round asks `answer` for the next answer of all rows that need one.
void answer_rows(std::span<DraftedRow* const> rows, const AnswerOptions& options, const Tokenizer& tokenizer,
                 const Supervisor& supervisor, const AnswerFn& answer);

// Whether the row's conversation, prepared again from its text, gives the tokens that it has now.
bool survives_as_text(const DraftedRow& row, const Supervisor& supervisor);

}  // namespace draftsmith
