#include "draftsmith/base/check.h"

namespace draftsmith {

void assertion_failed(const char* expression, const char* file, int line) {
  throw std::logic_error(text_of("internal error: ", expression, " does not hold (", file, ":", line,
                                 "); please report it with the output of `draftsmith env`"));
}

}  // namespace draftsmith
