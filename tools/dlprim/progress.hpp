// What a long run shows of itself: on a terminal a bar that is drawn over and over, elsewhere now and then a
// line.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace dlprim::cli {

class Progress {
 public:
  /// Of `total` things to do; `unit` is their name, in a rate: "images". All is shown on `out`.
  Progress(int64_t total, std::string unit, FILE* out = stdout);
  /// Removes the bar, so that an error's text begins a line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of all; `share` is what the bar shows. "HEAD [===> ] 40 %  12 images/s  0:10 left  TAIL". A plain
  /// line only now and then, and always at a share of 1 if `at_end`.
  void show(int64_t done, double share, const std::string& head, const std::string& tail, bool at_end = true);
  /// The rate, and what is left, count from here: the first `done` took longer, as programs were compiled.
  void rate_from(int64_t done);
  /// Prints a line that stays.
  void line(const std::string& text);
  /// Time from here to resume() does not count: something else runs.
  void pause();
  void resume();
  /// Seconds so far.
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  FILE* const out_;
  int64_t total_;
  int64_t uncounted_ = 0;      ///< things in front of those that the rate counts
  double uncounted_time_ = 0;  ///< and their seconds
  std::string unit_;
  bool terminal_;
  bool drawn_ = false;  ///< a bar stands in the terminal's last line
  bool running_ = true;
  Clock::time_point start_, last_;
  double before_ = 0;  ///< seconds up to the last pause
};

/// "1:05" or "1:02:03".
std::string clock_text(double seconds);

}  // namespace dlprim::cli
