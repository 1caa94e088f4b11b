// Times one case after another for bench/compare: reads lines "RUNS gemm m=64 n=64 k=64 a=n b=t dtype=f32
// math=strict engine=auto constant=b", "RUNS conv ..." (measure_conv.cpp) or "RUNS elementwise ..."
// (measure_elementwise.cpp), and answers each with
// "MILLISECONDS ENGINE", the mean over RUNS runs that were enqueued together, or "error TEXT". A case's
// tensors and plan stay until another case is named.
#include "measure.hpp"

#include <chrono>
#include <cstdio>
#include <iostream>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/random.hpp>

#include "support.hpp"

namespace dlprim::bench {

using test::context;
using test::stream;

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

namespace {

struct GemmCase : Case {
  GemmCase(const GemmOperands& operands, const std::string& constant, const Options& options)
      : x(operands),
        plan(context(), desc(constant), options),
        workspace(context(), {static_cast<int64_t>(plan.workspace_size())}, DType::u8) {}
  void run() override { plan.run(stream(), x.a, x.b, {}, x.c, workspace); }
  std::string engine() const override { return plan.engine(); }

 private:
  GemmDesc desc(const std::string& constant) const {
    GemmDesc d{x.a, x.b, x.c};
    d.constant_a = constant.find('a') != std::string::npos;
    d.constant_b = constant.find('b') != std::string::npos;
    return d;
  }

  GemmOperands x;
  Gemm plan;
  Tensor workspace;
};

std::unique_ptr<Case> make(const std::string& text) {
  detail::ProblemLine line(text);
  const bool clblast = line.op() == "clblast-gemm";
  if (line.op() == "conv") return conv_case(line);
  if (line.op() == "elementwise") return elementwise_case(line);
  if (line.op() != "gemm" && !clblast) throw Error("there is no case of op '" + line.op() + "'");
  const GemmOperands x(line);
  const std::string constant = line.text("constant", "");
  const Options options = options_of(line);
  line.finish();
  if (clblast) return clblast_gemm(x);
  return std::make_unique<GemmCase>(x, constant, options);
}

double milliseconds(Case& x, int runs) {
  stream().finish();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; i++) x.run();
  stream().finish();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / runs;
}

}  // namespace

GemmOperands::GemmOperands(detail::ProblemLine& line) {
  const int64_t m = line.size("m"), n = line.size("n"), k = line.size("k"), batch = line.size("batch", 1);
  const DType dtype = line.dtype("dtype", DType::f32);
  const auto matrices = [&](int64_t rows, int64_t columns) {
    return batch == 1 ? Shape{rows, columns} : Shape{batch, rows, columns};
  };
  const auto operand = [&](const char* name, int64_t rows, int64_t columns) {
    if (line.word(name, {"n", "t"}) == "n") return random_tensor(matrices(rows, columns), dtype);
    return random_tensor(matrices(columns, rows), dtype).transpose(-1, -2);
  };
  a = operand("a", m, k);
  b = operand("b", k, n);
  c = Tensor(context(), matrices(m, n), line.dtype("c_dtype", dtype == DType::i8 ? DType::i32 : dtype));
}

#if !DLPRIM_CLBLAST
std::unique_ptr<Case> clblast_gemm(const GemmOperands&) {
  throw Error("this program was built without CLBlast");
}
#endif

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
      std::printf("%.6f %s\n", milliseconds(*current, runs), current->engine().c_str());
    } catch (const std::exception& error) {
      std::string what = error.what();
      for (char& c : what)
        if (c == '\n') c = ' ';
      std::printf("error %s\n", what.c_str());
    }
    std::fflush(stdout);
  }
}
