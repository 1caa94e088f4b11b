// Interpolation: which elements of x a place along an axis is made of, and with what weights. resample.cpp
// does the rest.
#include <dlprim/interpolate.hpp>

#include <algorithm>
#include <cmath>

#include "ops/resample/resample.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<InterpolateParams> = 4;
template <>
inline constexpr int kFields<InterpolateDesc> = 3;
template <>
inline constexpr int kFields<InterpolateBackwardDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

const char* name_of(InterpolateMode mode) {
  switch (mode) {
    case InterpolateMode::nearest:
      return "nearest";
    case InterpolateMode::nearest_exact:
      return "nearest_exact";
    case InterpolateMode::linear:
      return "linear";
    case InterpolateMode::cubic:
      return "cubic";
    case InterpolateMode::area:
      return "area";
  }
  throw ValidationError("mode", cat("number ", static_cast<int>(mode), " does not exist"));
}

/// One axis: sizes of x and y, and the factor that was given.
struct AxisScale {
  int64_t x = 1, y = 1;
  double given = 0;

  /// Elements of x for one of y.
  template <class T>
  T step() const {
    return given > 0 ? static_cast<T>(1.0 / given) : static_cast<T>(x) / static_cast<T>(y);
  }
  template <class T>
  T step(bool align_corners) const {
    if (!align_corners) return step<T>();
    return y > 1 ? static_cast<T>(x - 1) / static_cast<T>(y - 1) : T(0);
  }
};

void add(AxisTaps& taps, int64_t source, double weight) {
  taps.source.push_back(static_cast<int32_t>(source));
  taps.weight.push_back(weight);
}

AxisTaps nearest(const AxisScale& axis, bool exact) {
  AxisTaps taps;
  const auto step = axis.step<float>();
  for (int64_t o = 0; o < axis.y; o++) {
    const float place = (static_cast<float>(o) + (exact ? 0.5f : 0.0f)) * step;
    const auto source = axis.x == axis.y ? o : static_cast<int64_t>(std::floor(std::min(place, 0x1p62f)));
    taps.source.push_back(static_cast<int32_t>(std::min(source, axis.x - 1)));
    taps.end_place();
  }
  return taps;
}

/// Where the center of place o lies in x.
template <class T>
T center(const AxisScale& axis, int64_t o, bool align_corners) {
  const T step = axis.step<T>(align_corners);
  return align_corners ? step * static_cast<T>(o) : step * (static_cast<T>(o) + T(0.5)) - T(0.5);
}

template <class T>
AxisTaps linear(const AxisScale& axis, bool align_corners) {
  AxisTaps taps;
  for (int64_t o = 0; o < axis.y; o++) {
    const T place = axis.x == axis.y
                        ? static_cast<T>(o)
                        : std::clamp(center<T>(axis, o, align_corners), T(0), static_cast<T>(0x1p31));
    const int64_t low = std::min(static_cast<int64_t>(place), axis.x - 1);
    const T part = std::clamp(place - static_cast<T>(low), T(0), T(1));
    add(taps, low, T(1) - part);
    add(taps, std::min(low + 1, axis.x - 1), part);
    taps.end_place();
  }
  return taps;
}

