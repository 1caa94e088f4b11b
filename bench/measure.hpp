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

/// Uniform in [-1, 1).
Tensor random_tensor(const Shape& shape, DType dtype);
/// Takes the line's engine and math.
Options options_of(detail::ProblemLine& line);

/// Matrices of random numbers in [-1, 1); a and b may be transposed views.
struct GemmOperands {
  /// Takes the line's sizes, orders and dtypes.
  explicit GemmOperands(detail::ProblemLine& line);
  Tensor a, b, c;
};

std::unique_ptr<Case> conv_case(detail::ProblemLine& line);
std::unique_ptr<Case> elementwise_case(detail::ProblemLine& line);
/// The same product by CLBlast. Throws in a build without it.
std::unique_ptr<Case> clblast_gemm(const GemmOperands& operands);

}  // namespace dlprim::bench
