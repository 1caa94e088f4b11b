// What the engines of GEMM share: the problem as they see it, and the implementation they make.
#pragma once

#include <dlprim/gemm.hpp>

#include "core/defines.hpp"
#include "core/engine.hpp"
#include "core/launch.hpp"

namespace dlprim::detail {

/// A or B: runs of neighbouring elements, `pitch` elements apart.
struct GemmOperand {
  bool unit_k = false;  ///< the runs lie along k; else along m (of A) or n (of B)
  int64_t pitch = 0;
  bool vectors = false;  ///< 16-byte loads along the runs meet only aligned, existing elements
};

struct GemmProblem {
  int m = 0, n = 0, k = 0;  ///< k is 0 when alpha is
  GemmOperand a, b;
  int64_t ldc = 0;
  bool c_vectors = false;
  float alpha = 1, beta = 0;
  GemmDesc::Bias bias = GemmDesc::Bias::none;
  Activation activation = Activation::identity;
};

/// The macros of epilogue.cl.
Defines gemm_epilogue(GemmDesc::Bias bias, Activation activation);

using GemmEngine = Engine<GemmProblem, Gemm::Impl>;

}  // namespace dlprim::detail

namespace dlprim {

struct Gemm::Impl : detail::EngineImpl {
  explicit Impl(const detail::GemmProblem& problem) : p(problem) {}
  /// Everything is checked, M and N are not 0, `workspace` is as large as was asked for.
  virtual void run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias,
                   const Tensor& c, const Tensor& workspace) const = 0;

  const detail::GemmProblem p;
};

}  // namespace dlprim
