// Resizing along any axes, by any filter: where the library's interpolation has none, as weighted sums over
// one axis after another. Places and weights are computed on the host.
#include <algorithm>
#include <cmath>

#include <dlprim/index.hpp>
#include <dlprim/interpolate.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/tables.hpp"

namespace dlprim::detail {
namespace {

/// One axis that is resized.
struct ResizeAxis {
  int axis;
  int64_t from, to;
  double scale;               ///< what coordinates are divided by
  double width;               ///< from * scale, which need not be whole
  double start = 0, end = 1;  ///< the part of x that y shows
  bool by_scale = false;      ///< the scale was given, in f32; not the size
};

std::vector<int> resized_axes(const NodeStep& step) {
  std::vector<int> axes;
  for (int64_t axis : step.integers("axes")) axes.push_back(normal_axis(axis, step.rank(0)));
  if (!step.has("axes"))
    for (int i = 0; i < step.rank(0); i++) axes.push_back(i);
  return axes;
}

/// By input 3: sizes. keep_aspect: one scale for all axes, the smallest or the largest.
void take_sizes(NodeStep& step, std::vector<ResizeAxis>& axes) {
  const std::vector<int64_t> sizes = step.integers(3);
  const std::string keep = step.text("keep_aspect", "no");
  require(keep == "no" || keep == "smallest" || keep == "largest", "keep_aspect", "'", keep,
          "' must be no, smallest or largest");
  require(sizes.size() == axes.size(), "inputs", sizes.size(), " sizes of ", axes.size(), " axes");
  double common = keep == "smallest" ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); i++) {
    ResizeAxis& a = axes[i];
    require(sizes[i] >= 0 && (a.from > 0 || sizes[i] == 0), "sizes", sizes[i], " of an axis of ", a.from);
    a.to = sizes[i];
    a.width = static_cast<double>(a.to);
    a.scale = a.from == 0 ? 1 : a.width / static_cast<double>(a.from);
    common = keep == "smallest" ? std::min(common, a.scale) : std::max(common, a.scale);
  }
  if (keep == "no") return;
  for (ResizeAxis& a : axes) {
    a.scale = common;
    a.width = common * static_cast<double>(a.from);
    a.to = static_cast<int64_t>(std::floor(a.width + 0.5));
  }
}

/// By input 2: scales. Sizes are products in f32, as all of ONNX's run times have them; none of them takes a
/// region's extent into the product, as the text of the standard does.
void take_scales(NodeStep& step, std::vector<ResizeAxis>& axes) {
  const std::vector<double> scales = step.numbers(2);
  require(scales.size() == axes.size(), "inputs", scales.size(), " scales of ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); i++) {
    ResizeAxis& a = axes[i];
    require(scales[i] > 0 && std::isfinite(scales[i]), "scales", scales[i], " must be above 0");
    a.scale = scales[i];
    a.by_scale = true;
    const float width = static_cast<float>(a.from) * static_cast<float>(scales[i]);
    require(static_cast<double>(width) < static_cast<double>(kElementLimit), "scales", scales[i], " times ",
            a.from);
    a.width = static_cast<double>(width);
    a.to = static_cast<int64_t>(std::floor(width));
  }
}

/// Inputs: x, region (starts and ends of axes, from 0 to 1), scales, sizes; one of the last two is left out,
/// or empty. Attributes: axes (all), to which these belong; mode: nearest, linear, cubic; coordinates:
/// half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, half_pixel_for_nearest,
/// crop (of the region); nearest: prefer_floor, prefer_ceil, floor, ceil, simple (floor where y is larger,
/// ceil where it is smaller); cubic_a (-0.75); antialias; exclude_outside: the border does not go on;
/// outside: the number beyond x with coordinates "crop"; keep_aspect: no, smallest, largest.
std::vector<ResizeAxis> asked_axes(NodeStep& step) {
  std::vector<ResizeAxis> axes;
  const bool crop = step.text("coordinates", "half_pixel") == "crop";
  const std::vector<int> which = resized_axes(step);
  const std::vector<double> region = crop ? step.numbers(1) : std::vector<double>();
  require(!crop || region.size() == 2 * which.size(), "inputs", region.size(), " numbers of a region of ",
          which.size(), " axes");
  for (size_t i = 0; i < which.size(); i++) {
    ResizeAxis a{which[i], step.shape(0)[which[i]], 0, 1, 0};
    if (crop) a.start = region[i], a.end = region[which.size() + i];
    axes.push_back(a);
  }
  const auto given = [&](int k) { return step.has(k) && element_count(step.shape(k)) != 0; };
  require(which.empty() || given(2) != given(3), "inputs", "either scales or sizes must be given");
  if (given(3))
    take_sizes(step, axes);
  else if (!which.empty())
    take_scales(step, axes);
  return axes;
}
void infer_resize(NodeStep& step) {
  Shape shape = step.shape(0);
  for (const ResizeAxis& a : asked_axes(step)) shape[a.axis] = a.to;
  step.output(0, step.dtype(0), shape);
}

