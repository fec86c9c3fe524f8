// Guesses what a misspelt name was meant to be.
#pragma once

#include <span>
#include <string>

namespace draftsmith {

// Returns the known name nearest to `name` (smallest edit distance, at most half its length), or "".
std::string nearest_name(const std::string& name, std::span<const std::string> known);

}  // namespace draftsmith
