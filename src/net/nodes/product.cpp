// Matrix products, convolutions, pooling.
#include <algorithm>
#include <cmath>
#include <limits>

#include <dlprim/conv.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>

#include "core/text.hpp"
#include "net/nodes/families.hpp"
#include "net/nodes/params.hpp"

namespace dlprim::detail {
namespace {

/// A view that gemm() takes: it wants a dimension of stride 1 in each matrix.
Tensor operand(const NodeStep& step, const Tensor& x) {
  const int rank = x.rank();
  const auto lies_well = [&](int axis) { return x.strides()[axis] == 1 || x.shape()[axis] == 1; };
  return lies_well(rank - 1) || lies_well(rank - 2) ? x : step.dense(x);
}

/// What one operand of a product is in all: a vector gets a second axis, which the result loses again.
struct ProductShapes {
  Shape a, b, batch, y;
};
ProductShapes product_shapes(const NodeStep& step) {
  Shape a = step.shape(0), b = step.shape(1);
  require(a.size() > 0 && b.size() > 0, "inputs", "a number has no matrix product");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a = {1, a[0]};
  if (column) b = {b[0], 1};
  const auto front = [](const Shape& s) {
    Shape f;
    for (int i = 0; i + 2 < s.size(); i++) f.push_back(s[i]);
    return f;
  };
  require(a.back() == b[b.size() - 2], "inputs", "a, ", step.shape(0), ", and b, ", step.shape(1),
          ", have no product");
  ProductShapes shapes{a, b, broadcast_shapes(front(a), front(b)), {}};
  shapes.y = shapes.batch;
  if (!row) shapes.y.push_back(a[a.size() - 2]);
  if (!column) shapes.y.push_back(b.back());
  return shapes;
}

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

/// It makes whole numbers of whole numbers.
bool keeps_whole(Activation f) {
  return f == Activation::identity || f == Activation::relu || f == Activation::relu6;
}

/// The dtype that a product is computed in, where its operands' is none for it: f64. Of i8 with results of
/// i32 it is the operands', as long as no sum passes what i32 holds.
DType computed_in(NodeStep& step, int64_t depth) {
  if (is_floating(step.dtype(0))) return step.dtype(0);
  constexpr int64_t kLargest = 128 * 128, kDeepest = std::numeric_limits<int32_t>::max() / kLargest;
  const bool narrow = step.dtype(0) == DType::i8 && step.dtype(1) == DType::i8 &&
                      step.out(0).dtype == DType::i32 && depth <= kDeepest;
  const bool whole = step.number("alpha", 1) == 1 && keeps_whole(activation_of(step));
  return narrow && whole ? DType::i8 : DType::f64;
}

/// Inputs: a, b, as NumPy's matmul has them, a bias for each column, a residual of y's shape. alpha: a
/// factor; activation; dtype: y's, of whole numbers.
void infer_matmul(NodeStep& step) {
  const DType own = step.dtype(0), y = step.has("dtype") ? parse_dtype(step.text("dtype")) : own;
  require(y == own || (!is_floating(own) && !is_floating(y)), "dtype", dlprim::name_of(y),
          " of a product of ", dlprim::name_of(own));
  step.output(0, y, product_shapes(step).y);
}

/// Whole numbers on a device without double arithmetic: sums wrap around at 2^64. Slow, and the same result.
void sum_products(NodeStep& step, const ProductShapes& shapes) {
  const auto with_axis = [](const Shape& shape, int from_end) {
    Shape result;
    for (int axis = 0; axis <= shape.size(); axis++) {
      if (axis == shape.size() - from_end) result.push_back(1);
      if (axis < shape.size()) result.push_back(shape[axis]);
    }
    return result;
  };
  const Shape columns = with_matrix(shapes.batch, shapes.a[shapes.a.size() - 2], shapes.b.back());
  std::vector<Tensor> inputs = {step.dense(0).reshape(with_axis(shapes.a, 0)),
                                step.dense(1).reshape(with_axis(shapes.b, 2))};
  const double alpha = step.number("alpha", 1);
  std::string sum = alpha == 1 ? "a0" : cat(static_cast<int64_t>(alpha), " * a0");
  for (const int k : {2, 3}) {
    if (!step.has(k)) continue;
    sum += cat(" + x", inputs.size());
    inputs.push_back(k == 2 ? step.dense(2) : step.dense(3).reshape(with_axis(columns, 1)));
  }
  const Activation f = activation_of(step);
  const std::string positive = cat("(", sum, " < 0 ? 0 : ", sum, ")");
  Reduction sums =
      sum_of("x0 * x1", cat("y0 = ", f == Activation::identity ? sum
                                     : f == Activation::relu   ? positive
                                                               : cat(positive, " > 6 ? 6 : ", positive)));
  sums.finishing = static_cast<int>(inputs.size()) - 2;
  reduce(step.stream, inputs, {step.y().reshape(with_axis(columns, 1))}, {}, sums, step.options);
}

void run_matmul(NodeStep& step) {
  const ProductShapes shapes = product_shapes(step);
  Tensor a = step.x(0), b = step.x(1);
  if (a.rank() == 1) a = step.dense(0).reshape(shapes.a);
  if (b.rank() == 1) b = step.dense(1).reshape(shapes.b);
  const int64_t rows = shapes.a[shapes.a.size() - 2], columns = shapes.b.back(), depth = shapes.a.back();
  // Integers that gemm() does not take go through f64, exact to 2^53.
  const bool through_f64 = computed_in(step, depth) != a.dtype();
  const double alpha = step.number("alpha", 1);
  const bool whole = std::trunc(alpha) == alpha && keeps_whole(activation_of(step));
  if (through_f64 && whole && !step.stream.context().device().probes().fp64)
    return sum_products(step, shapes);
  const auto as_computed = [&](const Tensor& x) {
    return through_f64 ? cast(step.stream, x, DType::f64, step.options) : x;
  };
  a = as_computed(a), b = as_computed(b);
  a = operand(step, a).expand(with_matrix(shapes.batch, rows, depth));
  b = operand(step, b).expand(with_matrix(shapes.batch, depth, columns));
  const Tensor y = through_f64 ? step.scratch(shapes.y, DType::f64) : step.y();
  const Tensor c = y.reshape(with_matrix(shapes.batch, rows, columns));
  if (c.numel() != 0) {
    EpilogueTensors with(step.has(2) ? as_computed(step.dense(2)) : Tensor());
    if (step.has(3)) with.residual = as_computed(step.dense(3)).reshape(c.shape());
    const Gemm plan = step.kept_plan<Gemm>({a, b, c}, [&] {
      GemmDesc desc{a, b, c};
      desc.alpha = alpha;
      desc.bias = step.has(2) ? GemmDesc::Vector::row : GemmDesc::Vector::none;
      desc.residual = step.has(3);
      desc.activation = activation_of(step);
      // Only an operand that lies in its own memory is the same in each run.
      desc.constant_a = step.constant(0) && a.storage() == step.x(0).storage();
      desc.constant_b = step.constant(1) && b.storage() == step.x(1).storage();
      return Gemm(step.stream.context(), desc, step.options);
    });
    plan.run(step.stream, a, b, with, c);
  }
  if (through_f64) copy(step.stream, y, step.y(), step.options);
}

/// One number for each of `axes` axes, from a list that may be empty.
Dims for_each_axis(const Dims& list, int axes, int64_t standard) {
  if (list.empty()) return Dims::filled(axes, standard);
  require(list.size() == axes, "attributes", "a list of ", list.size(), " numbers for ", axes, " axes");
  return list;
}

/// Puts half of each sum in front and half behind; what is over behind if `upper`.
void share_pads(const Dims& sums, bool upper, Dims& begin, Dims& end) {
  begin = end = {};
  for (int64_t sum : sums) {
    begin.push_back(upper ? sum / 2 : sum - sum / 2);
    end.push_back(sum - begin.back());
  }
}

/// same: "upper" or "lower": as much padding as makes ceil(size / stride) windows.
void pad_to_same(const NodeStep& step, const Shape& x, const Dims& kernel, const Dims& stride,
                 const Dims& dilation, Dims& begin, Dims& end) {
  const int axes = kernel.size();
  const Dims strides = for_each_axis(stride, axes, 1), steps = for_each_axis(dilation, axes, 1);
  Dims sums;
  for (int i = 0; i < axes; i++) {
    const int64_t size = x[x.size() - axes + i];
    const int64_t windows = (size + strides[i] - 1) / strides[i];
    sums.push_back(std::max<int64_t>(0, (windows - 1) * strides[i] + (kernel[i] - 1) * steps[i] + 1 - size));
  }
  share_pads(sums, step.text("same") == "upper", begin, end);
}

/// Of a transposed convolution: padding that leaves output_shape, or with `same` stride times x's size.
void pad_to_output(const NodeStep& step, const Shape& x, const Dims& kernel, ConvParams& params) {
  const int axes = kernel.size();
  const Dims strides = for_each_axis(params.stride, axes, 1), steps = for_each_axis(params.dilation, axes, 1);
  Dims asked = step.dims("output_shape"), more = for_each_axis(params.output_pad, axes, 0), sums;
  require(asked.empty() || asked.size() >= axes, "output_shape", asked, " must have ", axes, " sizes");
  for (int i = 0; i < axes; i++) {
    const int64_t size = x[i + 2];
    const int64_t y = asked.empty() ? size * strides[i] : asked[asked.size() - axes + i];
    const int64_t sum = strides[i] * (size - 1) + more[i] + (kernel[i] - 1) * steps[i] + 1 - y;
    sums.push_back(std::max<int64_t>(0, sum));
    more[i] += sums[i] - sum;
  }
  params.output_pad = more;
  share_pads(sums, step.text("same", "lower") == "upper", params.pad_begin, params.pad_end);
}

}  // namespace

Activation activation_of(const NodeStep& step) {
  const std::string name = step.text("activation", "identity");
  const std::optional<Activation> f = activation_named(name);
  require(f.has_value(), "activation", "there is no '", name, "'");
  return *f;
}

Tensor lying_as(const NodeStep& step, const Tensor& x, const Tensor& y) {
  if (x.strides() == y.strides()) return x;
  if (y.is_contiguous()) return step.dense(x);
  const Tensor own = channels_last(step.stream, y.shape(), x.dtype());
  copy(step.stream, x, own, step.options);
  return own;
}

ConvParams conv_params(const NodeStep& step, const Shape& x, const Shape& w) {
  ConvParams params;
  params.stride = step.dims("stride");
  params.pad_begin = step.dims("pad_begin");
  params.pad_end = step.dims("pad_end");
  params.dilation = step.dims("dilation");
  params.groups = step.integer("groups", 1);
  if (params.groups == 0) params.groups = x[1] / std::max<int64_t>(1, w[1]);
  params.transposed = step.flag("transposed");
  params.output_pad = step.dims("output_pad");
  params.activation = activation_of(step);
  Dims kernel;
  for (int i = 2; i < w.size(); i++) kernel.push_back(w[i]);
  require(x.size() == w.size() && x.size() > 2, "inputs", "x, ", x, ", and w, ", w,
          ", must have one rank, 3 to 5");
  if (params.transposed && (step.has("output_shape") || step.has("same")))
    pad_to_output(step, x, kernel, params);
  else if (step.has("same"))
    pad_to_same(step, x, kernel, params.stride, params.dilation, params.pad_begin, params.pad_end);
  return params;
}

namespace {

/// Inputs: x, w, bias, a residual of y's shape.
void infer_conv(NodeStep& step) {
  step.output(
      0, step.dtype(0),
      conv_output_shape(step.shape(0), step.shape(1), conv_params(step, step.shape(0), step.shape(1))));
}
void run_conv(NodeStep& step) {
  const ConvParams params = conv_params(step, step.shape(0), step.shape(1));
  if (is_floating(step.dtype(0))) {
    const Tensor &w = step.x(1), &y = step.y_as(0, {});
    // A window reads x many times: from another order that takes longer than a copy, unless
    // its channels lie side by side and are many.
    constexpr int64_t kManyChannels = 16;
    const bool one_tap = element_count(w.shape()) == w.shape()[0] * w.shape()[1];
    const bool last = step.x(0).strides()[1] == 1 && step.shape(0)[1] >= kManyChannels;
    const Tensor x = one_tap || last ? step.x(0) : step.dense(0);
    ConvExtras with(step.has(2) ? step.dense(2) : Tensor());
    if (step.has(3)) with.residual = lying_as(step, step.x(3), y);
    const Conv plan = step.kept_plan<Conv>({x, y}, [&] {
      ConvDesc desc{x, w, y, params};
      desc.bias = with.bias.defined();
      desc.residual = with.residual.defined();
      desc.constant_w = step.constant(1);
      return Conv(step.stream.context(), desc, step.options);
    });
    return plan.run(step.stream, x, w, with, y);
  }
  // Integers go through f64, exact to 2^53.
  const auto real = [&](int k) {
    return step.has(k) ? cast(step.stream, step.x(k), DType::f64, step.options) : Tensor();
  };
  const Tensor y = step.scratch(step.out(0).shape, DType::f64);
  dlprim::conv(step.stream, real(0), real(1), real(2), params, y, step.options);
  copy(step.stream, y, step.y(), step.options);
}

}  // namespace

PoolParams pool_params(const NodeStep& step, const Shape& x) {
  PoolParams params;
  const std::string mode = step.text("mode", "max");
  require(mode == "max" || mode == "average" || mode == "lp", "mode", "'", mode,
          "' must be max, average or lp");
  params.mode = mode == "max" ? PoolMode::max : mode == "average" ? PoolMode::average : PoolMode::lp;
  params.kernel = step.dims("kernel");
  params.stride = step.dims("stride");
  params.pad_begin = step.dims("pad_begin");
  params.pad_end = step.dims("pad_end");
  params.dilation = step.dims("dilation");
  params.output = step.dims("output");
  params.ceil_mode = step.flag("ceil_mode");
  params.count_include_pad = step.flag("count_include_pad", true);
  params.norm = step.number("norm", 2);
  if (step.has("same"))
    pad_to_same(step, x, params.kernel, params.stride, params.dilation, params.pad_begin, params.pad_end);
  return params;
}

IndexNumbering index_numbering(const NodeStep& step, const Shape& x) {
  int64_t plane = 1;
  Shape planes = x;
  for (int i = 2; i < x.size(); i++) plane *= x[i], planes[i] = 1;
  IndexNumbering n{step.scratch({x[0] * x[1]}, DType::i64), {x.size() > 2 ? x[2] : 1, x.back()}};
  if (n.first.numel() != 0) arange(step.stream, 0, step.flag("flat") ? plane : 0, n.first, step.options);
  n.first = n.first.reshape(planes);
  n.turned = step.flag("column_major");
  require(!n.turned || x.size() == 4, "column_major", "is for planes of two axes alone");
  return n;
}

namespace {

/// Turns indices in planes into those that the attributes ask for.
void number_indices(NodeStep& step, const Tensor& in_plane) {
  const IndexNumbering n = index_numbering(step, step.shape(0));
  dlprim::pointwise(step.stream, {in_plane, n.first}, {step.y(1)}, n.sizes,
                    n.turned ? "y0 = x1 + x0 / s1 + x0 % s1 * s0" : "y0 = x0 + x1 + 0 * s0 * s1",
                    step.options);
}

/// Outputs: y, and of maxima their places, i64. flat: these are places in all of x, not in a plane;
/// column_major: in planes whose axes are counted the other way round; narrow: they are i32.
void infer_pool(NodeStep& step) {
  const Shape shape = pool_output_shape(step.shape(0), pool_params(step, step.shape(0)));
  step.output(0, step.dtype(0), shape);
  step.output(1, step.flag("narrow") ? DType::i32 : DType::i64, shape);
}
void run_pool(NodeStep& step) {
  const bool floating = is_floating(step.dtype(0));
  const Tensor x = floating ? step.x(0) : cast(step.stream, step.x(0), DType::f32, step.options);
  const Tensor y = floating ? step.y_as(0, x) : step.scratch(step.out(0).shape, DType::f32);
  const bool as_they_are = !step.flag("flat") && !step.flag("column_major");
  const Tensor indices = !step.wanted(1) ? Tensor()
                         : as_they_are   ? step.y_as(1, x)
                                         : step.scratch(step.out(1).shape, DType::i64);
  dlprim::pool(step.stream, x, pool_params(step, step.shape(0)), y, indices, step.options);
  if (!floating) copy(step.stream, y, step.y(), step.options);
  if (step.wanted(1) && !as_they_are) number_indices(step, indices);
}

/// One window over all of the axes behind the first two. Outputs: y, and of maxima their indices in these
/// axes, i64; narrow: they are i32.
void infer_global_pool(NodeStep& step) {
  Shape shape = step.shape(0);
  require(shape.size() >= 3, "x", shape, " must have rank 3 or more");
  for (int i = 2; i < shape.size(); i++) shape[i] = 1;
  step.output(0, step.dtype(0), shape);
  step.output(1, step.flag("narrow") ? DType::i32 : DType::i64, shape);
}
void run_global_pool(NodeStep& step) {
  // Any number of axes: as one.
  const Shape& x = step.shape(0);
  PoolParams params = pool_params(step, x);
  int64_t all = 1;
  for (int i = 2; i < x.size(); i++) all *= x[i];
  params.kernel = {all};
  const auto flat = [&](const Tensor& y) { return y.reshape({x[0], x[1], 1}); };
  dlprim::pool(step.stream, step.reshaped(step.x(0), {x[0], x[1], all}), params, flat(step.y()),
               step.wanted(1) ? flat(step.y(1)) : Tensor(), step.options);
}

constexpr NodeKind kKinds[] = {
    {"matmul", 2, 4, infer_matmul, run_matmul},
    {"conv", 2, 4, infer_conv, run_conv},
    {"pool", 1, 1, infer_pool, run_pool},
    {"global_pool", 1, 1, infer_global_pool, run_global_pool},
};

}  // namespace

KindList product_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
