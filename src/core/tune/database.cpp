// Where the user's database lies.
#include "core/tune/database.hpp"

#include <cstdlib>
#include <ctime>

#include "core/text.hpp"

namespace dlprim::detail {

UserDatabase UserDatabase::configured(const ContextConfig& config, const std::string& folder,
                                      const Log& log) {
  if (config.tuning_database) return {*config.tuning_database, false, log};
  const char* path = std::getenv("DLPRIM_TUNE_DB");
  if (path && !config.cache_folder) return {path, false, log};
  return {folder.empty() ? "" : folder + "/tuning.sqlite", true, log};
}

void UserDatabase::complain(const std::string& reason) {
  if (reason != reason_ && log_.level() >= 1) log_.line(cat("tuning database '", path_, "': ", reason));
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
