// Describes how a drafter is written as a GGUF file of llama.cpp; it needs neither llama.cpp nor a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace draftsmith {

// The last type is a list of truth values.
using GgufKeyValue = std::variant<std::uint32_t, float, bool, std::vector<std::int32_t>, std::vector<std::int8_t>>;

struct GgufDescription {
  std::string architecture;                                    // general.architecture
  std::vector<std::pair<std::string, GgufKeyValue>> keys;      // without "ARCHITECTURE." before them
  std::function<std::string(const std::string&)> tensor_name;  // llama.cpp's name of one of our parameters
};

}  // namespace draftsmith
