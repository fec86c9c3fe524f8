#include "draftsmith/target/llama/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draftsmith/base/check.h"

namespace draftsmith {

void check_sampling(const SamplingOptions& options) {
  require(options.temperature >= 0 && std::isfinite(options.temperature),
          "temperature must be 0 (greedy) or more, not ", options.temperature);
  require(options.top_k >= 0, "top_k must be 0 (all) or more, not ", options.top_k);
  require(options.top_p > 0 && options.top_p <= 1, "top_p must lie above 0 and at most at 1, not ", options.top_p);
}

std::int32_t greedy_token(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  return static_cast<std::int32_t>(best);
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng) {
  if (options.temperature <= 0) return greedy_token(logits);
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](std::int32_t id) { return std::isnan(logits[static_cast<std::size_t>(id)]); });
  if (ids.empty()) return 0;
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto larger = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + (options.top_k - 1), ids.end(), larger);
    ids.resize(static_cast<std::size_t>(options.top_k));
  }
  const double largest = logit(*std::min_element(ids.begin(), ids.end(), larger));
  std::vector<double> weights(ids.size());
  const auto weigh = [&] {
    for (std::size_t i = 0; i < ids.size(); ++i) weights[i] = std::exp((logit(ids[i]) - largest) / options.temperature);
  };
  // top_k may leave its set in any order; sorting keeps the draw the same on every machine.
  if (options.top_p < 1) {
    std::sort(ids.begin(), ids.end(), larger);
    weigh();
    const double enough = options.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
    std::size_t keep = 0;
    for (double sum = 0; keep < ids.size() && sum < enough; ++keep) sum += weights[keep];
    ids.resize(std::max<std::size_t>(keep, 1));
    weights.resize(ids.size());
  } else {
    std::sort(ids.begin(), ids.end());
    weigh();
  }
  double rest = rng.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return ids[i];
  }
  // Rounding may leave a small rest; the last id with any weight takes it.
  std::size_t last = ids.size() - 1;
  while (last > 0 && weights[last] == 0) --last;
  return ids[last];
}

}  // namespace draftsmith
