// Movement by views, copies and generated kernels; flip is a gather without indices, whose strides go
// backwards, and numbers of places come from ramp.cl.
#include <dlprim/copy.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/pointwise.hpp>

#include <algorithm>
#include <climits>
#include <cmath>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/index/indexing.hpp"
#include "ops/movement/concat.hpp"
#include "ops/movement/slice_backward.hpp"

namespace dlprim {

using namespace detail;

namespace {

void require_output(const Stream& stream, const Tensor& y) {
  require_context("y", y, stream.context());
  require_writable("y", y);
}

/// The loops of a flip, whose nest has no index: x's strides are negative along the axes.
IndexNest flip_nest(const TensorDesc& x, const std::vector<bool>& flipped, const TensorDesc& y) {
  IndexNest nest;
  for (int i = 0; i < y.shape.size(); i++) {
    const int64_t stride = flipped[static_cast<size_t>(i)] ? -x.strides[i] : x.strides[i];
    if (y.shape[i] != 1) nest.dims.push_back({y.shape[i], {stride, y.strides[i]}});
    nest.count *= y.shape[i];
  }
  std::stable_sort(nest.dims.begin(), nest.dims.end(),
                   [](const LoopDim& a, const LoopDim& b) { return a.strides[1] > b.strides[1]; });
  for (size_t i = nest.dims.size(); i-- > 1;) {
    LoopDim &outer = nest.dims[i - 1], &inner = nest.dims[i];
    if (outer.strides[0] != inner.strides[0] * inner.size ||
        outer.strides[1] != inner.strides[1] * inner.size)
      continue;
    inner.size *= outer.size;
    nest.dims.erase(nest.dims.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
  if (nest.dims.empty()) nest.dims.push_back({1, {0, 0}});
  nest.wide = nest.count > INT_MAX / 2 || extent_of(x) > INT_MAX / 2 || extent_of(y) > INT_MAX / 2;
  return nest;
}

/// Numbers 0 to `count` - 1 as i32.
Tensor numbers(const Stream& stream, int64_t count) {
  const Tensor ramp(stream, {std::max<int64_t>(count, 1)}, DType::i32);
  arange(stream, 0, 1, ramp);
  return ramp;
}

/// Numbers of rows and of columns, as they broadcast against [..., R, C].
std::pair<Tensor, Tensor> rows_and_columns(const Stream& stream, const Tensor& y) {
  const int64_t rows = y.shape()[y.rank() - 2], columns = y.shape()[y.rank() - 1];
  to_int("y", std::max(rows, columns));
  const Tensor ramp = numbers(stream, std::max(rows, columns));
  return {ramp.as_strided({rows, 1}, {1, 1}), ramp.as_strided({1, columns}, {1, 1})};
}

/// A diagonal's number within [-R, C]: beyond it all are alike.
double diagonal(int64_t k, const Tensor& y) {
  return static_cast<double>(std::clamp(k, -y.shape()[y.rank() - 2], y.shape()[y.rank() - 1]));
}

void triangle(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y, const char* body) {
  require_context("x", x, stream.context());
  require_output(stream, y);
  require(x.rank() >= 2, "x", "rank ", x.rank(), " must be 2 or more");
  require_shape("y", y, x.shape());
  require_dtype("y", y, x.dtype());
  require_same_or_apart({"y", y}, {"x", x});
  if (y.numel() == 0) return;
  const auto [row, column] = rows_and_columns(stream, y);
  pointwise(stream, {x, row, column}, {y}, {diagonal(k, y)}, body);
}

/// y as x's dimensions with, in front of each that is repeated, one that counts the repetitions; and x like
/// that.
struct Tiled {
  Shape y_shape, x_shape;
  Strides y_strides, x_strides;
};
Tiled tiled(const char* x_name, const Tensor& x, const char* y_name, const Tensor& y) {
  const int missing = y.rank() - x.rank();
  require(missing >= 0, y_name, "rank ", y.rank(), " must be ", x.rank(), " or more");
  int repeated = 0;
  for (int i = 0; i < y.rank(); i++) {
    const int64_t own = i < missing ? 1 : x.shape()[i - missing], size = y.shape()[i];
    require(own ? size % own == 0 : size == 0, y_name, "shape ", y.shape(), " is no multiple of ", x_name,
            "'s ", x.shape());
    repeated += own != size && own > 1;
  }
  require(y.rank() + repeated <= kMaxRank, y_name, "rank ", y.rank(), " with ", repeated,
          " repeated dimensions is more than 8");
  Tiled t;
  for (int i = 0; i < y.rank(); i++) {
    const int64_t own = i < missing ? 1 : x.shape()[i - missing], size = y.shape()[i];
    const int64_t x_stride = own == 1 ? 0 : x.strides()[i - missing], y_stride = y.strides()[i];
    const auto add = [&](int64_t y_size, int64_t x_size, int64_t y_step, int64_t x_step) {
      t.y_shape.push_back(y_size);
      t.x_shape.push_back(x_size);
      t.y_strides.push_back(y_step);
      t.x_strides.push_back(x_step);
    };
    if (own != size && own != 1) add(size / own, 1, y_stride * own, 0);
    add(own == 1 ? size : own, own, y_stride, x_stride);
  }
  return t;
}

void ramp(const Stream& stream, double start, double step, double end, int64_t half, const Tensor& y) {
  const bool integers = !is_floating(y.dtype());
  const bool f64 = stream.context().device().probes().fp64;
  const char* real = integers ? "long" : f64 ? "double" : "float";
  Defines defines;
  defines.set("DTYPE", name_of(y.dtype())).set("T", storage_type(y.dtype())).set("REAL", real);
  const Kernel kernel = stream.context().state().programs.kernel("ramp", "ramp", defines);
  const OperatorScope scope(stream, "op=ramp engine=direct", 0, static_cast<double>(y.bytes()));
  Launch launch(stream, kernel);
  launch.arg(y).arg(y.strides()[0]).arg(y.numel()).arg(half);
  for (double value : {start, step, end}) {
    if (integers)
      launch.arg(static_cast<int64_t>(value));
    else if (f64)
      launch.arg(value);
    else
      launch.arg(static_cast<float>(value));
  }
  launch.run({items_in_groups(y.numel(), 64)}, {64});
}

/// linspace of whole numbers, which are below 2^63; so is the distance.
void whole_ramp(const Stream& stream, double start, double end, const Tensor& y) {
  require(std::abs(start) < 0x1p62 && std::abs(end) < 0x1p62, "end", end, " is too far from ", start);
  require(y.numel() < INT32_MAX, "y", y.numel(), " elements must be less than 2^31");
  const auto first = static_cast<int64_t>(start), distance = static_cast<int64_t>(end) - first;
  const int64_t intervals = std::max<int64_t>(y.numel() - 1, 1);
  const int64_t rest = (distance % intervals + intervals) % intervals;
  const Kernel kernel = stream.context().state().programs.kernel(
      "ramp", "whole_ramp",
      Defines().set("DTYPE", name_of(y.dtype())).set("T", storage_type(y.dtype())).set("REAL", "long"));
  const OperatorScope scope(stream, "op=ramp engine=direct", 0, static_cast<double>(y.bytes()));
  Launch launch(stream, kernel);
  launch.arg(y).arg(y.strides()[0]).arg(y.numel()).arg(first).arg((distance - rest) / intervals);
  launch.arg(rest).arg(intervals).run({items_in_groups(y.numel(), 64)}, {64});
}

void require_vector(const Stream& stream, const Tensor& y, double a, double b, const char* b_name) {
  require_output(stream, y);
  require_rank("y", y, 1);
  require_real(stream.context(), y.dtype());
  const auto fits = [&](double v) {
    return is_floating(y.dtype()) || (v == std::floor(v) && std::abs(v) < 0x1p63);
  };
  require(fits(a), "start", a, " for ", y);
  require(fits(b), b_name, b, " for ", y);
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  require(x.defined(), "x", "is not defined");
  const int along = normalize_axis("axis", axis, x.rank());
  int64_t sum = 0;
  for (int64_t size : sizes) {
    require(size >= 0, "sizes", size, " must not be negative");
    sum += size;
  }
  require(sum == x.shape()[along], "sizes", "they add up to ", sum, ", the axis has ", x.shape()[along]);
  std::vector<Tensor> result;
  int64_t at = 0;
  for (int64_t size : sizes) {
    result.push_back(x.slice(along, at, at + size));
    at += size;
  }
  return result;
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int axis) {
  require(x.defined(), "x", "is not defined");
  require(size >= 1, "size", size, " must be 1 or more");
  const int64_t whole = x.size(axis);
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < whole; at += size) sizes.push_back(std::min(size, whole - at));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

void concat(const Stream& stream, const std::vector<Tensor>& inputs, int axis, const Tensor& y) {
  require_output(stream, y);
  const int along = normalize_axis("axis", axis, y.rank());
  std::vector<int64_t> sizes;
  int64_t sum = 0;
  for (size_t i = 0; i < inputs.size(); i++) {
    const ArgName name("inputs", i);
    require_context(name, inputs[i], stream.context());
    require_rank(name, inputs[i], y.rank());
    Shape shape = y.shape();
    shape[along] = inputs[i].shape()[along];
    require_shape(name, inputs[i], shape);
    require_no_overlap("y", y, name, inputs[i]);
    sizes.push_back(shape[along]);
    sum += shape[along];
  }
  require(sum == y.shape()[along], "y", "size ", y.shape()[along], " along the axis must be ", sum);
  if (stream.context().device().kind() != DeviceKind::cpu && concat_words(stream, inputs, along, y)) return;
  const std::vector<Tensor> parts = split(y, sizes, along);
  const OperatorScope scope(stream, "op=concat engine=copies", 0, static_cast<double>(2 * y.bytes()));
  for (size_t i = 0; i < inputs.size(); i++)
    if (parts[i].numel()) copy(stream, inputs[i], parts[i]);
}

void slice_backward(const Stream& stream, const Tensor& dy, int axis, int64_t start, int64_t end,
                    int64_t step, const Tensor& dx) {
  require_context("dy", dy, stream.context());
  require_context("dx", dx, stream.context());
  require_writable("dx", dx);
  const Tensor part = dx.slice(axis, start, end, step);
  require_shape("dy", dy, part.shape());
  require_no_overlap("dx", dx, "dy", dy);
  const Context& context = stream.context();
  const TensorDesc from(dy), to(dx);
  const bool covered = dy.numel() == dx.numel();
  if (dy.numel() == 0 || covered || context.device().kind() == DeviceKind::cpu || !SliceBackward::suits(to)) {
    if (!covered) fill(stream, dx, 0);
    return copy(stream, dy, part);
  }
  const Slicing slicing{normalize_axis("axis", axis, dx.rank()), start, step};
  PlanKey key("slice_backward");
  key.add(from).add(to).add(slicing.axis).add(slicing.start).add(slicing.step);
  const auto plan = context.state().plans.get<SliceBackward>(
      key, [&] { return SliceBackward(context, from, slicing, to); });
  const OperatorScope scope(stream, plan->text(), 0, traffic({from, to}));
  plan->run(stream, dy, dx);
}

void tile(const Stream& stream, const Tensor& x, const Tensor& y) {
  require_context("x", x, stream.context());
  require_output(stream, y);
  const Tiled t = tiled("x", x, "y", y);
  require_no_overlap("y", y, "x", x);
  copy(stream, x.as_strided(t.x_shape, t.x_strides), y.as_strided(t.y_shape, t.y_strides));
}

void tile_backward(const Stream& stream, const Tensor& dy, const Tensor& dx) {
  require_context("dy", dy, stream.context());
  require_context("dx", dx, stream.context());
  require_writable("dx", dx);
  require_floating("dx", dx, true);
  require_floating("dy", dy, true);
  const Tiled t = tiled("dx", dx, "dy", dy);
  reduce(stream, {dy.as_strided(t.y_shape, t.y_strides)}, {dx.as_strided(t.x_shape, t.x_strides)}, {},
         sum_of("x0"));
}

void flip(const Stream& stream, const Tensor& x, const std::vector<int>& axes, const Tensor& y) {
  require_context("x", x, stream.context());
  require_output(stream, y);
  require_shape("y", y, x.shape());
  require_dtype("y", y, x.dtype());
  require_no_overlap("y", y, "x", x);
  std::vector<bool> flipped(static_cast<size_t>(x.rank()));
  PlanKey key("flip");
  for (int axis : axes) {
    const auto along = static_cast<size_t>(normalize_axis("axes", axis, x.rank()));
    require(!flipped[along], "axes", "axis ", along, " is there twice");
    flipped[along] = true;
  }
  if (y.numel() == 0) return;
  int64_t last = 0;  // where in x the first element of y is
  for (int i = 0; i < x.rank(); i++) {
    key.add(bool{flipped[static_cast<size_t>(i)]});
    if (flipped[static_cast<size_t>(i)]) last += (x.shape()[i] - 1) * x.strides()[i];
  }
  const Tensor from = x.as_strided({1}, {1}, last);
  TensorDesc desc(x);
  desc.aligned = TensorDesc(from).aligned;
  key.add(desc).add(y);
  const auto read = stream.context().state().plans.get<IndexRead>(
      key, [&] { return IndexRead(stream.context(), flip_nest(desc, flipped, y), desc, y, {}); });
  const OperatorScope scope(stream, "op=flip engine=direct", 0, static_cast<double>(2 * y.bytes()));
  read->run(stream, from, {}, y);
}

void roll(const Stream& stream, const Tensor& x, const std::vector<int64_t>& shifts,
          const std::vector<int>& axes, const Tensor& y) {
  require_context("x", x, stream.context());
  require_output(stream, y);
  require_shape("y", y, x.shape());
  require_no_overlap("y", y, "x", x);
  require(shifts.size() == axes.size(), "shifts", shifts.size(), " for ", axes.size(), " axes");
  // Each axis cuts every part in two, which change places.
  std::vector<std::pair<Tensor, Tensor>> parts = {{x, y}};
  for (size_t i = 0; i < axes.size(); i++) {
    const int along = normalize_axis("axes", axes[i], x.rank());
    for (size_t j = 0; j < i; j++)
      require(along != normalize_axis("axes", axes[j], x.rank()), "axes", "axis ", along, " is there twice");
    const int64_t size = x.shape()[along];
    if (size == 0) return;
    const int64_t shift = (shifts[i] % size + size) % size;
    if (shift == 0) continue;
    std::vector<std::pair<Tensor, Tensor>> cut;
    for (const auto& [from, to] : parts) {
      cut.emplace_back(from.slice(along, 0, size - shift), to.slice(along, shift, size));
      cut.emplace_back(from.slice(along, size - shift, size), to.slice(along, 0, shift));
    }
    parts = std::move(cut);
  }
  const OperatorScope scope(stream, "op=roll engine=copies", 0, static_cast<double>(2 * y.bytes()));
  for (const auto& [from, to] : parts) copy(stream, from, to);
}

void tril(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y) {
  triangle(stream, x, k, y, "y0 = x2 - x1 <= (int)s0 ? x0 : 0");
}

void triu(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y) {
  triangle(stream, x, k, y, "y0 = x2 - x1 >= (int)s0 ? x0 : 0");
}

void eye(const Stream& stream, int64_t k, const Tensor& y) {
  require_output(stream, y);
  require(y.rank() >= 2, "y", "rank ", y.rank(), " must be 2 or more");
  if (y.numel() == 0) return;
  fill(stream, y, 0);
  const int last = y.rank() - 1;
  const int64_t rows = y.shape()[last - 1], columns = y.shape()[last];
  if (k <= -rows || k >= columns) return;
  Shape shape = y.shape();
  Strides strides = y.strides();
  const int64_t first = k < 0 ? -k * strides[last - 1] : k * strides[last];
  shape[last - 1] = std::min(rows + std::min<int64_t>(k, 0), columns - std::max<int64_t>(k, 0));
  strides[last - 1] += strides[last];
  shape[last] = 1;
  fill(stream, y.as_strided(shape, strides, first), 1);
}

void arange(const Stream& stream, double start, double step, const Tensor& y) {
  require_vector(stream, y, start, step, "step");
  if (y.numel()) ramp(stream, start, step, start, y.numel(), y);
}

void linspace(const Stream& stream, double start, double end, const Tensor& y) {
  require_output(stream, y);
  require_vector(stream, y, start, end, "end");
  const int64_t count = y.numel();
  if (!is_floating(y.dtype())) {
    require(y.dtype() != DType::boolean, "y", "dtype bool has no numbers between two");
    if (count) whole_ramp(stream, start, end, y);
    return;
  }
  const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
  if (count) ramp(stream, start, step, end, std::max<int64_t>(1, count / 2), y);
}

void one_hot(const Stream& stream, const Tensor& index, const Tensor& y) {
  require_context("index", index, stream.context());
  require_output(stream, y);
  require_indices({index}, "index");
  require_rank("y", y, index.rank() + 1);
  Shape shape = index.shape();
  Strides strides = index.strides();
  const int64_t classes = y.shape().back();
  shape.push_back(classes);
  require_shape("y", y, shape);
  require_no_overlap("y", y, "index", index);
  to_int("y", classes);
  if (y.numel() == 0) return;
  shape[shape.size() - 1] = 1;
  strides.push_back(1);
  pointwise(stream, {index.as_strided(shape, strides), numbers(stream, classes)}, {y},
            {static_cast<double>(classes)}, "y0 = (x0 < 0 ? x0 + (int)s0 : x0) == x1");
}

void masked_fill(const Stream& stream, const Tensor& x, const Tensor& mask, Scalar value, const Tensor& y) {
  require_context("x", x, stream.context());
  require_context("mask", mask, stream.context());
  require_output(stream, y);
  require_shape("y", y, x.shape());
  require_dtype("y", y, x.dtype());
  require_same_or_apart({"y", y}, {"x", x});
  require_no_overlap("y", y, "mask", mask);
  const bool boolean = y.dtype() == DType::boolean;
  require(boolean || is_floating(y.dtype()) || value.fits_i64(), "value", value.real(), " for ", y);
  pointwise(stream, {x, mask}, {y}, {boolean ? Scalar(value.real() != 0) : value}, "y0 = x1 != 0 ? s0 : x0");
}

}  // namespace dlprim
