// One token from a row of logits.
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

// UserError naming the option: temperature and top_k at least 0, top_p in (0, 1].
void check_sampling(const SamplingOptions& options);

// The lowest id among the largest logits. NaN is never chosen while there is a number.
std::int32_t greedy_token(std::span<const float> logits);

// Temperature, then the top_k largest (ties: lower ids first), then the smallest set of largest that holds top_p of
// what is left. One number of `rng` is used.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng);

}  // namespace draftsmith
