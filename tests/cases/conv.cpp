#include "cases/conv.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cases/nn.hpp"

namespace dlprim::test {
namespace {

ConvParams window(int64_t stride, int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  ConvParams p;
  p.stride = {stride, stride};
  p.pad_begin = p.pad_end = {pad, pad};
  p.dilation = {dilation, dilation};
  p.groups = groups;
  return p;
}

ConvParams asymmetric(std::array<int64_t, 2> stride, std::array<int64_t, 2> begin, std::array<int64_t, 2> end,
                      std::array<int64_t, 2> dilation = {1, 1}, int64_t groups = 1) {
  return {stride, begin, end, dilation, groups, Activation::identity};
}

size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

/// Calls visit(x's index, w's index, y's index) for every product of the convolution that is not with
/// padding.
template <class Visit>
void for_each_product(const ConvCase& c, const Visit& visit) {
  const Shape y = c.y_shape();
  const ConvParams& params = c.params;
  const int64_t cg = c.c / params.groups, kg = c.k / params.groups, step = params.stride[1];
  for (int64_t n = 0; n < c.n; n++)
    for (int64_t k = 0; k < c.k; k++)
      for (int64_t ci = 0; ci < cg; ci++)
        for (int64_t r = 0; r < c.r; r++)
          for (int64_t s = 0; s < c.s; s++)
            for (int64_t p = 0; p < y[2]; p++) {
              const int64_t h = p * params.stride[0] - params.pad_begin[0] + r * params.dilation[0];
              const int64_t v0 = s * params.dilation[1] - params.pad_begin[1];  // x's column for q = 0
              if (h < 0 || h >= c.h) continue;
              int64_t q = 0, end = y[3];
              while (q < end && v0 + q * step < 0) q++;
              while (q < end && v0 + (end - 1) * step >= c.w) end--;
              const int64_t x_row = ((n * c.c + k / kg * cg + ci) * c.h + h) * c.w + v0;
              const int64_t y_row = ((n * c.k + k) * y[2] + p) * y[3];
              const int64_t tap = ((k * cg + ci) * c.r + r) * c.s + s;
              for (; q < end; q++) visit(index(x_row + q * step), index(tap), index(y_row + q));
            }
}

}  // namespace

double ConvCase::flops() const {
  return 2.0 * static_cast<double>(element_count(y_shape())) * static_cast<double>(c / params.groups * r * s);
}

double ConvCase::bytes() const {
  return 4 *
         static_cast<double>(element_count(x_shape()) + element_count(w_shape()) + element_count(y_shape()));
}

std::string ConvCase::text() const {
  std::ostringstream out;
  const auto pair = [&](const char* what, const std::array<int64_t, 2>& v) {
    out << " " << what << "=" << v[0] << "," << v[1];
  };
  out << name << ": n=" << n << " c=" << c << " h=" << h << " w=" << w << " k=" << k << " r=" << r
      << " s=" << s;
  pair("stride", params.stride);
  pair("pad_begin", params.pad_begin);
  pair("pad_end", params.pad_end);
  pair("dilation", params.dilation);
  out << " groups=" << params.groups << " activation=" << name_of(params.activation) << " layout="
      << (layout == Layout::nchw   ? "nchw"
          : layout == Layout::nhwc ? "nhwc"
                                   : "gaps");
  return out.str();
}

ConvCase ConvCase::with_batch(int64_t batch) const {
  ConvCase result = *this;
  result.n = batch;
  return result;
}

Strides strides_in(Layout layout, const Shape& shape) {
  const int64_t c = shape[1], h = shape[2], w = shape[3];
  switch (layout) {
    case Layout::nchw:
      return contiguous_strides(shape);
    case Layout::nhwc:
      return {h * w * c, 1, w * c, c};
    default:
      return {c * (h * (w + 3) + 5) + 7, h * (w + 3) + 5, w + 3, 1};
  }
}

const std::vector<ConvCase>& network_convs() {
  static const std::vector<ConvCase> cases = {
      {"64_64_3x3_56", 64, 64, 56, 56, 64, 3, 3, window(1, 1)},
      {"128_128_3x3_28", 64, 128, 28, 28, 128, 3, 3, window(1, 1)},
      {"256_256_3x3_14", 64, 256, 14, 14, 256, 3, 3, window(1, 1)},
      {"512_512_3x3_7", 64, 512, 7, 7, 512, 3, 3, window(1, 1)},
      {"3_64_7x7s2_224", 64, 3, 224, 224, 64, 7, 7, window(2, 3)},
      {"256_64_1x1_56", 64, 256, 56, 56, 64, 1, 1, window(1, 0)},
      {"64_256_1x1_56", 64, 64, 56, 56, 256, 1, 1, window(1, 0)},
      {"256_512_1x1s2_56", 64, 256, 56, 56, 512, 1, 1, window(2, 0)},
      {"depthwise_512_3x3_14", 64, 512, 14, 14, 512, 3, 3, window(1, 1, 1, 512)},
  };
  return cases;
}

const std::vector<ConvCase>& demo_convs() {
  static const std::vector<ConvCase> cases = {
      {"demo_1_16_3x3_28", 128, 1, 28, 28, 16, 3, 3, window(1, 1)},
      {"demo_16_32_3x3_14", 128, 16, 14, 14, 32, 3, 3, window(1, 1)},
  };
  return cases;
}

const std::vector<ConvCase>& odd_convs() {
  static const std::vector<ConvCase> cases = {
      {"one_of_all", 1, 1, 1, 1, 1, 1, 1, window(1, 0)},
      {"batch_0", 0, 3, 5, 5, 4, 3, 3, window(1, 1)},
      {"no_channels", 2, 0, 4, 4, 3, 2, 2, window(1, 0)},
      {"no_filters", 2, 3, 4, 4, 0, 2, 2, window(1, 0)},
      {"empty_rows_padded", 2, 3, 0, 4, 2, 2, 2, window(1, 1)},
      {"pad_beyond_kernel", 2, 3, 4, 5, 4, 3, 2, window(1, 5)},
      {"pad_beyond_kernel_strided", 1, 2, 3, 3, 2, 2, 2, window(3, 7)},
      {"kernel_beyond_input", 2, 3, 3, 2, 5, 7, 6, window(1, 3)},
      {"kernel_is_input", 3, 4, 6, 5, 7, 6, 5, window(1, 0)},
      {"one_channel", 2, 1, 9, 7, 5, 3, 3, window(1, 1)},
      {"one_filter", 2, 5, 9, 7, 1, 3, 3, window(1, 1)},
      {"stride_beyond_kernel", 2, 3, 11, 13, 4, 2, 2, window(4, 0)},
      {"stride_beyond_input", 2, 3, 5, 4, 4, 3, 3, window(9, 1)},
      {"rows_left_over", 1, 2, 8, 8, 3, 3, 3, window(3, 0)},
      {"asymmetric", 2, 3, 7, 6, 4, 3, 2, asymmetric({2, 1}, {0, 3}, {2, 1})},
      {"pad_in_front_only", 1, 2, 5, 5, 3, 4, 3, asymmetric({1, 1}, {3, 2}, {0, 0})},
      {"pad_behind_only", 1, 2, 5, 5, 3, 4, 3, asymmetric({1, 2}, {0, 0}, {3, 2})},
      {"pad_beyond_32_bits", 2, 2, 5, 5, 3, 3, 3, asymmetric({1 << 29, 1}, {1 << 30, 1}, {6, 1})},
      {"cropped", 2, 3, 9, 8, 4, 3, 3, asymmetric({1, 1}, {-2, 1}, {1, -3})},
      {"cropped_strided", 1, 2, 12, 11, 3, 2, 3, asymmetric({2, 3}, {-1, -2}, {-3, -1})},
      {"dilated", 2, 3, 11, 10, 4, 3, 3, window(1, 2, 2)},
      {"dilated_strided", 2, 2, 13, 12, 3, 3, 2, asymmetric({2, 3}, {3, 1}, {1, 4}, {3, 2})},
      {"dilation_is_stride", 1, 2, 12, 12, 3, 3, 3, window(2, 2, 2)},
      {"dilation_beyond_input", 2, 3, 4, 4, 2, 2, 2, window(1, 5, 6)},
      {"groups", 2, 6, 7, 7, 9, 3, 3, window(1, 1, 1, 3)},
      {"groups_strided", 2, 8, 9, 7, 4, 3, 2, window(2, 1, 1, 2)},
      {"depthwise", 2, 13, 9, 8, 13, 3, 3, window(1, 1, 1, 13)},
      {"depthwise_multiplied", 2, 5, 9, 8, 15, 3, 3, window(2, 1, 1, 5)},
      {"depthwise_dilated", 1, 7, 10, 9, 7, 3, 3, window(1, 2, 2, 7)},
      {"pointwise", 2, 19, 5, 6, 21, 1, 1, window(1, 0)},
      {"row", 2, 3, 1, 29, 4, 1, 5, asymmetric({1, 1}, {0, 2}, {0, 2})},
      {"column", 2, 3, 31, 1, 4, 5, 1, asymmetric({2, 1}, {2, 0}, {2, 0})},
  };
  return cases;
}

const std::vector<ConvCase>& tiled_convs() {
  static const std::vector<ConvCase> cases = {
      {"tiles", 3, 37, 13, 11, 135, 3, 3, window(1, 1)},
      {"tiles_nhwc", 3, 37, 13, 11, 135, 3, 3, window(1, 1), Layout::nhwc},
      {"tiles_gaps", 2, 29, 17, 19, 70, 3, 3, asymmetric({2, 1}, {1, 2}, {0, 1}), Layout::gaps},
      {"tiles_strided", 2, 67, 21, 23, 66, 3, 3, window(2, 1)},
      {"tiles_grouped", 2, 34, 15, 14, 140, 3, 3, window(1, 1, 1, 2)},
      {"tiles_pointwise", 2, 300, 9, 9, 131, 1, 1, window(1, 0)},
      {"tiles_wide_window", 2, 5, 30, 31, 33, 7, 5, window(2, 3)},
      {"tiles_dilated", 2, 24, 19, 18, 40, 3, 3, window(1, 3, 3)},
      {"tiles_deep_filter", 9, 3, 33, 35, 10, 3, 3, window(1, 1)},
      {"tiles_many_images", 150, 3, 3, 3, 17, 2, 2, window(1, 0)},
  };
  return cases;
}

std::vector<ConvCase> random_convs(int count, uint64_t seed) {
  Rng rng(seed);
  const auto draw = [&](int64_t low, int64_t high) { return rng.integer(low, high); };
  std::vector<ConvCase> cases;
  while (static_cast<int>(cases.size()) < count) {
    ConvCase c;
    ConvParams& p = c.params;
    p.groups = draw(0, 2) ? 1 : draw(2, 4);
    const bool depthwise = p.groups > 1 && draw(0, 1);
    c.n = draw(1, 4);
    c.c = p.groups * (depthwise ? 1 : draw(1, 9));
    c.k = p.groups * (depthwise ? draw(1, 2) : draw(1, 19));
    c.h = draw(1, 15), c.w = draw(1, 40);
    c.r = draw(1, 4), c.s = draw(1, 4);
    for (size_t i = 0; i < 2; i++) {
      p.stride[i] = draw(0, 1) ? 1 : draw(2, 4);
      p.dilation[i] = draw(0, 2) ? 1 : draw(2, 3);
      p.pad_begin[i] = draw(-1, 4);
      p.pad_end[i] = draw(-1, 4);
    }
    c.layout = static_cast<Layout>(draw(0, 2));
    const int64_t rows = c.h + p.pad_begin[0] + p.pad_end[0] - p.dilation[0] * (c.r - 1);
    const int64_t columns = c.w + p.pad_begin[1] + p.pad_end[1] - p.dilation[1] * (c.s - 1);
    if (rows < 1 || columns < 1) continue;
    c.name = "random_" + std::to_string(seed) + "_" + std::to_string(cases.size());
    cases.push_back(c);
  }
  return cases;
}

std::vector<double> conv_forward_reference(const ConvCase& c, const std::vector<float>& x,
                                           const std::vector<float>& w, const std::vector<float>& bias) {
  const Shape shape = c.y_shape();
  std::vector<double> y(index(element_count(shape)), 0.0);
  for_each_product(c, [&](size_t xi, size_t wi, size_t yi) { y[yi] += static_cast<double>(x[xi]) * w[wi]; });
  const int64_t plane = shape[2] * shape[3];
  for (size_t i = 0; i < y.size(); i++) {
    if (!bias.empty()) y[i] += bias[index(static_cast<int64_t>(i) / plane % c.k)];
    y[i] = activation_value(c.params.activation, y[i]);
  }
  return y;
}

std::vector<double> conv_backward_data_reference(const ConvCase& c, const std::vector<float>& dy,
                                                 const std::vector<float>& w) {
  std::vector<double> dx(index(element_count(c.x_shape())), 0.0);
  for_each_product(c,
                   [&](size_t xi, size_t wi, size_t yi) { dx[xi] += static_cast<double>(dy[yi]) * w[wi]; });
  return dx;
}

std::vector<double> conv_backward_filter_reference(const ConvCase& c, const std::vector<float>& x,
                                                   const std::vector<float>& dy) {
  std::vector<double> dw(index(element_count(c.w_shape())), 0.0);
  for_each_product(c,
                   [&](size_t xi, size_t wi, size_t yi) { dw[wi] += static_cast<double>(dy[yi]) * x[xi]; });
  return dw;
}

}  // namespace dlprim::test
