// Checks of a convolution's descriptions, and the numbers that follow from them.
#include "ops/conv/conv_problem.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "core/composed.hpp"
#include "ops/lib/axis_list.hpp"
#include "ops/pointwise/activation_impl.hpp"

namespace dlprim {

using namespace detail;

namespace {

constexpr const char* kAxes[3] = {"D", "H", "W"};

struct Axis {
  const char* name;
  int64_t stride, pad_begin, pad_end, dilation, output_pad;
};

/// Of `count` spatial axes, the i-th.
Axis axis_of(const ConvParams& p, int count, int i) {
  const int64_t pad_begin = number_along(p.pad_begin, i, 0);
  return {kAxes[3 - count + i],
          number_along(p.stride, i, 1),
          pad_begin,
          number_along(p.pad_end, i, pad_begin),
          number_along(p.dilation, i, 1),
          number_along(p.output_pad, i, 0)};
}

void require_params(const ConvParams& p, int count) {
  const std::pair<const char*, const Dims*> lists[] = {{"stride", &p.stride},
                                                       {"pad_begin", &p.pad_begin},
                                                       {"pad_end", &p.pad_end},
                                                       {"dilation", &p.dilation},
                                                       {"output_pad", &p.output_pad}};
  for (const auto& [name, list] : lists)
    require(list->size() <= 1 || list->size() == count, "params", name, " ", *list, " has ", list->size(),
            " numbers for ", count, " spatial axes");
  for (int i = 0; i < count; i++) {
    const Axis a = axis_of(p, count, i);
    const auto limited = [&](const char* name, int64_t value, int64_t low) {
      require(value >= low && value <= INT_MAX, "params", name, " along ", a.name, " is ", value,
              ", must be in [", low, ", ", INT_MAX, "]");
    };
    limited("stride", a.stride, 1);
    limited("dilation", a.dilation, 1);
    limited("pad_begin", a.pad_begin, -INT_MAX);
    limited("pad_end", a.pad_end, -INT_MAX);
    limited("output_pad", a.output_pad, 0);
    require(p.transposed || a.output_pad == 0, "params", "output_pad along ", a.name, " is ", a.output_pad,
            ", but the convolution is not transposed");
    require(a.output_pad == 0 || a.output_pad < std::max(a.stride, a.dilation), "params", "output_pad along ",
            a.name, " is ", a.output_pad, ", must be below the stride ", a.stride, " or the dilation ",
            a.dilation);
  }
  require(p.groups >= 1 && p.groups <= INT_MAX, "params", "groups is ", p.groups, ", must be in [1, ",
          INT_MAX, "]");
}

/// y's size along an axis where x has `size` elements and w has `taps`.
int64_t output_size(const Axis& a, int64_t size, int64_t taps, bool transposed) {
  const int64_t window = a.dilation * (taps - 1) + 1;
  if (transposed) {
    // Both factors are below 2^31.
    const int64_t result = (size - 1) * a.stride - a.pad_begin - a.pad_end + window + a.output_pad;
    require(result >= 1 && result <= INT_MAX, "x", "size ", size, " along ", a.name, " gives a y of ", result,
            ", must be in [1, ", INT_MAX, "]");
    return result;
  }
  const int64_t padded = size + a.pad_begin + a.pad_end;
  require(padded <= INT_MAX, "x", "padded size along ", a.name, " is ", padded, ", must be at most ",
          INT_MAX);
  require(window <= padded, "w", "window of ", window, " along ", a.name, " (", taps, " taps, dilation ",
          a.dilation, ") does not fit into the padded input's ", padded);
  return (padded - window) / a.stride + 1;
}

}  // namespace

Shape conv_output_shape(const Shape& x, const Shape& w, const ConvParams& params) {
  const int rank = x.size(), count = rank - 2;
  require(rank >= 3 && rank <= 5, "x", "rank ", rank, " must be 3, 4 or 5, shape is ", x);
  require(w.size() == rank, "w", "rank ", w.size(), " must be ", rank, " as x's, shape is ", w);
  require_params(params, count);
  int64_t taps = 1;
  for (int i = 0; i < rank; i++) {
    require(x[i] >= 0 && x[i] <= INT_MAX, "x", "shape ", x, ": sizes must be in [0, ", INT_MAX, "]");
    require(w[i] >= (i < 2 ? 0 : 1) && w[i] <= INT_MAX, "w", "shape ", w, ": ",
            i < 2 ? "channels must be in [0, " : "taps must be in [1, ", INT_MAX, "]");
    if (i >= 2) taps *= w[i];
    require(taps <= INT_MAX, "w", "shape ", w, " has too many taps, must be at most ", INT_MAX);
  }
  const int64_t groups = params.groups;
  require(x[1] % groups == 0, "params", "groups ", groups, " do not divide x's ", x[1], " channels");
  Shape y{x[0], 0};
  if (params.transposed) {
    require(w[0] == x[1], "w", "shape ", w, ": dimension 0 must be ", x[1], ", x's channels");
    require(w[1] * groups <= INT_MAX, "w", "shape ", w, " in ", groups, " groups has too many filters");
    y[1] = w[1] * groups;
  } else {
    require(w[0] % groups == 0, "params", "groups ", groups, " do not divide w's ", w[0], " filters");
    require(w[1] == x[1] / groups, "w", "shape ", w, ": dimension 1 must be ", x[1] / groups, ", x's ", x[1],
            " channels over ", groups, " groups");
    y[1] = w[0];
  }
  for (int i = 0; i < count; i++)
    y.push_back(output_size(axis_of(params, count, i), x[2 + i], w[2 + i], params.transposed));
  return y;
}

namespace detail {
namespace {

void require_dtypes(const std::pair<const char*, const TensorDesc*> (&all)[3], int written) {
  const TensorDesc& read = *all[written == 0 ? 1 : 0].second;
  require_floating(all[written == 0 ? 1 : 0].first, read, true);
  for (int i = 0; i < 3; i++) {
    const DType dtype = all[i].second->dtype;
    if (i == written && dtype == DType::f32 && size_of(read.dtype) == 2) continue;
    require_dtype(all[i].first, *all[i].second, read.dtype);
  }
}

void require_epilogue(ConvDirection direction, const ConvDesc& desc) {
  const bool forward = direction == ConvDirection::forward;
  require_activation("params", desc.params.activation);
  require_activation("prologue_activation", desc.prologue_activation);
  require(forward || desc.params.activation == Activation::identity, "params", "activation ",
          name_of(desc.params.activation), " in a backward direction: undo it first");
  require(desc.prologue || desc.prologue_activation == Activation::identity, "prologue_activation",
          name_of(desc.prologue_activation), " without a prologue");
}

ConvStrides stepping(const TensorDesc& x) {
  ConvStrides strides{};
  for (int i = 0; i < 5; i++) strides[static_cast<size_t>(i)] = x.shape[i] > 1 ? x.strides[i] : 0;
  return strides;
}

Spatial space_of(const TensorDesc& x) {
  return {static_cast<int>(x.shape[2]), static_cast<int>(x.shape[3]), static_cast<int>(x.shape[4])};
}

Dims deepened(const Dims& dims) {
  Dims result{dims[0], dims[1]};
  for (int i = dims.size(); i < 5; i++) result.push_back(1);
  for (int i = 2; i < dims.size(); i++) result.push_back(dims[i]);
  return result;
}

}  // namespace

TensorDesc with_depth(const TensorDesc& x) {
  return {deepened(x.shape), deepened(x.strides), x.dtype, x.aligned};
}

Tensor with_depth(const Tensor& x) {
  return x.rank() == 5 || !x.defined() ? x : x.as_strided(deepened(x.shape()), deepened(x.strides()));
}

ConvDesc sides_of(const ConvBackwardDataDesc& desc) {
  return {desc.dx, desc.w, desc.dy, desc.params};
}

ConvDesc sides_of(const ConvBackwardFilterDesc& desc) {
  ConvDesc sides{desc.x, desc.dw, desc.dy, desc.params};
  sides.prologue = desc.prologue;
  sides.prologue_activation = desc.prologue_activation;
  return sides;
}

ConvSides conv_sides(ConvDirection direction, const ConvDesc& desc) {
  const TensorDesc x = with_depth(desc.x), w = with_depth(desc.w), y = with_depth(desc.y);
  if (!desc.params.transposed) return {direction, x, w, y};
  const ConvDirection other = direction == ConvDirection::forward         ? ConvDirection::backward_data
                              : direction == ConvDirection::backward_data ? ConvDirection::forward
                                                                          : direction;
  return {other, y, w, x};
}

ConvProblem conv_problem(ConvDirection direction, const ConvDesc& desc) {
  const bool data = direction == ConvDirection::backward_data,
             filter = direction == ConvDirection::backward_filter;
  const char* const y_name = direction == ConvDirection::forward ? "y" : "dy";
  const std::pair<const char*, const TensorDesc*> all[3] = {
      {data ? "dx" : "x", &desc.x}, {filter ? "dw" : "w", &desc.w}, {y_name, &desc.y}};
  const int written = data ? 0 : filter ? 1 : 2;
  try {
    require_shape(y_name, desc.y, conv_output_shape(desc.x.shape, desc.w.shape, desc.params));
  } catch (const ValidationError& error) {
    if (error.argument() == "x") throw renamed(error, all[0].first);
    if (error.argument() == "w") throw renamed(error, all[1].first);
    throw;
  }
  require_dtypes(all, written);
  for (const auto& [name, tensor] : all) require_strides(name, *tensor);
  require_writable(all[written].first, *all[written].second);
  require_epilogue(direction, desc);

  const ConvSides sides = conv_sides(direction, desc);
  ConvProblem p;
  p.direction = sides.direction;
  p.dtype = all[written == 0 ? 1 : 0].second->dtype;
  p.result_dtype = all[written].second->dtype;
  // conv_output_shape checked that sizes and parameters fit.
  p.n = static_cast<int>(sides.x.shape[0]), p.c = static_cast<int>(sides.x.shape[1]);
  p.k = static_cast<int>(sides.y.shape[1]), p.groups = static_cast<int>(desc.params.groups);
  p.x_space = space_of(sides.x), p.w_space = space_of(sides.w), p.y_space = space_of(sides.y);
  const int count = desc.x.shape.size() - 2;
  for (int i = 0; i < count; i++) {
    const Axis axis = axis_of(desc.params, count, i);
    const auto to = static_cast<size_t>(3 - count + i);
    p.stride[to] = static_cast<int>(axis.stride);
    p.pad[to] = static_cast<int>(axis.pad_begin);
    p.dilation[to] = static_cast<int>(axis.dilation);
  }
  p.x = stepping(sides.x), p.w = stepping(sides.w), p.y = stepping(sides.y);
  p.x_extent = extent_of(sides.x), p.y_extent = extent_of(sides.y), p.w_extent = extent_of(sides.w);
  p.x_aligned = sides.x.aligned, p.w_aligned = sides.w.aligned, p.y_aligned = sides.y.aligned;
  p.w_row_major = is_row_major(sides.w);
  p.activation = desc.params.activation;
  p.bias = desc.bias, p.scale = desc.scale;
  p.residual = desc.residual, p.preactivation = desc.preactivation;
  p.constant_w = desc.constant_w;
  return p;
}

double conv_flops(const ConvProblem& p) {
  return 2.0 * p.n * p.k * static_cast<double>(p.y_pixels()) * p.group_c() * p.taps();
}

double conv_pixel_bytes(const ConvProblem& p) {
  const double x = static_cast<double>(p.c) * static_cast<double>(p.x_pixels()),
               y = static_cast<double>(p.k) * static_cast<double>(p.y_pixels());
  return p.n * (x + y) * static_cast<double>(size_of(p.dtype));
}

namespace {

template <class List>
std::string joined(const List& list, const char* between) {
  std::string text;
  for (const auto& value : list) text += cat(text.empty() ? "" : between, value);
  return text;
}

}  // namespace

std::string conv_text(const ConvProblem& p) {
  std::string text = cat("n=", p.n, " c=", p.c, " size=", joined(p.x_space, "x"), " k=", p.k,
                         " window=", joined(p.w_space, "x"), " result=", joined(p.y_space, "x"),
                         " stride=", joined(p.stride, "x"), " pad=", joined(p.pad, "x"),
                         " dilation=", joined(p.dilation, "x"), " groups=", p.groups,
                         " dtype=", name_of(p.dtype), " result_dtype=", name_of(p.result_dtype));
  text += cat(" bias=", p.bias ? 1 : 0, " activation=", name_of(p.activation));
  if (p.scale) text += " scale=1";
  if (p.residual) text += " residual=1";
  if (p.preactivation) text += " preactivation=1";
  if (p.constant_w) text += " constant_w=1";
  return text + cat(" x_strides=", joined(p.x, ","), " w_strides=", joined(p.w, ","),
                    " y_strides=", joined(p.y, ","));
}

ConvGemm conv_gemm(const ConvProblem& p) {
  const int64_t taps = p.taps(), inside = p.n * p.y_pixels();
  switch (p.direction) {
    case ConvDirection::forward:
      return {p.group_k(), inside, p.group_c() * taps};
    case ConvDirection::backward_data:
      return {p.group_c(), p.n * p.x_pixels(), p.group_k() * taps};
    default:
      return {p.group_k(), p.group_c() * taps, inside};
  }
}

std::string refuse_large(const ConvProblem& p) {
  // Room to count past the last element by a tile.
  constexpr int64_t most = INT_MAX - (1 << 16);
  const auto check = [&](const char* what, int64_t value) {
    return value > most ? cat(what, " ", value, " exceeds ", most, ", this engine counts in 32 bits")
                        : std::string();
  };
  static constexpr const char* kPadded[3] = {"twice the padded depth", "twice the padded height",
                                             "twice the padded width"};
  for (size_t i = 0; i < 3; i++) {
    const int64_t largest = std::max<int64_t>(p.x_space[i], std::abs(int64_t{p.pad[i]}));
    const std::string refusal = check(kPadded[i], 2 * (largest + p.dilation[i] * int64_t{p.w_space[i]}));
    if (!refusal.empty()) return refusal;
  }
  const ConvGemm g = conv_gemm(p);
  for (const std::string& refusal :
       {check("x's extent", p.x_extent), check("y's extent", p.y_extent), check("w's extent", p.w_extent),
        check("the product's M", g.m), check("the product's N", g.n), check("the product's K", g.k)})
    if (!refusal.empty()) return refusal;
  return {};
}

std::string refuse_depthwise(const ConvProblem& p) {
  if (p.groups == 1 || p.group_c() != 1 || p.group_k() != 1) return {};
  return cat("1 channel and 1 filter in each of ", p.groups,
             " groups: the product's tiles would be mostly padding");
}

std::string refuse_wide_groups(const ConvProblem& p, int most) {
  if (p.groups == 1 && (p.c != 1 || p.k != 1)) return "is for several groups, not one";
  const int less = std::min(p.group_c(), p.group_k()), more = std::max(p.group_c(), p.group_k());
  if (less <= 1 || more <= most) return {};
  return cat("groups of ", p.group_c(), " channels and ", p.group_k(), " filters exceed ", most);
}

std::optional<int64_t> even_stride(const ConvStrides& strides, const Spatial& space) {
  int64_t stride = 0, count = 1;
  for (size_t i = 3; i-- > 0;) {
    if (space[i] == 1) continue;
    if (count == 1) stride = strides[2 + i];
    if (strides[2 + i] != stride * count) return std::nullopt;
    count *= space[i];
  }
  return stride;
}

std::array<int, 5> narrow(const ConvStrides& strides) {
  std::array<int, 5> result{};
  for (size_t i = 0; i < 5; i++) result[i] = static_cast<int>(strides[i]);
  return result;
}

Defines conv_defines(const ConvProblem& p, ConvChannels channels) {
  const int form = channels == ConvChannels::rows ? 2 : 1;
  Defines defines;
  defines.set("AB_TYPE", name_of(p.dtype)).set("C_TYPE", name_of(p.result_dtype));
  if (p.dtype == DType::f64) defines.set("REAL", "double").set("DOUBLE_REAL", true);
  defines.set("BIAS", p.bias ? form : 0).set("SCALE", p.scale ? form : 0);
  defines.set("RESIDUAL", p.residual).set("PREACTIVATION", p.preactivation);
  return defines.set("ACTIVATION", name_of(p.activation));
}

int64_t conv_result_vector(const ConvProblem& p, int channels, const ConvStrides& target, bool aligned) {
  int64_t vector = aligned ? 16 / static_cast<int64_t>(size_of(p.result_dtype)) : 1;
  const auto fits = [&] {
    bool all = channels % vector == 0;
    for (size_t i : {0, 2, 3, 4}) all &= target[i] % vector == 0;
    return all;
  };
  while (!fits()) vector /= 2;
  return vector;
}

}  // namespace detail
}  // namespace dlprim
