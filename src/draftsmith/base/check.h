// Errors, in two kinds. The user's fault (a bad file, key, value) is a UserError whose text is one sentence that names
// the file, key, line or tensor and, where there is one, the next thing to do; main() prints it and exits 1. Our own
// fault is DRAFTSMITH_ASSERT, which no input can reach.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace draftsmith {

struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A command line or configuration that cannot be understood; main() exits 2.
struct UsageError : UserError {
  using UserError::UserError;
};

template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw UserError(text_of(parts...));
}

template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) fail(parts...);
}

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace draftsmith

#define DRAFTSMITH_ASSERT(expression) \
  ((expression) ? void(0) : ::draftsmith::assertion_failed(#expression, __FILE__, __LINE__))
