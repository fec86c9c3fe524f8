// Renders a model's chat template with llama.cpp's Jinja engine and the variables and message repairs of llama.cpp's
// server, so that training sees the text that serving will see. Only role and content are rendered, without tools or
// reasoning. The date (strftime_now, date_string) is that of construction, so it is the same in all documents of a run.
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
  // Parses `source` and renders two probes. Throws a UserError that names the problem and its line when that fails.
  ChatTemplate(std::string source, std::string bos_text, std::string eos_text);
  // Makes the template of the tokenizer's model, or of `source` if that is not empty. Throws a UserError when there is
  // neither.
  static ChatTemplate of(const Tokenizer& tokenizer, const std::string& source = "");
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Throws a UserError when the template refuses these messages (it may demand alternating roles, for instance).
  std::string render(std::span<const ChatMessage> messages, GenerationPrompt generation_prompt) const;
  const std::string& source() const;
  std::string digest() const;  // SHA-256 of the source, hexadecimal

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace draftsmith
