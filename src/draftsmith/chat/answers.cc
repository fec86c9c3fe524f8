#include "draftsmith/chat/answers.h"

#include <algorithm>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

constexpr const char* kRefused = "the chat template or the tokenizer refuses it";

// A row that still wants answers: the messages it was read with, and how many of them its conversation has taken over.
struct OpenRow {
  DraftedRow* row = nullptr;
  std::vector<ChatMessage> source;
  std::size_t taken = 0;
};

bool wants_answers(const DraftedRow& row, AnswerMode mode) {
  const auto& messages = row.conversation.messages;
  if (messages.back().role == "user") return true;
  return mode == AnswerMode::kAll &&
         std::any_of(messages.begin(), messages.end(), [](auto& m) { return m.role == "user"; });
}

void skip(DraftedRow& row, const std::string& reason, const std::string& detail = "") {
  row.skip_reason = reason;
  row.skip_detail = detail;
  row.document = {};
}

// Whether an answer may follow: a user has spoken and has not been answered.
bool is_asked(const std::vector<ChatMessage>& messages) {
  for (auto message = messages.rbegin(); message != messages.rend() && message->role != "assistant"; ++message) {
    if (message->role == "user") return true;
  }
  return false;
}

// Takes messages over up to the next answer that is to be generated; false when the conversation is at its end.
bool advance(OpenRow& open, AnswerMode mode) {
  auto& messages = open.row->conversation.messages;
  if (open.taken == open.source.size() && open.row->num_answers > 0) return false;
  while (open.taken < open.source.size()) {
    const ChatMessage& message = open.source[open.taken];
    if (message.role == "assistant" && mode == AnswerMode::kAll) {
      if (is_asked(messages)) return true;
      if (open.row->num_answers > 0) {  // one of several answers in a row: the generated one stands for all
        ++open.taken;
        continue;
      }
    }
    messages.push_back(message);
    ++open.taken;
  }
  return is_asked(messages);
}

// The row's prompt so far as its document; false when it is skipped instead.
bool add_prompt(OpenRow& open, const AnswerOptions& options, const Supervisor& supervisor, std::size_t last_answer) {
  DraftedRow& row = *open.row;
  SupervisedTokens& document = row.document;
  try {
    if (row.num_answers == 0) {
      document = supervisor.prompt(row.conversation.messages);
    } else {
      const auto tokens = supervisor.after_answer(row.conversation.messages, last_answer);
      document.tokens.insert(document.tokens.end(), tokens.begin(), tokens.end());
      document.loss_mask.insert(document.loss_mask.end(), tokens.size(), 0);
    }
  } catch (const UserError& error) {
    if (row.num_answers > 0) {  // the document ends with the answers it has
      row.conversation.messages.resize(last_answer + 1);
      return false;
    }
    skip(row, kRefused, error.what());
    return false;
  }
  if (options.max_length == 0 || static_cast<std::int64_t>(document.tokens.size()) < options.max_length) return true;
  if (row.num_answers == 0) {
    skip(row, text_of("no supervised token within the first ", options.max_length));
  } else {
    row.conversation.messages.resize(last_answer + 1);
  }
  return false;
}

// False when the conversation ends with this answer.
bool add_answer(OpenRow& open, const Answer& answer, const Tokenizer& tokenizer) {
  DraftedRow& row = *open.row;
  std::span<const std::int32_t> text_ids = answer.tokens;
  if (answer.ended && !text_ids.empty()) text_ids = text_ids.first(text_ids.size() - 1);
  const std::string text = tokenizer.decode(text_ids, true);
  if (text.empty()) {
    if (row.num_answers == 0) {
      skip(row, "the target gave an empty answer");
    } else {
      while (row.conversation.messages.back().role != "assistant") row.conversation.messages.pop_back();
    }
    return false;
  }
  row.conversation.messages.push_back({"assistant", text});
  row.conversation.cut = !answer.ended;
  row.document.tokens.insert(row.document.tokens.end(), answer.tokens.begin(), answer.tokens.end());
  row.document.loss_mask.insert(row.document.loss_mask.end(), answer.tokens.size(), 1);
  ++row.document.num_turns;
  ++row.num_answers;
  return answer.ended;
}

void supervise_as_read(DraftedRow& row, const Supervisor& supervisor) {
  try {
    row.document = supervisor.supervise(row.conversation.messages,
                                        row.conversation.cut ? LastAnswer::kCut : LastAnswer::kComplete);
  } catch (const UserError& error) {
    skip(row, kRefused, error.what());
  }
}

}  // namespace

void answer_rows(std::span<DraftedRow* const> rows, const AnswerOptions& options, const Tokenizer& tokenizer,
                 const Supervisor& supervisor, const AnswerFn& answer) {
  std::vector<OpenRow> open;
  for (DraftedRow* row : rows) {
    if (!wants_answers(*row, options.mode)) {
      supervise_as_read(*row, supervisor);
    } else if (!answer) {
      skip(*row, "no answer (use --generate)");
    } else {
      open.push_back({row, std::move(row->conversation.messages), 0});
      row->conversation.messages.clear();
      row->conversation.cut = false;
    }
  }
  while (!open.empty()) {
    std::vector<OpenRow> asked;
    std::vector<std::vector<std::int32_t>> prompts;
    for (OpenRow& item : open) {
      const std::size_t before = item.row->conversation.messages.size();
      if (!advance(item, options.mode)) continue;
      if (!add_prompt(item, options, supervisor, before - 1)) continue;
      prompts.push_back(item.row->document.tokens);
      asked.push_back(std::move(item));
    }
    open.clear();
    if (asked.empty()) break;
    const std::vector<Answer> answers = answer(prompts);
    DRAFTSMITH_ASSERT(answers.size() == prompts.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (add_answer(asked[i], answers[i], tokenizer)) open.push_back(std::move(asked[i]));
    }
  }
}

bool survives_as_text(const DraftedRow& row, const Supervisor& supervisor) {
  try {
    const SupervisedTokens again = supervisor.supervise(
        row.conversation.messages, row.conversation.cut ? LastAnswer::kCut : LastAnswer::kComplete);
    // What stands after the last supervised token (a newline) is not part of a generated document.
    const auto end_of = [](const SupervisedTokens& all) {
      return all.loss_mask.rend() - std::find(all.loss_mask.rbegin(), all.loss_mask.rend(), std::uint8_t{1});
    };
    const auto& document = row.document;
    return std::equal(again.tokens.begin(), again.tokens.begin() + end_of(again), document.tokens.begin(),
                      document.tokens.begin() + end_of(document)) &&
           std::equal(again.loss_mask.begin(), again.loss_mask.begin() + end_of(again), document.loss_mask.begin(),
                      document.loss_mask.begin() + end_of(document));
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace draftsmith
