// Checks of what normalisation is given, and the moments' reduction.
#include "ops/norm/norm_parts.hpp"

#include <cmath>

namespace dlprim::detail {

void require_affine(const char* name, const std::optional<TensorDesc>& desc, const Shape& shape) {
  if (!desc) return;
  require_floating(name, *desc, true);
  require_shape(name, *desc, shape);
}

TensorDesc statistics_desc(const Shape& shape, DType dtype) {
  TensorDesc desc(shape, dtype);
  desc.aligned = false;
  return desc;
}

void require_epsilon(double epsilon) {
  require(std::isfinite(epsilon), "epsilon", epsilon, " must be finite");
}

Reduction moments_of(const std::string& element, const std::string& finish) {
  const auto settle = [](char a) {
    return cat("const real mean_", a, " = ", a, "1 != 0 ? ", a, "1 / ", a, "0 : 0, squares_", a, " = ", a,
               "2 < INFINITY ? ", a, "2 - ", a, "1 * mean_", a, " : ", a, "2; ");
  };
  // a0 the count, a3 the lane's first element, a1 and a2 the sums of differences and of their squares. Merged
  // ones have their mean as a3, so that a1 is 0, and need no division.
  return {4, "a0 = 0; a1 = 0; a2 = 0; a3 = 0",
          cat("const real v_ = ", element,
              "; a3 = a0 > 0 ? a3 : v_; const real d_ = v_ - a3; a0 += 1; a1 += d_; a2 += d_ * d_"),
          settle('a') + settle('b') +
              "const real n_ = a0 + b0, w_ = n_ > 0 ? b0 / n_ : 0, d_ = (b3 + mean_b) - (a3 + mean_a); "
              "a3 = (a3 + mean_a) + d_ * w_; a2 = squares_a + squares_b + a0 * w_ * d_ * d_; a1 = 0; a0 = n_",
          // Rounding must not make squares negative; a NaN stays, and so does an infinity.
          settle('a') +
              "const real count = a0, mean = a0 > 0 ? a3 + mean_a : NAN, "
              "squares = squares_a < 0 ? 0 : squares_a; " +
              finish};
}

}  // namespace dlprim::detail
