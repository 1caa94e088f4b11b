// Reductions over any axes, the places of extremes, and running sums and products.
#include <algorithm>
#include <cmath>
#include <limits>

#include <dlprim/copy.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/scan.hpp>

#include "core/integer_range.hpp"
#include "net/nodes/families.hpp"
#include "net/nodes/host.hpp"

namespace dlprim::detail {
namespace {

/// What is reduced: the axes of input 1 or of "axes"; without any all, or none if "no_axes" is "none".
std::vector<int> reduced_axes(NodeStep& step) {
  const std::string otherwise = step.text("no_axes", "all");
  require(otherwise == "all" || otherwise == "none", "no_axes", "is '", otherwise, "', must be all or none");
  std::vector<int> axes = normal_axes(step.has(1) ? step.integers(1) : step.integers("axes"), step.rank(0));
  if (axes.empty() && otherwise == "all")
    for (int i = 0; i < step.rank(0); i++) axes.push_back(i);
  return axes;
}

/// x's shape with size 1 where it is reduced: what the library takes.
Shape kept_shape(NodeStep& step) {
  Shape shape = step.shape(0);
  for (int axis : reduced_axes(step)) shape[axis] = 1;
  return shape;
}

Shape without_axes(const Shape& shape, const std::vector<int>& axes) {
  Shape rest;
  for (int i = 0; i < shape.size(); i++)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) rest.push_back(shape[i]);
  return rest;
}

enum class Whole : uint8_t { same, expression, refused };

/// A function: what of the library computes it of floating numbers and of whole ones, and what it is of
/// nothing.
struct ReduceFunction {
  const char* name;
  const char* of_floating;  ///< of docs/reductions.md; null: an expression
  Whole of_whole;
  double of_nothing;       ///< infinities: of whole numbers the lowest or highest one
  bool keeps_one = false;  ///< of one number it is that number
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr ReduceFunction kFunctions[] = {
    {"sum", "sum", Whole::same, 0, true},
    {"prod", "prod", Whole::same, 1, true},
    {"max", "amax", Whole::same, -kInfinity, true},
    {"min", "amin", Whole::same, kInfinity, true},
    {"mean", "mean", Whole::expression, std::numeric_limits<double>::quiet_NaN(), true},
    {"l1", "l1", Whole::expression, 0},
    {"l2", "l2", Whole::expression, 0},
    {"sum_square", nullptr, Whole::expression, 0},
    {"log_sum", nullptr, Whole::refused, -kInfinity},
    {"log_sum_exp", nullptr, Whole::refused, -kInfinity},
};
const ReduceFunction& function_of(const NodeStep& step) {
  const std::string name = step.text("function");
  for (const ReduceFunction& f : kFunctions)
    if (name == f.name) return f;
  throw ValidationError("function", cat("there is no reduction '", name, "'"));
}

/// log of a sum of exponentials with the largest one taken out as it is found, so that nothing overflows.
Reduction log_sum_exp() {
  Reduction r;
  r.accumulators = 2;
  r.init = "a0 = -INFINITY; a1 = 0";
  r.accumulate =
      "const real v_ = x0; const real m_ = v_ > a0 ? v_ : a0; "
      "a1 = a1 * (a0 == m_ ? 1 : exp(a0 - m_)) + (v_ == m_ ? 1 : exp(v_ - m_)); a0 = m_";
  r.combine =
      "const real m_ = b0 > a0 ? b0 : a0; "
      "a1 = a1 * (a0 == m_ ? 1 : exp(a0 - m_)) + b1 * (b0 == m_ ? 1 : exp(b0 - m_)); a0 = m_";
  r.finish = "y0 = a0 + log(a1)";
  return r;
}

Reduction floating_expression(const std::string& name) {
  if (name == "log_sum_exp") return log_sum_exp();
  return name == "log_sum" ? sum_of("x0", "y0 = log(a0)") : sum_of("(real)x0 * x0");
}

/// The largest whole number whose square is not above a0: the estimate is at most a few off.
constexpr const char* kWholeRoot =
    "long r_ = (long)sqrt((float)x0); for (int i_ = 0; i_ < 3 && r_ > 0; i_++) r_ = (r_ + x0 / r_) / 2; "
    "for (int i_ = 0; i_ < 4 && r_ > 0 && r_ > x0 / r_; i_++) r_--; "
    "for (int i_ = 0; i_ < 4 && r_ + 1 <= x0 / (r_ + 1); i_++) r_++; y0 = r_";

/// Sums of whole numbers are exact in 64 bits; a mean and a root lose what is behind their point.
void reduce_whole(const NodeStep& step, const std::string& name, const Tensor& x, const Tensor& y) {
  if (name == "mean") {
    const int64_t n = x.numel() / y.numel();
    return dlprim::reduce(step.stream, {x}, {y}, {n}, sum_of("x0", "y0 = a0 / s0"), step.options);
  }
  if (name == "l1")
    return dlprim::reduce(step.stream, {x}, {y}, {}, sum_of("(x0 < 0 ? 0 - (long)x0 : (long)x0)"),
                          step.options);
  if (name == "sum_square")
    return dlprim::reduce(step.stream, {x}, {y}, {}, sum_of("(long)x0 * x0"), step.options);
  const Tensor sums = step.scratch(y.shape(), x.dtype() == DType::u64 ? DType::u64 : DType::i64);
  dlprim::reduce(step.stream, {x}, {sums}, {}, sum_of("(long)x0 * x0"), step.options);
  dlprim::pointwise(step.stream, {sums}, {y}, {}, kWholeRoot, step.options);
}

/// The number that y is full of where there is nothing to reduce.
Scalar of_nothing(double number, DType dtype) {
  if (is_floating(dtype) || std::isfinite(number)) return number;
  require(!std::isnan(number), "x", "has nothing to take a mean of");
  const IntegerRange range = integer_range(dtype);
  return number < 0 ? Scalar(range.least) : Scalar(range.most);
}

/// Inputs: x, axes (or an attribute; negative ones count from the end). function: sum, prod, max, min, mean,
/// l1, l2, sum_square, log_sum, log_sum_exp. keep_dims: axes stay with size 1. no_axes: what no axes mean,
/// "all" or "none". Whole numbers stay whole and are added up in 64 bits; logarithms of them are refused.
/// dtype: y's, of sums of whole numbers.
void infer_reduce(NodeStep& step) {
  require(function_of(step).of_whole != Whole::refused || is_floating(step.dtype(0)), "x", "is ",
          name_of(step.dtype(0)), ", must be floating for ", function_of(step).name);
  const Shape kept = kept_shape(step);
  const DType own = step.dtype(0), y = step.has("dtype") ? parse_dtype(step.text("dtype")) : own;
  require(y == own || (!is_floating(own) && !is_floating(y) && step.text("function") == "sum"), "dtype",
          dlprim::name_of(y), " of ", step.text("function"), " of ", dlprim::name_of(own));
  step.output(0, y, step.flag("keep_dims") ? kept : without_axes(kept, reduced_axes(step)));
}
void run_reduce(NodeStep& step) {
  const ReduceFunction& f = function_of(step);
  const DType dtype = step.dtype(0);
  if (f.keeps_one && dtype != DType::boolean && step.out(0).dtype == dtype &&
      element_count(step.out(0).shape) == element_count(step.shape(0)))
    return step.set(0, step.reshaped(step.x(0), step.out(0).shape));
  const Tensor y = step.y().reshape(kept_shape(step));
  if (y.numel() == 0) return;
  const Tensor& x = step.x(0);
  if (x.numel() == 0) return fill(step.stream, of_nothing(f.of_nothing, y.dtype()), y, step.options);
  if (dtype == DType::boolean && f.of_whole == Whole::same && f.name[0] == 'm')
    return reduction(step.stream, f.of_nothing < 0 ? "any" : "all", x, {}, {y}, step.options);
  require(dtype != DType::boolean, "x", "is bool, must be of numbers for ", f.name);
  if (!is_floating(dtype) && f.of_whole == Whole::expression) return reduce_whole(step, f.name, x, y);
  if (f.of_floating) return reduction(step.stream, f.of_floating, x, {}, {y}, step.options);
  dlprim::reduce(step.stream, {x}, {y}, {}, floating_expression(f.name), step.options);
}

/// Of sizes: all of a few whole numbers.
bool reduce_on_host(NodeStep& step) {
  const std::string name = step.text("function");
  const DType dtype = step.dtype(0);
  if (is_floating(dtype) || dtype == DType::boolean || dtype == DType::u64) return false;
  if (element_count(step.out(0).shape) != 1) return false;
  const std::vector<int64_t> x = step.integers(0);
  if (x.empty()) return false;
  auto value = static_cast<uint64_t>(x[0]);
  for (size_t i = 1; i < x.size(); i++) {
    const auto next = static_cast<uint64_t>(x[i]);
    if (name == "sum")
      value += next;
    else if (name == "prod")
      value *= next;
    else if (name == "max")
      value = std::max(static_cast<int64_t>(value), x[i]);
    else if (name == "min")
      value = std::min(static_cast<int64_t>(value), x[i]);
    else
      return false;
  }
  if (name != "sum" && name != "prod" && name != "max" && name != "min") return false;
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape,
                               std::vector<int64_t>{static_cast<int64_t>(value)}));
  return true;
}

