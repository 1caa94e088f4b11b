// Reading and writing at places that tensors say: gathers and scatters by coordinates and along an axis,
// caches, sequences in reverse, choices by a mask. Negative places count from the end; what is read outside
// is 0, what would be written there is left out.
#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/index.hpp>
#include <dlprim/masked.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

/// A view of 0, 1, ... size - 1 along one axis of a tensor of `rank` axes.
Tensor places_along(const NodeStep& step, int64_t size, int axis, int rank) {
  const Tensor places = step.counting(0, size);
  Shape shape = Shape::filled(rank, 1);
  shape[axis] = size;
  return places.reshape(shape);
}

/// "reduce": what becomes of elements that meet old ones: none (they take their place), sum, prod, max, min.
ScatterParams scatter_params(const NodeStep& step) {
  constexpr struct {
    const char* name;
    ScatterReduce reduce;
  } kNames[] = {{"none", ScatterReduce::none},
                {"sum", ScatterReduce::sum},
                {"prod", ScatterReduce::prod},
                {"max", ScatterReduce::max},
                {"min", ScatterReduce::min}};
  const std::string asked = step.text("reduce", "none");
  for (const auto& known : kNames)
    if (asked == known.name) return {known.reduce, true};
  throw ValidationError("reduce", cat("is '", asked, "', must be none, sum, prod, max or min"));
}

/// Inputs: x, indices (of x's rank, not larger but along "axis").
void infer_gather_elements(NodeStep& step) {
  step.axis("axis", 0, step.rank(0));
  require(step.rank(1) == step.rank(0), "indices", "are ", step.shape(1), ", must have the rank of x, ",
          step.shape(0));
  step.output(0, step.dtype(0), step.shape(1));
}
void run_gather_elements(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  dlprim::gather(step.stream, step.x(0), step.x(1), step.axis("axis", 0, step.rank(0)), y, step.options);
}

/// Inputs: x, indices, src (of the indices' shape, of x's rank). axis; reduce.
void infer_scatter_elements(NodeStep& step) {
  step.axis("axis", 0, step.rank(0));
  require(step.shape(1) == step.shape(2) && step.rank(1) == step.rank(0), "inputs", "x is ", step.shape(0),
          ", indices ", step.shape(1), ", src ", step.shape(2));
  step.output(0, step.dtype(0), step.shape(0));
}
void run_scatter_elements(NodeStep& step) {
  if (element_count(step.shape(1)) == 0) return step.set(0, step.x(0));
  scatter(step.stream, step.x(0), step.x(1), step.x(2), step.axis("axis", 0, step.rank(0)),
          scatter_params(step), step.y(), step.options);
}

/// How many coordinates each entry of input 1 has, for axes of x, which has `rank`, from `batch` on.
int coordinate_count(const NodeStep& step, int rank, int batch) {
  require(step.rank(1) > batch, "indices", "are ", step.shape(1), ", must have more than ", batch,
          " dimensions");
  const int64_t count = step.shape(1).back();
  require(count >= 1 && count <= rank - batch, "indices", "have ", count, " coordinates for ", rank - batch,
          " axes");
  return static_cast<int>(count);
}
/// The shape of x[indices]: that of the entries, then the axes of x that no coordinate names.
Shape shape_of_entries(const NodeStep& step, const Shape& x, int batch) {
  Shape shape;
  for (int i = 0; i + 1 < step.rank(1); i++) shape.push_back(step.shape(1)[i]);
  for (int i = batch + coordinate_count(step, x.size(), batch); i < x.size(); i++) shape.push_back(x[i]);
  return shape;
}
/// An index tensor for each axis that is named, the first `batch` of them by their own places.
std::vector<Tensor> index_tensors(NodeStep& step, int rank_of_x, int batch) {
  const Tensor& all = step.x(1);
  const int rank = all.rank() - 1, count = coordinate_count(step, rank_of_x, batch);
  Shape entries, strides;
  for (int i = 0; i < rank; i++) {
    entries.push_back(all.shape()[i]);
    strides.push_back(all.strides()[i]);
  }
  std::vector<Tensor> indices;
  for (int i = 0; i < batch; i++) indices.push_back(places_along(step, all.shape()[i], i, rank));
  for (int i = 0; i < count; i++)
    indices.push_back(all.as_strided(entries, strides, all.strides()[rank] * i));
  return indices;
}

