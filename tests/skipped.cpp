// The list of what was skipped, printed when the program ends.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "catch.hpp"
#include "support.hpp"

namespace dlprim::test {
namespace {

using Skipped = std::set<std::pair<std::string, std::string>>;  // test case, reason

Skipped& skipped() {
  static Skipped& list = *new Skipped;
  return list;
}

void print() {
  for (const auto& [name, reason] : skipped()) std::printf("skipped: %s: %s\n", name.c_str(), reason.c_str());
  std::printf("skipped: %zu\n", skipped().size());
}

}  // namespace

void note_skipped(const std::string& reason) {
  if (skipped().empty()) std::atexit(print);
  skipped().emplace(Catch::getResultCapture().getCurrentTestName(), reason);
}

bool has_doubles() {
  if (context().device().probes().fp64) return true;
  note_skipped("the device has no double arithmetic");
  return false;
}

}  // namespace dlprim::test
