// GEMM engine `gemv`: a matrix times a vector, as a generated reduction, which reads the matrix at the
// device's copy rate and finishes with the epilogue.
#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {
namespace {

/// An operand as [batch, M, N, K]; strides of 0 where it does not have the dimension.
struct View {
  Shape shape;
  Strides strides;
  TensorDesc desc(DType dtype, bool aligned) const { return {shape, strides, dtype, aligned}; }
  Tensor of(const Tensor& x) const { return x.as_strided(shape, strides); }
};

struct Gemv : Gemm::Impl {
  Gemv(const Context& context, const GemmProblem& problem, const Options& options)
      : Impl(problem),
        a{{p.batch, p.m, 1, p.k}, {p.a.batch, m_stride(), 0, p.a.unit_k ? 1 : p.a.pitch}},
        b{{p.batch, 1, p.n, p.k}, {p.b.batch, 0, n_stride(), p.b.unit_k ? 1 : p.b.pitch}},
        c{{p.batch, p.m, p.n, 1}, {p.c_batch, p.ldc, 1, 1}} {
    const TensorDesc as_c = c.desc(p.c_dtype, p.c_vector >= 8);
    std::vector<TensorDesc> inputs = matrix_first(a.desc(p.dtype, p.a.aligned), b.desc(p.dtype, p.b.aligned)),
                            outputs = {as_c};
    std::string sum = "s0 * a0";
    const auto add = [&](const TensorDesc& x, const char* before) {
      sum += cat(before, "x", inputs.size());
      inputs.push_back(x);
    };
    if (p.scale != GemmDesc::Vector::none) add(vector(p.scale).desc(p.c_dtype, false), " * ");
    if (p.beta != 0) add(as_c, " + s1 * ");
    if (p.bias != GemmDesc::Vector::none) add(vector(p.bias).desc(p.c_dtype, false), " + ");
    if (p.residual) add(as_c, " + ");
    if (p.preactivation) outputs.push_back(as_c);
    Reduction reduction = sum_of("x0 * x1", cat("const real sum_ = ", sum, "; y0 = ", name_of(p.activation),
                                                "(sum_)", p.preactivation ? "; y1 = sum_" : ""));
    reduction.finishing = static_cast<int>(inputs.size()) - 2;
    reduce.emplace(context, inputs, outputs, 2, reduction, inner(options));
  }

  size_t workspace_size() const override { return reduce->workspace_size(); }

  void run(const Stream& stream, const Tensor& x, const Tensor& y, const EpilogueTensors& with,
           const Tensor& z, const Tensor& workspace) const override {
    const Tensor result = c.of(z);
    std::vector<Tensor> inputs = matrix_first(a.of(x), b.of(y)), outputs = {result};
    if (p.scale != GemmDesc::Vector::none) inputs.push_back(vector(p.scale).of(with.scale));
    if (p.beta != 0) inputs.push_back(result);
    if (p.bias != GemmDesc::Vector::none) inputs.push_back(vector(p.bias).of(with.bias));
    if (p.residual) inputs.push_back(c.of(with.residual));
    if (p.preactivation) outputs.push_back(c.of(with.preactivation));
    reduce->run(stream, inputs, outputs, {p.alpha, p.beta}, workspace);
  }

 private:
  /// The generator's loops follow the first input.
  template <class T>
  std::vector<T> matrix_first(const T& x, const T& y) const {
    return p.m == 1 ? std::vector<T>{y, x} : std::vector<T>{x, y};
  }
  static Options inner(const Options& options) {
    Options result = options;
    result.engine = "auto";
    return result;
  }
  int64_t m_stride() const { return p.a.unit_k ? p.a.pitch : 1; }
  int64_t n_stride() const { return p.b.unit_k ? p.b.pitch : 1; }
  View vector(GemmDesc::Vector form) const {
    if (form == GemmDesc::Vector::row) return {{1, 1, p.n, 1}, {0, 0, 1, 0}};
    return {{1, p.m, 1, 1}, {0, 1, 0, 0}};
  }

  View a, b, c;
  std::optional<const Reduce> reduce;
};

std::string refuse(const Context&, const GemmProblem& p, const EngineOptions&) {
  if (p.m != 1 && p.n != 1) return cat("is for M or N of 1, they are ", p.m, " and ", p.n);
  if (p.dtype == DType::i8) return "is for floating-point numbers, the operands are i8";
  return {};
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<Gemv>(context, problem, options);
}

}  // namespace

extern const GemmEngine kGemmGemv;
const GemmEngine kGemmGemv = {"gemv", refuse, make};

}  // namespace dlprim::detail
