// Seconds between laps.
#pragma once

#include <chrono>
#include <utility>

namespace draftsmith {

class Stopwatch {
 public:
  // Seconds since the last lap, or since it was made.
  double lap() {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(begin_, now)).count();
  }
  // Calls back without counting the time it takes.
  template <class Callback>
  void without(Callback callback) {
    const auto before = Clock::now();
    callback();
    begin_ += Clock::now() - before;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace draftsmith