/// Input: x. function: argmax or argmin. axis; keep_dims; last: of equal ones the last, not the first.
void infer_arg_extreme(NodeStep& step) {
  const std::string name = step.text("function");
  require(name == "argmax" || name == "argmin", "function", "is '", name, "', must be argmax or argmin");
  const int axis = step.axis("axis", 0, step.rank(0));
  Shape shape = step.shape(0);
  shape[axis] = 1;
  step.output(0, DType::i64, step.flag("keep_dims") ? shape : without_axes(shape, {axis}));
}
void run_arg_extreme(NodeStep& step) {
  const int axis = step.axis("axis", 0, step.rank(0));
  Shape kept = step.shape(0);
  kept[axis] = 1;
  const Tensor y = step.y().reshape(kept);
  if (y.numel() == 0) return;
  Tensor x = step.x(0);
  const bool last = step.flag("last") && x.numel() != 0;
  if (last) {
    const Tensor reversed = step.scratch(x.shape(), x.dtype());
    flip(step.stream, x, {axis}, reversed, step.options);
    x = reversed;
  }
  reduction(step.stream, step.text("function"), x, {}, {y}, step.options);
  if (last) dlprim::pointwise(step.stream, {y}, {y}, {step.shape(0)[axis] - 1}, "y0 = s0 - x0", step.options);
}