/// Keys' cubic at distance `x`, of 0 to 1, and of 1 to 2.
template <class T>
T cubic_near(T x, T a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <class T>
T cubic_far(T x, T a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

template <class T>
AxisTaps cubic(const AxisScale& axis, bool align_corners) {
  const auto a = T(-0.75);
  AxisTaps taps;
  for (int64_t o = 0; o < axis.y; o++) {
    const T place = std::clamp(center<T>(axis, o, align_corners), T(-0x1p31), static_cast<T>(0x1p31));
    const int64_t low = std::min(static_cast<int64_t>(std::floor(place)), axis.x - 1);
    const T t = std::clamp(place - static_cast<T>(low), T(0), T(1));
    const T weights[] = {cubic_far(t + 1, a), cubic_near(t, a), cubic_near(1 - t, a), cubic_far(2 - t, a)};
    for (int64_t k = 0; k < 4; k++) add(taps, std::clamp<int64_t>(low - 1 + k, 0, axis.x - 1), weights[k]);
    taps.end_place();
  }
  return taps;
}

/// The filters of anti-aliasing: a tent, and Keys' cubic with a = -0.5.
template <class T>
T filter(T x, bool is_cubic) {
  const T d = std::abs(x);
  if (!is_cubic) return d < 1 ? 1 - d : T(0);
  return d < 1 ? cubic_near(d, T(-0.5)) : d < 2 ? cubic_far(d, T(-0.5)) : T(0);
}

template <class T>
AxisTaps antialiased(const AxisScale& axis, bool align_corners, bool is_cubic) {
  const T step = axis.step<T>(align_corners), radius = is_cubic ? T(2) : T(1);
  const T support = step >= 1 ? radius * step : radius, shrink = step >= 1 ? 1 / step : T(1);
  const auto most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  AxisTaps taps;
  for (int64_t o = 0; o < axis.y; o++) {
    const T middle = step * (static_cast<T>(o) + T(0.5));
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(middle - support + T(0.5)), 0);
    const int64_t end = std::min(static_cast<int64_t>(middle + support + T(0.5)), axis.x);
    std::vector<T> weights;
    T total = 0;
    for (int64_t i = begin; i < end && i < begin + most; i++) {
      weights.push_back(filter((static_cast<T>(i) - middle + T(0.5)) * shrink, is_cubic));
      total += weights.back();
    }
    for (size_t k = 0; k < weights.size(); k++)
      add(taps, begin + static_cast<int64_t>(k), total != 0 ? weights[k] / total : weights[k]);
    taps.end_place();
  }
  return taps;
}

AxisTaps area(const AxisScale& axis) {
  AxisTaps taps;
  for (int64_t o = 0; o < axis.y; o++) {
    const int64_t begin = o * axis.x / axis.y, end = ceil_div((o + 1) * axis.x, axis.y);
    for (int64_t i = begin; i < end; i++) add(taps, i, 1.0 / static_cast<double>(end - begin));
    taps.end_place();
  }
  return taps;
}

template <class T>
AxisTaps taps_of(const AxisScale& axis, const InterpolateParams& p) {
  if (p.mode == InterpolateMode::area) return area(axis);
  const bool is_cubic = p.mode == InterpolateMode::cubic;
  if (p.mode != InterpolateMode::linear && !is_cubic)
    return nearest(axis, p.mode == InterpolateMode::nearest_exact);
  if (p.antialias) return antialiased<T>(axis, p.align_corners, is_cubic);
  return is_cubic ? cubic<T>(axis, p.align_corners) : linear<T>(axis, p.align_corners);
}

void check(const InterpolateDesc& d, bool backward) {
  const char *x = backward ? "dx" : "x", *y = backward ? "dy" : "y";
  const InterpolateParams& p = d.params;
  const std::string mode = name_of(p.mode);
  require_floating(x, d.x, true);
  require_floating(y, d.y, true);
  const int rank = d.x.shape.size();
  require(rank >= 3 && rank <= 5, x, "rank ", rank, " must be 3 to 5, [N, C, ...]");
  require_rank(y, d.y, rank);
  for (int i = 0; i < 2; i++)
    require(d.y.shape[i] == d.x.shape[i], y, "size ", d.y.shape[i], " of axis ", i, " must be ",
            d.x.shape[i]);
  for (int i = 2; i < rank; i++) {
    require(d.x.shape[i] >= 1, x, "size 0 of axis ", i, " must be 1 or more");
    require(d.y.shape[i] >= 1, y, "size 0 of axis ", i, " must be 1 or more");
    // Six taps a place can be counted in 32 bits; their tables are made on the host.
    constexpr int64_t kMost = int64_t{1} << 28;
    require(d.x.shape[i] <= kMost, x, "size ", d.x.shape[i], " of axis ", i, " must be 2^28 or less");
    require(d.y.shape[i] <= kMost, y, "size ", d.y.shape[i], " of axis ", i, " must be 2^28 or less");
  }
  const bool smooth = p.mode == InterpolateMode::linear || p.mode == InterpolateMode::cubic;
  require(rank == 4 || p.mode != InterpolateMode::cubic, "mode", "cubic is for rank 4, not ", rank);
  require(smooth || !p.align_corners, "align_corners", "does not go with mode ", mode);
  require(!p.antialias || (smooth && rank == 4), "antialias", "does not go with mode ", mode, " of rank ",
          rank);
  for (double scale : p.scale)
    require(scale >= 0 && std::isfinite(scale), "scale", scale,
            " must be positive, or 0 for the ratio of shapes");
  require_writable(backward ? x : y, backward ? d.x : d.y);
}

/// Backward d is of dx and dy.
std::shared_ptr<const Resample> plan(const Context& context, const InterpolateDesc& d, bool backward,
                                     const Options& options, std::shared_ptr<const PlanInfo>& info) {
  check(d, backward);
  const bool wide = d.x.dtype == DType::f64 || d.y.dtype == DType::f64;
  ResampleProblem problem{backward ? d.y : d.x, backward ? d.x : d.y, {}};
  double weights = 1;
  for (int i = 2; i < d.x.shape.size(); i++) {
    const AxisScale axis{d.x.shape[i], d.y.shape[i], d.params.scale[static_cast<size_t>(i - 2)]};
    AxisTaps taps = wide ? taps_of<double>(axis, d.params) : taps_of<float>(axis, d.params);
    taps.source_size = axis.x;
    weights *= static_cast<double>(taps.width());
    problem.axes.push_back({i, backward ? transposed(taps) : std::move(taps)});
  }
  PlanInfo made;
  const char* op = backward ? "interpolate_backward" : "interpolate";
  auto impl = choose_resample(op, context, problem, options, made);
  made.text =
      cat("op=", op, " engine=", made.engine, " mode=", name_of(d.params.mode), " x=", brief(d.x),
          " y=", brief(d.y), " align_corners=", d.params.align_corners, " antialias=", d.params.antialias,
          " scale=", d.params.scale[0], ",", d.params.scale[1], ",", d.params.scale[2]);
  made.flops = 2 * weights * static_cast<double>(element_count(d.y.shape));
  made.bytes = traffic({d.x, d.y});
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

}  // namespace

Shape interpolate_output_shape(const Shape& x, const std::vector<double>& scale) {
  require(x.size() >= 3 && x.size() <= 5, "x", "rank ", x.size(), " must be 3 to 5, [N, C, ...]");
  require(static_cast<int>(scale.size()) == x.size() - 2, "scale", scale.size(), " factors for ",
          x.size() - 2, " axes");
  Shape y = x;
  for (int i = 2; i < x.size(); i++) {
    const double factor = scale[static_cast<size_t>(i - 2)],
                 size = std::floor(static_cast<double>(x[i]) * factor);
    require(factor > 0 && size >= 1 && size < 0x1p31, "scale", factor, " makes size ", size, " of ", x[i]);
    y[i] = static_cast<int64_t>(size);
  }
  return y;
}

Interpolate::Interpolate(const Context& context, const InterpolateDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, desc, false, options, info_)) {}

