// Measures where the time of a training step goes. Operations name the part that they belong to, and a clock that is
// alive on the same thread adds up their time. Without a clock nothing is measured. Scopes must not contain each other:
// the inner one's time would be counted twice.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace draftsmith {

enum class StepPart { kProjections, kAttention, kMlp, kHead, kOptimizer };
inline constexpr std::size_t kNumStepParts = 5;
inline constexpr std::array<const char*, kNumStepParts> kStepPartNames = {"projections", "attention", "mlp",
                                                                          "head + loss", "optimizer"};

class StepClock {
 public:
  StepClock() : outer_(current_) { current_ = this; }
  ~StepClock() { current_ = outer_; }
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;
  // Seconds of each part, forward and backward.
  const std::array<double, kNumStepParts>& seconds() const { return seconds_; }

 private:
  friend class TimedPart;
  inline static thread_local StepClock* current_ = nullptr;
  StepClock* outer_;
  std::array<double, kNumStepParts> seconds_ = {};
};

// Says what part of the step the matrix products of its scope belong to, forward and backward. Outside of any such
// scope they are projections.
class ProductsOf {
 public:
  explicit ProductsOf(StepPart part) : outer_(current_) { current_ = part; }
  ~ProductsOf() { current_ = outer_; }
  ProductsOf(const ProductsOf&) = delete;
  ProductsOf& operator=(const ProductsOf&) = delete;
  static StepPart current() { return current_; }

 private:
  inline static thread_local StepPart current_ = StepPart::kProjections;
  const StepPart outer_;
};

// Adds the time of its scope to `part`.
class TimedPart {
 public:
  explicit TimedPart(StepPart part) : clock_(StepClock::current_), part_(part) {
    if (clock_ != nullptr) start_ = Clock::now();
  }
  ~TimedPart() {
    if (clock_ == nullptr) return;
    clock_->seconds_[static_cast<std::size_t>(part_)] += std::chrono::duration<double>(Clock::now() - start_).count();
  }
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  StepClock* const clock_;
  const StepPart part_;
  Clock::time_point start_;
};

}  // namespace draftsmith
