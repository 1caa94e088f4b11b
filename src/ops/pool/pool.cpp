// Pooling: checks and calls. The engines are in pool_engines.cpp.
#include <dlprim/pool.hpp>

#include <algorithm>
#include <cmath>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "ops/lib/axis_list.hpp"
#include "ops/pool/pool_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<PoolParams> = 11;
template <>
inline constexpr int kFields<PoolDesc> = 4;
template <>
inline constexpr int kFields<PoolBackwardDesc> = 6;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

int spatial_rank(const PoolParams& p) {
  return p.output.empty() ? p.kernel.size() : p.output.size();
}

/// What can be said of the params without a shape.
void check(const PoolParams& p) {
  require(p.mode == PoolMode::max || p.mode == PoolMode::average || p.mode == PoolMode::lp, "mode", "number ",
          static_cast<int>(p.mode), " does not exist");
  const bool adaptive = !p.output.empty();
  const char* list = adaptive ? "output" : "kernel";
  const int spatial = spatial_rank(p);
  require(spatial >= 1 && spatial <= 3, list, spatial, " numbers, must be 1 to 3");
  const std::pair<const char*, const Dims&> lists[] = {
      {"kernel", p.kernel},   {"stride", p.stride},     {"pad_begin", p.pad_begin},
      {"pad_end", p.pad_end}, {"dilation", p.dilation},
  };
  for (const auto& [name, numbers] : lists) {
    require(!adaptive || numbers.empty(), name, "is given for adaptive windows");
    require(numbers.size() <= (name == std::string("kernel") ? 0 : 1) || numbers.size() == spatial, name,
            numbers.size(), " numbers, ", list, " has ", spatial);
  }
  require(!adaptive || !p.ceil_mode, "ceil_mode", "is given for adaptive windows");
  require(p.divisor == 0 || p.mode == PoolMode::average, "divisor", "is for averages");
  to_int("divisor", std::abs(p.divisor));
  require(std::isfinite(p.norm) && p.norm != 0, "norm", p.norm, " must be finite and not 0");
}

std::string axis_name(int spatial, int i) {
  return std::string(1, "DHW"[3 - spatial + i]);
}

/// The windows along spatial dimension i.
int64_t output_size(const PoolParams& p, int i, int64_t size) {
  const std::string axis = " along " + axis_name(spatial_rank(p), i);
  require(size >= 1, "x", "size ", size, axis, " must be 1 or more");
  if (!p.output.empty()) {
    require(p.output[i] >= 1, "output", p.output[i], axis, " must be 1 or more");
    to_int("output", p.output[i] + size);
    return p.output[i];
  }
  const int64_t kernel = p.kernel[i], stride = number_along(p.stride, i, kernel);
  const int64_t dilation = number_along(p.dilation, i, 1), begin = number_along(p.pad_begin, i, 0);
  const int64_t end = number_along(p.pad_end, i, begin);
  require(kernel >= 1, "kernel", kernel, axis, " must be 1 or more");
  require(stride >= 1, "stride", stride, axis, " must be 1 or more");
  require(dilation >= 1, "dilation", dilation, axis, " must be 1 or more");
  for (int64_t number : {kernel, stride, dilation, size}) to_int("kernel", number);
  const int64_t reach = (kernel - 1) * dilation + 1;
  const auto fits = [&](const char* name, int64_t pad) {
    require(pad >= 0 && pad < reach, name, pad, axis, " must lie in [0, ", reach, "), the window's reach");
  };
  fits("pad_begin", begin);
  fits("pad_end", end);
  to_int("kernel", size + begin + end + reach + stride);  // kernels count in 32 bits
  const int64_t room = size + begin + end - reach + (p.ceil_mode ? stride - 1 : 0);
  int64_t count = room < 0 ? 0 : room / stride + 1;
  if (p.ceil_mode && count > 0 && (count - 1) * stride >= size + begin) count--;
  require(count >= 1, "x", "size ", size, axis, " with padding ", begin, " and ", end,
          " has no room for a window of ", reach);
  return count;
}

