// Numbers in words, for people: how long, how many, how large. Text that programs read is not made here.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace draftsmith
