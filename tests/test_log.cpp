// The log and the profile of operators: silent unless asked, one line per operator, one per kernel at
// level 2.
#include <algorithm>
#include <string>

#include "catch.hpp"
#include "child.hpp"
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
  CHECK(count(child.output, "dlprim: op=outer n=1000 kernels=2 us=") == 100);
  CHECK(count(child.output, "op=inner") == 0);  // it belongs to the operator that called it
  CHECK(count(child.output, "dlprim: op=idle kernels=0 us=0\n") == 1);
  CHECK(count(child.output, "dlprim: op=add_one kernels=1 us=") == 1);  // outside every operator
  CHECK(count(child.output, "dlprim: kernel ") == 0);
  const size_t at = child.output.find("op=outer");
  const std::string line = child.output.substr(at, child.output.find('\n', at) - at);
  if (line.find("us=0") == std::string::npos) {  // a device that measures no time gives no rates
    CHECK(count(line, " gflops=") == 1);
    CHECK(count(line, " gbytes=") == 1);
  }
}

TEST_CASE("log: level 2 adds kernels and buffers", "[log]") {
  const test::Child child = test::run_child("child: operators", {{"DLPRIM_LOG", "2"}});
  CHECK(child.passed);
  CHECK(count(child.output, "dlprim: kernel name=add_one us=") == 201);
  CHECK(count(child.output, "dlprim: buffer bytes=2097152 held=2097152\n") == 1);
}
