// Places in sorted sequences: one kernel, searchsorted.cl.
#include <dlprim/searchsorted.hpp>

#include <algorithm>
#include <climits>

#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/index/indexing.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<SearchsortedDesc> = 4;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Searchsorted::Impl {
  SearchsortedDesc desc;
  SortRows at;  ///< of sorted, x, y
  int n = 0;
  int64_t count = 0;  ///< values of a row
  Kernel kernel;
  int64_t span_step = 1, span = 1, step = 1;  ///< as searchsorted.cl has them
  int block = 1;
  size_t items[2] = {1, 1}, group[2] = {1, 1};
};

namespace {

/// The same elements as a vector, where x and y lie in one order without gaps and no row has a sequence of
/// its own; else the rank is 1 or more.
SearchsortedDesc flattened(SearchsortedDesc d) {
  const int64_t count = element_count(d.x.shape);
  const bool row_major = is_row_major(d.x) && is_row_major(d.y);
  const bool alike = d.x.strides == d.y.strides && extent_of(d.y) == count;
  if (d.sorted.shape.size() != 1 || !(row_major || alike)) return d;
  d.x = TensorDesc({count}, {1}, d.x.dtype, d.x.aligned);
  d.y = TensorDesc({count}, {1}, d.y.dtype, d.y.aligned);
  return d;
}

void check(const Context& context, const SearchsortedDesc& d) {
  require_strides("sorted", d.sorted);
  require_strides("x", d.x);
  require_real(context, d.x.dtype);
  require_dtype("x", d.x, d.sorted.dtype);
  require_indices({d.y}, "y");
  require_shape("y", d.y, d.x.shape);
  require_writable("y", d.y);
  require(d.sorted.shape.size() >= 1, "sorted", "rank 0 must be 1 or more");
  const int64_t n = d.sorted.shape[d.sorted.shape.size() - 1];
  require(n < INT_MAX, "sorted", n, " elements are not less than ", INT_MAX);
  if (d.sorted.shape.size() == 1) return;
  Shape shape = d.x.shape;
  require_rank("sorted", d.sorted, shape.size());
  shape[shape.size() - 1] = n;
  require_shape("sorted", d.sorted, shape);
}

/// One sequence for every row.
TensorDesc along_rows(const TensorDesc& sorted, const Shape& x) {
  if (sorted.shape.size() == x.size()) return sorted;
  Shape shape = x;
  Strides strides(x);
  for (int d = 0; d < x.size(); d++) strides[d] = 0;
  shape[x.size() - 1] = sorted.shape[0];
  strides[x.size() - 1] = sorted.strides[0];
  return TensorDesc(shape, strides, sorted.dtype, sorted.aligned);
}

std::shared_ptr<Searchsorted::Impl> problem_of(const SearchsortedDesc& desc) {
  const SearchsortedDesc d = flattened(desc);
  const TensorDesc sorted = along_rows(d.sorted, d.x.shape);
  const int axis = d.x.shape.size() - 1;
  auto impl = std::make_shared<Searchsorted::Impl>(
      Searchsorted::Impl{desc, SortRows({&d.x, &sorted, &d.y}, axis), 0, 0, {}});
  impl->n = static_cast<int>(sorted.shape[axis]);
  impl->count = d.x.shape[axis];
  return impl;
}

}  // namespace

Searchsorted::Searchsorted(const Context& context, const SearchsortedDesc& desc, const Options& options)
    : Plan(nullptr) {
  check(context, desc);
  const std::shared_ptr<Impl> m = problem_of(desc);
  const bool cpu = context.device().kind() == DeviceKind::cpu;
  constexpr int64_t kCpuLanes = 16, kGpuLanes = 4;
  const int64_t lanes = cpu ? kCpuLanes : kGpuLanes;
  Defines defines;
  defines.set("DTYPE", name_of(desc.x.dtype)).set("T", storage_type(desc.x.dtype));
  defines.set("VALUE", compute_type(desc.x.dtype)).set("Y_T", storage_type(desc.y.dtype));
  defines.set("RIGHT", desc.right).set("LANES", lanes).set("ROW_DIMS", m->at.compiled_dims());
  defines.set("UNIT", desc.sorted.strides[desc.sorted.shape.size() - 1] == 1);
  m->kernel = context.state().programs.kernel("searchsorted", "searchsorted", defines);
  const int64_t rows = std::max(1, m->at.rows), count = std::max<int64_t>(1, m->count);
  if (cpu) {
    m->span = m->span_step = round_up(std::min(count, cpu_chunk(context, count * rows, 4096)), lanes);
    m->items[0] = static_cast<size_t>(ceil_div(count, m->span));
    m->block = static_cast<int>(std::clamp<int64_t>(4096 / count, 1, rows));
    m->items[1] = static_cast<size_t>(ceil_div(rows, m->block));
  } else {
    int64_t across = 1;
    while (across < 64 && across * lanes < count) across *= 2;
    m->group[0] = static_cast<size_t>(across);
    m->group[1] = static_cast<size_t>(64 / across);
    m->items[0] = items_in_groups(ceil_div(count, lanes), across);
    m->items[1] = items_in_groups(rows, 64 / across);
    m->span = count;
    m->step = static_cast<int64_t>(m->items[0]);
  }
  PlanInfo info;
  info.text =
      cat("sorted=", brief(desc.sorted), " x=", brief(desc.x), " y=", brief(desc.y), " right=", desc.right);
  info.bytes = traffic({desc.sorted, desc.x, desc.y});
  info_ = single_engine("searchsorted", "halving", "", context, options, std::move(info));
  impl_ = m;
}

void Searchsorted::run(const Stream& stream, const Tensor& sorted, const Tensor& x, const Tensor& y,
                       const Tensor& workspace) const {
  const Impl& m = *impl_;
  require_stream(*info_, stream);
  require_tensor("sorted", sorted, stream.context(), m.desc.sorted);
  require_tensor("x", x, stream.context(), m.desc.x);
  require_tensor("y", y, stream.context(), m.desc.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"sorted", sorted}, {"x", x}});
  workspace_for(*info_, stream, workspace);
  if (x.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  Launch launch(stream, m.kernel);
  m.at.bind(launch, 1, sorted);
  m.at.bind(launch, 0, x);
  m.at.bind(launch, 2, y);
  m.at.bind_sizes(launch);
  launch.arg(m.at.rows).arg(m.block).arg(m.n).arg(m.count).arg(m.span_step).arg(m.span).arg(m.step);
  launch.run({m.items[0], m.items[1]}, {m.group[0], m.group[1]});
}

void searchsorted(const Stream& stream, const Tensor& sorted, const Tensor& x, bool right, const Tensor& y,
                  const Options& options, const Tensor& workspace) {
  require_defined({{"sorted", sorted}, {"x", x}, {"y", y}});
  const SearchsortedDesc desc{sorted, x, y, right};
  cached_plan<Searchsorted>(stream, "searchsorted", desc, options, workspace)
      ->run(stream, sorted, x, y, workspace);
}

}  // namespace dlprim
