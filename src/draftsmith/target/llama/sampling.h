// Chooses a token from a row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draftsmith/base/rng.h"

namespace draftsmith {

struct SamplingOptions {
  double temperature = 0;  // 0 = greedy
  std::int64_t top_k = 0;  // 0 = all
  double top_p = 1;
};

// Throws a UserError that names the option unless temperature and top_k are at least 0 and top_p lies in (0, 1].
void check_sampling(const SamplingOptions& options);

// Returns the lowest id among the largest logits. NaN is never chosen while there is a number.
std::int32_t greedy_token(std::span<const float> logits);

// Draws from the top_k largest logits (lower ids first among equals), cut to the smallest set of the largest that holds
// top_p of their probability at this temperature. Uses one number of `rng`, or none at temperature 0.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng);

}  // namespace draftsmith
