#include "draftsmith/base/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace draftsmith {

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m {:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string count_text(double count) {
  if (count >= 999.95e6) return fmt::format("{:.1f}G", count / 1e9);
  if (count >= 999.95e3) return fmt::format("{:.1f}M", count / 1e6);
  if (count >= 9999.5) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.{}f}", count, count < 10 && count != std::floor(count) ? 1 : 0);
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::int64_t first = value < 0 ? 1 : 0;
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  return bytes < 10'000'000'000 ? fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6)
                                : fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

std::string gigabytes_text(std::int64_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

std::string value_text(double value) { return fmt::format("{}", value); }

std::string value_text(const std::vector<std::int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string shape_text(std::span<const std::int64_t> sizes) {
  if (sizes.empty()) return "scalar";
  return fmt::format("{}", fmt::join(sizes, " x "));
}

}  // namespace draftsmith
