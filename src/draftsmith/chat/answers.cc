#include "draftsmith/chat/answers.h"

#include <algorithm>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

constexpr const char* kRefused = "the chat template or the tokenizer refuses it";

// A conversation that still needs answers, with the messages it was read with and the number of them taken over.
struct OpenConversation {
  PendingDocument* pending = nullptr;
  std::vector<ChatMessage> source;
  std::size_t taken = 0;
};

bool wants_answers(const PendingDocument& pending, AnswerMode mode) {
  const auto& messages = pending.conversation.messages;
  if (messages.back().role == "user") return true;
  return mode == AnswerMode::kAll &&
         std::any_of(messages.begin(), messages.end(), [](auto& m) { return m.role == "user"; });
}

void skip(PendingDocument& pending, const std::string& reason, const std::string& detail = "") {
  pending.skip_reason = reason;
  pending.skip_detail = detail;
  pending.document = {};
}

// Tells whether an answer may follow: a user has spoken and has not been answered.
bool is_asked(const std::vector<ChatMessage>& messages) {
  for (auto message = messages.rbegin(); message != messages.rend() && message->role != "assistant"; ++message) {
    if (message->role == "user") return true;
  }
  return false;
}

// Takes over the messages before the next answer to generate. Returns false at the end of the conversation.
bool advance(OpenConversation& open, AnswerMode mode) {
  auto& messages = open.pending->conversation.messages;
  if (open.taken == open.source.size() && open.pending->num_answers > 0) return false;
  while (open.taken < open.source.size()) {
    const ChatMessage& message = open.source[open.taken];
    if (message.role == "assistant" && mode == AnswerMode::kAll) {
      if (is_asked(messages)) return true;
      if (open.pending->num_answers > 0) {  // the generated answer replaces all that follow each other
        ++open.taken;
        continue;
      }
    }
    messages.push_back(message);
    ++open.taken;
  }
  return is_asked(messages);
}

// Makes the conversation's prompt so far its document. Returns false when the conversation ends or is skipped instead.
bool add_prompt(OpenConversation& open, const AnswerOptions& options, const Supervisor& supervisor,
                std::size_t last_answer) {
  PendingDocument& pending = *open.pending;
  SupervisedTokens& document = pending.document;
  try {
    if (pending.num_answers == 0) {
      document = supervisor.prompt(pending.conversation.messages);
    } else {
      const auto tokens = supervisor.after_answer(pending.conversation.messages, last_answer);
      document.tokens.insert(document.tokens.end(), tokens.begin(), tokens.end());
      document.loss_mask.insert(document.loss_mask.end(), tokens.size(), 0);
    }
  } catch (const UserError& error) {
    if (pending.num_answers > 0) {  // the document ends with the answers it has
      pending.conversation.messages.resize(last_answer + 1);
      return false;
    }
    skip(pending, kRefused, error.what());
    return false;
  }
  if (options.max_length == 0 || static_cast<std::int64_t>(document.tokens.size()) < options.max_length) return true;
  if (pending.num_answers == 0) {
    skip(pending, text_of("no supervised token within the first ", options.max_length));
  } else {
    pending.conversation.messages.resize(last_answer + 1);
  }
  return false;
}

// Adds an answer. Returns false when the conversation ends with it.
bool add_answer(OpenConversation& open, const Answer& answer, const Tokenizer& tokenizer) {
  PendingDocument& pending = *open.pending;
  std::span<const std::int32_t> text_ids = answer.tokens;
  if (answer.ended && !text_ids.empty()) text_ids = text_ids.first(text_ids.size() - 1);
  const std::string text = tokenizer.decode(text_ids, true);
  if (text.empty()) {
    if (pending.num_answers == 0) {
      skip(pending, "the target gave an empty answer");
    } else {
      while (pending.conversation.messages.back().role != "assistant") pending.conversation.messages.pop_back();
    }
    return false;
  }
  pending.conversation.messages.push_back({"assistant", text});
  pending.conversation.cut = !answer.ended;
  pending.document.tokens.insert(pending.document.tokens.end(), answer.tokens.begin(), answer.tokens.end());
  pending.document.loss_mask.insert(pending.document.loss_mask.end(), answer.tokens.size(), 1);
  ++pending.document.num_turns;
  ++pending.num_answers;
  return answer.ended;
}

void supervise_as_read(PendingDocument& pending, const Supervisor& supervisor) {
  try {
    pending.document = supervisor.supervise(pending.conversation.messages,
                                            pending.conversation.cut ? LastAnswer::kCut : LastAnswer::kComplete);
  } catch (const UserError& error) {
    skip(pending, kRefused, error.what());
  }
}

}  // namespace

void answer_documents(std::span<PendingDocument* const> all, const AnswerOptions& options, const Tokenizer& tokenizer,
                      const Supervisor& supervisor, const AnswerFn& answer) {
  std::vector<OpenConversation> open;
  for (PendingDocument* pending : all) {
    if (!wants_answers(*pending, options.mode)) {
      supervise_as_read(*pending, supervisor);
    } else if (!answer) {
      skip(*pending, "no answer (use --generate)");
    } else {
      open.push_back({pending, std::move(pending->conversation.messages), 0});
      pending->conversation.messages.clear();
      pending->conversation.cut = false;
    }
  }
  while (!open.empty()) {
    std::vector<OpenConversation> asked;
    std::vector<std::vector<std::int32_t>> prompts;
    for (OpenConversation& item : open) {
      const std::size_t before = item.pending->conversation.messages.size();
      if (!advance(item, options.mode)) continue;
      if (!add_prompt(item, options, supervisor, before - 1)) continue;
      prompts.push_back(item.pending->document.tokens);
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

bool survives_as_text(const PendingDocument& pending, const Supervisor& supervisor) {
  try {
    const SupervisedTokens again = supervisor.supervise(
        pending.conversation.messages, pending.conversation.cut ? LastAnswer::kCut : LastAnswer::kComplete);
    // The newline after the last supervised token is not part of a generated document.
    const auto end_of = [](const SupervisedTokens& all) {
      return all.loss_mask.rend() - std::find(all.loss_mask.rbegin(), all.loss_mask.rend(), std::uint8_t{1});
    };
    const auto& document = pending.document;
    return std::equal(again.tokens.begin(), again.tokens.begin() + end_of(again), document.tokens.begin(),
                      document.tokens.begin() + end_of(document)) &&
           std::equal(again.loss_mask.begin(), again.loss_mask.begin() + end_of(again), document.loss_mask.begin(),
                      document.loss_mask.begin() + end_of(document));
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace draftsmith
