#include "draftsmith/run/pace.h"

#include <algorithm>
#include <set>

namespace draftsmith {
namespace {

// A checkpoint holds 12 bytes a parameter; 400 MB/s is a slow disk.
constexpr double kCheckpointSecondsAParameter = 12.0 / 400e6;
// A row that is only measured costs no backward pass.
constexpr double kForwardShare = 0.5;

}  // namespace

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

double seconds_of_rows(const RowSchedule::Size& epoch, const FeatureCache& features, const Pace& pace, double rows,
                       double steps) {
  const auto epoch_tokens = static_cast<double>(epoch.tokens);
  const auto held = static_cast<double>(features.held_tokens()),
             capacity = static_cast<double>(features.capacity_tokens());
  const double tokens = rows * epoch_tokens / static_cast<double>(epoch.rows);
  const double never_held = std::min(tokens, std::max(epoch_tokens - held, 0.0));
  const double share_never_kept = std::max(epoch_tokens - capacity, 0.0) / epoch_tokens;
  const double new_tokens = never_held + (tokens - never_held) * share_never_kept;
  return rows * pace.seconds_a_row + new_tokens * pace.seconds_a_token + steps * pace.seconds_a_step_more;
}

PaceMeter::PaceMeter(const TrainConfig& config, std::int64_t num_parameters, std::int64_t held_out_tokens)
    : config_(config),
      checkpoint_seconds_(kCheckpointSecondsAParameter * static_cast<double>(num_parameters)),
      held_out_tokens_(static_cast<double>(held_out_tokens)) {}

void PaceMeter::add(std::int64_t rows, double seconds) {
  ++steps_;
  rows_ += rows;
  seconds_ += seconds;
}

void PaceMeter::forget() {
  steps_ = rows_ = 0;
  seconds_ = 0;
}

Pace PaceMeter::pace(const FeatureCache& features) const {
  Pace out;
  if (rows_ > 0) out.seconds_a_row = seconds_ / static_cast<double>(rows_);
  if (features.computed_tokens() > 0)
    out.seconds_a_token = features.computed_seconds() / static_cast<double>(features.computed_tokens());
  const double held_out_rows = held_out_tokens_ / static_cast<double>(config_.row_length);
  const double measuring = kForwardShare * held_out_rows * out.seconds_a_row;
  if (config_.save_every > 0) out.seconds_a_step_more += checkpoint_seconds_ / static_cast<double>(config_.save_every);
  if (config_.eval_every > 0) out.seconds_a_step_more += measuring / static_cast<double>(config_.eval_every);
  return out;
}

double PaceMeter::seconds_at_end(const Pace& pace) const {
  const double a_token =
      pace.seconds_a_token + kForwardShare * pace.seconds_a_row / static_cast<double>(config_.row_length);
  return held_out_tokens_ * a_token + checkpoint_seconds_;
}

}  // namespace draftsmith
