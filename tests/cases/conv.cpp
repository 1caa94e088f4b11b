#include "cases/conv.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "cases/nn.hpp"

namespace dlprim::test {
namespace {

/// Stride, padding and dilation are the same along every axis.
ConvParams window(int64_t stride, int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  return {{stride}, {pad}, {pad}, {dilation}, groups};
}

ConvParams transposed(ConvParams params, const Dims& output_pad = {}) {
  params.transposed = true;
  params.output_pad = output_pad;
  return params;
}

size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

/// The numbers of spatial axis i, as if there were three axes.
struct Axis {
  int64_t big = 1, small = 1, taps = 1, stride = 1, pad = 0, dilation = 1;
};

Axis axis_of(const ConvCase& c, const Shape& big, const Shape& small, int i) {
  const int count = c.size.size(), at = i - (3 - count);
  if (at < 0) return {};
  const auto number = [&](const Dims& list, int64_t otherwise) {
    return list.empty() ? otherwise : list[list.size() == 1 ? 0 : at];
  };
  const ConvParams& p = c.params;
  return {big[2 + at],         small[2 + at],          c.window[at],
          number(p.stride, 1), number(p.pad_begin, 0), number(p.dilation, 1)};
}

/// Calls visit(x's index, w's index, y's index) for every product of the convolution that is not with
/// padding. (x and y exchanged if it is transposed.)
template <class Visit>
void for_each_product(const ConvCase& c, const Visit& visit) {
  const bool swap = c.params.transposed;
  const Shape x = swap ? c.y_shape() : c.x_shape(), y = swap ? c.x_shape() : c.y_shape();
  const Axis d = axis_of(c, x, y, 0), h = axis_of(c, x, y, 1), v = axis_of(c, x, y, 2);
  const int64_t groups = c.params.groups, cg = x[1] / groups, kg = y[1] / groups;
  for (int64_t n = 0; n < c.n; n++)
    for (int64_t k = 0; k < y[1]; k++)
      for (int64_t ci = 0; ci < cg; ci++)
        for (int64_t tap = 0; tap < d.taps * h.taps * v.taps; tap++)
          for (int64_t row = 0; row < d.small * h.small; row++) {
            const int64_t o = row / h.small, p = row % h.small;
            const int64_t depth = o * d.stride - d.pad + tap / (h.taps * v.taps) * d.dilation;
            const int64_t line = p * h.stride - h.pad + tap / v.taps % h.taps * h.dilation;
            const int64_t v0 = tap % v.taps * v.dilation - v.pad;  // x's column for q = 0
            if (depth < 0 || depth >= d.big || line < 0 || line >= h.big) continue;
            int64_t q = 0, end = v.small;
            while (q < end && v0 + q * v.stride < 0) q++;
            while (q < end && v0 + (end - 1) * v.stride >= v.big) end--;
            const int64_t x_row =
                (((n * x[1] + k / kg * cg + ci) * d.big + depth) * h.big + line) * v.big + v0;
            const int64_t y_row = ((n * y[1] + k) * d.small * h.small + row) * v.small;
            const int64_t w_at = (k * cg + ci) * d.taps * h.taps * v.taps + tap;
            for (; q < end; q++) visit(index(x_row + q * v.stride), index(w_at), index(y_row + q));
          }
}

const char* name_of(Layout layout) {
  return layout == Layout::nchw ? "nchw" : layout == Layout::nhwc ? "nhwc" : "gaps";
}

}  // namespace

Shape ConvCase::x_shape() const {
  Shape shape{n, c};
  for (int64_t s : size) shape.push_back(s);
  return shape;
}

Shape ConvCase::w_shape() const {
  Shape shape{params.transposed ? c : k, (params.transposed ? k : c) / params.groups};
  for (int64_t s : window) shape.push_back(s);
  return shape;
}

double ConvCase::flops() const {
  const Shape windows = params.transposed ? x_shape() : y_shape();
  return 2.0 * static_cast<double>(element_count(windows)) *
         static_cast<double>((params.transposed ? k : c) / params.groups * taps());
}

double ConvCase::bytes() const {
  return static_cast<double>(size_of(dtype)) *
         static_cast<double>(element_count(x_shape()) + element_count(w_shape()) + element_count(y_shape()));
}

std::string ConvCase::text() const {
  std::ostringstream out;
  const auto list = [&](const char* what, const Dims& dims) {
    if (dims.empty()) return;
    out << " " << what << "=";
    for (int i = 0; i < dims.size(); i++) out << (i ? "x" : "") << dims[i];
  };
  out << name << ": n=" << n << " c=" << c;
  list("size", size);
  out << " k=" << k;
  list("window", window);
  list("stride", params.stride);
  list("pad_begin", params.pad_begin);
  list("pad_end", params.pad_end);
  list("dilation", params.dilation);
  if (params.transposed) out << " transposed";
  list("output_pad", params.output_pad);
  out << " groups=" << params.groups << " activation=" << dlprim::name_of(params.activation)
      << " dtype=" << dlprim::name_of(dtype) << " layouts=" << name_of(x_layout) << "," << name_of(w_layout)
      << "," << name_of(y_layout) << (aligned ? " aligned" : "");
  return out.str();
}

ConvCase ConvCase::with_batch(int64_t batch) const {
  ConvCase result = *this;
  result.n = batch;
  return result;
}

ConvCase ConvCase::in(Layout layout) const {
  ConvCase result = *this;
  result.x_layout = result.y_layout = layout;
  return result;
}

Strides strides_in(Layout layout, const Shape& shape) {
  const int rank = shape.size();
  Strides strides = contiguous_strides(shape);
  int64_t step = 1;
  if (layout == Layout::nhwc || layout == Layout::part) {
    strides[1] = 1;
    step = layout == Layout::nhwc ? shape[1] : (shape[1] + 7) / 8 * 8 + 8;
    for (int i = rank - 1; i >= 2; i--) strides[i] = step, step *= shape[i];
    strides[0] = step;
  } else if (layout == Layout::gaps) {
    for (int i = rank - 1; i >= 0; i--) strides[i] = step, step = step * shape[i] + 3 + 2 * (rank - 1 - i);
  }
  return strides;
}

const std::vector<ConvCase>& network_convs() {
  static const std::vector<ConvCase> cases = {
      {"64_64_3x3_56", 64, 64, {56, 56}, 64, {3, 3}, window(1, 1)},
      {"128_128_3x3_28", 64, 128, {28, 28}, 128, {3, 3}, window(1, 1)},
      {"256_256_3x3_14", 64, 256, {14, 14}, 256, {3, 3}, window(1, 1)},
      {"512_512_3x3_7", 64, 512, {7, 7}, 512, {3, 3}, window(1, 1)},
      {"3_64_7x7s2_224", 64, 3, {224, 224}, 64, {7, 7}, window(2, 3)},
      {"256_64_1x1_56", 64, 256, {56, 56}, 64, {1, 1}, window(1, 0)},
      {"64_256_1x1_56", 64, 64, {56, 56}, 256, {1, 1}, window(1, 0)},
      {"256_512_1x1s2_56", 64, 256, {56, 56}, 512, {1, 1}, window(2, 0)},
      {"depthwise_512_3x3_14", 64, 512, {14, 14}, 512, {3, 3}, window(1, 1, 1, 512)},
  };
  return cases;
}

const std::vector<ConvCase>& demo_convs() {
  static const std::vector<ConvCase> cases = {
      {"demo_1_16_3x3_28", 128, 1, {28, 28}, 16, {3, 3}, window(1, 1)},
      {"demo_16_32_3x3_14", 128, 16, {14, 14}, 32, {3, 3}, window(1, 1)},
  };
  return cases;
}

const std::vector<ConvCase>& odd_convs() {
  static const std::vector<ConvCase> cases = {
      {"one_of_all", 1, 1, {1, 1}, 1, {1, 1}, window(1, 0)},
      {"batch_0", 0, 3, {5, 5}, 4, {3, 3}, window(1, 1)},
      {"no_channels", 2, 0, {4, 4}, 3, {2, 2}, window(1, 0)},
      {"no_filters", 2, 3, {4, 4}, 0, {2, 2}, window(1, 0)},
      {"empty_rows_padded", 2, 3, {0, 4}, 2, {2, 2}, window(1, 1)},
      {"pad_beyond_kernel", 2, 3, {4, 5}, 4, {3, 2}, window(1, 5)},
      {"pad_beyond_kernel_strided", 1, 2, {3, 3}, 2, {2, 2}, window(3, 7)},
      {"kernel_beyond_input", 2, 3, {3, 2}, 5, {7, 6}, window(1, 3)},
      {"kernel_is_input", 3, 4, {6, 5}, 7, {6, 5}, window(1, 0)},
      {"one_channel", 2, 1, {9, 7}, 5, {3, 3}, window(1, 1)},
      {"one_filter", 2, 5, {9, 7}, 1, {3, 3}, window(1, 1)},
      {"stride_beyond_kernel", 2, 3, {11, 13}, 4, {2, 2}, window(4, 0)},
      {"stride_beyond_input", 2, 3, {5, 4}, 4, {3, 3}, window(9, 1)},
      {"rows_left_over", 1, 2, {8, 8}, 3, {3, 3}, window(3, 0)},
      {"asymmetric", 2, 3, {7, 6}, 4, {3, 2}, {{2, 1}, {0, 3}, {2, 1}}},
      {"pad_in_front_only", 1, 2, {5, 5}, 3, {4, 3}, {{1, 1}, {3, 2}, {0, 0}}},
      {"pad_behind_only", 1, 2, {5, 5}, 3, {4, 3}, {{1, 2}, {0, 0}, {3, 2}}},
      {"pad_beyond_32_bits", 2, 2, {5, 5}, 3, {3, 3}, {{1 << 29, 1}, {1 << 30, 1}, {6, 1}}},
      {"cropped", 2, 3, {9, 8}, 4, {3, 3}, {{1, 1}, {-2, 1}, {1, -3}}},
      {"cropped_strided", 1, 2, {12, 11}, 3, {2, 3}, {{2, 3}, {-1, -2}, {-3, -1}}},
      {"dilated", 2, 3, {11, 10}, 4, {3, 3}, window(1, 2, 2)},
      {"dilated_strided", 2, 2, {13, 12}, 3, {3, 2}, {{2, 3}, {3, 1}, {1, 4}, {3, 2}}},
      {"dilation_is_stride", 1, 2, {12, 12}, 3, {3, 3}, window(2, 2, 2)},
      {"dilation_beyond_input", 2, 3, {4, 4}, 2, {2, 2}, window(1, 5, 6)},
      {"groups", 2, 6, {7, 7}, 9, {3, 3}, window(1, 1, 1, 3)},
      {"groups_strided", 2, 8, {9, 7}, 4, {3, 2}, window(2, 1, 1, 2)},
      {"depthwise", 2, 13, {9, 8}, 13, {3, 3}, window(1, 1, 1, 13)},
      {"depthwise_multiplied", 2, 5, {9, 8}, 15, {3, 3}, window(2, 1, 1, 5)},
      {"depthwise_dilated", 1, 7, {10, 9}, 7, {3, 3}, window(1, 2, 2, 7)},
      {"pointwise", 2, 19, {5, 6}, 21, {1, 1}, window(1, 0)},
      {"pointwise_plane_1", 5, 19, {1, 1}, 7, {1, 1}, window(1, 0)},
      {"pointwise_one_channel", 2, 1, {5, 6}, 7, {1, 1}, window(1, 0)},
      {"pointwise_to_one", 3, 9, {3, 4}, 1, {1, 1}, window(1, 0)},
      {"pointwise_cropped", 2, 9, {7, 6}, 11, {1, 1}, {{1, 1}, {-1, 0}, {1, 0}}},
      {"pointwise_strided", 2, 9, {7, 6}, 11, {1, 1}, window(2, 0)},
      {"row", 2, 3, {1, 29}, 4, {1, 5}, {{1, 1}, {0, 2}, {0, 2}}},
      {"column", 2, 3, {31, 1}, 4, {5, 1}, {{2, 1}, {2, 0}, {2, 0}}},
      {"line", 3, 5, {17}, 6, {3}, window(1, 1)},
      {"line_strided", 2, 6, {29}, 8, {4}, {{3}, {2}, {5}, {2}, 2}},
      {"volume", 2, 3, {4, 5, 6}, 5, {3, 2, 3}, window(1, 1)},
      {"volume_strided", 2, 4, {7, 6, 9}, 6, {2, 3, 2}, {{2, 1, 3}, {1, 0, 2}, {0, 2, 1}, {2, 1, 2}, 2}},
      {"volume_depthwise", 2, 8, {4, 5, 6}, 8, {2, 3, 3}, window(1, 1, 1, 8)},
      {"volume_pointwise", 1, 7, {3, 4, 2}, 9, {1, 1, 1}, window(1, 0)},
      {"depth_of_padding", 2, 9, {1, 7, 6}, 8, {1, 3, 2}, {{1, 1, 2}, {-1, 0, 1}, {1, 1, 1}}},
      {"depth_of_padding_few", 3, 1, {1, 7, 3}, 10, {1, 3, 2}, {{1, 1, 2}, {-1, 0, 3}, {1, 1, 4}}},
      {"depth_of_padding_depthwise",
       2,
       4,
       {1, 5, 4},
       8,
       {1, 2, 2},
       {{4, 1, 3}, {3, 4, 1}, {-1, 1, 3}, {1}, 4}},
      {"depth_only", 2, 3, {9, 1, 1}, 4, {3, 1, 1}, {{2, 1, 1}, {1, 0, 0}, {2, 0, 0}}},
      {"transposed", 2, 5, {4, 3}, 6, {3, 3}, transposed(window(2, 1), {1})},
      {"transposed_plain", 2, 5, {4, 3}, 6, {2, 3}, transposed(window(1, 0))},
      {"transposed_grouped",
       2,
       6,
       {5, 4},
       9,
       {4, 3},
       transposed({{3, 2}, {1, 0}, {2, 1}, {1, 2}, 3}, {2, 1})},
      {"transposed_gaps", 1, 3, {3, 4}, 4, {2, 2}, transposed(window(4, 0), {3, 0})},
      {"transposed_dilated", 1, 3, {4, 4}, 4, {3, 2}, transposed(window(1, 1, 3), {2, 1})},
      {"transposed_pointwise", 2, 9, {4, 3}, 11, {1, 1}, transposed(window(2, 0), {1})},
      {"transposed_line", 2, 4, {9}, 5, {5}, transposed(window(2, 2), {1})},
      {"transposed_volume", 1, 3, {2, 3, 3}, 4, {2, 3, 2}, transposed(window(2, 0))},
      {"patches", 2, 3, {16, 12}, 7, {4, 4}, window(4, 0)},
  };
  return cases;
}

const std::vector<ConvCase>& depthwise_convs() {
  const auto cropped = [](int64_t groups) { return ConvParams{{1, 2}, {-1, -2}, {-1, 1}, {1}, groups}; };
  static const std::vector<ConvCase> cases = {
      {"dw_3x3", 2, 12, {14, 14}, 12, {3, 3}, window(1, 1, 1, 12)},
      {"dw_3x3s2", 2, 12, {15, 14}, 12, {3, 3}, window(2, 1, 1, 12)},
      {"dw_3x3s3", 1, 5, {17, 16}, 5, {3, 3}, window(3, 1, 1, 5)},
      {"dw_3x3d2", 1, 8, {13, 19}, 8, {3, 3}, window(1, 2, 2, 8)},
      {"dw_3x3s2d2", 1, 8, {13, 12}, 8, {3, 3}, window(2, 1, 2, 8)},
      {"dw_3x3d3", 1, 4, {13, 12}, 4, {3, 3}, window(1, 3, 3, 4)},
      {"dw_5x5", 2, 4, {9, 21}, 4, {5, 5}, window(1, 2, 1, 4)},
      {"dw_5x5s2", 1, 20, {14, 13}, 20, {5, 5}, window(2, 2, 1, 20)},
      {"dw_7x7", 1, 8, {11, 37}, 8, {7, 7}, window(1, 3, 1, 8)},
      {"dw_7x7s2", 1, 4, {12, 14}, 4, {7, 7}, window(2, 3, 1, 4)},
      {"dw_9x3", 1, 3, {12, 11}, 3, {9, 3}, window(1, 1, 1, 3)},
      {"dw_1x1", 2, 6, {5, 6}, 6, {1, 1}, window(1, 0, 1, 6)},
      {"dw_1x1s2", 2, 16, {6, 7}, 16, {1, 1}, window(2, 0, 1, 16)},
      {"dw_2x4", 1, 7, {9, 12}, 7, {2, 4}, {{2, 1}, {1, 0}, {0, 3}, {1, 2}, 7}},
      {"dw_1x3", 1, 8, {6, 33}, 8, {1, 3}, {{1, 2}, {0, 1}, {0, 1}, {1}, 8}},
      {"dw_asymmetric", 2, 4, {8, 7}, 4, {3, 3}, {{2, 2}, {0, 1}, {1, 0}, {1}, 4}},
      {"dw_pad_beyond", 1, 4, {4, 5}, 4, {3, 3}, window(1, 5, 1, 4)},
      {"dw_pad_beyond_s2", 1, 4, {4, 5}, 4, {3, 2}, window(2, 7, 1, 4)},
      {"dw_cropped", 1, 4, {12, 13}, 4, {3, 3}, cropped(4)},
      {"dw_plane_1", 3, 12, {1, 1}, 12, {3, 3}, window(1, 1, 1, 12)},
      {"dw_plane_2", 3, 12, {2, 2}, 12, {3, 3}, window(2, 1, 1, 12)},
      {"dw_plane_7", 5, 36, {7, 7}, 36, {3, 3}, window(1, 1, 1, 36)},
      {"dw_wide", 1, 3, {3, 150}, 3, {3, 3}, window(1, 1, 1, 3)},
      {"dw_tall", 1, 4, {130, 5}, 4, {3, 3}, window(2, 1, 1, 4)},
      {"dw_large", 1, 2, {70, 90}, 2, {3, 3}, window(1, 1, 1, 2)},
      {"dw_many_channels", 1, 300, {5, 4}, 300, {3, 3}, window(1, 1, 1, 300)},
      {"dw_multiplied_2", 2, 6, {7, 9}, 12, {3, 3}, window(1, 1, 1, 6)},
      {"dw_multiplied_3s2", 1, 4, {9, 9}, 12, {5, 5}, window(2, 2, 1, 4)},
      {"dw_gathered", 1, 8, {7, 9}, 4, {3, 3}, window(1, 1, 1, 4)},
      {"dw_groups_of_4", 2, 16, {8, 9}, 16, {3, 3}, window(1, 1, 1, 4)},
      {"dw_groups_of_4s2", 1, 12, {8, 9}, 24, {3, 3}, window(2, 1, 1, 3)},
      {"dw_line", 2, 8, {37}, 8, {3}, window(1, 1, 1, 8)},
      {"dw_volume", 1, 4, {5, 6, 7}, 4, {3, 3, 3}, window(1, 1, 1, 4)},
      {"dw_volume_s2", 1, 4, {6, 6, 7}, 8, {3, 2, 3}, window(2, 1, 1, 4)},
      {"dw_transposed", 2, 4, {6, 7}, 4, {3, 3}, transposed(window(2, 1, 1, 4), {1})},
      {"dw_transposed_4x4", 1, 8, {5, 6}, 8, {4, 4}, transposed(window(2, 1, 1, 8))},
      {"dw_transposed_s3", 1, 4, {5, 6}, 8, {3, 3}, transposed(window(3, 0, 1, 4))},
  };
  return cases;
}

/// All three tensors so, and aligned: as users have them.
ConvCase channels_last(ConvCase c, DType dtype) {
  c.x_layout = c.y_layout = c.w_layout = Layout::nhwc;
  c.dtype = dtype;
  c.aligned = true;
  return c;
}

const std::vector<ConvCase>& tiled_convs() {
  static const std::vector<ConvCase> cases = {
      {"tiles", 3, 37, {13, 11}, 135, {3, 3}, window(1, 1)},
      {"tiles_nhwc", 3, 37, {13, 11}, 135, {3, 3}, window(1, 1), Layout::nhwc, Layout::nhwc},
      {"tiles_gaps", 2, 29, {17, 19}, 70, {3, 3}, {{2, 1}, {1, 2}, {0, 1}}, Layout::gaps, Layout::gaps},
      {"tiles_strided", 2, 67, {21, 23}, 66, {3, 3}, window(2, 1)},
      {"tiles_grouped", 2, 34, {15, 14}, 140, {3, 3}, window(1, 1, 1, 2)},
      {"tiles_grouped_by_8", 2, 48, {9, 10}, 80, {3, 3}, window(1, 1, 1, 2)},
      {"tiles_grouped_by_32", 2, 64, {9, 10}, 128, {3, 3}, window(2, 1, 1, 2)},
      {"tiles_pointwise", 2, 300, {9, 9}, 131, {1, 1}, window(1, 0)},
      {"tiles_wide_window", 2, 5, {30, 31}, 33, {7, 5}, window(2, 3)},
      {"tiles_dilated", 2, 24, {19, 18}, 40, {3, 3}, window(1, 3, 3)},
      {"tiles_deep_filter", 9, 3, {33, 35}, 10, {3, 3}, window(1, 1)},
      {"tiles_many_images", 150, 3, {3, 3}, 17, {2, 2}, window(1, 0)},
      channels_last({"wide", 2, 96, {13, 11}, 200, {3, 3}, window(1, 1)}, DType::bf16),
      channels_last({"wide_f16", 2, 200, {13, 11}, 72, {3, 3}, window(1, 1)}, DType::f16),
      channels_last({"wide_f32", 2, 96, {13, 11}, 136, {3, 3}, window(1, 1)}, DType::f32),
      channels_last({"wide_pointwise", 2, 264, {9, 9}, 136, {1, 1}, window(1, 0)}, DType::bf16),
      channels_last({"wide_pointwise_strided", 2, 72, {16, 17}, 264, {1, 1}, window(2, 0)}, DType::bf16),
      channels_last({"wide_strided", 2, 136, {21, 23}, 72, {3, 3}, window(2, 1)}, DType::f16),
      channels_last({"wide_dilated", 3, 64, {9, 18}, 128, {3, 3}, window(1, 2, 2)}, DType::bf16),
      channels_last({"wide_grouped", 2, 128, {9, 10}, 256, {3, 3}, window(1, 1, 1, 2)}, DType::bf16),
  };
  return cases;
}

/// The references take a second for some of them.
constexpr double kMostRandomFlops = 4e7;

std::vector<ConvCase> random_convs(int count, uint64_t seed) {
  Rng rng(seed);
  const auto draw = [&](int64_t low, int64_t high) { return rng.integer(low, high); };
  std::vector<ConvCase> cases;
  while (static_cast<int>(cases.size()) < count) {
    ConvCase c;
    ConvParams& p = c.params;
    const auto rank = static_cast<int>(draw(0, 3) ? 2 : draw(1, 3));
    p.groups = draw(0, 2) ? 1 : draw(2, 4);
    p.transposed = draw(0, 4) == 0;
    const bool depthwise = p.groups > 1 && draw(0, 1);
    c.n = draw(1, 4);
    const int64_t unit = draw(0, 2) ? 1 : 8;  // wide reads need channels by the 8
    c.c = p.groups * (depthwise ? 1 : unit * draw(1, 9));
    c.k = p.groups * (depthwise ? draw(1, 2) : unit * draw(1, 19));
    for (int i = 0; i < rank; i++) {
      const bool last = i == rank - 1;
      c.size.push_back(draw(1, rank == 3 ? 7 : last ? 40 : 15));
      c.window.push_back(draw(1, rank == 3 ? 3 : 4));
      p.stride.push_back(draw(0, 1) ? 1 : draw(2, 4));
      p.dilation.push_back(draw(0, 2) ? 1 : draw(2, 3));
      p.pad_begin.push_back(draw(-1, 4));
      p.pad_end.push_back(draw(-1, 4));
      if (p.transposed) p.output_pad.push_back(draw(0, std::max(p.stride[i], p.dilation[i]) - 1));
    }
    const auto layout = [&] { return static_cast<Layout>(draw(0, 2)); };
    c.x_layout = layout();
    c.y_layout = draw(0, 2) ? c.x_layout : layout();
    c.w_layout = draw(0, 1) ? Layout::nchw : layout();
    c.dtype = draw(0, 1) ? DType::f32 : draw(0, 1) ? DType::f16 : DType::bf16;
    c.aligned = draw(0, 1);
    try {
      c.y_shape();
    } catch (const ValidationError&) {
      continue;  // a window that does not fit
    }
    if (c.flops() > kMostRandomFlops) continue;
    c.name = "random_" + std::to_string(seed) + "_" + std::to_string(cases.size());
    cases.push_back(c);
  }
  return cases;
}

std::vector<std::string> conv_engines() {
  const TensorDesc x({1, 1, 3, 3}), w({1, 1, 1, 1});
  std::istringstream lines(Conv(context(), {x, w, x}).explain());
  std::vector<std::string> names;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) names.push_back(line.substr(2, line.find(':') - 2));
  return names;
}

