// Kinds that say or change a tensor's shape and compute nothing: most give views.
#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/movement.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/host.hpp"

namespace dlprim::detail {
namespace {

void infer_identity(NodeStep& step) {
  step.output(0, step.dtype(0), step.shape(0));
}
void run_identity(NodeStep& step) {
  step.set(0, step.x(0));
}

/// The sizes of axes start to end, i64.
std::vector<int64_t> asked_sizes(const NodeStep& step) {
  const int rank = step.rank(0);
  const auto bound = [&](const char* name, int64_t standard) {
    const int64_t at = step.integer(name, standard);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  std::vector<int64_t> sizes;
  for (int64_t i = bound("start", 0); i < bound("end", rank); i++)
    sizes.push_back(step.shape(0)[static_cast<int>(i)]);
  return sizes;
}
void infer_shape(NodeStep& step) {
  step.output(0, DType::i64, {static_cast<int64_t>(asked_sizes(step).size())});
}
void run_shape(NodeStep& step) {
  const std::vector<int64_t> sizes = asked_sizes(step);
  step.set_host(0, host_tensor(DType::i64, {static_cast<int64_t>(sizes.size())}, sizes));
}

void infer_size(NodeStep& step) {
  step.output(0, DType::i64, {});
}
void run_size(NodeStep& step) {
  step.set_host(0, host_tensor(DType::i64, {}, std::vector<int64_t>{element_count(step.shape(0))}));
}

/// Inputs: x, shape (sizes; one may be -1). Without `allow_zero` a 0 is x's size there.
void infer_reshape(NodeStep& step) {
  const std::vector<int64_t> asked = step.integers(1);
  Shape shape(asked);
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < shape.size(); i++) {
    if (shape[i] == 0 && !step.flag("allow_zero")) {
      require(i < step.rank(0), "shape", "size ", i, " of ", shape, " is 0, and x ", step.shape(0),
              " has no such axis");
      shape[i] = step.shape(0)[i];
    }
    if (shape[i] == -1) {
      require(open < 0, "shape", shape, " has two sizes of -1");
      open = i;
    } else {
      require(shape[i] >= 0, "shape", shape, " has a negative size");
      known *= shape[i];
    }
  }
  const int64_t count = element_count(step.shape(0));
  if (open >= 0) {
    require(known > 0 && count % known == 0, "shape", shape, " does not go into x, ", step.shape(0));
    shape[open] = count / known;
  }
  require(element_count(shape) == count, "shape", shape, " does not hold the elements of x, ", step.shape(0));
  step.output(0, step.dtype(0), shape);
}
void run_reshape(NodeStep& step) {
  step.set(0, step.reshaped(step.x(0), step.out(0).shape));
}

/// Axes before `axis`, and the others, become one each.
void infer_flatten(NodeStep& step) {
  const int64_t asked = step.integer("axis", 1);
  const int axis = static_cast<int>(asked < 0 ? asked + step.rank(0) : asked);
  require(axis >= 0 && axis <= step.rank(0), "axis", asked, " of rank ", step.rank(0));
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < step.rank(0); i++) (i < axis ? rows : columns) *= step.shape(0)[i];
  step.output(0, step.dtype(0), {rows, columns});
}

/// Axes of an attribute or of input 1.
std::vector<int64_t> asked_axes(NodeStep& step) {
  return step.has(1) ? step.integers(1) : step.integers("axes");
}

/// Without axes: all those of size 1.
void infer_squeeze(NodeStep& step) {
  const Shape& x = step.shape(0);
  const bool all = !step.has(1) && !step.has("axes");
  const std::vector<int> axes = normal_axes(all ? std::vector<int64_t>() : asked_axes(step), x.size());
  Shape shape;
  for (int i = 0; i < x.size(); i++) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    require(!named || x[i] == 1, "axes", "axis ", i, " of ", x, " is not 1");
    if (!named && !(all && x[i] == 1)) shape.push_back(x[i]);
  }
  step.output(0, step.dtype(0), shape);
}
void infer_unsqueeze(NodeStep& step) {
  const std::vector<int64_t> asked = asked_axes(step);
  const int rank = step.rank(0) + static_cast<int>(asked.size());
  require(rank <= kMaxRank, "axes", "the result has rank ", rank, ", more than ", kMaxRank);
  const std::vector<int> axes = normal_axes(asked, rank);
  Shape shape;
  for (int i = 0, from = 0; i < rank; i++)
    shape.push_back(std::find(axes.begin(), axes.end(), i) != axes.end() ? 1 : step.shape(0)[from++]);
  step.output(0, step.dtype(0), shape);
}

/// axes: result dimension i is x's axes[i]; none: in reverse.
Dims asked_order(const NodeStep& step) {
  Dims order = step.dims("axes");
  if (step.has("axes")) {
    require(order.size() == step.rank(0), "axes", order, " for x of rank ", step.rank(0));
    return order;
  }
  for (int i = step.rank(0); i-- > 0;) order.push_back(i);
  return order;
}
void infer_transpose(NodeStep& step) {
  const Dims order = asked_order(step);
  normal_axes({order.begin(), order.end()}, step.rank(0));
  Shape shape;
  for (int64_t axis : order) shape.push_back(step.shape(0)[normal_axis(axis, step.rank(0))]);
  step.output(0, step.dtype(0), shape);
}
void run_transpose(NodeStep& step) {
  step.set(0, step.x(0).permute(asked_order(step)));
}

