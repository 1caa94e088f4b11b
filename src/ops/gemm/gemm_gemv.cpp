// GEMM engine `gemv`: a matrix times a vector, as a generated reduction, which reads the matrix at the
// device's copy rate; a second generated kernel for what comes after the sum, if anything does.
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
        c{{p.batch, p.m, p.n, 1}, {p.c_batch, p.ldc, 1, 1}},
        finishes(p.has_epilogue()),
        reduce(context, matrix_first(a.desc(p.dtype, p.a.aligned), b.desc(p.dtype, p.b.aligned)),
               {finishes ? TensorDesc(c.shape, real()) : c.desc(p.c_dtype, p.c_vector >= 8)}, 1,
               sum_of("x0 * x1", "y0 = s0 * a0"), inner(options)) {
    scratch_at = parts.add(reduce.workspace_size());
    if (!finishes) return;
    sums_at = parts.add(static_cast<size_t>(element_count(c.shape)) * size_of(real()));
    const TensorDesc as_c = c.desc(p.c_dtype, p.c_vector >= 8);
    std::vector<TensorDesc> inputs = {TensorDesc(c.shape, real())}, outputs = {as_c};
    std::string sum = "x0";
    const auto add = [&](const TensorDesc& x, const char* before) {
      sum += cat(before, "x", inputs.size());
      inputs.push_back(x);
    };
    if (p.scale != GemmDesc::Vector::none) add(vector(p.scale).desc(p.c_dtype, false), " * ");
    if (p.beta != 0) add(as_c, " + s0 * ");
    if (p.bias != GemmDesc::Vector::none) add(vector(p.bias).desc(p.c_dtype, false), " + ");
    if (p.residual) add(as_c, " + ");
    if (p.preactivation) outputs.push_back(as_c);
    finish = std::make_unique<Pointwise>(
        context, inputs, outputs, 1,
        cat("y0 = ", name_of(p.activation), "(", sum, ")", p.preactivation ? "; y1 = " + sum : std::string()),
        inner(options));
  }

  size_t workspace_size() const override { return parts.size(); }

  void run(const Stream& stream, const Tensor& x, const Tensor& y, const EpilogueTensors& with,
           const Tensor& z, const Tensor& workspace) const override {
    const Tensor result = c.of(z);
    const Tensor sums = finishes ? workspace_part(workspace, sums_at, c.shape, real()) : result;
    reduce.run(stream, matrix_first(a.of(x), b.of(y)), {sums}, {p.alpha},
               workspace_scratch(workspace, scratch_at, reduce));
    if (!finishes) return;
    std::vector<Tensor> inputs = {sums}, outputs = {result};
    if (p.scale != GemmDesc::Vector::none) inputs.push_back(vector(p.scale).of(with.scale));
    if (p.beta != 0) inputs.push_back(result);
    if (p.bias != GemmDesc::Vector::none) inputs.push_back(vector(p.bias).of(with.bias));
    if (p.residual) inputs.push_back(c.of(with.residual));
    if (p.preactivation) outputs.push_back(c.of(with.preactivation));
    finish->run(stream, inputs, outputs, {p.beta});
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
  DType real() const { return p.dtype == DType::f64 ? DType::f64 : DType::f32; }
  View vector(GemmDesc::Vector form) const {
    if (form == GemmDesc::Vector::row) return {{1, 1, p.n, 1}, {0, 0, 1, 0}};
    return {{1, p.m, 1, 1}, {0, 1, 0, 0}};
  }

  View a, b, c;
  bool finishes;  ///< something comes after the sum
  Reduce reduce;
  std::unique_ptr<const Pointwise> finish;
  WorkspaceParts parts;
  size_t scratch_at = 0, sums_at = 0;
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
