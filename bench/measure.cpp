// Times one case after another for bench/compare: reads lines "RUNS gemm m=64 n=64 k=64 a=n b=t dtype=f32
// math=strict engine=auto constant=b" and answers each with "MILLISECONDS ENGINE", the mean over RUNS runs
// that were enqueued together, or "error TEXT". A case's tensors and plan stay until another case is named.
#include "measure.hpp"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/random.hpp>

#include "support.hpp"

namespace dlprim::bench {

using test::context;
using test::stream;

std::string text(const Fields& fields, const std::string& name, const std::string& otherwise) {
  const auto it = fields.find(name);
  return it == fields.end() ? otherwise : it->second;
}

int64_t number(const Fields& fields, const std::string& name, int64_t otherwise) {
  const auto it = fields.find(name);
  if (it != fields.end()) return std::stoll(it->second);
  if (otherwise < 0) throw Error("no " + name + "=");
  return otherwise;
}

namespace {

Fields parse(const std::string& line) {
  std::istringstream in(line);
  Fields fields;
  in >> fields["op"];
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw Error("'" + word + "' is not name=value");
    fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return fields;
}

DType dtype_named(const std::string& name) {
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::i32})
    if (name == name_of(t)) return t;
  throw Error("dtype=" + name + " is none of f32, f16, bf16, f64, i8, i32");
}

MathMode math_named(const std::string& name) {
  if (name == "strict") return MathMode::strict;
  if (name == "standard") return MathMode::standard;
  if (name == "tf32") return MathMode::tf32;
  throw Error("math=" + name + " is none of strict, standard, tf32");
}

/// Uniform in [-1, 1).
Tensor random_tensor(const Shape& shape, DType dtype) {
  const Tensor values(context(), shape);
  random_uniform(stream(), values, -1, 1, RandomState{1, 0});
  const Tensor x(context(), shape, dtype);
  copy(stream(), values, x);
  return x;
}

Shape matrix(const Fields& f, int64_t rows, int64_t columns) {
  const int64_t batch = number(f, "batch", 0);
  return batch == 0 ? Shape{rows, columns} : Shape{batch, rows, columns};
}

Tensor operand(const Fields& f, const std::string& name, int64_t rows, int64_t columns) {
  const DType dtype = dtype_named(text(f, "dtype", "f32"));
  if (text(f, name, "n") == "n") return random_tensor(matrix(f, rows, columns), dtype);
  return random_tensor(matrix(f, columns, rows), dtype).transpose(-1, -2);
}

struct GemmCase : Case {
  explicit GemmCase(const Fields& f)
      : x(f),
        plan(context(), desc(f), options(f)),
        workspace(context(), {static_cast<int64_t>(plan.workspace_size())}, DType::u8) {}
  void run() override { plan.run(stream(), x.a, x.b, {}, x.c, workspace); }
  std::string engine() const override { return plan.engine(); }

 private:
  GemmDesc desc(const Fields& f) const {
    GemmDesc d{x.a, x.b, x.c};
    const std::string constant = text(f, "constant", "");
    d.constant_a = constant.find('a') != std::string::npos;
    d.constant_b = constant.find('b') != std::string::npos;
    return d;
  }
  static Options options(const Fields& f) {
    Options o;
    o.engine = text(f, "engine", "auto");
    o.math = math_named(text(f, "math", "standard"));
    return o;
  }

  GemmOperands x;
  Gemm plan;
  Tensor workspace;
};

std::unique_ptr<Case> make(const std::string& line) {
  const Fields fields = parse(line);
  if (fields.at("op") == "gemm") return std::make_unique<GemmCase>(fields);
  if (fields.at("op") == "clblast-gemm") return clblast_gemm(fields);
  throw Error("there is no case of op '" + fields.at("op") + "'");
}

double milliseconds(Case& x, int runs) {
  stream().finish();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; i++) x.run();
  stream().finish();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / runs;
}

}  // namespace

GemmOperands::GemmOperands(const Fields& f)
    : a(operand(f, "a", number(f, "m"), number(f, "k"))),
      b(operand(f, "b", number(f, "k"), number(f, "n"))),
      c(context(), matrix(f, number(f, "m"), number(f, "n")),
        dtype_named(text(f, "c_dtype", text(f, "dtype", "f32") == "i8" ? "i32" : text(f, "dtype", "f32")))) {}

#if !DLPRIM_CLBLAST
std::unique_ptr<Case> clblast_gemm(const Fields&) {
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
