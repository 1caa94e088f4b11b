// Scans: checks, and which kernel they are.
#include <dlprim/scan.hpp>

#include "core/composed.hpp"
#include "ops/scan/scan_kernel.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ScanDesc> = 7;
template <>
inline constexpr int kFields<CumprodBackwardDesc> = 6;
template <>
inline constexpr int kFields<CummaxBackwardDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Scan::Impl {
  ScanDesc desc;
  std::shared_ptr<const ScanKernel> kernel;
};

struct CumprodBackward::Impl {
  CumprodBackwardDesc desc;
  std::shared_ptr<const ScanKernel> kernel;
};

struct CummaxBackward::Impl {
  CummaxBackwardDesc desc;
  std::shared_ptr<const ScanKernel> kernel;
};

namespace {

const char* op_of(ScanKind kind) {
  constexpr const char* kNames[] = {"cumsum", "cumprod", "cummax", "cummin"};
  return kNames[static_cast<int>(kind)];
}

void check_index(const TensorDesc& index, const Shape& shape) {
  require_strides("index", index);
  require_shape("index", index, shape);
  require(index.dtype == DType::i32 || index.dtype == DType::i64, "index", "dtype ", name_of(index.dtype),
          " must be i32 or i64");
}

void check(const ScanDesc& d) {
  const bool extreme = d.kind == ScanKind::maximum || d.kind == ScanKind::minimum;
  require_strides("x", d.x);
  require_writable("y", d.y);
  require_shape("y", d.y, d.x.shape);
  if (extreme) {
    require_dtype("y", d.y, d.x.dtype);
    require(!d.exclusive, "exclusive", op_of(d.kind), " of no elements is nothing");
  } else {
    const bool whole = !is_floating(d.y.dtype) && d.y.dtype != DType::boolean;
    require(is_floating(d.y.dtype) || (whole && !is_floating(d.x.dtype)), "y", "dtype ", name_of(d.y.dtype),
            ": ", op_of(d.kind), " of ", name_of(d.x.dtype), " is floating",
            is_floating(d.x.dtype) ? "" : " or an integer");
  }
  if (!d.index) return;
  require(extreme, "index", op_of(d.kind), " has none");
  require_writable("index", *d.index);
  check_index(*d.index, d.x.shape);
}

struct Planned {
  std::shared_ptr<const ScanKernel> kernel;
  std::shared_ptr<const PlanInfo> info;
};

/// The kernel of a problem whose first operand is x, and what the plan says of itself.
Planned planned(const char* op, const Context& context, ScanProblem problem, int axis,
                const Options& options) {
  const TensorDesc &x = problem.operands.front().desc, &y = problem.operands.back().desc;
  require(x.shape.size() > 0, "x", "rank 0 has no axis");
  problem.axis = normalize_axis("axis", axis, x.shape.size());
  auto info = std::make_shared<PlanInfo>();
  auto kernel = make_scan_kernel(context, problem, options, *info);
  info->text = cat("op=", op, " engine=", info->engine, " x=", brief(x), " y=", brief(y),
                   " axis=", problem.axis, " exclusive=", problem.exclusive, " reverse=", problem.reverse);
  info->flops = static_cast<double>(element_count(x.shape));
  for (const ScanOperand& o : problem.operands) info->bytes += traffic({o.desc});
  return {std::move(kernel), std::move(info)};
}

}  // namespace

Scan::Scan(const Context& context, const ScanDesc& desc, const Options& options) : Plan(nullptr) {
  check(desc);
  ScanProblem problem;
  problem.state = static_cast<ScanState>(desc.kind);
  problem.exclusive = desc.exclusive, problem.reverse = desc.reverse;
  problem.operands = {{"x", desc.x}};
  if (desc.index) problem.operands.push_back({"i", *desc.index, true});
  problem.operands.push_back({"y", desc.y, true});
  Planned made = planned(op_of(desc.kind), context, std::move(problem), desc.axis, options);
  impl_ = std::make_shared<const Impl>(Impl{desc, std::move(made.kernel)});
  info_ = std::move(made.info);
}

void Scan::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& index,
               const Tensor& workspace) const {
  const ScanDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), d.x);
  require_tensor("y", y, stream.context(), d.y);
  require_optional("index", index, stream.context(), d.index);
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"index", index}, {"workspace", workspace}}, {{"x", x}, {"y", y}});
  if (x.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  run_scan_kernel(*impl_->kernel, stream,
                  d.index ? std::vector<Tensor>{x, index, y} : std::vector<Tensor>{x, y}, space);
}

