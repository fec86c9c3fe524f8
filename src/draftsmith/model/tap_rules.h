// Which layers of a target a drafter may read. Taps count layer outputs from 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace draftsmith {

// The default taps for `num_taps` of a target with T layers: one -> [T/2]; else round(1 + i (T-4)/(num-1)), halves to
// even.
std::vector<std::int64_t> default_taps(std::int64_t num_taps, std::int64_t num_target_layers);
// Refuses taps that repeat or leave 0 .. T-2.
void check_taps(std::span<const std::int64_t> taps, std::int64_t num_target_layers);

}  // namespace draftsmith
