// Checks of a convolution's descriptions, and the numbers that follow from them.
#include "ops/conv_problem.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "core/composed.hpp"
#include "ops/activation_impl.hpp"

namespace dlprim {

using namespace detail;

namespace {

constexpr const char* kAxes[2] = {"H", "W"};

void require_params(const ConvParams& p) {
  for (int i = 0; i < 2; i++) {
    const auto limited = [&](const char* name, int64_t value, int64_t low) {
      require(value >= low && value <= INT_MAX, "params", name, " along ", kAxes[i], " is ", value,
              ", must be in [", low, ", ", INT_MAX, "]");
    };
    const auto at = static_cast<size_t>(i);
    limited("stride", p.stride[at], 1);
    limited("dilation", p.dilation[at], 1);
    limited("pad_begin", p.pad_begin[at], -INT_MAX);
    limited("pad_end", p.pad_end[at], -INT_MAX);
  }
  require(p.groups >= 1 && p.groups <= INT_MAX, "params", "groups is ", p.groups, ", must be in [1, ",
          INT_MAX, "]");
}

/// P or Q.
int64_t output_size(const Shape& x, const Shape& w, const ConvParams& params, int axis) {
  const auto at = static_cast<size_t>(axis);
  const int64_t padded = x[2 + axis] + params.pad_begin[at] + params.pad_end[at];
  const int64_t window = params.dilation[at] * (w[2 + axis] - 1) + 1;
  require(padded <= INT_MAX, "x", "padded size along ", kAxes[axis], " is ", padded, ", must be at most ",
          INT_MAX);
  require(window <= padded, "w", "window of ", window, " along ", kAxes[axis], " (", w[2 + axis],
          " taps, dilation ", params.dilation[at], ") does not fit into the padded input's ", padded);
  return (padded - window) / params.stride[at] + 1;
}

}  // namespace

Shape conv2d_output_shape(const Shape& x, const Shape& w, const ConvParams& params) {
  require(x.size() == 4, "x", "rank ", x.size(), " must be 4, shape is ", x);
  require(w.size() == 4, "w", "rank ", w.size(), " must be 4, shape is ", w);
  require_params(params);
  for (int i = 0; i < 4; i++) {
    require(x[i] >= 0 && x[i] <= INT_MAX, "x", "shape ", x, ": sizes must be in [0, ", INT_MAX, "]");
    require(w[i] >= (i < 2 ? 0 : 1) && w[i] <= INT_MAX, "w", "shape ", w, ": ",
            i < 2 ? "channels must be in [0, " : "taps must be in [1, ", INT_MAX, "]");
  }
  require(x[1] % params.groups == 0, "params", "groups ", params.groups, " do not divide x's ", x[1],
          " channels");
  require(w[0] % params.groups == 0, "params", "groups ", params.groups, " do not divide w's ", w[0],
          " filters");
  require(w[1] == x[1] / params.groups, "w", "shape ", w, ": dimension 1 must be ", x[1] / params.groups,
          ", x's ", x[1], " channels over ", params.groups, " groups");
  require(w[2] * w[3] <= INT_MAX, "w", "shape ", w, " has ", w[2] * w[3], " taps, must be at most ", INT_MAX);
  return {x[0], w[0], output_size(x, w, params, 0), output_size(x, w, params, 1)};
}

namespace detail {

ConvProblem conv_problem(ConvDirection direction, const ConvDesc& desc) {
  const bool forward = direction == ConvDirection::forward;
  const bool data = direction == ConvDirection::backward_data,
             filter = direction == ConvDirection::backward_filter;
  const char* x_name = data ? "dx" : "x";
  const char* w_name = filter ? "dw" : "w";
  const char* y_name = forward ? "y" : "dy";
  require_rank(x_name, desc.x, 4);
  require_rank(w_name, desc.w, 4);
  require_rank(y_name, desc.y, 4);
  const Shape shape = conv2d_output_shape(desc.x.shape, desc.w.shape, desc.params);
  require_shape(y_name, desc.y, shape);
  const std::pair<const char*, const TensorDesc*> all[] = {
      {x_name, &desc.x}, {w_name, &desc.w}, {y_name, &desc.y}};
  for (const auto& [name, tensor] : all) {
    require_dtype(name, *tensor, DType::f32);
    require_strides(name, *tensor);
  }
  require(is_row_major(desc.w), w_name, "strides ", desc.w.strides, " of shape ", desc.w.shape,
          " must be row-major");
  require_activation("params", desc.params.activation);
  if (forward) require_writable(y_name, desc.y);
  if (data) require_writable(x_name, desc.x);
  require(forward || desc.params.activation == Activation::identity, "params", "activation ",
          name_of(desc.params.activation), " in a backward direction: undo it first");
  require(forward || !desc.bias, "bias", "belongs to the forward direction only");

  ConvProblem p;
  p.direction = direction;
  // conv2d_output_shape checked them.
  const auto size = [](int64_t value) { return static_cast<int>(value); };
  p.n = size(desc.x.shape[0]), p.c = size(desc.x.shape[1]), p.h = size(desc.x.shape[2]),
  p.w = size(desc.x.shape[3]);
  p.k = size(desc.w.shape[0]), p.r = size(desc.w.shape[2]), p.s = size(desc.w.shape[3]);
  p.p = size(shape[2]), p.q = size(shape[3]);
  p.groups = size(desc.params.groups);
  for (size_t i = 0; i < 2; i++) {
    p.stride[i] = size(desc.params.stride[i]);
    p.pad[i] = size(desc.params.pad_begin[i]);
    p.dilation[i] = size(desc.params.dilation[i]);
  }
  p.x = desc.x.strides, p.y = desc.y.strides;
  p.x_extent = extent_of(desc.x), p.y_extent = extent_of(desc.y), p.w_extent = extent_of(desc.w);
  p.activation = desc.params.activation;
  p.bias = desc.bias;
  return p;
}

double conv_flops(const ConvProblem& p) {
  return 2.0 * p.n * p.k * p.p * p.q * p.group_c() * p.r * p.s;
}

namespace {
std::string joined(const Dims& d) {
  return cat(d[0], ",", d[1], ",", d[2], ",", d[3]);
}
}  // namespace

std::string conv_text(const ConvProblem& p) {
  return cat("n=", p.n, " c=", p.c, " h=", p.h, " w=", p.w, " k=", p.k, " r=", p.r, " s=", p.s, " p=", p.p,
             " q=", p.q, " stride=", p.stride[0], "x", p.stride[1], " pad=", p.pad[0], "x", p.pad[1],
             " dilation=", p.dilation[0], "x", p.dilation[1], " groups=", p.groups, " bias=", p.bias ? 1 : 0,
             " activation=", name_of(p.activation), " x_strides=", joined(p.x), " y_strides=", joined(p.y));
}

ConvGemm conv_gemm(const ConvProblem& p) {
  const int64_t taps = int64_t{p.r} * p.s, inside = int64_t{p.n} * p.p * p.q;
  switch (p.direction) {
    case ConvDirection::forward:
      return {p.group_k(), inside, p.group_c() * taps};
    case ConvDirection::backward_data:
      return {p.group_c(), int64_t{p.n} * p.h * p.w, p.group_k() * taps};
    default:
      return {p.group_k(), p.group_c() * taps, inside};
  }
}

std::string refuse_large(const ConvProblem& p) {
  // Room to count past the last element by a tile.
  constexpr int64_t most = INT_MAX - (1 << 16);
  const ConvGemm g = conv_gemm(p);
  const auto check = [&](const char* what, int64_t value) {
    return value > most ? cat(what, " ", value, " exceeds ", most, ", this engine counts in 32 bits")
                        : std::string();
  };
  const auto largest = [](int size, int pad) { return std::max<int64_t>(size, std::abs(int64_t{pad})); };
  for (const std::string& refusal :
       {check("twice the padded height", 2 * (largest(p.h, p.pad[0]) + p.dilation[0] * int64_t{p.r})),
        check("twice the padded width", 2 * (largest(p.w, p.pad[1]) + p.dilation[1] * int64_t{p.s})),
        check("x's extent", p.x_extent), check("y's extent", p.y_extent), check("w's extent", p.w_extent),
        check("the product's M", g.m), check("the product's N", g.n), check("the product's K", g.k)})
    if (!refusal.empty()) return refusal;
  return {};
}

std::string refuse_depthwise(const ConvProblem& p) {
  if (p.groups == 1 || p.group_c() != 1 || p.group_k() != 1) return {};
  return cat("1 channel and 1 filter in each of ", p.groups,
             " groups: the product's tiles would be mostly padding");
}

std::array<int, 4> used_strides(const Strides& strides, const std::array<int, 4>& sizes) {
  std::array<int, 4> used{};
  for (size_t i = 0; i < 4; i++) used[i] = sizes[i] > 1 ? static_cast<int>(strides[static_cast<int>(i)]) : 0;
  return used;
}

}  // namespace detail
}  // namespace dlprim
