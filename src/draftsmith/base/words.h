// Numbers in words, for people: how long, how many, how large. Text that programs read is not made here.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "draftsmith/base/choices.h"

namespace draftsmith {

// "1h 02m", "3m 20s", "12s".
std::string duration_text(double seconds);
// 1234567 -> "1.2M", 15300 -> "15.3k".
std::string count_text(double count);
// 1234567 -> "1,234,567".
std::string with_commas(std::int64_t value);
// Bytes in decimal units: "812 MB", from 10 GB on "12.3 GB".
std::string bytes_text(std::int64_t bytes);
// Always in GB: "0.81 GB", "12.35 GB".
std::string gigabytes_text(std::int64_t bytes);
// The value of a setting as a person would write it: "0.0006", "[1, 8]", "true".
std::string value_text(double value);
std::string value_text(const std::vector<std::int64_t>& values);
inline std::string value_text(const std::string& value) { return value; }
template <std::integral Number>
std::string value_text(Number value) {
  if constexpr (std::is_same_v<Number, bool>) return value ? "true" : "false";
  return std::to_string(value);
}
template <Choice T>
std::string value_text(T value) {
  return name_of(value);
}
// Sizes of a tensor: "49152 x 576", "scalar".
std::string shape_text(std::span<const std::int64_t> sizes);

}  // namespace draftsmith