CumprodBackward::CumprodBackward(const Context& context, const CumprodBackwardDesc& desc,
                                 const Options& options)
    : Plan(nullptr) {
  require_floating("dy", desc.dy, true);
  require_floating("x", desc.x, true);
  require_floating("y", desc.y, true);
  require_floating("dx", desc.dx, true);
  require_writable("dx", desc.dx);
  require_shape("dy", desc.dy, desc.x.shape);
  require_shape("y", desc.y, desc.x.shape);
  require_shape("dx", desc.dx, desc.x.shape);
  ScanProblem problem;
  problem.state = ScanState::recurrence;
  problem.exclusive = true, problem.reverse = !desc.reverse;
  problem.operands = {{"x", desc.x}, {"g", desc.dy}, {"q", desc.y}, {"y", desc.dx, true}};
  Planned made = planned("cumprod_backward", context, std::move(problem), desc.axis, options);
  impl_ = std::make_shared<const Impl>(Impl{desc, std::move(made.kernel)});
  info_ = std::move(made.info);
}

void CumprodBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y,
                          const Tensor& dx, const Tensor& workspace) const {
  const CumprodBackwardDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), d.dy);
  require_tensor("x", x, stream.context(), d.x);
  require_tensor("y", y, stream.context(), d.y);
  require_tensor("dx", dx, stream.context(), d.dx);
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_same_or_apart({"dx", dx}, {"x", x});
  require_no_overlap("dx", dx, "y", y);
  require_apart({{"workspace", workspace}}, {{"dy", dy}, {"x", x}, {"y", y}, {"dx", dx}});
  if (x.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  run_scan_kernel(*impl_->kernel, stream, {x, dy, y, dx}, space);
}

CummaxBackward::CummaxBackward(const Context& context, const CummaxBackwardDesc& desc, const Options& options)
    : Plan(nullptr) {
  require_floating("dy", desc.dy, true);
  require_floating("dx", desc.dx, true);
  check_index(desc.index, desc.dy.shape);
  require_writable("dx", desc.dx);
  require_shape("dx", desc.dx, desc.dy.shape);
  ScanProblem problem;
  problem.state = ScanState::segments;
  problem.exclusive = true, problem.reverse = !desc.reverse;
  problem.operands = {{"x", desc.index}, {"g", desc.dy}, {"y", desc.dx, true}};
  Planned made = planned("cummax_backward", context, std::move(problem), desc.axis, options);
  impl_ = std::make_shared<const Impl>(Impl{desc, std::move(made.kernel)});
  info_ = std::move(made.info);
}

void CummaxBackward::run(const Stream& stream, const Tensor& dy, const Tensor& index, const Tensor& dx,
                         const Tensor& workspace) const {
  const CummaxBackwardDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), d.dy);
  require_tensor("index", index, stream.context(), d.index);
  require_tensor("dx", dx, stream.context(), d.dx);
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_no_overlap("dx", dx, "index", index);
  require_apart({{"workspace", workspace}}, {{"dy", dy}, {"index", index}, {"dx", dx}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  run_scan_kernel(*impl_->kernel, stream, {index, dy, dx}, space);
}

namespace {

void scan(const Stream& stream, ScanKind kind, const Tensor& x, const ScanParams& params, const Tensor& y,
          const Tensor& index, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const ScanDesc desc{x, y, params.axis, kind, params.exclusive, params.reverse, described(index)};
  cached_plan<Scan>(stream, "scan", desc, options, workspace)->run(stream, x, y, index, workspace);
}

}  // namespace

void cumsum(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
            const Options& options, const Tensor& workspace) {
  scan(stream, ScanKind::sum, x, params, y, {}, options, workspace);
}
void cumprod(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
             const Options& options, const Tensor& workspace) {
  scan(stream, ScanKind::product, x, params, y, {}, options, workspace);
}
void cummax(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
            const Tensor& index, const Options& options, const Tensor& workspace) {
  scan(stream, ScanKind::maximum, x, params, y, index, options, workspace);
}
void cummin(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
            const Tensor& index, const Options& options, const Tensor& workspace) {
  scan(stream, ScanKind::minimum, x, params, y, index, options, workspace);
}

void cumsum_backward(const Stream& stream, const Tensor& dy, const ScanParams& params, const Tensor& dx,
                     const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"dx", dx}});
  require_floating("dy", dy, true);
  cumsum(stream, dy, {params.axis, params.exclusive, !params.reverse}, dx, options, workspace);
}

void cumprod_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y,
                      const ScanParams& params, const Tensor& dx, const Options& options,
                      const Tensor& workspace) {
  require_defined({{"dy", dy}, {"x", x}, {"y", y}, {"dx", dx}});
  require(!params.exclusive, "exclusive", "the gradient of exclusive products is not there");
  const CumprodBackwardDesc desc{dy, x, y, dx, params.axis, params.reverse};
  cached_plan<CumprodBackward>(stream, "cumprod_backward", desc, options, workspace)
      ->run(stream, dy, x, y, dx, workspace);
}

void cummax_backward(const Stream& stream, const Tensor& dy, const Tensor& index, const ScanParams& params,
                     const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"index", index}, {"dx", dx}});
  require(!params.exclusive, "exclusive", "maxima and minima are of one element or more");
  const CummaxBackwardDesc desc{dy, index, dx, params.axis, params.reverse};
  cached_plan<CummaxBackward>(stream, "cummax_backward", desc, options, workspace)
      ->run(stream, dy, index, dx, workspace);
}

}  // namespace dlprim
