// Normalisation over rows and over groups of channels: references as plain loops in double.
#pragma once

#include "cases/nn.hpp"

namespace dlprim::test {

/// Which elements share a mean, and which a weight: element i is in row row(i) and has weight weight(i).
struct NormView {
  int64_t count = 0, rows = 1, weights = 1;
  std::function<int64_t(int64_t)> row, weight;
};
/// Over the last `axes`.
NormView layer_view(const Shape& shape, int axes);
/// Over groups of channels, axis 1.
NormView group_view(const Shape& shape, int64_t groups);

/// Empty weights are ones, empty biases zeros. `center` false: the mean is taken as 0.
struct Normed {
  Values y, mean, inv_std, unbiased;
};
Normed norm_reference(const NormView& view, const Values& x, const Values& weight, const Values& bias,
                      double epsilon, bool center = true);
struct NormGradients {
  Values dx, dweight, dbias;
};
NormGradients norm_backward_reference(const NormView& view, const Values& dy, const Values& x,
                                      const Values& weight, double epsilon, bool center = true);

/// The same by finite differences, of the sum of y * dy.
NormGradients norm_numeric_gradients(const NormView& view, const Values& dy, const Values& x,
                                     const Values& weight, const Values& bias, double epsilon,
                                     bool center = true);

/// deviation() in units of the largest |x|, of which they are the means: terms of a sum cancel, their
/// roundings do not.
double deviation_of_means(const std::vector<float>& means, const Values& expected, const Values& x);

}  // namespace dlprim::test
