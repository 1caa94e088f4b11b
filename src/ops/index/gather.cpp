// Gather and scatter along one axis, and what they make together with index.hpp.
#include <dlprim/index.hpp>

#include "ops/index/indexing_write.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<GatherDesc> = 4;
template <>
inline constexpr int kFields<ScatterDesc> = 6;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Gather::Impl {
  GatherDesc desc;
  int axis;  ///< not negative
  IndexRead read;
};

struct Scatter::Impl {
  ScatterDesc desc;
  int axis;  ///< not negative
  WriteStart start;
  IndexWrite write;
};

namespace {

/// Checks what gather and scatter share, and gives the axis. `table` is what is indexed, `dense` the other.
int check(const char* table_name, const TensorDesc& table, const char* dense_name, const TensorDesc& dense,
          const TensorDesc& index, int axis) {
  require_strides(table_name, table);
  require_strides(dense_name, dense);
  require_indices({index}, "index");
  const int rank = table.shape.size();
  require(rank >= 1, table_name, "rank 0 has no axis");
  require_rank("index", index, rank);
  require_shape(dense_name, dense, index.shape);
  const int along = normalize_axis("axis", axis, rank);
  for (int i = 0; i < rank; i++)
    require(i == along || index.shape[i] <= table.shape[i], "index", "shape ", index.shape,
            " is larger than ", table_name, "'s ", table.shape, " along another axis than ", along);
  return along;
}

/// Tensors as they broadcast against each other along all axes but one.
Tensor broadcast_but(const Tensor& x, const Shape& other, int axis) {
  Shape shape = x.shape();
  for (int i = 0; i < shape.size(); i++)
    if (i != axis && shape[i] == 1) shape[i] = other[i];
  return x.expand(shape);
}

std::vector<Tensor> along(const Tensor& x, const Tensor& index, int axis) {
  std::vector<Tensor> indices(static_cast<size_t>(normalize_axis("axis", axis, x.rank())) + 1);
  indices.back() = index;
  require_rank("index", index, 1);
  return indices;
}

}  // namespace

Gather::Gather(const Context& context, const GatherDesc& desc, const Options& options) : Plan(nullptr) {
  const int axis = check("x", desc.x, "y", desc.y, desc.index, desc.axis);
  require_dtype("y", desc.y, desc.x.dtype);
  require_writable("y", desc.y);
  auto impl = std::make_shared<Impl>(
      Impl{desc, axis,
           IndexRead(context, gather_nest(desc.x, desc.index, desc.y, axis), desc.x, desc.y, options)});
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " index=", brief(desc.index), " axis=", axis);
  info.bytes = traffic({desc.index, desc.y, desc.y});
  info_ = single_engine("gather", impl->read.engine(), "", context, options, std::move(info));
  impl_ = std::move(impl);
}

void Gather::run(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& y,
                 const Tensor& workspace) const {
  require_stream(*info_, stream);
  const GatherDesc& d = impl_->desc;
  require_tensor("x", x, stream.context(), d.x);
  require_tensor("index", index, stream.context(), d.index);
  require_tensor("y", y, stream.context(), d.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}, {"index", index}});
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  check_index(stream, "gather", "index", index, positions_of(x.shape()[impl_->axis]));
  impl_->read.run(stream, x, {index}, y);
}

Scatter::Scatter(const Context& context, const ScatterDesc& desc, const Options& options) : Plan(nullptr) {
  const int axis = check("y", desc.y, "src", desc.src, desc.index, desc.axis);
  require_writable("y", desc.y);
  PlanInfo info;
  info.text = cat("y=", brief(desc.y), " index=", brief(desc.index), " axis=", axis,
                  " reduce=", static_cast<int>(desc.params.reduce));
  info.bytes = traffic({desc.index, desc.src, desc.src});
  const WriteProblem problem{gather_nest(desc.y, desc.index, desc.src, axis), desc.src, desc.y, desc.params};
  WriteStart start(context, desc.x, desc.y);
  impl_ = std::make_shared<Impl>(
      Impl{desc, axis, std::move(start), IndexWrite("scatter", context, problem, options, info)});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void Scatter::run(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& src,
                  const Tensor& y, const Tensor& workspace) const {
  const ScatterDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require_tensor("index", index, stream.context(), d.index);
  require_tensor("src", src, stream.context(), d.src);
  require_tensor("y", y, stream.context(), d.y);
  impl_->start.check(stream, x, y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"index", index}, {"src", src}});
  require_apart({{"workspace", workspace}}, {{"x", x}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->start.run(stream, x, y);
  check_index(stream, "scatter", "index", index, positions_of(y.shape()[impl_->axis]));
  impl_->write.run(stream, src, {index}, y, space);
}

void gather(const Stream& stream, const Tensor& x, const Tensor& index, int axis, const Tensor& y,
            const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"index", index}, {"y", y}});
  const GatherDesc desc{x, index, y, axis};
  cached_plan<Gather>(stream, "gather", desc, options, workspace)->run(stream, x, index, y, workspace);
}

void scatter(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& src, int axis,
             const ScatterParams& params, const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"index", index}, {"src", src}, {"y", y}});
  const ScatterDesc desc{described(x), index, src, y, axis, params};
  cached_plan<Scatter>(stream, "scatter", desc, options, workspace)->run(stream, x, index, src, y, workspace);
}

void take_along(const Stream& stream, const Tensor& x, const Tensor& index, int axis, const Tensor& y,
                const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"index", index}, {"y", y}});
  require_rank("index", index, x.rank());
  const int along = normalize_axis("axis", axis, x.rank());
  const CheckedOperator name("take_along");
  gather(stream, broadcast_but(x, index.shape(), along), broadcast_but(index, x.shape(), along), along, y,
         options, workspace);
}

void gather_backward(const Stream& stream, const Tensor& dy, const Tensor& index, int axis, const Tensor& dx,
                     const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"index", index}, {"dx", dx}});
  const CheckedOperator name("gather_backward");
  scatter(stream, {}, index, dy, axis, {ScatterReduce::sum, true}, dx, options, workspace);
}

void index_select(const Stream& stream, const Tensor& x, const Tensor& index, int axis, const Tensor& y,
                  const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"index", index}, {"y", y}});
  const CheckedOperator name("index_select");
  dlprim::index(stream, x, along(x, index, axis), y, options, workspace);
}

void index_select_backward(const Stream& stream, const Tensor& dy, const Tensor& index, int axis,
                           const Tensor& dx, const Options& options, const Tensor& workspace) {
  const CheckedOperator name("index_select_backward");
  index_write(stream, {}, index, dy, axis, {ScatterReduce::sum, true}, dx, options, workspace);
}

void index_write(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& src, int axis,
                 const ScatterParams& params, const Tensor& y, const Options& options,
                 const Tensor& workspace) {
  require_defined({{"index", index}, {"src", src}, {"y", y}});
  const CheckedOperator name("index_write");
  index_put(stream, x, along(y, index, axis), src, params, y, options, workspace);
}

}  // namespace dlprim
