// The log's level and its way out.
#include "core/log.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace dlprim::detail {
namespace {

int level_of_environment() {
  const char* text = std::getenv("DLPRIM_LOG");
  return text ? std::atoi(text) : 0;
}

}  // namespace

struct Log::Sink {
  std::function<void(const std::string&)> write;
  std::mutex mutex;
};

Log::Log() : level_(level_of_environment()) {}

Log::Log(std::optional<int> level, std::function<void(const std::string&)> sink)
    : level_(level.value_or(level_of_environment())) {
  if (!sink) return;
  if (!level && level_ == 0) level_ = 1;
  sink_ = std::make_shared<Sink>();
  sink_->write = std::move(sink);
}

void Log::line(const std::string& text) const noexcept {
  try {
    if (sink_) {
      std::lock_guard<std::mutex> lock(sink_->mutex);
      sink_->write(text);
    } else {
      const std::string line = "dlprim: " + text + "\n";
      std::fwrite(line.data(), 1, line.size(), stderr);
    }
  } catch (...) {  // a log line is no reason to fail
  }
}

}  // namespace dlprim::detail