/// Inputs: x, indices: [..., n], coordinates of elements or slices. batch: so many first axes belong
/// together.
void infer_gather_nd(NodeStep& step) {
  const auto batch = static_cast<int>(step.integer("batch", 0));
  require(batch >= 0 && batch < step.rank(0), "batch", batch, " of x of rank ", step.rank(0));
  for (int i = 0; i < batch; i++)
    require(i < step.rank(1) && step.shape(1)[i] == step.shape(0)[i], "inputs", "x is ", step.shape(0),
            ", indices ", step.shape(1), ": their first ", batch, " sizes must be equal");
  step.output(0, step.dtype(0), shape_of_entries(step, step.shape(0), batch));
}
void run_gather_nd(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const auto batch = static_cast<int>(step.integer("batch", 0));
  index(step.stream, step.x(0), index_tensors(step, step.rank(0), batch), y, step.options);
}

/// The output is a gradient of what has the sizes of input 2, of dy's dtype.
void infer_gradient(NodeStep& step) {
  step.output(0, step.dtype(0), Shape(step.integers(2)));
}
/// True if nothing was taken: dx is 0, or of no elements.
bool took_nothing(NodeStep& step) {
  if (step.y().numel() == 0) return true;
  if (element_count(step.shape(0)) != 0) return false;
  fill(step.stream, 0, step.y(), step.options);
  return true;
}

/// Inputs: dy, indices, sizes of x. Attribute: axis. dx is 0 but where x was taken: there dy is added up.
void run_gather_elements_backward(NodeStep& step) {
  if (took_nothing(step)) return;
  gather_backward(step.stream, step.x(0), step.x(1), step.axis("axis", 0, step.out(0).shape.size()), step.y(),
                  step.options);
}

/// Inputs: dy, indices: [..., n], sizes of x. batch. dx is 0 but where x was taken: there dy is added up.
void run_gather_nd_backward(NodeStep& step) {
  if (took_nothing(step)) return;
  const auto batch = static_cast<int>(step.integer("batch", 0));
  index_backward(step.stream, step.x(0), index_tensors(step, step.out(0).shape.size(), batch), step.y(),
                 step.options);
}

/// Inputs: x, indices: [..., n], src: of the shape of what they name. reduce.
void infer_scatter_nd(NodeStep& step) {
  const Shape named = shape_of_entries(step, step.shape(0), 0);
  require(step.shape(2) == named, "src", "is ", step.shape(2), ", must be ", named);
  step.output(0, step.dtype(0), step.shape(0));
}
void run_scatter_nd(NodeStep& step) {
  if (element_count(step.shape(2)) == 0) return step.set(0, step.x(0));
  index_put(step.stream, step.x(0), index_tensors(step, step.rank(0), 0), step.x(2), scatter_params(step),
            step.y(), step.options);
}

/// Inputs: x: [N, ...], update (shorter along "axis"), where it begins in each of the N, [N] (0). circular:
/// it goes on at the front.
void infer_write_at(NodeStep& step) {
  const int axis = step.axis("axis", -2, step.rank(0));
  require(axis != 0, "axis", "is 0, that of the batch");
  Shape shape = step.shape(1);
  require(shape.size() == step.rank(0) && shape[axis] <= step.shape(0)[axis], "update", "is ", shape,
          " for x ", step.shape(0));
  shape[axis] = step.shape(0)[axis];
  require(shape == step.shape(0), "update", "is ", step.shape(1), " for x ", step.shape(0));
  require(!step.has(2) || step.shape(2) == Shape{shape[0]}, "positions", "must be one for each of the batch");
  step.output(0, step.dtype(0), step.shape(0));
}
void run_write_at(NodeStep& step) {
  if (element_count(step.shape(1)) == 0) return step.set(0, step.x(0));
  const int axis = step.axis("axis", -2, step.rank(0));
  const int64_t batch = step.shape(0)[0], count = step.shape(1)[axis], size = step.shape(0)[axis];
  Tensor places = places_along(step, count, 1, 2);
  if (step.has(2)) {
    const Tensor moved = step.scratch({batch, count}, DType::i64);
    dlprim::pointwise(step.stream, {step.dense(2).reshape({batch, 1}), places}, {moved},
                      {step.flag("circular") ? size : 0},
                      "const long at_ = x0 + x1; y0 = s0 > 0 ? (at_ % s0 + s0) % s0 : at_", step.options);
    places = moved;
  }
  std::vector<Tensor> indices(static_cast<size_t>(axis) + 1);
  indices[0] = places_along(step, batch, 0, 2);
  indices.back() = places;
  // Indices of axes that are no neighbours have their shape in front of the other axes.
  Dims order{0, axis};
  for (int i = 1; i < step.rank(0); i++)
    if (i != axis) order.push_back(i);
  index_put(step.stream, step.x(0), indices, step.x(1).permute(order), {}, step.y(), step.options);
}

