// How a process ends that holds objects of the library in statics: docs/threads.md has the rules.
#include <string>
#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim::test;

namespace {

/// Runs statics.cpp; it ended well if the kernel says so and its results were right.
void check_ends_well(const std::string& how, int times, const std::string& variables = "") {
  for (int i = 0; i < times; i++) {
    const Child child =
        run_program("env " + variables + " timeout 120 '" + built_file("bin/statics") + "' " + how);
    INFO(how << ": " << child.output);
    CHECK(child.passed);
    CHECK(child.output.find("right\n") != std::string::npos);
  }
}

/// Variables for a cache of programs in that folder: they are compiled once.
std::string kept_in(const TempDir& folder) {
  return "DLPRIM_CACHE_MB=64 DLPRIM_CACHE_DIR='" + folder / "cache" + "'";
}

}  // namespace

TEST_CASE("exit: statics of every kind, main returns or calls exit()", "[exit][threads]") {
  const TempDir folder;
  for (const char* how : {"return", "exit", "exit_elsewhere"}) check_ends_well(how, 3, kept_in(folder));
}

TEST_CASE("exit: with kernels on a queue that never ran before", "[exit][threads]") {
  for (const char* how : {"queued", "queued_gone", "queued_elsewhere"})
    check_ends_well(how, 2, "DLPRIM_CACHE_MB=0");
}

TEST_CASE("exit: exit() while programs are compiled in the background", "[exit][threads]") {
  check_ends_well("building", 2);
  // What was learnt of the device lies in the folder from the second time on, and its programs are kept
  // there.
  const TempDir folder;
  check_ends_well("building_first", 4, kept_in(folder));
  check_ends_well("building", 3, kept_in(folder));
  check_ends_well("building", 3, "DLPRIM_BUILD_PROCESSES=2 " + kept_in(folder));
}

TEST_CASE("exit: a static that stops its thread", "[exit][threads]") {
  const TempDir folder;
  check_ends_well("joined", 5, kept_in(folder));
}

TEST_CASE("exit: quick_exit() while a thread runs a plan", "[exit][threads]") {
  const TempDir folder;
  check_ends_well("quick_exit", 5, kept_in(folder));
}

TEST_CASE("exit: what a static stream has not reported is reported", "[exit]") {
  const Child child = run_program("DLPRIM_LOG=1 '" + built_file("bin/statics") + "' return");
  INFO(child.output);
  CHECK(child.passed);
  int operators = 0;
  for (size_t at = 0; (at = child.output.find("op=gemm ", at)) != std::string::npos; at++) operators++;
  CHECK(operators == 3 * 4);  // three objects, each twice a plan and a call
}
