#include "draftsmith/base/strings.h"

namespace draftsmith {

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "'";
  for (char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(byte < 0x20 || byte == 0x7f ? '?' : c);
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

}  // namespace draftsmith
