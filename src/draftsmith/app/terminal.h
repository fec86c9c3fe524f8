// Shows progress while long work runs: one line that is rewritten on a terminal, or a plain line now and then when
// stderr is piped. Results go to stdout, progress and notices to stderr.
#pragma once

#include <chrono>
#include <string>

#include "draftsmith/base/progress.h"

namespace draftsmith {

class Terminal {
 public:
  enum class Mode { kAuto, kQuiet };
  explicit Terminal(Mode mode = Mode::kAuto);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Shows `progress` of the work named `what`, with its rate and the time left.
  void show(const std::string& what, const Progress& progress);
  // Ends the line of the current work; the last state stays visible.
  void finish();
  void notice(const std::string& text);

  ProgressFn progress(const std::string& what);
  NoticeFn notices();

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_, is_terminal_;
  bool line_open_ = false;
  std::string what_, pending_;
  Clock::time_point started_, last_shown_;
  std::int64_t first_done_ = 0;
};

// The same line that show() draws, for tests: rate and time left follow from done since first_done in `seconds`.
std::string progress_line(const std::string& what, const Progress& progress, std::int64_t first_done, double seconds);

}  // namespace draftsmith
