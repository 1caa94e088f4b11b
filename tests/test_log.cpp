// The log and the profile of operators: silent unless asked, one line per operator, one per kernel at
// level 2.
#include <algorithm>
#include <string>

#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/softmax.hpp>

#include "catch.hpp"
#include "child.hpp"
#include "core/device_probe.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;

namespace {

constexpr const char* kAdd = R"CLC(
__kernel void add_one(__global int* x, long x_offset) { x[x_offset + get_global_id(0)] += 1; }
)CLC";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) found++;
  return found;
}

}  // namespace

TEST_CASE("child: a queue that measures no time", "[.]") {
  const Context context(test::context().device());
  cl_int code = CL_SUCCESS;
  const cl::CommandQueue queue(clCreateCommandQueue(context.cl()(), context.device().cl()(), 0, &code));
  REQUIRE(code == CL_SUCCESS);
  const Stream stream(context, queue);
  const Tensor x(stream, {4, 1000}), y(stream, {4, 1}), image(stream, {1, 2, 4, 4}),
      small(stream, {1, 2, 2, 2});
  fill(stream, 1, x);
  pointwise(stream, {x}, {x}, {}, "y0 = fmod(x0, 2) > 100 % 7");
  Reduce(context, {x}, {y}, 0, sum_of("x0")).run(stream, {x}, {y}, {});
  pool(stream, image, {PoolMode::max, {2, 2}}, small);
  Softmax(context, {x, x, 1, false}, test::engine("generated")).run(stream, x, {}, x);
  stream.finish();
}

TEST_CASE("child: operators", "[.]") {
  const Context context(test::context().device());
  const Stream stream(context);
  const Kernel kernel = context.state().programs.generated("test_log", kAdd, "add_one");
  const Tensor x(stream, {1000}, DType::i32);
  for (int i = 0; i < 100; i++) {
    OperatorScope outer(stream, "op=outer n=1000", 2000, 8000);
    Launch(stream, kernel).arg(x).run({1000}, {1});
    OperatorScope inner(stream, "op=inner", 1, 1);
    Launch(stream, kernel).arg(x).run({1000}, {1});
  }
  { OperatorScope idle(stream, "op=idle", 0, 0); }
  Launch(stream, kernel).arg(x).run({1000}, {1});
  stream.finish();
  CHECK(true);
}

TEST_CASE("log: silent by default", "[log]") {
  for (const char* level : {"", "0", "no"}) {
    const test::Child child = test::run_child("child: operators", {{"DLPRIM_LOG", level}});
    INFO(child.output);
    CHECK(child.passed);
    CHECK(count(child.output, "dlprim:") == 0);
  }
}

TEST_CASE("log: a line per operator, with its kernels, time and rates", "[log]") {
  const test::Child child = test::run_child("child: operators", {{"DLPRIM_LOG", "1"}});
  INFO(child.output);
  CHECK(child.passed);
  const bool told = driver_limits(test::context().device()).measures_time;
  const std::string us = told ? " us=" : "\n";
  CHECK(count(child.output, "dlprim: op=outer n=1000 kernels=2" + us) == 100);
  CHECK(count(child.output, "op=inner") == 0);  // it belongs to the operator that called it
  CHECK(count(child.output, "dlprim: op=idle kernels=0" + (told ? us + "0\n" : us)) == 1);
  CHECK(count(child.output, "dlprim: op=add_one kernels=1" + us) == 1);  // outside every operator
  CHECK(count(child.output, "dlprim: kernel ") == 0);
  const size_t at = child.output.find("op=outer");
  const std::string line = child.output.substr(at, child.output.find('\n', at) - at);
  if (told && line.find("us=0") == std::string::npos) {  // a device that measures no time gives no rates
    CHECK(count(line, " gflops=") == 1);
    CHECK(count(line, " gbytes=") == 1);
  }
}

TEST_CASE("log: a queue that measures no time has its lines without it", "[log]") {
  const test::Child child = test::run_child("child: a queue that measures no time", {{"DLPRIM_LOG", "1"}});
  INFO(child.output);
  CHECK(child.passed);
  const std::string engine = test::context().device().kind() == DeviceKind::cpu ? "cpu" : "gpu";
  const std::string form = engine == "gpu" ? " vector=4" : "";
  CHECK(count(child.output, "op=fill engine=generated y=f32[4,1000] workspace=0") == 1);
  CHECK(count(child.output, "op=pointwise engine=" + engine +
                                " x0=f32[4,1000] y0=f32[4,1000] "
                                "body=y0%20=%20fmod(x0,%202)%20>%20100%20%25%207" +
                                form + " workspace=0 kernels=1\n") == 1);
  CHECK(count(child.output,
              "op=reduce engine=" + engine + " x0=f32[4,1000] y0=f32[4,1] accumulate=a0%20+=%20x0") == 1);
  CHECK(count(child.output,
              " ceil_mode=0 count_include_pad=1 divisor=0 norm=2 indices=0 workspace=0 kernels=1\n") == 1);
  const size_t at = child.output.find("op=softmax");
  REQUIRE(at != std::string::npos);
  const std::string line = child.output.substr(at, child.output.find('\n', at) - at);
  CHECK((count(line, " workspace=") == 1 && count(line, " workspace=0 ") == 0));
  CHECK(count(child.output, " us=") == 0);
}

TEST_CASE("log: level 2 adds kernels and buffers", "[log]") {
  const test::Child child = test::run_child("child: operators", {{"DLPRIM_LOG", "2"}});
  CHECK(child.passed);
  const bool told = driver_limits(test::context().device()).measures_time;
  CHECK(count(child.output, std::string("dlprim: kernel name=add_one") + (told ? " us=" : "\n")) == 201);
  CHECK(count(child.output, "dlprim: buffer bytes=2097152 held=2097152\n") == 1);
}