/// Inputs: x, shape. Broadcasts them against each other.
void infer_expand(NodeStep& step) {
  const std::vector<int64_t> asked = step.integers(1);
  step.output(0, step.dtype(0), broadcast_shapes(step.shape(0), Shape(asked)));
}
void run_expand(NodeStep& step) {
  step.set(0, step.x(0).expand(step.out(0).shape));
}

void infer_concat(NodeStep& step) {
  const int axis = step.axis("axis", 0, step.rank(0));
  Shape shape = step.shape(0);
  DType dtype = step.dtype(0);
  for (int k = 1; k < step.input_count(); k++) {
    require(step.rank(k) == shape.size(), "inputs", "input ", k, " is ", step.shape(k), ", input 0 ",
            step.shape(0));
    shape[axis] += step.shape(k)[axis];
    dtype = joined(dtype, step.dtype(k));
    for (int i = 0; i < shape.size(); i++)
      require(i == axis || step.shape(k)[i] == shape[i], "inputs", "input ", k, " is ", step.shape(k),
              ", input 0 ", step.shape(0));
  }
  step.output(0, dtype, shape);
}
/// The parts were computed in the result.
bool lie_in(const std::vector<Tensor>& parts, int axis, const Tensor& whole) {
  int64_t at = 0;
  for (const Tensor& part : parts) {
    const int64_t end = at + part.shape()[axis];
    const Tensor to = whole.slice(axis, at, end);
    if (part.storage() != to.storage() || part.dtype() != to.dtype() || part.offset() != to.offset() ||
        part.strides() != to.strides())
      return false;
    at = end;
  }
  return true;
}

void run_concat(NodeStep& step) {
  std::vector<Tensor> parts;
  for (int k = 0; k < step.input_count(); k++)
    if (element_count(step.shape(k)) != 0) parts.push_back(step.x(k));
  if (parts.empty()) return step.set(0, step.y());
  if (parts.size() == 1 && parts[0].dtype() == step.out(0).dtype) return step.set(0, parts[0]);
  const int axis = step.axis("axis", 0, step.rank(0));
  const Tensor whole = step.take_place(0);
  if (whole.defined() && lie_in(parts, axis, whole)) return step.set(0, whole);
  concat(step.stream, parts, axis, step.y_as(0, parts[0]), step.options);
}

/// Sizes are input 1, or "sizes", or equal parts, of which the last may be less.
std::vector<int64_t> part_sizes(NodeStep& step) {
  const int64_t size = step.shape(0)[step.axis("axis", 0, step.rank(0))];
  if (step.has(1)) return step.integers(1);
  if (step.has("sizes")) return step.integers("sizes");
  const int64_t parts = step.output_count(), each = (size + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; i++) sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  return sizes;
}
void infer_split(NodeStep& step) {
  const int axis = step.axis("axis", 0, step.rank(0));
  const std::vector<int64_t> sizes = part_sizes(step);
  require(sizes.size() == static_cast<size_t>(step.output_count()), "sizes", sizes.size(), " sizes for ",
          step.output_count(), " outputs");
  int64_t sum = 0;
  for (int64_t size : sizes) {
    require(size >= 0, "sizes", "size ", size, " is negative");
    sum += size;
  }
  require(sum == step.shape(0)[axis], "sizes", "their sum ", sum, " is not that of axis ", axis, " of ",
          step.shape(0));
  Shape shape = step.shape(0);
  for (int k = 0; k < step.output_count(); k++) {
    shape[axis] = sizes[static_cast<size_t>(k)];
    step.output(k, step.dtype(0), shape);
  }
}
void run_split(NodeStep& step) {
  const int axis = step.axis("axis", 0, step.rank(0));
  int64_t at = 0;
  for (int k = 0; k < step.output_count(); k++) {
    const int64_t size = step.out(k).shape[axis];
    step.set(k, size == 0 ? step.y(k) : step.x(0).slice(axis, at, at + size));
    at += size;
  }
}

constexpr NodeKind kKinds[] = {
    {"identity", 1, 1, infer_identity, run_identity, copy_on_host},
    {"shape", 1, 1, infer_shape, run_shape},
    {"size", 1, 1, infer_size, run_size},
    {"reshape", 2, 2, infer_reshape, run_reshape, copy_on_host},
    {"flatten", 1, 1, infer_flatten, run_reshape, copy_on_host},
    {"squeeze", 1, 2, infer_squeeze, run_reshape, copy_on_host},
    {"unsqueeze", 1, 2, infer_unsqueeze, run_reshape, copy_on_host},
    {"transpose", 1, 1, infer_transpose, run_transpose},
    {"expand", 2, 2, infer_expand, run_expand, expand_on_host},
    {"concat", 1, 1 << 16, infer_concat, run_concat, concat_on_host},
    {"split", 1, 2, infer_split, run_split},
};

}  // namespace

KindList shape_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
