// What Catch2, version 2 or 3, tells of a run, passed on to the mutations. Linked into test programs, not
// into what else uses the cases.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // version 2 shows its listeners only then
#include "catch.hpp"
#include "mutation.hpp"

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using Base = Catch::EventListenerBase;
using Result = void;
#else
using Base = Catch::TestEventListenerBase;
using Result = bool;
#endif

class Listener : public Base {
 public:
  using Base::Base;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    dlprim::test::mutated_test_starts(info.name);
  }
  void testCaseEnded(const Catch::TestCaseStats&) override { dlprim::test::mutated_test_ends(); }
  void assertionStarting(const Catch::AssertionInfo&) override { dlprim::test::mutated_assertion_starts(); }
  Result assertionEnded(const Catch::AssertionStats& stats) override {
    if (!stats.assertionResult.isOk()) dlprim::test::mutated_assertion_failed();
    return Result();
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(Listener)
