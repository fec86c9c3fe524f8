#include "draftsmith/text/llama_log.h"

#include <llama.h>

#include <mutex>
#include <string_view>

namespace draftsmith {
namespace {

std::mutex mutex;
std::string first_error;

void keep_first_error(ggml_log_level level, const char* text, void*) {
  if (level != GGML_LOG_LEVEL_ERROR || text == nullptr) return;
  std::string line(text);
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  // "llama_model_load: error loading model: ..." : the function's name tells a user nothing.
  const std::size_t colon = line.find(": ");
  if (colon != std::string::npos && line.find(' ') > colon) line.erase(0, colon + 2);
  constexpr std::string_view kAgain = "error loading model: ";  // comes before every reason for a failed load
  while (line.starts_with(kAgain)) line.erase(0, kAgain.size());
  const std::lock_guard lock(mutex);
  if (first_error.empty()) first_error = line;
}

}  // namespace

void watch_llama_log() {
  llama_log_set(keep_first_error, nullptr);
  const std::lock_guard lock(mutex);
  first_error.clear();
}

std::string llama_error() {
  const std::lock_guard lock(mutex);
  return first_error.empty() ? "it gave no reason" : first_error;
}

}  // namespace draftsmith