/// Where in x the place i of y lies.
double coordinate(const std::string& how, const ResizeAxis& a, int64_t i) {
  const auto place = static_cast<double>(i), from = static_cast<double>(a.from);
  // With sizes a quotient of whole numbers, rounded once: places that are whole numbers come out as such.
  const bool whole = !a.by_scale && a.width == static_cast<double>(a.to);
  const auto unscaled = [&](double v) { return whole ? v * from / a.width : v / a.scale; };
  if (how == "asymmetric") return unscaled(place);
  if (how == "half_pixel") return unscaled(place + 0.5) - 0.5;
  if (how == "pytorch_half_pixel") return a.to > 1 ? unscaled(place + 0.5) - 0.5 : 0;
  if (how == "half_pixel_for_nearest") return unscaled(place + 0.5);
  if (how == "half_pixel_symmetric")
    return from / 2 * (1 - static_cast<double>(a.to) / a.width) + unscaled(place + 0.5) - 0.5;
  if (how == "align_corners") return a.width == 1 ? 0 : place * (from - 1) / (a.width - 1);
  require(how == "crop", "coordinates", "'", how, "' are not known");
  if (a.to == 1) return (a.start + a.end) / 2 * (from - 1);
  return a.start * (from - 1) + place * (a.end - a.start) * (from - 1) / static_cast<double>(a.to - 1);
}

/// Scales and regions are rounded to f32. What lies as near to a tie, or to an element, as that may move it,
/// is taken to lie there: the place 1 of 9 elements scaled by 1 / 3 is 3, not 2.9999999.
double settled(double x) {
  const double near = std::floor(2 * x + 0.5) / 2;
  return std::fabs(x - near) <= 0x1p-24 * (std::fabs(x) + 1) ? near : x;
}

/// x's elements for each place of y, and their weights, `taps` each.
struct Taps {
  int64_t taps = 1;
  std::vector<int64_t> indices;
  std::vector<double> weights;  ///< none: one tap of weight 1
  std::vector<bool> outside;    ///< places that lie outside of x: with "crop"
};

Taps nearest_taps(const NodeStep& step, const ResizeAxis& a) {
  const std::string how = step.text("coordinates", "half_pixel");
  std::string mode = step.text("nearest", "prefer_floor");
  if (mode == "simple") mode = a.scale < 1 ? "ceil" : "floor";
  require(mode == "prefer_floor" || mode == "prefer_ceil" || mode == "floor" || mode == "ceil", "nearest",
          "'", mode, "' must be prefer_floor, prefer_ceil, floor, ceil or simple");
  Taps taps;
  for (int64_t i = 0; i < a.to; i++) {
    double x = coordinate(how, a, i);
    if (a.by_scale || how == "crop") x = settled(x);
    const double at = mode == "floor"         ? std::floor(x)
                      : mode == "ceil"        ? std::ceil(x)
                      : mode == "prefer_ceil" ? std::floor(x + 0.5)
                                              : std::ceil(x - 0.5);
    taps.indices.push_back(static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(a.from - 1))));
    taps.outside.push_back(how == "crop" && (x < 0 || x > static_cast<double>(a.from - 1)));
  }
  return taps;
}