/// Inputs: x, axis (one number). function: sum or product, of all elements up to each. exclusive: without its
/// own; reverse: from the end on.
void infer_scan(NodeStep& step) {
  const std::string name = step.text("function", "sum");
  require(name == "sum" || name == "product", "function", "is '", name, "', must be sum or product");
  require(element_count(step.shape(1)) == 1, "inputs", "the axis is ", step.shape(1), ", must be one number");
  step.output(0, step.dtype(0), step.shape(0));
}
void run_scan(NodeStep& step) {
  const ScanParams params{normal_axis(step.integers(1)[0], step.rank(0)), step.flag("exclusive"),
                          step.flag("reverse")};
  if (step.text("function", "sum") == "sum")
    cumsum(step.stream, step.x(0), params, step.y(), step.options);
  else
    cumprod(step.stream, step.x(0), params, step.y(), step.options);
}
/// Of sizes.
bool scan_on_host(NodeStep& step) {
  if (is_floating(step.dtype(0)) || step.rank(0) != 1) return false;
  normal_axis(step.integers(1)[0], 1);
  std::vector<int64_t> x = step.integers(0);
  const bool sum = step.text("function", "sum") == "sum", reverse = step.flag("reverse");
  if (reverse) std::reverse(x.begin(), x.end());
  uint64_t folded = sum ? 0 : 1;
  for (int64_t& element : x) {
    const uint64_t before = folded;
    folded = sum ? folded + static_cast<uint64_t>(element) : folded * static_cast<uint64_t>(element);
    element = static_cast<int64_t>(step.flag("exclusive") ? before : folded);
  }
  if (reverse) std::reverse(x.begin(), x.end());
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape, x));
  return true;
}

constexpr NodeKind kKinds[] = {
    {"reduce", 1, 2, infer_reduce, run_reduce, reduce_on_host},
    {"arg_extreme", 1, 1, infer_arg_extreme, run_arg_extreme},
    {"cumulate", 2, 2, infer_scan, run_scan, scan_on_host},
};

}  // namespace

KindList reduction_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
