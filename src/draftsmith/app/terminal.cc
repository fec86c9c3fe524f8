#include "draftsmith/app/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace draftsmith {
namespace {

constexpr double kTerminalEvery = 0.1;  // seconds between two drawings of the line
constexpr double kPipeEvery = 10.0;     // seconds between two plain lines

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  char text[48];
  if (s >= 3600) {
    std::snprintf(text, sizeof text, "%ldh %02ldm", s / 3600, s / 60 % 60);
  } else if (s >= 60) {
    std::snprintf(text, sizeof text, "%ldm %02lds", s / 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%lds", s);
  }
  return text;
}

std::string count_text(double count) {
  if (count >= 999.95e6) return fixed(count / 1e9, 1) + "G";
  if (count >= 999.95e3) return fixed(count / 1e6, 1) + "M";
  if (count >= 9999.5) return fixed(count / 1e3, 1) + "k";
  return fixed(count, count < 10 && count != std::floor(count) ? 1 : 0);
}

std::string progress_line(const std::string& what, const Progress& progress, std::int64_t first_done, double seconds) {
  std::string line = what + "  " + count_text(static_cast<double>(progress.done));
  if (progress.total > 0) line += "/" + count_text(static_cast<double>(progress.total));
  if (!progress.unit.empty()) line += " " + progress.unit;
  if (progress.total > 0) line += " (" + std::to_string(100 * progress.done / progress.total) + "%)";
  const double done = static_cast<double>(progress.done - first_done);
  if (done > 0 && seconds > 0) {
    const double rate = done / seconds;
    line += rate >= 1 ? "  " + count_text(rate) + "/s" : "  " + fixed(1 / rate, 1) + " s each";
    if (progress.total > progress.done) {
      const double at_this_rate = static_cast<double>(progress.total - progress.done) / rate;
      line += "  " + duration_text(progress.seconds_left >= 0 ? progress.seconds_left : at_this_rate) + " left";
    }
  }
  if (!progress.detail.empty()) line += "  " + progress.detail;
  return line;
}

Terminal::Terminal(Mode mode) : quiet_(mode == Mode::kQuiet), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Terminal::~Terminal() { finish(); }

void Terminal::show(const std::string& what, const Progress& progress) {
  if (quiet_) return;
  const auto now = Clock::now();
  const bool fresh = what != what_;
  if (fresh) {
    finish();
    what_ = what;
    started_ = last_shown_ = now;
    first_done_ = progress.done;
  }
  pending_ = progress_line(what, progress, first_done_, seconds_between(started_, now));
  const bool last = progress.total > 0 && progress.done >= progress.total;
  if (!fresh && !last && seconds_between(last_shown_, now) < (is_terminal_ ? kTerminalEvery : kPipeEvery)) return;
  last_shown_ = now;
  if (is_terminal_) {
    std::fprintf(stderr, "\r\033[K%s", pending_.substr(0, terminal_width() - 1).c_str());
    std::fflush(stderr);
    line_open_ = true;
  } else if (!fresh || last) {
    std::fprintf(stderr, "%s\n", pending_.c_str());
  }
  if (last) finish();
}

void Terminal::finish() {
  if (line_open_) std::fprintf(stderr, "\r\033[K%s\n", pending_.c_str());
  line_open_ = false;
  what_.clear();
  pending_.clear();
}

void Terminal::notice(const std::string& text) {
  if (line_open_) std::fprintf(stderr, "\r\033[K");
  std::fprintf(stderr, "%s\n", text.c_str());
}

ProgressFn Terminal::progress(const std::string& what) {
  return [this, what](const Progress& p) { show(what, p); };
}

NoticeFn Terminal::notices() {
  return [this](const std::string& text) { notice("note: " + text); };
}

}  // namespace draftsmith
