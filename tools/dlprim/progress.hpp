// What a training run shows of itself: on a terminal a bar that is drawn over and over, elsewhere now and
// then a line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace dlprim::cli {

class Progress {
 public:
  /// `total` images in `epochs` epochs together.
  Progress(int64_t total, int64_t epochs);
  /// Removes the bar, so that an error's text begins a line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` images of all, in the `epoch`-th (from 1), `share` of which is done. Loss and accuracy are
  /// running ones.
  void show(int64_t done, int64_t epoch, double share, double loss, double accuracy);
  /// Prints a line that stays.
  void line(const std::string& text);
  /// Time from here to resume() does not count: something else than training runs.
  void pause();
  void resume();
  /// Seconds of training so far, and images a second.
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  int64_t total_, epochs_;
  bool terminal_;
  bool drawn_ = false;  ///< a bar stands in the terminal's last line
  bool running_ = true;
  Clock::time_point start_, last_;
  double before_ = 0;  ///< seconds up to the last pause
};

/// "1:05" or "1:02:03".
std::string clock_text(double seconds);

}  // namespace dlprim::cli
