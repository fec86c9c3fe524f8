#include "draftsmith/model/tap_rules.h"

#include <algorithm>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// Rounds numerator / denominator to the nearest integer, halves to the even one (denominator > 0, numerator >= 0).
std::int64_t round_half_even(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t floor = numerator / denominator, twice_rest = 2 * (numerator % denominator);
  const bool up = twice_rest > denominator || (twice_rest == denominator && floor % 2 == 1);
  return floor + (up ? 1 : 0);
}

}  // namespace

std::vector<std::int64_t> default_taps(std::int64_t num_taps, std::int64_t num_target_layers) {
  require(num_taps >= 1, "a drafter needs at least one tap, not ", num_taps);
  std::vector<std::int64_t> taps;
  const std::int64_t steps = num_taps - 1, span = num_target_layers - 4;
  for (std::int64_t i = 0; i < num_taps && num_target_layers >= 4; ++i) {
    taps.push_back(steps == 0 ? num_target_layers / 2 : round_half_even(steps + i * span, steps));
  }
  if (num_target_layers < 4 && num_taps == 1 && num_target_layers > 1) taps.push_back(num_target_layers / 2);
  const bool fits = static_cast<std::int64_t>(taps.size()) == num_taps &&
                    std::adjacent_find(taps.begin(), taps.end()) == taps.end() && taps.back() <= num_target_layers - 2;
  require(fits, "a target of ", num_target_layers, " layers is not deep enough for ", num_taps,
          " default taps; set draft.taps to fewer layers");
  return taps;
}

void check_taps(std::span<const std::int64_t> taps, std::int64_t num_target_layers) {
  require(!taps.empty(), "draft.taps is empty; name at least one layer of the target");
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const std::int64_t tap = taps[i];
    require(tap != num_target_layers - 1, "draft.taps: tap ", tap,
            " is the last layer of the target, whose output other programs only ",
            "keep after the final norm; choose taps in 0 .. ", num_target_layers - 2, ", or [] for an even spread");
    require(tap >= 0 && tap < num_target_layers - 1, "draft.taps: tap ", tap,
            " is not a layer that can be tapped; the target has ", num_target_layers, " layers, choose taps in 0 .. ",
            num_target_layers - 2, ", or [] for an even spread");
    require(std::find(taps.begin(), taps.begin() + static_cast<std::ptrdiff_t>(i), tap) ==
                taps.begin() + static_cast<std::ptrdiff_t>(i),
            "draft.taps: tap ", tap, " is listed twice; name each layer once");
  }
}

}  // namespace draftsmith
