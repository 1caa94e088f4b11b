// The bar and the lines. Times between them are wall-clock times: what is shown never changes what is
// computed.
#include "progress.hpp"

#include <algorithm>
#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

#include "format.hpp"

namespace dlprim::cli {
namespace {

constexpr double kBarPeriod = 0.1;    // seconds between two drawings of the bar
constexpr double kLinePeriod = 10.0;  // and between two plain lines, of which each epoch's end has one

int terminal_width(FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(std::max(0.0, seconds) + 0.5);
  char text[32];
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  return text;
}

Progress::Progress(int64_t total, std::string unit, FILE* out)
    : out_(out),
      total_(total),
      unit_(std::move(unit)),
      terminal_(isatty(fileno(out)) != 0),
      start_(Clock::now()),
      last_(start_) {
  if (terminal_) last_ -= std::chrono::seconds(1);  // the bar is there from the first moment
}

Progress::~Progress() {
  clear();
  std::fflush(out_);
}

double Progress::seconds() const {
  return before_ + (running_ ? std::chrono::duration<double>(Clock::now() - start_).count() : 0);
}

void Progress::pause() {
  before_ = seconds();
  running_ = false;
}

void Progress::resume() {
  start_ = Clock::now();
  running_ = true;
}

void Progress::rate_from(int64_t done) {
  uncounted_ = done;
  uncounted_time_ = seconds();
}

void Progress::show(int64_t done, double share, const std::string& head, const std::string& tail,
                    bool at_end) {
  const Clock::time_point now = Clock::now();
  const double waited = std::chrono::duration<double>(now - last_).count();
  const bool ends = !terminal_ && at_end && share >= 1;
  if (waited < (terminal_ ? kBarPeriod : kLinePeriod) && !ends) return;
  last_ = now;
  const double rate = static_cast<double>(done - uncounted_) / std::max(seconds() - uncounted_time_, 1e-9);
  const double left = static_cast<double>(total_ - done) / std::max(rate, 1e-9);
  const std::string left_text = done > uncounted_ ? clock_text(left) : "?";
  std::string numbers = format(" %3.0f %%  ", 100 * share);
  if (done > uncounted_ || done == 0)
    numbers += format(rate < 10 ? "%.1f %s/s  %s left  " : "%.0f %s/s  %s left  ", rate, unit_.c_str(),
                      left_text.c_str());
  if (!terminal_) {
    std::fprintf(out_, "%s %s%s\n", head.c_str(), numbers.c_str(), tail.c_str());
    std::fflush(out_);
    return;
  }
  const int room = terminal_width(out_) - static_cast<int>(head.size() + numbers.size() + tail.size()) - 4;
  std::string bar;
  if (room >= 5) {
    const int width = std::min(room, 30), full = static_cast<int>(share * width);
    bar = "[" + std::string(static_cast<size_t>(full), '=') + (full < width ? ">" : "") +
          std::string(static_cast<size_t>(std::max(0, width - full - 1)), ' ') + "]";
  }
  const std::string text =
      (head + " " + bar + numbers + tail).substr(0, static_cast<size_t>(terminal_width(out_) - 1));
  std::fprintf(out_, "\r\033[K%s", text.c_str());
  std::fflush(out_);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) std::fprintf(out_, "\r\033[K");
  drawn_ = false;
}

void Progress::line(const std::string& text) {
  clear();
  std::fprintf(out_, "%s\n", text.c_str());
  std::fflush(out_);
}

}  // namespace dlprim::cli
