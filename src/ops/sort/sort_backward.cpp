// The gradient of sort and top-k: zeros where no index leads, then a scatter along the axis.
#include <algorithm>
#include <climits>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<SortBackwardDesc> = 4;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct SortBackward::Impl {
  explicit Impl(const SortRows& rows) : at(rows) {}
  SortRows at;
  int n = 0, k = 0;
  std::optional<Pointwise> zero;
  Kernel scatter;
  int block = 1;
  size_t columns = 1, group[2] = {1, 1};
};

namespace {

int check(const SortBackwardDesc& d) {
  require_floating("dy", d.dy, true);
  require_floating("dx", d.dx, true);
  require(d.dy.shape.size() >= 1, "dy", "rank 0 must be 1 or more");
  const int axis = normalize_axis("axis", d.axis, d.dy.shape.size());
  require_strides("indices", d.indices);
  require_shape("indices", d.indices, d.dy.shape);
  require(d.indices.dtype == DType::i32 || d.indices.dtype == DType::i64, "indices", "dtype ",
          name_of(d.indices.dtype), " must be i32 or i64");
  require_rank("dx", d.dx, d.dy.shape.size());
  Shape shape = d.dy.shape;
  require(d.dx.shape[axis] >= shape[axis] && d.dx.shape[axis] < INT_MAX, "dx", "size ", d.dx.shape[axis],
          " along axis ", axis, " must lie in [", shape[axis], ", ", INT_MAX, ")");
  shape[axis] = d.dx.shape[axis];
  require_shape("dx", d.dx, shape);
  require_writable("dx", d.dx);
  return axis;
}

}  // namespace

SortBackward::SortBackward(const Context& context, const SortBackwardDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const int axis = check(desc);
  for (const TensorDesc* t : {&desc.dy, &desc.dx}) require_real(context, t->dtype);
  auto impl = std::make_shared<Impl>(SortRows({&desc.dy, &desc.indices, &desc.dx}, axis));
  impl->n = static_cast<int>(desc.dx.shape[axis]);
  impl->k = static_cast<int>(desc.dy.shape[axis]);
  // As many indices as places leave none free.
  if (impl->k < impl->n)
    impl->zero.emplace(context, std::vector<TensorDesc>{}, std::vector{desc.dx}, 0, "y0 = 0");
  Defines defines;
  define_type(defines, "DY", desc.dy.dtype);
  define_type(defines, "DX", desc.dx.dtype);
  defines.set("INDEX", storage_type(desc.indices.dtype)).set("ROW_DIMS", impl->at.compiled_dims());
  impl->scatter = context.state().programs.kernel("sort_backward", "sort_backward", defines);
  if (context.device().kind() == DeviceKind::cpu) {
    impl->block = static_cast<int>(std::clamp(4096 / std::max(1, impl->k), 1, 4096));
  } else {
    const int64_t most = std::min<int64_t>(256, impl->scatter.max_work_group());
    int64_t lanes = 1;
    while (lanes * 2 <= most && lanes < impl->k) lanes *= 2;
    impl->group[0] = static_cast<size_t>(lanes);
    impl->group[1] = static_cast<size_t>(most / lanes);
    impl->columns = items_in_groups(impl->k, lanes);
  }
  impl_ = impl;
  PlanInfo info;
  info.text = cat("dy=", brief(desc.dy), " indices=", brief(desc.indices), " dx=", brief(desc.dx),
                  " axis=", desc.axis);
  info.bytes = traffic({desc.dy, desc.indices, desc.dx});
  info_ = single_engine("sort_backward", "scatter", "", context, options, std::move(info));
}

void SortBackward::run(const Stream& stream, const Tensor& dy, const Tensor& indices, const Tensor& dx,
                       const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("indices", indices, stream.context(), desc_.indices);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dy", dy}, {"indices", indices}});
  workspace_for(*info_, stream, workspace);
  if (dx.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  const Impl& m = *impl_;
  if (m.zero) m.zero->run(stream, {}, {dx}, {});
  if (m.k == 0) return;
  Launch launch(stream, m.scatter);
  m.at.bind_all(launch, {&dy, &indices, &dx});
  launch.arg(m.at.rows).arg(m.k).arg(m.n).arg(m.block).arg(static_cast<int>(m.columns));
  launch.run({m.columns, items_in_groups(ceil_div(m.at.rows, m.block), static_cast<int64_t>(m.group[1]))},
             {m.group[0], m.group[1]});
}

void sort_backward(const Stream& stream, const Tensor& dy, const Tensor& indices, int axis, const Tensor& dx,
                   const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"indices", indices}, {"dx", dx}});
  const SortBackwardDesc desc{dy, indices, dx, axis};
  cached_plan<SortBackward>(stream, "sort_backward", desc, options, workspace)
      ->run(stream, dy, indices, dx, workspace);
}

}  // namespace dlprim
