// Computes how many optimizer steps fit into a time. The seconds of a pack and those of the target's forward of a new
// token are measured apart, because later epochs find their features in the cache.
#pragma once

#include <cstdint>

#include "draftsmith/config/run_config.h"
#include "draftsmith/train/feature_cache.h"
#include "draftsmith/train/pack_schedule.h"

namespace draftsmith {

struct Pace {
  double seconds_a_pack = 0;       // drafter, loss, backward, update
  double seconds_a_token = 0;      // target's forward of a token whose features are not held
  double seconds_a_step_more = 0;  // checkpoints and measurements between steps, spread over the steps
};

// Steps, counted from the start of the run, that end within `seconds` from now when `done_steps` are done: at least
// done_steps, and at least 1, at most what epochs and max_steps allow.
std::int64_t steps_that_fit(PackSchedule& schedule, const FeatureCache& features, const Pace& pace,
                            std::int64_t done_steps, double seconds);

// Returns the seconds that `packs` more packs in `steps` steps take. Documents whose features are not held yet come
// first.
double seconds_of_packs(const PackSchedule::Size& epoch, const FeatureCache& features, const Pace& pace, double packs,
                        double steps);

// Measures the pace of a run while it goes.
class PaceMeter {
 public:
  // The size of a checkpoint follows from num_parameters; a measurement of the held-out loss reads held_out_tokens.
  PaceMeter(const TrainConfig& config, std::int64_t num_parameters, std::int64_t held_out_tokens);
  void add(std::int64_t packs, double seconds);
  void forget();
  Pace pace(const FeatureCache& features) const;
  double packs_a_step() const { return static_cast<double>(packs_) / static_cast<double>(steps_); }  // after a step
  // Returns the seconds that the last measurement and the last checkpoint of a run take.
  double seconds_at_end(const Pace& pace) const;

 private:
  const TrainConfig& config_;
  double checkpoint_seconds_, held_out_tokens_;
  std::int64_t steps_ = 0, packs_ = 0;
  double seconds_ = 0;
};

}  // namespace draftsmith