std::vector<std::string> exact_conv_engines() {
  std::vector<std::string> names;
  if (const char* asked = std::getenv("DLPRIM_TEST_ENGINES")) {
    std::istringstream in(asked);
    names.assign(std::istream_iterator<std::string>(in), {});
    return names;
  }
  for (const std::string& name : conv_engines())
    if (name.rfind("winograd", 0) != 0) names.push_back(name);
  return names;
}

std::vector<std::string> serving_conv_engines(const ConvCase& c) {
  const auto desc = [&](const Shape& shape, Layout layout) {
    return TensorDesc{shape, strides_in(layout, shape), c.dtype, c.aligned};
  };
  const ConvDesc problem{desc(c.x_shape(), c.x_layout), desc(c.w_shape(), c.w_layout),
                         desc(c.y_shape(), c.y_layout), c.params};
  std::vector<std::string> names;
  for (const std::string& name : exact_conv_engines()) {
    if (name == "gemm" || name.rfind("depthwise", 0) == 0) continue;
    const std::string refusal = conv_refusal<Conv>(problem, engine(name));
    if (refusal.empty())
      names.push_back(name);
    else if (refusal.find(" refused:") == std::string::npos)
      throw std::runtime_error(refusal);
  }
  return names;
}

bool has_matrix_engine(const std::vector<std::string>& engines) {
  const MatrixEngine matrix = context().device().probes().matrix;
  if (std::getenv("DLPRIM_TEST_ENGINES") != nullptr) return !engines.empty();
  return matrix == MatrixEngine::none ||
         std::find(engines.begin(), engines.end(), name_of(matrix)) != engines.end();
}