/// Both directions' tensors under the names of the caller's arguments.
struct NamedDesc {
  const char* name;
  const TensorDesc& desc;
};

/// Checks x and y, or dx and dy, and describes the problem.
PoolProblem checked(const PoolParams& params, const NamedDesc& x, const NamedDesc& y) {
  require_floating(x.name, x.desc, true);
  require_floating(y.name, y.desc, true);
  require_dtype(y.name, y.desc, x.desc.dtype);
  require_shape(y.name, y.desc, pool_output_shape(x.desc.shape, params));
  PoolProblem result = pool_problem(params, x.desc, y.desc);
  to_int("kernel", result.volume());
  for (const TensorDesc& t : {result.x, result.y}) {
    const Shape& s = t.shape;
    to_int(x.name, s[1] * s[2] * s[3] * s[4]);
  }
  return result;
}

/// Checks indices and gives them to the problem.
void add_indices(PoolProblem& problem, const TensorDesc& indices, const Shape& y, int spatial) {
  require(indices.dtype == DType::i32 || indices.dtype == DType::i64, "indices", "dtype ",
          name_of(indices.dtype), " must be i32 or i64");
  require_shape("indices", indices, y);
  require_strides("indices", indices);
  problem.indices = with_all_axes(indices, spatial);
}

void add_saved(std::optional<TensorDesc>& to, const char* name, const std::optional<TensorDesc>& saved,
               const TensorDesc& like, int spatial) {
  require(saved.has_value(), name, "the backward direction of norms needs it");
  require_strides(name, *saved);
  require_dtype(name, *saved, like.dtype);
  require_shape(name, *saved, like.shape);
  to = with_all_axes(*saved, spatial);
}

const char* mode_name(PoolMode mode) {
  return mode == PoolMode::max ? "max" : mode == PoolMode::average ? "average" : "lp";
}

/// "2,2", for a plan's text.
std::string joined(const Dims& dims) {
  std::string text;
  for (int64_t d : dims) text += cat(text.empty() ? "" : ",", d);
  return text;
}

constexpr EngineList<PoolProblem, PoolPlan> kEngines = {
    &kPoolGenerated, &kPoolWide, &kPoolScatter, &kPoolColumns, &kPoolDirect, &kPoolPlanes, &kPoolCpu};

std::shared_ptr<const PoolPlan> plan(const Context& context, const PoolProblem& problem, const PoolParams& p,
                                     const TensorDesc& x, const TensorDesc& y, const Options& options,
                                     std::shared_ptr<const PlanInfo>& info) {
  require(problem.x.dtype != DType::f64 || context.device().probes().fp64, "dtype", "f64 on ",
          context.device().name(), ", which has none");
  PlanInfo made;
  const char* op = problem.backward ? "pool_backward" : "pool";
  std::shared_ptr<const PoolPlan> impl = choose_engine(op, kEngines, context, problem, options, made);
  made.text =
      cat("op=", op, " engine=", made.engine, " mode=", mode_name(p.mode), " x=", brief(x), " y=", brief(y));
  const std::pair<const char*, const Dims&> lists[] = {
      {"kernel", p.kernel},   {"stride", p.stride},     {"pad_begin", p.pad_begin},
      {"pad_end", p.pad_end}, {"dilation", p.dilation}, {"output", p.output},
  };
  for (const auto& [name, numbers] : lists)
    if (!numbers.empty()) made.text += cat(" ", name, "=", joined(numbers));
  made.text += cat(" ceil_mode=", p.ceil_mode, " count_include_pad=", p.count_include_pad,
                   " divisor=", p.divisor, " norm=", p.norm, " indices=", problem.indices.has_value());
  made.flops = static_cast<double>(element_count(problem.y.shape)) * static_cast<double>(problem.volume());
  made.bytes = traffic(problem.tensors());
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

}  // namespace

PoolParams global_pool(PoolMode mode, int spatial) {
  require(spatial >= 1 && spatial <= 3, "spatial", spatial, " must be 1 to 3");
  return adaptive_pool(mode, Dims::filled(spatial, 1));
}

