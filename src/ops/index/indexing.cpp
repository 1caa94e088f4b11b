// Nests of indexed loops, and reading by index.
#include "ops/index/indexing.hpp"

#include <algorithm>

#include "core/gen/expression.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/two_forms.hpp"

namespace dlprim::detail {
namespace {

/// The nest of loops over `dense`, which `table` (of dense's shape, stride 0 where only indices move it) and
/// the indices go along.
IndexNest make_nest(const TensorDesc& moved, const std::vector<TensorDesc>& indices,
                    const TensorDesc& dense) {
  std::vector<TensorDesc> inputs = {moved};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  const LoopNest loops = make_loop_nest(inputs, {dense}, false);
  IndexNest nest;
  for (const LoopDim& dim : loops.kept) {
    LoopDim ordered{dim.size, {dim.strides.front(), dim.strides.back()}};
    ordered.strides.insert(ordered.strides.end(), dim.strides.begin() + 1, dim.strides.end() - 1);
    nest.dims.push_back(ordered);
  }
  if (nest.dims.empty()) nest.dims.push_back({1, std::vector<int64_t>(2 + indices.size(), 0)});
  nest.count = loops.kept_count;
  nest.wide = loops.wide;
  nest.index_dtype = indices[0].dtype;
  return nest;
}

void add_axis(IndexNest& nest, const TensorDesc& table, int axis) {
  constexpr int64_t kNarrow = int64_t{1} << 30;
  nest.sizes.push_back(table.shape[axis]);
  nest.steps.push_back(table.strides[axis]);
  nest.wide |= extent_of(table) > kNarrow;
}

/// Where the indices' shape stands among the dimensions of the result, and that shape.
struct Placed {
  int at = 0;
  Shape shape;
};
Placed place_of(const IndexedAxes& indexed) {
  Placed result;
  for (size_t k = 0; k < indexed.indices.size(); k++) {
    try {
      result.shape = k ? broadcast_shapes(result.shape, indexed.indices[k].shape) : indexed.indices[k].shape;
    } catch (const ValidationError& error) {
      throw renamed(error, "indices");
    }
  }
  const std::vector<int>& axes = indexed.axes;
  const bool neighbours = axes.back() - axes.front() + 1 == static_cast<int>(axes.size());
  result.at = neighbours ? axes.front() : 0;
  return result;
}

bool is_indexed(const IndexedAxes& indexed, int axis) {
  return std::find(indexed.axes.begin(), indexed.axes.end(), axis) != indexed.axes.end();
}

/// `desc` with `before` and `behind` dimensions around it along which it does not move.
TensorDesc surrounded(const TensorDesc& desc, const Shape& shape, int at, int rank) {
  TensorDesc result({}, {}, desc.dtype, desc.aligned);
  for (int i = 0; i < shape.size(); i++) {
    const int own = i - at - (rank - desc.shape.size());
    const bool moves = i >= at && i < at + rank && own >= 0 && desc.shape[own] != 1;
    result.shape.push_back(shape[i]);
    result.strides.push_back(moves ? desc.strides[own] : 0);
  }
  return result;
}

/// How many elements make a word that rows consist of: 1, or up to 16 bytes.
int64_t word_of(const IndexNest& nest, const TensorDesc& table, const TensorDesc& dense) {
  const auto size = static_cast<int64_t>(size_of(dense.dtype));
  if (!table.aligned || !dense.aligned) return 1;
  for (int64_t word = 16 / size; word > 1; word /= 2) {
    const LoopDim& inner = nest.dims.back();
    bool fits = inner.size % word == 0 && inner.strides[0] == 1 && inner.strides[1] == 1;
    for (size_t t = 2; t < inner.strides.size(); t++) fits &= inner.strides[t] == 0;
    for (int64_t step : nest.steps) fits &= step % word == 0;
    for (size_t d = 0; d + 1 < nest.dims.size(); d++)
      fits &= nest.dims[d].strides[0] % word == 0 && nest.dims[d].strides[1] % word == 0;
    if (fits) return word;
  }
  return 1;
}

}  // namespace

const char* word_type(int64_t bytes) {
  return bytes == 1 ? "uchar" : bytes == 2 ? "ushort" : bytes == 4 ? "uint" : bytes == 8 ? "ulong" : "uint4";
}

int64_t take_words(IndexNest& nest, const TensorDesc& table, const TensorDesc& dense) {
  const int64_t word = word_of(nest, table, dense);
  if (word == 1) return word;
  nest.dims.back().size /= word;
  nest.count /= word;
  for (size_t d = 0; d + 1 < nest.dims.size(); d++)
    for (size_t t : {0, 1}) nest.dims[d].strides[t] /= word;
  for (int64_t& step : nest.steps) step /= word;
  return word;
}

void require_indices(const std::vector<TensorDesc>& indices, const char* name) {
  for (const TensorDesc& index : indices) {
    require(index.dtype == DType::i32 || index.dtype == DType::i64, name, "dtype ", name_of(index.dtype),
            " must be i32 or i64");
    require_dtype(name, index, indices[0].dtype);
    require_strides(name, index);
  }
}

IndexNest gather_nest(const TensorDesc& table, const TensorDesc& index, const TensorDesc& dense, int axis) {
  TensorDesc moved = table;
  moved.shape = dense.shape;
  moved.strides[axis] = 0;
  IndexNest nest = make_nest(moved, {index}, dense);
  add_axis(nest, table, axis);
  return nest;
}

Shape indexed_shape(const Shape& table, const IndexedAxes& indexed) {
  const Placed placed = place_of(indexed);
  std::vector<int64_t> result;
  for (int i = 0; i < table.size(); i++)
    if (!is_indexed(indexed, i)) result.push_back(table[i]);
  result.insert(result.begin() + placed.at, placed.shape.begin(), placed.shape.end());
  return Shape(result);
}

IndexNest index_nest(const TensorDesc& table, const IndexedAxes& indexed, const TensorDesc& dense) {
  const Placed placed = place_of(indexed);
  TensorDesc moved({}, {}, table.dtype, table.aligned);
  const int rank = placed.shape.size();
  for (int i = 0, axis = 0; i < dense.shape.size(); i++) {
    const bool among = i >= placed.at && i < placed.at + rank;
    while (!among && is_indexed(indexed, axis)) axis++;
    moved.shape.push_back(dense.shape[i]);
    moved.strides.push_back(among ? 0 : table.strides[axis++]);
  }
  std::vector<TensorDesc> indices;
  for (const TensorDesc& index : indexed.indices)
    indices.push_back(surrounded(index, dense.shape, placed.at, rank));
  IndexNest nest = make_nest(moved, indices, dense);
  for (int axis : indexed.axes) add_axis(nest, table, axis);
  return nest;
}

void bind_offset(Launch& launch, bool wide, int64_t value) {
  if (wide)
    launch.arg(value);
  else
    launch.arg(static_cast<int>(value));
}

void bind_nest(Launch& launch, const IndexNest& nest, const std::vector<Tensor>& indices,
               const std::vector<LoopDim>& p, const std::vector<LoopDim>& w) {
  for (size_t k = 0; k < nest.indices(); k++) {
    launch.arg(indices[k]).arg(nest.sizes[k]);
    bind_offset(launch, nest.wide, nest.steps[k]);
  }
  for (const auto* dims : {&p, &w})
    for (const LoopDim& dim : *dims) {
      if (nest.wide)
        launch.arg(dim.size);
      else
        bind_divisor(launch, static_cast<int>(dim.size));
      for (int64_t stride : dim.strides) bind_offset(launch, nest.wide, stride);
    }
}

Defines nest_defines(const IndexNest& nest, size_t p_rank, size_t w_rank) {
  Defines defines;
  defines.set("P_RANK", static_cast<int64_t>(p_rank)).set("W_RANK", static_cast<int64_t>(w_rank));
  defines.set("K", static_cast<int64_t>(nest.indices())).set("WIDE", nest.wide);
  return defines.set("INDEX", storage_type(nest.index_dtype));
}

IndexRead::IndexRead(const Context& context, IndexNest nest, const TensorDesc& table, const TensorDesc& dense,
                     const Options& options)
    : nest_(std::move(nest)) {
  const bool cpu = takes_cpu_form(context, options, "cpu", "direct");
  const auto size = static_cast<int64_t>(size_of(dense.dtype));
  const int64_t word = cpu ? 1 : take_words(nest_, table, dense);
  Defines defines = nest_defines(nest_, nest_.dims.size(), 0);
  defines.set("ELEMENT", word_type(size)).set("WORD", word_type(size * word));
  if (cpu) {
    const std::vector<int64_t>& inner = nest_.dims.back().strides;
    bool rows = inner[0] == 1 && inner[1] == 1;
    for (size_t t = 2; t < inner.size(); t++) rows &= inner[t] == 0;
    if (inner[0] == -1 && inner[1] == 1) defines.set("X_STEP", -1).set("Y_STEP", 1);
    defines.set("ROWS", rows).set("INNER", cat("p", nest_.dims.size() - 1));
    chunk_ = cpu_chunk(context, nest_.count, 8192);
  }
  kernel_ = context.state().programs.kernel(cpu ? "gather_cpu" : "gather", "gather", defines);
}

void IndexRead::run(const Stream& stream, const Tensor& table, const std::vector<Tensor>& indices,
                    const Tensor& dense) const {
  if (nest_.count == 0) return;
  Launch launch(stream, kernel_);
  launch.arg(table).arg(dense);
  bind_nest(launch, nest_, indices, nest_.dims, {});
  bind_offset(launch, nest_.wide, nest_.count);
  if (chunk_) {
    bind_offset(launch, nest_.wide, chunk_);
    launch.run({static_cast<size_t>(ceil_div(nest_.count, chunk_))}, {1});
  } else {
    constexpr int64_t kUnroll = 4;  // U of gather.cl
    launch.run({items_in_groups(ceil_div(nest_.count, kUnroll))}, {256});
  }
}

int64_t cpu_chunk(const Context& context, int64_t count, int64_t least) {
  const int64_t groups = 16 * std::max<int64_t>(context.device().facts().compute_units, 1);
  return std::max(ceil_div(std::max<int64_t>(count, 1), groups), least);
}

}  // namespace dlprim::detail