/// Keys, 1981.
double cubic_weight(double distance, double a) {
  const double d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/// Linear and cubic. Antialiased filters are stretched where y is smaller, and have the sum 1.
Taps filter_taps(const NodeStep& step, const ResizeAxis& a, bool cubic) {
  const std::string how = step.text("coordinates", "half_pixel");
  const bool antialias = step.flag("antialias"), exclude = step.flag("exclude_outside");
  const double stretch = antialias ? std::min(a.scale, 1.0) : 1.0, cubic_a = step.number("cubic_a", -0.75);
  const double reach = (cubic ? 2 : 1) / stretch;
  const auto before = static_cast<int64_t>(std::ceil(reach));
  Taps taps;
  taps.taps = 2 * before;
  for (int64_t i = 0; i < a.to; i++) {
    const double x = coordinate(how, a, i);
    const auto first = static_cast<int64_t>(std::floor(x)) - before + 1;
    double sum = 0;
    for (int64_t k = first; k < first + taps.taps; k++) {
      const double distance = (static_cast<double>(k) - x) * stretch;
      double weight = cubic ? cubic_weight(distance, cubic_a) : std::max(0.0, 1 - std::fabs(distance));
      if (exclude && (k < 0 || k >= a.from)) weight = 0;
      sum += weight;
      taps.weights.push_back(weight);
      taps.indices.push_back(std::clamp<int64_t>(k, 0, a.from - 1));
    }
    if ((antialias || exclude) && sum != 0)
      for (auto w = taps.weights.end() - taps.taps; w != taps.weights.end(); ++w) *w /= sum;
    taps.outside.push_back(how == "crop" && (x < 0 || x > static_cast<double>(a.from - 1)));
  }
  return taps;
}

Tensor real_table(const NodeStep& step, const Shape& shape, const std::vector<double>& numbers, DType dtype) {
  if (dtype == DType::f64) return table(step, shape, numbers);
  return table(step, shape, std::vector<float>(numbers.begin(), numbers.end()));
}

/// x along one axis, as [outer, axis, inner].
Tensor resized(const NodeStep& step, const Tensor& x, const ResizeAxis& a, const Taps& taps) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < a.axis; i++) outer *= x.shape()[i];
  for (int i = a.axis + 1; i < x.rank(); i++) inner *= x.shape()[i];
  Shape shape = x.shape();
  shape[a.axis] = a.to;
  const Tensor rows = step.dense(x).reshape({outer, a.from, inner});
  const Tensor near = step.scratch({outer, a.to, taps.taps, inner}, x.dtype());
  index(step.stream, rows, {{}, table(step, {a.to, taps.taps}, taps.indices)}, near, step.options);
  Tensor y = near.reshape({outer, a.to, taps.taps * inner});
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (!taps.weights.empty()) {
    const Tensor sums = step.scratch({outer, a.to, 1, inner}, wide);
    const Tensor weights = real_table(step, {1, a.to, taps.taps, 1}, taps.weights, wide);
    reduce(step.stream, {near, weights}, {sums}, {}, sum_of("x0 * x1"), step.options);
    y = sums.reshape({outer, a.to, inner});
  }
  if (std::find(taps.outside.begin(), taps.outside.end(), true) != taps.outside.end()) {
    const std::vector<uint8_t> outside(taps.outside.begin(), taps.outside.end());
    const Tensor mask = table(step, {1, a.to, 1}, outside), filled = step.scratch(y.shape(), y.dtype());
    pointwise(step.stream, {y, mask}, {filled}, {step.number("outside", 0)}, "y0 = x1 ? s0 : x0",
              step.options);
    y = filled;
  }
  return y.reshape(shape);
}

bool changes(const ResizeAxis& a) {
  return a.from != a.to || a.scale != 1 || a.start != 0 || a.end != 1;
}

/// The library's interpolation, if it has this one.
bool interpolated(NodeStep& step, const std::vector<ResizeAxis>& axes) {
  const std::string mode = step.text("mode", "nearest"), how = step.text("coordinates", "half_pixel");
  const int rank = step.rank(0);
  const bool linear = mode == "linear" && rank >= 3 && rank <= 5;
  const bool cubic = mode == "cubic" && rank == 4 && step.number("cubic_a", -0.75) == -0.75;
  if (!(linear || cubic) || step.flag("antialias") || step.flag("exclude_outside")) return false;
  if (how != "half_pixel" && how != "pytorch_half_pixel" && how != "align_corners") return false;
  InterpolateParams params;
  params.mode = linear ? InterpolateMode::linear : InterpolateMode::cubic;
  params.align_corners = how == "align_corners";
  for (const ResizeAxis& a : axes) {
    if (a.axis < 2 && changes(a)) return false;
    if (a.axis < 2) continue;
    if (how == "align_corners" && a.width != static_cast<double>(a.to)) return false;
    if (how == "pytorch_half_pixel" && a.to == 1) return false;
    if (a.by_scale && !params.align_corners) params.scale[static_cast<size_t>(a.axis - 2)] = a.scale;
    if (!a.by_scale && a.width != static_cast<double>(a.to)) return false;
  }
  interpolate(step.stream, step.x(0), params, step.y(), step.options);
  return true;
}

void run_resize(NodeStep& step) {
  const std::string mode = step.text("mode", "nearest");
  require(mode == "nearest" || mode == "linear" || mode == "cubic", "mode", "'", mode,
          "' must be nearest, linear or cubic");
  require(mode == "nearest" || is_floating(step.dtype(0)), "x", "is ", dlprim::name_of(step.dtype(0)),
          ": integers are resized to the nearest alone");
  require(mode != "nearest" || (!step.flag("antialias") && !step.flag("exclude_outside")), "mode",
          "nearest goes without antialias and exclude_outside");
  if (step.y().numel() == 0) return;
  const std::vector<ResizeAxis> axes = asked_axes(step);
  if (is_floating(step.dtype(0)) && interpolated(step, axes)) return;
  Tensor x = step.x(0);
  for (const ResizeAxis& a : axes) {
    if (!changes(a)) continue;
    x = resized(step, x, a,
                mode == "nearest" ? nearest_taps(step, a) : filter_taps(step, a, mode == "cubic"));
  }
  if (x.dtype() == step.dtype(0)) return step.set(0, x);
  copy(step.stream, x, step.y(), step.options);
}

constexpr NodeKind kKinds[] = {
    {"resize", 1, 4, infer_resize, run_resize},
};

}  // namespace

KindList resize_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