std::vector<double> conv_forward_reference(const ConvCase& c, const std::vector<float>& x,
                                           const std::vector<float>& w, const ConvEpilogueData& with) {
  const Shape shape = c.y_shape();
  std::vector<double> y(index(element_count(shape)), 0.0);
  if (c.params.transposed)
    for_each_product(c,
                     [&](size_t yi, size_t wi, size_t xi) { y[yi] += static_cast<double>(x[xi]) * w[wi]; });
  else
    for_each_product(c,
                     [&](size_t xi, size_t wi, size_t yi) { y[yi] += static_cast<double>(x[xi]) * w[wi]; });
  const int64_t plane = element_count(shape) / std::max<int64_t>(1, shape[0] * shape[1]);
  for (size_t i = 0; i < y.size(); i++) {
    const size_t k = index(static_cast<int64_t>(i) / plane % c.k);
    if (!with.scale.empty()) y[i] *= with.scale[k];
    if (!with.bias.empty()) y[i] += with.bias[k];
    if (!with.residual.empty()) y[i] += with.residual[i];
    y[i] = activation_value(c.params.activation, y[i]);
  }
  return y;
}

std::vector<double> conv_backward_data_reference(const ConvCase& c, const std::vector<float>& dy,
                                                 const std::vector<float>& w) {
  std::vector<double> dx(index(element_count(c.x_shape())), 0.0);
  if (c.params.transposed)
    for_each_product(c,
                     [&](size_t yi, size_t wi, size_t xi) { dx[xi] += static_cast<double>(dy[yi]) * w[wi]; });
  else
    for_each_product(c,
                     [&](size_t xi, size_t wi, size_t yi) { dx[xi] += static_cast<double>(dy[yi]) * w[wi]; });
  return dx;
}

std::vector<double> conv_backward_filter_reference(const ConvCase& c, const std::vector<float>& x,
                                                   const std::vector<float>& dy) {
  std::vector<double> dw(index(element_count(c.w_shape())), 0.0);
  if (c.params.transposed)
    for_each_product(c,
                     [&](size_t yi, size_t wi, size_t xi) { dw[wi] += static_cast<double>(dy[yi]) * x[xi]; });
  else
    for_each_product(c,
                     [&](size_t xi, size_t wi, size_t yi) { dw[wi] += static_cast<double>(dy[yi]) * x[xi]; });
  return dw;
}

size_t conv_differences(const std::vector<float>& got, const std::vector<float>& expected) {
  float most = 0;
  for (float v : expected)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  const double bound = 1e-5 * double{most} + 1e-43;
  size_t other = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const float u = got[i], v = expected[i];
    other += std::isnan(v) ? !std::isnan(u) : std::isinf(v) ? u != v : !(std::abs(double{u} - v) <= bound);
  }
  return other;
}

}  // namespace dlprim::test
