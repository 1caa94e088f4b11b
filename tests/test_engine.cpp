// The choice among engines: refusals, avoidance, predictions, names; what explain() says of it, and tuning
// tries.
#include "core/composed.hpp"

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using namespace dlprim::test;

namespace {

/// What an engine answers, and its workspace.
struct Answer {
  std::string refusal = {}, avoidance = {};
  double prediction = 0;
  size_t workspace = 0;
};

struct Problem {
  Answer fast = {}, slow = {}, plain = {};
};

struct Impl : EngineImpl {
  size_t workspace = 0;
  int size = 0;
  size_t workspace_size() const override { return workspace; }
};

template <Answer Problem::*answer>
std::string refuse(const Context&, const Problem& p, const EngineOptions&) {
  return (p.*answer).refusal;
}
template <Answer Problem::*answer>
std::string avoid(const Context&, const Problem& p, const EngineOptions&) {
  return (p.*answer).avoidance;
}
template <Answer Problem::*answer>
double predict(const Context&, const Problem& p, const EngineOptions&) {
  return (p.*answer).prediction;
}
template <Answer Problem::*answer>
std::unique_ptr<const Impl> make(const Context&, const Problem& p, const EngineOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->workspace = (p.*answer).workspace;
  options.request.take("slow", {{"size", &impl->size}});
  return impl;
}

template <Answer Problem::*answer>
constexpr Engine<Problem, Impl> engine_of(const char* name, bool tried = false) {
  return {name, refuse<answer>, make<answer>, avoid<answer>, predict<answer>, nullptr, tried};
}
constexpr auto kFast = engine_of<&Problem::fast>("fast");
constexpr auto kSlow = engine_of<&Problem::slow>("slow", true);
constexpr auto kPlain = engine_of<&Problem::plain>("plain");
constexpr EngineList<Problem, Impl> kEngines = {&kFast, &kSlow, &kPlain};

/// "fast, first of those that accept"
std::string chosen(const Problem& p, const Options& options = {}) {
  PlanInfo info;
  choose_engine("op", kEngines, context(), p, options, info);
  return info.request + ", " + info.reason;
}

std::string refused(const Problem& p, const Options& options = {}) {
  return error_of<ValidationError>([&] { chosen(p, options); });
}

std::string tried(const Problem& p) {
  std::string text;
  for (const std::string& name : candidates_of("op", kEngines, context(), p, {}, 1e18, false).timed)
    text += name + " ";
  return text;
}

}  // namespace

TEST_CASE("engines: the first that accepts serves, or one behind it that predicts less", "[small]") {
  CHECK(chosen({}) == "fast, first of those that accept");
  CHECK(chosen({{"too large"}}) == "slow, first of those that accept");
  CHECK(chosen({{"", "", 3}, {"", "", 2}, {"", "", 1}}) == "plain, predicted to take 1 us");
  CHECK(chosen({{}, {"", "", 2}}) == "fast, first of those that accept");
  CHECK(chosen({{"", "", 0, size_t{1} << 40}}) == "slow, first of those that accept");
}

TEST_CASE("engines: one that avoids a problem serves by name, or if all others refuse", "[small]") {
  const Problem p{{"", "is for GPUs", 1}, {}, {"", "is plain"}};
  CHECK(chosen(p) == "slow, first of those that accept");
  CHECK(chosen(p, engine("fast")) == "fast, asked for by name");
  CHECK(chosen(p, engine("plain")) == "plain, asked for by name");
  CHECK(chosen({{"", "is for GPUs"}, {"too large"}, {"too small"}}) ==
        "fast, all others refused; avoided, is for GPUs");
  CHECK(chosen({{"", "is new"}, {"", "", 0, size_t{1} << 40}, {"", "is plain"}}) ==
        "fast, all others refused; avoided, is new");
}

TEST_CASE("engines: names and parameters that do not fit are refused", "[small]") {
  CHECK(chosen({}, engine("slow:size=4")) == "slow:size=4, asked for by name");
  CHECK(refused({}, engine("slow:width=4")) == "engine: slow has no parameter 'width'");
  CHECK(refused({}, engine("slow:size")) == "engine: 'slow:size': 'size' is not NAME=NUMBER");
  CHECK(refused({}, engine("best")) == "engine: op has no engine 'best'");
  CHECK(refused({{"too large"}}, engine("fast")) == "engine: op: fast refused:\n  fast: too large");
  CHECK(refused({{"a"}, {"b"}, {"c"}}) ==
        "engine: op: every engine refused:\n  fast: a\n  slow: b\n  plain: c");
}

TEST_CASE("engines: tuning tries those that accept, and avoided ones that say so", "[small]") {
  CHECK(tried({}) == "fast slow ");
  CHECK(tried({{"", "is for GPUs"}, {"", "is slow"}}) == "slow ");
  CHECK(tried({{"too large"}, {"too small"}}) == "plain ");
}
