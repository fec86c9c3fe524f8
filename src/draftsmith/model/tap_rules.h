// Says which layers of a target a drafter may read. Taps count layer outputs from 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace draftsmith {

// Returns the default taps of a target with T layers. A single tap is T/2; tap i of several is round(1 + i (T-4) /
// (num_taps-1)), halves to even. Throws a UserError when the target is not deep enough.
std::vector<std::int64_t> default_taps(std::int64_t num_taps, std::int64_t num_target_layers);
// Throws a UserError when there are no taps, or taps that repeat or lie outside 0 .. T-2.
void check_taps(std::span<const std::int64_t> taps, std::int64_t num_target_layers);

}  // namespace draftsmith
