// Reads conversations from JSON lines, one a line, as a stream (from files and pipes alike; memory holds one line). A
// line is
//   {"messages": [{"role": "system|user|assistant", "content": "..."}, ...]}     content may be a list of text parts
//   {"conversations": [{"from": "system|human|user|gpt|assistant", "value": "..."}, ...]}     ShareGPT
//   {"prompt": "..."}                                                             one user message without an answer
// with optional "id" (text or integer), "kind" (text) and "cut" (true: the last answer stopped at a limit, it has no
// end-of-turn). Lines that cannot be used come back with a reason. Text that is not UTF-8, or escapes lone surrogates,
// is bad JSON. Blank lines are skipped; a byte-order mark and carriage returns are not part of a line.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "draftsmith/text/chat_template.h"

namespace draftsmith {

struct Conversation {
  std::vector<ChatMessage> messages;  // not empty; the last one may be a user's: its answer is missing
  std::string id;                     // "" = none
  std::string kind;                   // "" = none
  bool cut = false;
};

struct ConversationLine {
  std::int64_t number = 0;  // counted from 1, blank lines included
  Conversation conversation;
  std::string skip_reason;  // "" = the line is good; else one of a few reasons, so that they can be counted
};

class ConversationReader {
 public:
  explicit ConversationReader(std::istream& stream) : stream_(stream) {}
  bool next(ConversationLine& line);  // false at the end

 private:
  std::istream& stream_;
  std::int64_t line_ = 0;
};

// Returns one line without its newline, which ConversationReader reads back.
std::string conversation_to_json(const Conversation& conversation);

}  // namespace draftsmith
