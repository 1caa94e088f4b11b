// Times one case after another for bench/compare: reads lines "RUNS OP NAME=VALUE...", and answers each with
// "MILLISECONDS ENGINE BYTES", the mean over RUNS runs that were enqueued together, or "error TEXT". A case's
// tensors and plan stay until another case is named. Each measure_*.cpp beside this file brings an op.
#include "measure.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>

#include <dlprim/copy.hpp>
#include <dlprim/random.hpp>

#include "cases/conv.hpp"
#include "support.hpp"

namespace dlprim::bench {

using test::context;
using test::stream;

namespace {

using MakeCase = std::unique_ptr<Case> (*)(detail::ProblemLine&);

std::map<std::string, MakeCase>& makers() {
  static std::map<std::string, MakeCase> result;
  return result;
}

std::unique_ptr<Case> make(const std::string& text) {
  detail::ProblemLine line(text);
  const auto found = makers().find(line.op());
  if (found == makers().end()) throw Error("there is no case of op '" + line.op() + "'");
  return found->second(line);
}

struct MovingCase : Case {
  void run() override { enqueue(); }
  std::string engine() const override { return name; }
  double bytes() const override { return moved; }

  double moved = 0;
  std::function<void()> enqueue;
  std::string name;
};

double milliseconds(Case& x, int runs) {
  stream().finish();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; i++) x.run();
  stream().finish();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / runs;
}

}  // namespace

CasesOf::CasesOf(const char* op, MakeCase make) {
  makers()[op] = make;
}

std::unique_ptr<Case> moving_case(double bytes, std::function<void()> run, const std::string& engine) {
  auto result = std::make_unique<MovingCase>();
  result->moved = bytes;
  result->enqueue = std::move(run);
  result->name = engine;
  return result;
}

double bytes_of(const std::vector<Tensor>& tensors) {
  double sum = 0;
  for (const Tensor& x : tensors)
    if (x.defined()) sum += static_cast<double>(x.bytes());
  return sum;
}

Tensor random_tensor(const Shape& shape, DType dtype) {
  const Tensor values(context(), shape);
  random_uniform(stream(), values, -1, 1, RandomState{1, 0});
  const Tensor x(context(), shape, dtype);
  copy(stream(), values, x);
  return x;
}

Options options_of(detail::ProblemLine& line) {
  Options options;
  options.engine = line.text("engine", "auto");
  options.math = detail::parse_math(line.word("math", {"standard", "strict", "tf32"}));
  return options;
}

Form::Form(detail::ProblemLine& line)
    : dtype(line.dtype("dtype", DType::f32)),
      layout(line.word("layout", {"nchw", "nhwc", "strided"})),
      low(std::strtod(line.text("low", "-1").c_str(), nullptr)),
      high(std::strtod(line.text("high", "1").c_str(), nullptr)) {
  for (int64_t size : line.sizes("size", {})) shape.push_back(size);
}

Tensor Form::laid_out(const Tensor& values, DType of) const {
  Shape size = values.shape();
  if (layout != "strided") {
    const Tensor x = result(size, of);
    copy(stream(), values, x);
    return x;
  }
  const int last = size.size() - 1;
  size[last] *= 2;
  const Tensor wide(context(), size, of);
  fill(stream(), wide, 0);
  const Tensor x = wide.slice(last, 0, size[last], 2);
  copy(stream(), values, x);
  return x;
}

Tensor Form::input(const Shape& of_shape, DType of_dtype) const {
  const Tensor values(context(), of_shape);
  random_uniform(stream(), values, low, high, RandomState{1, 0});
  return laid_out(values, of_dtype);
}

Tensor Form::mask() const {
  const Tensor values(context(), shape);
  random_bernoulli(stream(), values, 0.5, RandomState{2, 0});
  return laid_out(values, DType::boolean);
}

Tensor Form::result(const Shape& of_shape, DType of_dtype) const {
  if (layout != "nhwc") return Tensor(context(), of_shape, of_dtype);
  return Tensor(context(), {element_count(of_shape)}, of_dtype)
      .as_strided(of_shape, test::strides_in(test::Layout::nhwc, of_shape));
}

}  // namespace dlprim::bench

int main() {
  using namespace dlprim;
  using namespace dlprim::bench;
  std::string named;
  std::unique_ptr<Case> current;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const size_t space = line.find(' ');
      if (space == std::string::npos) throw Error("a line is RUNS OP NAME=VALUE...");
      const int runs = std::stoi(line.substr(0, space));
      const std::string wanted = line.substr(space + 1);
      if (!current || wanted != named) {
        current.reset();
        named.clear();
        context().empty_cache();
        current = make(wanted);
        named = wanted;
        milliseconds(*current, 1);
      }
      const double took = milliseconds(*current, runs);
      std::printf("%.6f %s %.0f\n", took, current->engine().c_str(), current->bytes());
    } catch (const std::exception& error) {
      std::string what = error.what();
      for (char& c : what)
        if (c == '\n') c = ' ';
      std::printf("error %s\n", what.c_str());
    }
    std::fflush(stdout);
  }
}
