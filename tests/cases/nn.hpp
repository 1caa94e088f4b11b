// The operators around convolutions: references as plain loops in double over row-major arrays, and the ways
// that their tensors are put into memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <dlprim/activation.hpp>

#include "support.hpp"

namespace dlprim::test {

using Values = std::vector<double>;

/// How a tensor of any rank lies in memory.
enum class Placing : uint8_t {
  row_major,
  channels_last,  ///< axis 1 innermost
  gaps            ///< unused elements between any two
};
inline constexpr Placing kPlacings[] = {Placing::row_major, Placing::channels_last, Placing::gaps};
const char* name_of(Placing placing);
Strides strides_in(Placing placing, const Shape& shape);
/// A view that holds `values` rounded to `dtype`, and does not start at the memory's first element.
Tensor placed(Placing placing, const Shape& shape, const std::vector<float>& values,
              DType dtype = DType::f32);
/// Its elements in row-major order.
Values values_of(const Tensor& x);

/// The unit roundoff of storing in `dtype`, 0 for f32: what 16-bit outputs add to a deviation.
double storage_roundoff(DType dtype);

/// Sizes in front of, along, and behind one axis of a row-major array.
struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;
  AxisView(const Shape& shape, int axis);
};

double activation_value(Activation f, double x);
/// f'(x), from x itself.
double activation_slope(Activation f, double x);

struct BatchNormed {
  Values y, mean, variance, unbiased;  ///< variance: biased
};
BatchNormed batch_norm_reference(const Values& x, const Shape& shape, const Values& weight,
                                 const Values& bias, double epsilon);
struct BatchNormGradients {
  Values dx, dweight, dbias;
};
BatchNormGradients batch_norm_backward_reference(const Values& dy, const Values& x, const Shape& shape,
                                                 const Values& weight, double epsilon);

Values softmax_reference(const Values& x, const Shape& shape, int axis, bool log);
Values softmax_backward_reference(const Values& dy, const Values& y, const Shape& shape, int axis, bool log);

/// Philox 4x32-10.
std::array<uint32_t, 4> philox_reference(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
/// Word `i` of the stream that random.hpp describes.
uint32_t random_word(uint64_t seed, uint64_t i);
/// The standard normal number made of word `i` and its neighbour.
double normal_reference(uint64_t seed, uint64_t i);

}  // namespace dlprim::test
