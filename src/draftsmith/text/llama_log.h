// llama.cpp writes its log to stderr unless it is told otherwise, for the whole process, and gives the reasons of its
// failures nowhere else.
#pragma once

#include <string>

namespace draftsmith {

// From now on llama.cpp prints nothing; errors that it reports are kept from here on, earlier ones forgotten. Call it
// before each call that may fail. Safe from several threads, whose errors are not told apart.
void watch_llama_log();

// The first error since then, without the name of llama.cpp's function; "it gave no reason" when there was none. Later
// ones repeat the first in wider terms ("failed to load model").
std::string llama_error();

}  // namespace draftsmith
