// GEMM engine `split_k`: K in parts, as a batch of products by another engine, whose sums a second pass adds
// in their order. For matrix hardware where C has too few tiles to fill a device: the linear layers of small
// batches, which weights have to reach from all of its memory.
#include "core/composed.hpp"
#include "ops/gemm/gemm_parts.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmSplitK;

namespace {

constexpr int kMostParts = 32, kLeastSteps = 256;  // of parts, and of k in one
// In microseconds, as of an H200: a second launch, and its traffic by bytes a microsecond.
constexpr double kSecondPass = 4.5, kSecondPassBytes = 4e6;

/// The product of the parts: they lie side by side along K of both operands.
GemmDesc product_of(const GemmProblem& p, int parts) {
  const int64_t steps = p.k / parts;
  const auto operand = [&](const GemmOperand& x, bool rows_first, int64_t rows) {
    const int64_t k_stride = x.unit_k ? 1 : x.pitch, row_stride = x.unit_k ? x.pitch : 1;
    const Strides strides = rows_first ? Strides{steps * k_stride, row_stride, k_stride}
                                       : Strides{steps * k_stride, k_stride, row_stride};
    return TensorDesc(rows_first ? Shape{parts, rows, steps} : Shape{parts, steps, rows}, strides, p.dtype,
                      x.aligned);
  };
  GemmDesc desc{operand(p.a, true, p.m), operand(p.b, false, p.n),
                TensorDesc({parts, p.m, p.n}, gemm_sum_dtype(p))};
  desc.constant_a = p.constant_a;
  desc.constant_b = p.constant_b;
  return desc;
}

/// Parts of equal length that are not too many nor too short.
bool is_worth(const GemmProblem& p, int parts) {
  return parts > 1 && parts <= kMostParts && p.k % parts == 0 && p.k / parts >= kLeastSteps;
}

struct Choice {
  int parts = 0;
  double time = 0;  ///< predicted, in microseconds; 0 where the product's engine predicts none
};

Choice choose(const Context& context, const GemmProblem& p, const Options& options) {
  Choice best;
  for (int parts = 2; is_worth(p, parts); parts *= 2) {
    const double sums = 2. * parts * p.m * p.n * static_cast<double>(size_of(gemm_sum_dtype(p)));
    double time =
        predicted_gemm_time(context, gemm_problem(product_of(p, parts)), inner_gemm_options(options));
    if (time > 0) time += kSecondPass + sums / kSecondPassBytes;
    if (best.parts == 0 || time < best.time) best = {parts, time};
  }
  return best;
}

struct SplitK : Gemm::Impl {
  SplitK(const Context& context, const GemmProblem& problem, const EngineOptions& options)
      : Impl(problem),
        parts(parts_of(context, p, options)),
        desc(product_of(p, parts)),
        product(context, desc, inner_gemm_options(options)),
        sums(context, p, parts),
        sums_at(memory.add(sums.bytes(p))),
        product_at(memory.add(product.workspace_size())) {}

  size_t workspace_size() const override { return memory.size(); }
  std::string parameters() const override { return cat("parts=", parts); }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor& workspace) const override {
    const Tensor partial = workspace_part(workspace, sums_at, desc.c.shape, desc.c.dtype);
    product.run(stream, a.as_strided(desc.a.shape, desc.a.strides),
                b.as_strided(desc.b.shape, desc.b.strides), {}, partial,
                workspace_scratch(workspace, product_at, product));
    sums.add_up(stream, p, partial, with, c);
  }

  void forget_constants() const override { product.forget_constants(); }

 private:
  static int parts_of(const Context& context, const GemmProblem& p, const EngineOptions& options) {
    int parts = choose(context, p, options).parts;
    options.request.take(kGemmSplitK.name, {{"parts", &parts}});
    require(parts > 1 && p.k % parts == 0, "engine", "parts ", parts, " must be 2 or more and divide K, ",
            p.k);
    return parts;
  }

  const int parts;
  const GemmDesc desc;
  const Gemm product;
  const GemmParts sums;
  WorkspaceParts memory;
  const size_t sums_at, product_at;
};

std::string refuse(const Context&, const GemmProblem& p, const EngineOptions&) {
  if (p.batch != 1) return cat("is for one product, these are ", p.batch);
  if (!is_worth(p, 2)) return cat("needs an even K of at least ", 2 * kLeastSteps, ", it is ", p.k);
  return {};
}

/// Engine `fma` takes K in parts itself.
std::string avoid(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  if (context.device().probes().matrix == MatrixEngine::none) return "is for devices with matrix hardware";
  if (p.dtype == DType::f64 || (p.dtype == DType::f32 && options.math != MathMode::tf32))
    return cat("leaves ", name_of(p.dtype), " to engines that have parts of their own");
  return {};
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<SplitK>(context, problem, options);
}

double predict(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  return avoid(context, p, options).empty() ? choose(context, p, options).time : 0;
}

/// The engine's own choice, and half and twice as many parts.
std::vector<std::string> candidates(const Context& context, const GemmProblem& p,
                                    const EngineOptions& options) {
  const int best = choose(context, p, options).parts;
  std::vector<std::string> result;
  for (const int parts : {best, best / 2, best * 2})
    if (is_worth(p, parts)) result.push_back(cat(kGemmSplitK.name, ":parts=", parts));
  return result;
}

}  // namespace

const GemmEngine kGemmSplitK = {"split_k", refuse, make, avoid, predict, candidates};

}  // namespace dlprim::detail
