// llama.cpp writes its log to stderr unless it is told otherwise, for the whole process, and gives the reasons of its
// failures nowhere else.
#pragma once

#include <string>

namespace draftsmith {

// From this call on llama.cpp prints nothing and its errors are kept; earlier ones are forgotten. Call it before each
// call of llama.cpp that may fail. Several threads may call it, but their errors are not told apart.
void watch_llama_log();

// Returns the first error since then without the name of llama.cpp's function, or "it gave no reason". Later errors
// only repeat the first in wider terms ("failed to load model").
std::string llama_error();

}  // namespace draftsmith
