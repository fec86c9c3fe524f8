#include "draftsmith/config/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace draftsmith {
namespace {

// Computes the Levenshtein distance one row at a time.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(const std::string& name, std::span<const std::string> known) {
  constexpr std::size_t kLongest = 100;  // a longer name is no misspelling, and the work grows with the length
  if (name.size() > kLongest) return "";
  std::string best;
  std::size_t best_distance = name.size() / 2 + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best_distance = distance, best = candidate;
  }
  return best;
}

}  // namespace draftsmith
