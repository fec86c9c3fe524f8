// Long work tells how far it is through a callback; only app turns that into a line on the terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace draftsmith {

struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 0;    // 0 = unknown
  std::string unit;          // what is counted, e.g. "rows", "steps", "tokens"
  std::string detail;        // e.g. "loss 4.12  accuracy 0.21"
  double seconds_left = -1;  // negative = what the rate so far says
};
using ProgressFn = std::function<void(const Progress&)>;

// One sentence for the user that is no failure (a default that was chosen, a digest that differs).
using NoticeFn = std::function<void(const std::string&)>;

}  // namespace draftsmith
