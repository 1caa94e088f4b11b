// What the engines that take K in parts end with: the second pass, gemm_parts.cl.
#pragma once

#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

/// Of the parts' sums.
DType gemm_sum_dtype(const GemmProblem& problem);

/// The sums of the parts of K, [batch * parts, M, N], and the kernel that makes C of them.
class GemmParts {
 public:
  GemmParts() = default;
  GemmParts(const Context& context, const GemmProblem& problem, int parts);

  /// Of all sums.
  size_t bytes(const GemmProblem& problem) const;
  /// Enqueues what adds the parts' `sums` in their order, with the problem's epilogue.
  void add_up(const Stream& stream, const GemmProblem& problem, const Tensor& sums,
              const EpilogueTensors& with, const Tensor& c) const;

 private:
  int parts_ = 0;
  Kernel kernel_;
};

}  // namespace dlprim::detail
