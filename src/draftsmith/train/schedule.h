// Learning rate of a step: a linear rise, then half a cosine down to the floor. It depends on the step's number and the
// number of all steps only, so a resumed run goes on with the same rates. Finite and positive for every step of every
// run, however short.
#pragma once

#include <cstdint>

namespace draftsmith {

struct Schedule {
  double peak = 6e-4;
  double floor = 0;
  double warmup = 0.04;  // share of all steps (< 1) or number of steps (>= 1)
  std::int64_t total_steps = 1;
};

// Steps of the rise: step s < w has rate peak (s + 1) / w, so the last of them has the peak.
std::int64_t warmup_steps(const Schedule& schedule);
// step counts from 0; steps at or past total_steps get the floor.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace draftsmith
