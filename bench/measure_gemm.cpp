// GEMM as cases of `measure`: "gemm m=64 n=64 k=64 a=n b=t dtype=f32 math=strict engine=auto constant=b".
#include <dlprim/gemm.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {

using test::context;
using test::stream;

GemmOperands::GemmOperands(detail::ProblemLine& line) {
  const int64_t m = line.size("m"), n = line.size("n"), k = line.size("k"), batch = line.size("batch", 1);
  const DType dtype = line.dtype("dtype", DType::f32);
  const auto matrices = [&](int64_t rows, int64_t columns) {
    return batch == 1 ? Shape{rows, columns} : Shape{batch, rows, columns};
  };
  const auto operand = [&](const char* name, int64_t rows, int64_t columns) {
    if (line.word(name, {"n", "t"}) == "n") return random_tensor(name, matrices(rows, columns), dtype);
    return random_tensor(name, matrices(columns, rows), dtype).transpose(-1, -2);
  };
  a = operand("a", m, k);
  b = operand("b", k, n);
  c = Tensor(context(), matrices(m, n), line.dtype("c_dtype", dtype == DType::i8 ? DType::i32 : dtype));
}

namespace {

struct GemmCase : Case {
  GemmCase(const GemmOperands& operands, const std::string& constant, const Options& options)
      : x(operands),
        plan(context(), desc(constant), options),
        workspace(context(), {static_cast<int64_t>(plan.workspace_size())}, DType::u8) {}
  void run() override { plan.run(stream(), x.a, x.b, {}, x.c, workspace); }
  std::vector<Tensor> results() const override { return {x.c}; }

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

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const GemmOperands x(line);
  const std::string constant = line.text("constant", "");
  const Options options = options_of(line);
  line.finish();
  return std::make_unique<GemmCase>(x, constant, options);
}
const CasesOf kGemm("gemm", make);

}  // namespace
}  // namespace dlprim::bench
