// Tensors that their elements' places make: triangles, diagonals, one-hot vectors; and other looks at the
// same bits.
#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

/// Diagonals outside of a matrix are as good as those next to its corners.
int64_t diagonal_within(int64_t k, const Shape& shape) {
  return std::clamp(k, -shape[shape.size() - 2], shape.back());
}

/// Inputs: x: [..., R, C], the diagonal k (0). upper: what is on it and above stays, else below.
void infer_triangle(NodeStep& step) {
  require(step.rank(0) >= 2, "x", step.shape(0), " must have rank 2 or more");
  require(!step.has(1) || element_count(step.shape(1)) == 1, "k", "must be one number");
  step.output(0, step.dtype(0), step.shape(0));
}
void run_triangle(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const int64_t k = diagonal_within(step.has(1) ? step.integers(1)[0] : 0, y.shape());
  if (step.flag("upper"))
    triu(step.stream, step.x(0), k, y, step.options);
  else
    tril(step.stream, step.x(0), k, y, step.options);
}

/// Input: x, a matrix. 1 on the diagonal `k` of a matrix as large, 0 elsewhere. dtype: x's otherwise.
void infer_eye(NodeStep& step) {
  require(step.rank(0) == 2, "x", step.shape(0), " must be a matrix");
  step.output(0, step.has("dtype") ? parse_dtype(step.text("dtype")) : step.dtype(0), step.shape(0));
}
void run_eye(NodeStep& step) {
  const Tensor& y = step.y();
  const int64_t k = step.integer("k", 0);
  if (y.numel() == 0) return;
  if (k <= -y.size(0) || k >= y.size(1)) return fill(step.stream, 0, y, step.options);
  eye(step.stream, k, y, step.options);
}

/// Inputs: indices, how many classes (one number), values: [off, on]. axis: where the classes go in y.
/// from_end: negative indices count from the end, else they are outside; outside all is off.
void infer_one_hot(NodeStep& step) {
  require(element_count(step.shape(1)) == 1, "inputs", "the number of classes is ", step.shape(1),
          ", must be one number");
  require(step.shape(2) == Shape{2}, "values", "are ", step.shape(2), ", must be two");
  const double asked = step.numbers(1)[0];
  require(asked >= 0 && asked < static_cast<double>(kElementLimit), "inputs", asked, " classes");
  const auto classes = static_cast<int64_t>(asked);
  const int axis = step.axis("axis", -1, step.rank(0) + 1);
  Shape shape;
  for (int i = 0; i <= step.rank(0); i++)
    shape.push_back(i == axis ? classes : step.shape(0)[i < axis ? i : i - 1]);
  step.output(0, step.dtype(2), shape);
}
void run_one_hot(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const int axis = step.axis("axis", -1, step.rank(0) + 1);
  Shape beside = y.shape(), along = Shape::filled(y.rank(), 1);
  beside[axis] = 1;
  along[axis] = y.size(axis);
  // Whole numbers by themselves: beside floating ones they would lose digits.
  const Tensor indices = cast(step.stream, step.x(0), DType::i64, step.options);
  const Tensor places = step.scratch(indices.shape(), DType::i64);
  const int64_t from_end = step.flag("from_end") ? along[axis] : 0;
  dlprim::pointwise(step.stream, {indices}, {places}, {from_end}, "y0 = x0 < 0 ? x0 + s0 : x0", step.options);
  const Tensor classes = step.counting(0, along[axis]);
  const Tensor& values = step.x(2);
  dlprim::pointwise(
      step.stream,
      {places.reshape(beside), classes.reshape(along), values.slice(0, 0, 1), values.slice(0, 1, 2)}, {y}, {},
      "y0 = x0 == x1 ? x3 : x2", step.options);
}

/// dtype: how x's bits are read; of the same size. Not bool, whose bits are 0 or 1.
void infer_bit_cast(NodeStep& step) {
  const DType from = step.dtype(0), dtype = parse_dtype(step.text("dtype"));
  require(size_of(from) == size_of(dtype), "dtype", "is ", name_of(dtype), ", x is ", name_of(from),
          ": their sizes differ");
  require(dtype != DType::boolean || from == dtype, "dtype", "is bool, and x is not");
  step.output(0, dtype, step.shape(0));
}
void run_bit_cast(NodeStep& step) {
  step.set(0, step.x(0).reinterpret(step.out(0).dtype));
}
bool bit_cast_on_host(NodeStep& step) {
  HostTensor y = step.host(0);
  y.dtype = step.out(0).dtype;
  step.set_host(0, std::move(y));
  return true;
}

constexpr NodeKind kKinds[] = {
    {"triangle", 1, 2, infer_triangle, run_triangle},
    {"eye", 1, 1, infer_eye, run_eye},
    {"one_hot", 3, 3, infer_one_hot, run_one_hot},
    {"bit_cast", 1, 1, infer_bit_cast, run_bit_cast, bit_cast_on_host},
};

}  // namespace

KindList pattern_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
