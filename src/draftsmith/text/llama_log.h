// llama.cpp writes its log to stderr unless it is told otherwise, for the whole process. This tells it otherwise, once.
#pragma once

#include <string>

namespace draftsmith {

// From now on llama.cpp prints nothing; the last line it reports as an error is kept for this thread. Safe to call
// often and from several threads.
void silence_llama_log();

// That line, without its newline; "" when there was none since the last call.
std::string take_llama_error();

}  // namespace draftsmith
