// What the engines of GEMM share: the problem as they see it, and the implementation they make.
#pragma once

#include <dlprim/gemm.hpp>

#include "core/defines.hpp"
#include "core/engine.hpp"
#include "core/launch.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

/// A or B: runs of neighbouring elements, `pitch` elements apart.
struct GemmOperand {
  bool unit_k = false;  ///< the runs lie along k; else along m (of A) or n (of B)
  int64_t pitch = 0;
  int64_t batch = 0;     ///< elements from one product's matrix to the next
  bool aligned = false;  ///< element 0, all runs and matrices start on 16-byte boundaries
  bool vectors = false;  ///< and the runs' length is a multiple of 16 bytes
};

struct GemmProblem {
  int m = 0, n = 0, k = 0, batch = 1;  ///< k is 0 when alpha is
  DType dtype = DType::f32, c_dtype = DType::f32;
  GemmOperand a, b;
  int64_t ldc = 0, c_batch = 0;
  int64_t c_vector = 1;  ///< a power of 2, at most 8, that divides N and all distances in C
  double alpha = 1, beta = 0;
  GemmDesc::Vector bias = GemmDesc::Vector::none, scale = GemmDesc::Vector::none;
  Activation activation = Activation::identity;
  bool residual = false, preactivation = false;
  bool constant_a = false, constant_b = false;

  /// Something comes after the sum, other than alpha.
  bool has_epilogue() const {
    return beta != 0 || bias != GemmDesc::Vector::none || scale != GemmDesc::Vector::none || residual ||
           preactivation || activation != Activation::identity;
  }
};

/// Binds what most kernels begin with: the sizes, then A, B and C as they lie.
inline void bind_operands(Launch& launch, const GemmProblem& p, const Tensor& a, const Tensor& b,
                          const Tensor& c) {
  launch.arg(p.m).arg(p.n).arg(p.k);
  launch.arg(a).arg(p.a.pitch).arg(p.a.batch);
  launch.arg(b).arg(p.b.pitch).arg(p.b.batch);
  launch.arg(c).arg(p.ldc).arg(p.c_batch);
}

/// The macros of gemm_types.cl and epilogue.cl.
Defines gemm_defines(const GemmProblem& problem);
/// Adds those of the elements' types alone.
Defines& define_real(Defines& defines, const GemmProblem& problem);
/// Why an engine that never takes K in parts leaves a long K with few groups of work to one that does; empty
/// if it need not.
std::string avoid_long_and_few(const GemmProblem& problem, int64_t groups, int compute_units);

/// The problem of a checked description. Throws ValidationError.
GemmProblem gemm_problem(const GemmDesc& desc);
/// As tables know it.
TuneProblem gemm_tune_problem(const GemmProblem& problem, const Options& options);
/// What tuning tries.
TuneCandidates gemm_candidates(const Context& context, const GemmProblem& problem, const Options& options);
/// Of a product that another operator takes: what was asked for and measured is that operator's.
inline Options inner_gemm_options(const Options& options) {
  Options result = options;
  result.engine = "auto";
  result.tune = TuneMode::table;
  return result;
}
/// Microseconds, by the engine that predicts least, or the one that is asked for; 0 if none predicts.
double predicted_gemm_time(const Context& context, const GemmProblem& problem, const Options& options);
/// TuneMode::measure and exhaustive.
void measure_gemm_on_first_use(const Context& context, const GemmDesc& desc, const GemmProblem& problem,
                               const Options& options);

using GemmEngine = Engine<GemmProblem, Gemm::Impl>;

}  // namespace dlprim::detail

namespace dlprim {

struct Gemm::Impl : detail::EngineImpl {
  explicit Impl(const detail::GemmProblem& problem) : p(problem) {}
  /// Everything is checked, M and N are not 0, `workspace` is as large as was asked for.
  virtual void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
                   const Tensor& c, const Tensor& workspace) const = 0;
  virtual void forget_constants() const {}

  const detail::GemmProblem p;
};

}  // namespace dlprim
