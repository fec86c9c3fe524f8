// Decides how many optimizer steps a run does: as many as train.max_steps and train.epochs say, or as many as
// train.max_minutes leaves time for at the measured pace. All ranks use the number of the first.
#pragma once

#include <chrono>
#include <cstdint>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/ranks/ranks.h"
#include "draftsmith/run/pace.h"
#include "draftsmith/train/schedule.h"
#include "draftsmith/train/trainer.h"

namespace draftsmith {

// Seconds of training, earlier sessions of the run included.
class TrainingClock {
 public:
  void add_earlier(double seconds) { earlier_ += seconds; }
  double seconds() const { return earlier_ + std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();
  double earlier_ = 0;
};

class StepBudget {
 public:
  struct Parts {
    const RunConfig& config;
    Trainer& trainer;
    Ranks& ranks;
    const TrainingClock& clock;
    NoticeFn notice;
    // A checkpoint may have brought these.
    std::int64_t total_steps = 0;  // 0 = not fixed yet
    double warmup = 0;             // a share or a number of steps
  };
  // Keeps the references.
  explicit StepBudget(Parts parts);

  // Before the first step: fixes the number, or says what the first steps may be measured with.
  void begin();
  // After a step. True when this fixed the number.
  bool count(const StepReport& report);

  std::int64_t total_steps() const { return total_steps_; }  // 0 while it is open
  double warmup() const { return warmup_; }
  bool done() const { return total_steps_ > 0 && parts_.trainer.num_steps() >= total_steps_; }
  std::int64_t session_steps() const { return session_steps_; }  // done by this process
  double learning_rate() const;                                  // of the next step
  double seconds_left() const;                                   // negative while the number of steps is open
  // The configuration that repeats this run step by step.
  RunConfig resolved() const;

 private:
  void rehearse();
  void fit();
  std::int64_t steps_in_time(const Pace& pace) const;
  Schedule rates() const;
  void notice(const std::string& text) const {
    if (parts_.notice) parts_.notice(text);
  }

  const Parts parts_;
  const TrainConfig& train_;
  PaceMeter pace_;
  std::int64_t total_steps_;
  double warmup_;
  std::int64_t session_steps_ = 0;
};

}  // namespace draftsmith
