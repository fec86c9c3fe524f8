#include "draftsmith/text/llama_log.h"

#include <llama.h>

#include <mutex>

namespace draftsmith {
namespace {

thread_local std::string last_error;

void keep_errors(ggml_log_level level, const char* text, void*) {
  if (level != GGML_LOG_LEVEL_ERROR || text == nullptr) return;
  std::string line = text;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (!line.empty()) last_error = line;
}

}  // namespace

void silence_llama_log() {
  static std::once_flag once;
  std::call_once(once, [] { llama_log_set(keep_errors, nullptr); });
}

std::string take_llama_error() {
  std::string line;
  line.swap(last_error);
  return line;
}

}  // namespace draftsmith
