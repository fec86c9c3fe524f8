// The chat template of a model, rendered by llama.cpp's Jinja engine with the variables and message repairs of
// llama.cpp's server, so that training sees the text that serving will see. Only role and content are rendered: no
// tools, no reasoning. The date (strftime_now, date_string) is that of construction: all rows of a run read the same.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

enum class GenerationPrompt { kOmit, kAdd };

class ChatTemplate {
 public:
  // Parses `source` and renders two probes; UserError naming the problem and its line when the engine cannot.
  ChatTemplate(std::string source, std::string bos_text, std::string eos_text);
  // The template of the tokenizer's model, or `source` where that is not empty. UserError when there is neither.
  static ChatTemplate of(const Tokenizer& tokenizer, const std::string& source = "");
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // UserError when the template refuses these messages (it may ask for alternating roles, say).
  std::string render(std::span<const ChatMessage> messages, GenerationPrompt generation_prompt) const;
  const std::string& source() const;
  std::string digest() const;  // SHA-256 of the source, hexadecimal

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace draftsmith
