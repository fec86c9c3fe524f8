// How a drafter is written as a GGUF file of llama.cpp, in words that need neither llama.cpp nor a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace draftsmith {

// The last is a list of truth values.
using GgufKeyValue = std::variant<std::uint32_t, float, bool, std::vector<std::int32_t>, std::vector<std::int8_t>>;

struct GgufDescription {
  std::string architecture;                                    // general.architecture
  std::vector<std::pair<std::string, GgufKeyValue>> keys;      // without "ARCHITECTURE." before them
  std::function<std::string(const std::string&)> tensor_name;  // of a parameter of ours
};

}  // namespace draftsmith
