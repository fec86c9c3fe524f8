#include "draftsmith/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace draftsmith {

std::int64_t warmup_steps(const Schedule& schedule) {
  if (!(schedule.warmup > 0)) return 0;
  if (schedule.warmup >= 1) return std::llround(std::min(schedule.warmup, 1e15));
  return std::llround(schedule.warmup * static_cast<double>(std::max<std::int64_t>(schedule.total_steps, 1)));
}

double learning_rate(const Schedule& schedule, std::int64_t step) {
  const std::int64_t rise = warmup_steps(schedule);
  if (step < rise) return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(rise);
  if (step >= schedule.total_steps) return schedule.floor;
  // step < total_steps and step >= rise, so the fall has at least one step and the share stays below 1.
  const double share = static_cast<double>(step - rise) / static_cast<double>(schedule.total_steps - rise);
  return schedule.floor + (schedule.peak - schedule.floor) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

}  // namespace draftsmith