void Interpolate::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  run_resample(*info_, *impl_, stream, {"x", x}, desc_.x, {"y", y}, desc_.y, 0, workspace);
}

InterpolateBackward::InterpolateBackward(const Context& context, const InterpolateBackwardDesc& desc,
                                         const Options& options)
    : Plan(nullptr),
      desc_(desc),
      impl_(plan(context, {desc.dx, desc.dy, desc.params}, true, options, info_)) {}

void InterpolateBackward::run(const Stream& stream, const Tensor& dy, const Tensor& dx,
                              const Tensor& workspace) const {
  run_resample(*info_, *impl_, stream, {"dy", dy}, desc_.dy, {"dx", dx}, desc_.dx, 0, workspace);
}

void interpolate(const Stream& stream, const Tensor& x, const InterpolateParams& params, const Tensor& y,
                 const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const InterpolateDesc desc{x, y, params};
  cached_plan<Interpolate>(stream, "interpolate", desc, options, workspace)->run(stream, x, y, workspace);
}

void interpolate_backward(const Stream& stream, const Tensor& dy, const InterpolateParams& params,
                          const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"dx", dx}});
  const InterpolateBackwardDesc desc{dy, dx, params};
  cached_plan<InterpolateBackward>(stream, "interpolate_backward", desc, options, workspace)
      ->run(stream, dy, dx, workspace);
}

}  // namespace dlprim
