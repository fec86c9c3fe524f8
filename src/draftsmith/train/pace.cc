#include "draftsmith/train/pace.h"

#include <algorithm>
#include <set>

namespace draftsmith {

std::int64_t steps_that_fit(RowSchedule& rows, const FeatureCache& features, const Pace& pace, std::int64_t done_steps,
                            double seconds) {
  const std::int64_t capacity = features.capacity_tokens();
  std::int64_t held_tokens = features.held_tokens();
  std::set<std::int64_t> held_later;  // documents the cache will take in on the way
  std::int64_t step = done_steps;
  double spent = 0;
  for (; rows.has(step); ++step) {
    const StepRows step_rows = rows.at(step);
    std::int64_t new_tokens = 0;
    for (const auto& row : step_rows.rows)
      for (const std::int64_t document : row) {
        if (features.holds(document) || held_later.contains(document)) continue;
        const std::int64_t length = rows.kept_length(document);
        new_tokens += length;
        if (held_tokens + length > capacity) continue;
        held_tokens += length;
        held_later.insert(document);
      }
    spent += static_cast<double>(step_rows.rows.size()) * pace.seconds_a_row +
             static_cast<double>(new_tokens) * pace.seconds_a_token + pace.seconds_a_step_more;
    if (spent > seconds) break;
  }
  return std::max<std::int64_t>(step, 1);
}

}  // namespace draftsmith
