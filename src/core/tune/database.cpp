// Where the user's database lies.
#include "core/tune/database.hpp"

#include <cstdlib>
#include <ctime>

#include "core/binary_cache.hpp"
#include "core/log.hpp"
#include "core/text.hpp"

namespace dlprim::detail {

UserDatabase UserDatabase::of_environment() {
  if (const char* path = std::getenv("DLPRIM_TUNE_DB")) return {path, false};
  const std::string& folder = BinaryCache::user().directory();
  return {folder.empty() ? "" : folder + "/tuning.sqlite", true};
}

void UserDatabase::complain(const std::string& reason) {
  if (reason != reason_ && log_level() >= 1) log_line(cat("tuning database '", path_, "': ", reason));
  reason_ = reason;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[16];
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

}  // namespace dlprim::detail
