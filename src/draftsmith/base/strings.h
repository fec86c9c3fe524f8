// Text for messages.
#pragma once

#include <string>
#include <string_view>

namespace draftsmith {

// `text` in single quotes, fit for a message of one line whatever a file held: control characters become '?', and long
// text is cut to about 80 characters.
std::string shown(std::string_view text);

}  // namespace draftsmith
