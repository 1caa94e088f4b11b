// A case of the program `measure`, and its operands.
#pragma once

#include <memory>
#include <string>

#include <dlprim/tensor.hpp>

#include "core/tune/problem_line.hpp"

namespace dlprim::bench {

struct Case {
  virtual ~Case() = default;
  /// Enqueues it once on test::stream().
  virtual void run() = 0;
  virtual std::string engine() const = 0;
};

/// Matrices of random numbers in [-1, 1); a and b may be transposed views.
struct GemmOperands {
  /// Takes the line's sizes, orders and dtypes.
  explicit GemmOperands(detail::ProblemLine& line);
  Tensor a, b, c;
};

/// The same product by CLBlast. Throws in a build without it.
std::unique_ptr<Case> clblast_gemm(const GemmOperands& operands);

}  // namespace dlprim::bench
