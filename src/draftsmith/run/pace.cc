#include "draftsmith/run/pace.h"

#include <algorithm>
#include <set>

namespace draftsmith {
namespace {

// A checkpoint holds 12 bytes a parameter; 400 MB/s is a slow disk.
constexpr double kCheckpointSecondsAParameter = 12.0 / 400e6;
// A pack that is only measured costs no backward pass.
constexpr double kForwardShare = 0.5;

}  // namespace

std::int64_t steps_that_fit(PackSchedule& schedule, const FeatureCache& features, const Pace& pace,
                            std::int64_t done_steps, double seconds) {
  const std::int64_t capacity = features.capacity_tokens();
  std::int64_t held_tokens = features.held_tokens();
  std::set<std::int64_t> held_later;  // documents the cache will take in on the way
  std::int64_t step = done_steps;
  double spent = 0;
  for (; schedule.has(step); ++step) {
    const StepPacks step_packs = schedule.at(step);
    std::int64_t new_tokens = 0;
    for (const auto& pack : step_packs.packs)
      for (const std::int64_t document : pack) {
        if (features.holds(document) || held_later.contains(document)) continue;
        const std::int64_t length = schedule.kept_length(document);
        new_tokens += length;
        if (held_tokens + length > capacity) continue;
        held_tokens += length;
        held_later.insert(document);
      }
    spent += static_cast<double>(step_packs.packs.size()) * pace.seconds_a_pack +
             static_cast<double>(new_tokens) * pace.seconds_a_token + pace.seconds_a_step_more;
    if (spent > seconds) break;
  }
  return std::max<std::int64_t>(step, 1);
}

double seconds_of_packs(const PackSchedule::Size& epoch, const FeatureCache& features, const Pace& pace, double packs,
                        double steps) {
  const auto epoch_tokens = static_cast<double>(epoch.tokens);
  const auto held = static_cast<double>(features.held_tokens()),
             capacity = static_cast<double>(features.capacity_tokens());
  const double tokens = packs * epoch_tokens / static_cast<double>(epoch.packs);
  const double never_held = std::min(tokens, std::max(epoch_tokens - held, 0.0));
  const double share_never_kept = std::max(epoch_tokens - capacity, 0.0) / epoch_tokens;
  const double new_tokens = never_held + (tokens - never_held) * share_never_kept;
  return packs * pace.seconds_a_pack + new_tokens * pace.seconds_a_token + steps * pace.seconds_a_step_more;
}

PaceMeter::PaceMeter(const TrainConfig& config, std::int64_t num_parameters, std::int64_t held_out_tokens)
    : config_(config),
      checkpoint_seconds_(kCheckpointSecondsAParameter * static_cast<double>(num_parameters)),
      held_out_tokens_(static_cast<double>(held_out_tokens)) {}

void PaceMeter::add(std::int64_t packs, double seconds) {
  ++steps_;
  packs_ += packs;
  seconds_ += seconds;
}

void PaceMeter::forget() {
  steps_ = packs_ = 0;
  seconds_ = 0;
}

Pace PaceMeter::pace(const FeatureCache& features) const {
  Pace out;
  if (packs_ > 0) out.seconds_a_pack = seconds_ / static_cast<double>(packs_);
  if (features.computed_tokens() > 0)
    out.seconds_a_token = features.computed_seconds() / static_cast<double>(features.computed_tokens());
  const double held_out_packs = held_out_tokens_ / static_cast<double>(config_.row_length);
  const double measuring = kForwardShare * held_out_packs * out.seconds_a_pack;
  if (config_.save_every > 0) out.seconds_a_step_more += checkpoint_seconds_ / static_cast<double>(config_.save_every);
  if (config_.eval_every > 0) out.seconds_a_step_more += measuring / static_cast<double>(config_.eval_every);
  return out;
}

double PaceMeter::seconds_at_end(const Pace& pace) const {
  const double a_token =
      pace.seconds_a_token + kForwardShare * pace.seconds_a_pack / static_cast<double>(config_.row_length);
  return held_out_tokens_ * a_token + checkpoint_seconds_;
}

}  // namespace draftsmith
