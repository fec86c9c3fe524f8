#include "draftsmith/run/step_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "draftsmith/base/words.h"

namespace draftsmith {
namespace {

// train.max_minutes fixes the number of steps from the pace of so many.
constexpr std::int64_t kMeasuredSteps = 20;

}  // namespace

StepBudget::StepBudget(Parts parts)
    : parts_(std::move(parts)),
      train_(parts_.config.train),
      pace_(train_, num_parameters(parts_.trainer.drafter()), parts_.trainer.held_out().num_tokens()),
      total_steps_(parts_.total_steps),
      warmup_(parts_.warmup) {}

void StepBudget::begin() {
  if (total_steps_ > 0) return;
  Trainer& trainer = parts_.trainer;
  if (train_.max_minutes <= 0) {
    total_steps_ = trainer.schedule().num_steps();
  } else if (!trainer.schedule().has(trainer.num_steps())) {
    total_steps_ = std::max<std::int64_t>(trainer.num_steps(), 1);
  } else {
    rehearse();
  }
}

// With max_minutes the number of steps is fixed after kMeasuredSteps. Until then the learning rate must not depend on
// it, or the run could not be repeated from run.yaml. One rehearsed pack therefore gives a first guess, and the warm-up
// gets a fixed number of steps from that guess, which run.yaml records.
void StepBudget::rehearse() {
  Trainer& trainer = parts_.trainer;
  trainer.rehearse();  // the first pass of a process is slower than all others
  const StepReport report = trainer.rehearse();
  pace_.add(report.packs, report.seconds);
  const std::int64_t guess = steps_in_time(pace_.pace(trainer.features()));
  pace_.forget();
  if (guess - trainer.num_steps() <= kMeasuredSteps) {
    total_steps_ = std::max(guess, trainer.num_steps());
    notice(fmt::format("fitted to {:g} minutes: {} steps", train_.max_minutes, total_steps_));
  } else if (warmup_ < kMeasuredSteps) {
    const std::int64_t rise = warmup_steps({.warmup = warmup_, .total_steps = guess});
    warmup_ = static_cast<double>(std::max(rise, kMeasuredSteps));
  }
}

bool StepBudget::count(const StepReport& report) {
  ++session_steps_;
  pace_.add(report.packs, report.seconds);
  const bool measured = session_steps_ >= kMeasuredSteps || !parts_.trainer.schedule().has(parts_.trainer.num_steps());
  if (total_steps_ > 0 || !measured) return false;
  fit();
  return true;
}

void StepBudget::fit() {
  const Pace pace = pace_.pace(parts_.trainer.features());
  total_steps_ = steps_in_time(pace);
  notice(fmt::format("fitted to {:g} minutes: {} steps ({:.2f} s a pack, {:.2f} s for 1000 new tokens of the target)",
                     train_.max_minutes, total_steps_, pace.seconds_a_pack, 1000 * pace.seconds_a_token));
}

std::int64_t StepBudget::steps_in_time(const Pace& pace) const {
  Trainer& trainer = parts_.trainer;
  const double left = train_.max_minutes * 60 - parts_.clock.seconds() - pace_.seconds_at_end(pace);
  return parts_.ranks.agree(steps_that_fit(trainer.schedule(), trainer.features(), pace, trainer.num_steps(), left));
}

double StepBudget::seconds_left() const {
  if (total_steps_ == 0) return -1;
  Trainer& trainer = parts_.trainer;
  const Pace pace = pace_.pace(trainer.features());
  const auto steps = static_cast<double>(total_steps_ - trainer.num_steps());
  return seconds_of_packs(trainer.schedule().epoch_size(), trainer.features(), pace, steps * pace_.packs_a_step(),
                          steps) +
         pace_.seconds_at_end(pace);
}

Schedule StepBudget::rates() const {
  return {.peak = train_.learning_rate,
          .floor = train_.min_learning_rate,
          .warmup = warmup_,
          // While the number of steps is open the warm-up is still going on, and it does not depend on it.
          .total_steps = total_steps_ > 0 ? total_steps_ : std::numeric_limits<std::int64_t>::max() / 2};
}

double StepBudget::learning_rate() const { return draftsmith::learning_rate(rates(), parts_.trainer.num_steps()); }

RunConfig StepBudget::resolved() const {
  RunConfig out = parts_.config;
  if (train_.max_minutes > 0 && total_steps_ > 0) {
    out.train.max_steps = total_steps_;
    out.train.max_minutes = 0;
    out.train.warmup = warmup_;
  }
  return out;
}

}  // namespace draftsmith