PoolParams adaptive_pool(PoolMode mode, const Dims& output) {
  PoolParams params;
  params.mode = mode;
  params.output = output;
  return params;
}

Shape pool_output_shape(const Shape& x, const PoolParams& params) {
  check(params);
  const int spatial = spatial_rank(params), leading = x.size() - spatial;
  require(leading == 1 || leading == 2, "x", "rank ", x.size(), " must be ", spatial + 1, " or ", spatial + 2,
          ", ", spatial, " of them spatial");
  Shape y = x;
  for (int i = 0; i < spatial; i++) y[leading + i] = output_size(params, i, x[leading + i]);
  return y;
}

Pool::Pool(const Context& context, const PoolDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  PoolProblem problem = checked(desc.params, {"x", desc.x}, {"y", desc.y});
  require_writable("y", desc.y);
  if (desc.indices) {
    require(desc.params.mode == PoolMode::max, "indices", "are of maxima");
    add_indices(problem, *desc.indices, desc.y.shape, spatial_rank(desc.params));
    require_writable("indices", *desc.indices);
  }
  impl_ = plan(context, problem, desc.params, desc.x, desc.y, options, info_);
}

void Pool::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices,
               const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_optional("indices", indices, stream.context(), desc_.indices);
  require_apart({{"y", y}, {"indices", indices}}, {{"x", x}});
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}, {"indices", indices}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {x, y, indices, {}, {}}, space);
}

PoolBackward::PoolBackward(const Context& context, const PoolBackwardDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  PoolProblem problem = checked(desc.params, {"dx", desc.dx}, {"dy", desc.dy});
  require_writable("dx", desc.dx);
  problem.backward = true;
  const PoolMode mode = desc.params.mode;
  const int spatial = spatial_rank(desc.params);
  require(mode != PoolMode::max || desc.indices, "indices", "the backward direction of maxima needs them");
  require(mode == PoolMode::max || !desc.indices, "indices", "are of maxima");
  require(mode == PoolMode::lp || !desc.x, "x", "is for the backward direction of norms");
  require(mode == PoolMode::lp || !desc.y, "y", "is for the backward direction of norms");
  if (desc.indices) add_indices(problem, *desc.indices, desc.dy.shape, spatial);
  if (mode == PoolMode::lp) {
    add_saved(problem.saved_x, "x", desc.x, desc.dx, spatial);
    add_saved(problem.saved_y, "y", desc.y, desc.dy, spatial);
  }
  impl_ = plan(context, problem, desc.params, desc.dx, desc.dy, options, info_);
}

void PoolBackward::run(const Stream& stream, const Tensor& dy, const PoolSaved& saved, const Tensor& dx,
                       const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_optional("indices", saved.indices, stream.context(), desc_.indices);
  require_optional("x", saved.x, stream.context(), desc_.x);
  require_optional("y", saved.y, stream.context(), desc_.y);
  require_apart({{"dx", dx}}, {{"dy", dy}, {"indices", saved.indices}, {"x", saved.x}, {"y", saved.y}});
  require_apart({{"workspace", workspace}},
                {{"dx", dx}, {"dy", dy}, {"indices", saved.indices}, {"x", saved.x}, {"y", saved.y}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {dx, dy, saved.indices, saved.x, saved.y}, space);
}

void pool(const Stream& stream, const Tensor& x, const PoolParams& params, const Tensor& y,
          const Tensor& indices, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const PoolDesc desc{x, y, params, described(indices)};
  cached_plan<Pool>(stream, "pool", desc, options, workspace)->run(stream, x, y, indices, workspace);
}

void pool_backward(const Stream& stream, const Tensor& dy, const PoolSaved& saved, const PoolParams& params,
                   const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"dx", dx}});
  const PoolBackwardDesc desc{
      dy, dx, params, described(saved.indices), described(saved.x), described(saved.y)};
  cached_plan<PoolBackward>(stream, "pool_backward", desc, options, workspace)
      ->run(stream, dy, saved, dx, workspace);
}

}  // namespace dlprim
