#include "draftsmith/app/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "draftsmith/base/words.h"

namespace draftsmith {
namespace {

constexpr const char* kClearLine = "\r\033[K";
constexpr double kTerminalEvery = 0.1;  // seconds between two drawings of the line
constexpr double kPipeEvery = 10.0;     // seconds between two plain lines

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

void put(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace

std::string progress_line(const std::string& what, const Progress& progress, std::int64_t first_done, double seconds) {
  std::string line = what + "  " + count_text(static_cast<double>(progress.done));
  if (progress.total > 0) line += "/" + count_text(static_cast<double>(progress.total));
  if (!progress.unit.empty()) line += " " + progress.unit;
  if (progress.total > 0) line += fmt::format(" ({}%)", 100 * progress.done / progress.total);
  const double done = static_cast<double>(progress.done - first_done);
  if (done > 0 && seconds > 0) {
    const double rate = done / seconds;
    line += rate >= 1 ? "  " + count_text(rate) + "/s" : fmt::format("  {:.1f} s each", 1 / rate);
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
    put(kClearLine + pending_.substr(0, terminal_width() - 1));
    std::fflush(stderr);
    line_open_ = true;
  } else if (!fresh || last) {
    put(pending_ + "\n");
  }
  if (last) finish();
}

void Terminal::finish() {
  if (line_open_) put(kClearLine + pending_ + "\n");
  line_open_ = false;
  what_.clear();
  pending_.clear();
}

void Terminal::notice(const std::string& text) {
  if (line_open_) put(kClearLine);
  put(text + "\n");
}

ProgressFn Terminal::progress(const std::string& what) {
  return [this, what](const Progress& p) { show(what, p); };
}

NoticeFn Terminal::notices() {
  return [this](const std::string& text) { notice("note: " + text); };
}

}  // namespace draftsmith
