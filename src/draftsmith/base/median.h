// The middle of measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace draftsmith {

// Returns the mean of the two in the middle for an even number of values, and 0 for none.
inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace draftsmith
