#include "waiting.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include <dlprim/compiling.hpp>

#include "format.hpp"

namespace dlprim::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{200};
constexpr std::chrono::seconds kPatience{2}, kBetweenLines{10};

}  // namespace

Waiting::Waiting(std::function<std::string()> text) : text_(std::move(text)) {
  thread_ = std::thread([this] { watch(); });
}

Waiting::~Waiting() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Waiting::watch() {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  bool drawn = false;
  Clock::time_point next = Clock::now() + kPatience, after_line = next;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return ending_; })) {
    const std::string text = text_();
    const Clock::time_point now = Clock::now();
    if (text.empty()) {
      if (drawn) std::fputs("\r\033[K", stderr);
      drawn = false;
      next = std::max(now + kPatience, after_line);
    } else if (terminal) {
      std::fprintf(stderr, "\r\033[K%s", text.c_str());
      drawn = true;
    } else if (now >= next) {
      std::fprintf(stderr, "%s\n", text.c_str());
      next = after_line = now + kBetweenLines;
    }
  }
  if (drawn) std::fputs("\r\033[K", stderr);
}

std::function<std::string()> compiling() {
  const uint64_t start = compile_progress().done;
  return [start]() -> std::string {
    const CompileProgress now = compile_progress();
    if (now.pending == 0) return "";
    const uint64_t done = now.done - start;
    return format("compiling %llu of %llu kernels", static_cast<unsigned long long>(done),
                  static_cast<unsigned long long>(done + now.pending));
  };
}

}  // namespace dlprim::cli
