// Profiles: operators with the device times of their kernels, in order, and what the log says beside.
#include <dlprim/profile.hpp>

#include <cmath>

#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/recording.hpp>

#include "catch.hpp"
#include "core/device_probe.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Two operators.
struct Work {
  Tensor a, b, c, y;

  explicit Work(const Stream& s) : a(s, {16, 24}), b(s, {24, 8}), c(s, {16, 8}), y(s, {16, 8}) {
    fill(s, 1, a);
    fill(s, 2, b);
  }
  void operator()(const Stream& s) const {
    gemm(s, a, b, {}, {}, c);
    pointwise(s, {c}, {y}, {}, "y0 = x0 + 1");
  }
};

bool tells_times() {
  return detail::driver_limits(context().device()).measures_time;
}

/// Kernels one after the other, none before the profile's begin. Of a device that tells no times none is
/// known.
void check_order(const std::vector<OperatorTime>& operators) {
  double last = 0;
  if (!tells_times()) {
    for (const OperatorTime& op : operators) {
      CHECK(!op.kernels.empty());
      CHECK(std::isnan(op.microseconds()));
      for (const KernelTime& kernel : op.kernels) CHECK((std::isnan(kernel.start) && std::isnan(kernel.end)));
    }
    return;
  }
  for (const OperatorTime& op : operators) {
    CHECK(!op.kernels.empty());
    double sum = 0;
    for (const KernelTime& kernel : op.kernels) {
      INFO(op.text << " " << kernel.name);
      CHECK(kernel.start >= last);
      CHECK(kernel.end >= kernel.start);
      last = kernel.end;
      sum += kernel.end - kernel.start;
    }
    CHECK(op.microseconds() == Approx(sum));
  }
  CHECK(last > 0);
}

}  // namespace

TEST_CASE("profile: operators, their kernels and times", "[small]") {
  const Stream s = profiling_stream(context());
  const Work work(s);
  Profile profile(s);
  work(s);
  const std::vector<OperatorTime> operators = profile.take();
  REQUIRE(operators.size() == 2);
  CHECK_THAT(operators[0].text, Catch::StartsWith("op=gemm engine=") && Catch::Contains("m=16 n=8 k=24"));
  CHECK(operators[0].flops == 2 * 16 * 8 * 24);
  CHECK(operators[0].bytes == 4 * (16 * 24 + 24 * 8 + 16 * 8));
  CHECK_THAT(operators[1].text, Catch::StartsWith("op=pointwise"));
  check_order(operators);
  if (tells_times()) CHECK(operators[0].kernels[0].start == 0);
  CHECK(profile.take().empty());
  work(s);
  const std::vector<OperatorTime> again = profile.take();
  REQUIRE(again.size() == 2);
  if (tells_times()) CHECK(again[0].kernels.at(0).start >= operators[1].kernels.back().end);  // one clock
}

TEST_CASE("profile: a replay is one operator with the recording's kernels", "[small]") {
  const Stream s = profiling_stream(context());
  const Work work(s);
  work(s);
  const Recording recording(s, [&] { work(s); });
  Profile profile(s);
  recording.replay();
  const std::vector<OperatorTime> operators = profile.take();
  REQUIRE(operators.size() == 1);
  CHECK(operators[0].text == "op=replay");
  CHECK(operators[0].kernels.size() == static_cast<size_t>(recording.launches()));
  check_order(operators);
  CHECK(host_values(work.y) == std::vector<float>(16 * 8, 49));
}

TEST_CASE("profile: what it refuses", "[small]") {
  const Stream plain(context(), cl::CommandQueue(context().cl(), context().device().cl()));
  CHECK_THROWS_WITH(Profile(plain), Catch::Contains("measures no time"));
  const Stream s = profiling_stream(context());
  const Profile profile(s);
  CHECK_THROWS_WITH(Profile(s), Catch::Contains("has a profile already"));
}

TEST_CASE("profile: the log has each operator once, beside it and after it", "[small]") {
  std::vector<std::string> lines;
  ContextConfig config;
  config.log_level = 1;
  config.log = [&](const std::string& line) {
    if (line.rfind("op=gemm", 0) == 0) lines.push_back(line);
  };
  const Context own(context().device(), config);
  const Stream s(own);  // measures, as the log is on
  const Work work(s);
  {
    Profile profile(s);
    work(s);
    CHECK(lines.empty());
    CHECK(profile.take().size() == 2);
    CHECK(lines.size() == 1);
    work(s);
  }
  s.finish();
  CHECK(lines.size() == 2);
  work(s);
  s.finish();
  CHECK(lines.size() == 3);
  CHECK((lines[2].find(" us=") != std::string::npos) == tells_times());
}