/// Inputs: x, lengths: [N]. time_axis, batch_axis: 0 and 1 or 1 and 0. Turns the first elements of each
/// sequence round.
void infer_reverse_sequence(NodeStep& step) {
  const int64_t time = step.integer("time_axis", 0), batch = step.integer("batch_axis", 1);
  require((time == 0 && batch == 1) || (time == 1 && batch == 0), "time_axis", "is ", time,
          " and batch_axis ", batch, ", must be 0 and 1 or 1 and 0");
  require(step.rank(0) >= 2, "x", step.shape(0), " must have rank 2 or more");
  require(step.shape(1) == Shape{step.shape(0)[static_cast<int>(batch)]}, "lengths", "are ", step.shape(1),
          " for x ", step.shape(0));
  step.output(0, step.dtype(0), step.shape(0));
}
void run_reverse_sequence(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const auto time = static_cast<int>(step.integer("time_axis", 0));
  const int batch = 1 - time;
  Shape row{1, 1};
  row[batch] = step.shape(0)[batch];
  const Tensor lengths = step.dense(1).reshape(row);
  const Tensor times = places_along(step, step.shape(0)[time], time, 2);
  const Tensor from = step.scratch({step.shape(0)[0], step.shape(0)[1]}, DType::i64);
  dlprim::pointwise(step.stream, {lengths, times}, {from}, {}, "y0 = x1 < x0 ? x0 - 1 - x1 : x1",
                    step.options);
  std::vector<Tensor> indices(2);
  indices[static_cast<size_t>(time)] = from;
  indices[static_cast<size_t>(batch)] = places_along(step, row[batch], batch, 2);
  index(step.stream, step.x(0), indices, y, step.options);
}

/// Inputs: x, mask (a vector, not longer than the axis). axis: whose slices are taken; none: x as a vector.
/// The result's size depends on the mask.
void run_compress(NodeStep& step) {
  Tensor x = step.x(0);
  int axis = 0;
  if (step.has("axis"))
    axis = step.axis("axis", 0, step.rank(0));
  else
    x = step.dense(0).reshape({element_count(step.shape(0))});
  require(step.rank(1) == 1 && step.shape(1)[0] <= x.size(axis), "mask", "is ", step.shape(1), " for ",
          x.size(axis), " elements");
  Shape shape = x.shape();
  Tensor places;
  shape[axis] = 0;
  if (element_count(step.shape(1)) != 0) {
    places = nonzero(step.stream, step.x(1), step.options);
    shape[axis] = places.size(0);
  }
  step.output(0, step.dtype(0), shape);
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  index_select(step.stream, x, places.reshape({places.size(0)}), axis, y, step.options);
}

/// Coordinates of elements that are not 0: [x's rank, how many], i64.
void run_nonzero(NodeStep& step) {
  if (step.rank(0) == 0) {
    const int64_t count = step.numbers(0)[0] != 0;
    return step.set(0, step.scratch({0, count}, DType::i64));
  }
  if (element_count(step.shape(0)) == 0) return step.set(0, step.scratch({step.rank(0), 0}, DType::i64));
  const Tensor places = nonzero(step.stream, step.x(0), step.options);
  if (places.numel() == 0) return step.set(0, step.scratch({step.rank(0), 0}, DType::i64));
  step.set(0, places.permute({1, 0}));
}

constexpr NodeKind kKinds[] = {
    {"gather_elements", 2, 2, infer_gather_elements, run_gather_elements},
    {"scatter_elements", 3, 3, infer_scatter_elements, run_scatter_elements},
    {"gather_elements_backward", 3, 3, infer_gradient, run_gather_elements_backward},
    {"gather_nd", 2, 2, infer_gather_nd, run_gather_nd},
    {"gather_nd_backward", 3, 3, infer_gradient, run_gather_nd_backward},
    {"scatter_nd", 3, 3, infer_scatter_nd, run_scatter_nd},
    {"write_at", 2, 3, infer_write_at, run_write_at},
    {"reverse_sequence", 2, 2, infer_reverse_sequence, run_reverse_sequence},
    {"compress", 2, 2, nullptr, run_compress},
    {"nonzero", 1, 1, nullptr, run_nonzero},
};

}  // namespace

KindList scatter_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
