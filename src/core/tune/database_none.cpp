// The user's database in a build without SQLite: there is none.
#include "core/tune/database.hpp"

namespace dlprim::detail {
namespace {

constexpr const char* kReason = "this build of dlprim has no SQLite";

}  // namespace

std::vector<UserRow> UserDatabase::load(const DeviceFacts&) {
  path_.clear();
  reason_ = kReason;  // not worth a line in every program's log
  return {};
}

bool UserDatabase::store(const DeviceFacts&, const UserRow&) {
  reason_ = kReason;
  return false;
}

}  // namespace dlprim::detail
