// Pooling: checks, and its two engines: pool_cpu.cl and pool.cl.
#include <dlprim/pool.hpp>

#include <algorithm>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"

namespace dlprim {

using namespace detail;

namespace {

struct Problem {
  PoolDesc desc;
  bool backward = false;
  bool max() const { return desc.params.mode == PoolMode::max; }
  /// Whether channels lie closer together than columns: work runs along them then.
  bool channels_last() const {
    const TensorDesc& x = desc.x;
    return x.shape[1] > 1 && x.strides[1] < x.strides[3];
  }
};

int64_t output_size(const char* axis, int64_t size, const PoolParams& p, size_t i) {
  const int64_t kernel = p.kernel[i], stride = p.stride[i], begin = p.pad_begin[i], end = p.pad_end[i];
  require(kernel >= 1, "kernel", kernel, " along ", axis, " must be 1 or more");
  require(stride >= 1, "stride", stride, " along ", axis, " must be 1 or more");
  require(begin >= 0 && begin < kernel, "pad_begin", begin, " along ", axis,
          " must lie in [0, kernel), kernel is ", kernel);
  require(end >= 0 && end < kernel, "pad_end", end, " along ", axis, " must lie in [0, kernel), kernel is ",
          kernel);
  require(size >= 1, "x", "size ", size, " along ", axis, " must be 1 or more");
  to_int("kernel", kernel + stride);
  to_int("x", size + begin + end + kernel + stride);  // the kernels count in 32 bits
  const int64_t room = size + begin + end - kernel + (p.ceil_mode ? stride - 1 : 0);
  int64_t count = room < 0 ? 0 : room / stride + 1;
  if (p.ceil_mode && count > 0 && (count - 1) * stride >= size + begin) count--;
  require(count >= 1, "x", "size ", size, " along ", axis, " with padding ", begin, " and ", end,
          " has no room for a window of ", kernel);
  return count;
}

}  // namespace

namespace detail {
struct PoolImpl : EngineImpl {
  Kernel kernel;
  size_t global[2] = {0, 0}, local[2] = {1, 1};
  std::array<int64_t, 15> sizes{};  ///< SIZES of pool_common.cl; they fit in an int

  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices) const {
    Launch launch(stream, kernel);
    for (const Tensor* t : {&x, &y, &indices}) {
      launch.arg(*t);
      for (int i = 0; i < 4; i++) launch.arg(t->defined() ? t->strides()[i] : int64_t{0});
    }
    for (int64_t size : sizes) launch.arg(static_cast<int>(size));
    launch.run({global[0], global[1]}, {local[0], local[1]});
  }
};
}  // namespace detail

namespace {

/// Whether all tensors have stride 1 along the axis that work runs along.
bool unit_strides(const Problem& problem) {
  const int axis = problem.channels_last() ? 1 : 3;
  const auto unit = [&](const TensorDesc& t) { return t.strides[axis] == 1 || t.shape[axis] == 1; };
  const PoolDesc& d = problem.desc;
  return unit(d.x) && unit(d.y) && (!d.indices || unit(d.indices_desc));
}

Defines common_defines(const Problem& problem) {
  const PoolDesc& d = problem.desc;
  Defines defines;
  defines.set("DTYPE", name_of(d.x.dtype)).set("T", storage_type(d.x.dtype)).set("AVERAGE", !problem.max());
  defines.set("INDICES", d.indices).set("CHANNELS_LAST", problem.channels_last());
  return defines.set("INCLUDE_PAD", problem.max() || d.params.count_include_pad);
}

std::unique_ptr<PoolImpl> make_impl(const Context& context, const Problem& problem, const char* file,
                                    const Defines& defines, int64_t block) {
  const PoolParams& p = problem.desc.params;
  const Shape &x = problem.desc.x.shape, &y = problem.desc.y.shape;
  auto impl = std::make_unique<PoolImpl>();
  const char* name = problem.backward ? "pool_backward" : "pool_forward";
  impl->kernel = context.state().programs.kernel(file, name, defines);
  impl->sizes = {x[0],        x[1],           x[2],           x[3],         y[2],
                 y[3],        p.pad_begin[0], p.pad_begin[1], p.pad_end[0], p.pad_end[1],
                 p.kernel[0], p.kernel[1],    p.stride[0],    p.stride[1],  block};
  for (int64_t size : impl->sizes) to_int("x", size);
  return impl;
}

// Each form runs on every device, and is the better one on its own kind.
std::string never(const Context&, const Problem&, const Options&) {
  return "";
}

std::unique_ptr<const PoolImpl> make_cpu(const Context& context, const Problem& problem, const Options&) {
  constexpr int64_t kElements = 4096;  // of one work-group: far above the cost of starting it
  const Shape &x = problem.desc.x.shape,
              &written = (problem.backward ? problem.desc.x : problem.desc.y).shape;
  const bool last = problem.channels_last();
  const int64_t row = std::max<int64_t>(written[3] * (last ? x[1] : 1), 1);
  const int64_t block = std::clamp<int64_t>(kElements / row, 1, written[2]);
  const int64_t step = problem.desc.params.stride[1];
  Defines defines = common_defines(problem);
  defines.set("UNIT", unit_strides(problem)).set("STRIDE_W", step <= 2 ? step : 0);
  auto impl = make_impl(context, problem, "pool_cpu", defines, block);
  impl->global[0] = static_cast<size_t>(ceil_div(written[2], block));
  impl->global[1] = static_cast<size_t>(last ? x[0] : x[0] * x[1]);
  return impl;
}

std::unique_ptr<const PoolImpl> make_direct(const Context& context, const Problem& problem, const Options&) {
  const PoolParams& p = problem.desc.params;
  const Shape &x = problem.desc.x.shape,
              &written = (problem.backward ? problem.desc.x : problem.desc.y).shape;
  Defines defines = common_defines(problem);
  const auto small = [](const std::array<int64_t, 2>& a) { return a[0] <= 3 && a[1] <= 3; };
  if (small(p.kernel) && small(p.stride)) {
    defines.set("KERNEL_H", p.kernel[0]).set("KERNEL_W", p.kernel[1]);
    defines.set("STRIDE_H", p.stride[0]).set("STRIDE_W", p.stride[1]);
  }
  auto impl = make_impl(context, problem, "pool", defines, 0);
  const int64_t plane = written[2] * written[3];
  const int64_t across = problem.channels_last() ? x[1] : plane;
  const int64_t down = problem.channels_last() ? x[0] * plane : x[0] * x[1];
  const int64_t most = std::min<int64_t>(256, static_cast<int64_t>(impl->kernel.max_work_group()));
  const int64_t lanes = std::min<int64_t>(most, across > 32 ? 64 : 16);
  impl->local[0] = static_cast<size_t>(lanes);
  impl->local[1] = static_cast<size_t>(most / lanes);
  impl->global[0] = items_in_groups(across, lanes);
  impl->global[1] = items_in_groups(down, most / lanes);
  return impl;
}

/// Checks the description and chooses the engine.
std::shared_ptr<const PoolImpl> plan(const Context& context, const Problem& problem, const Options& options,
                                     std::shared_ptr<const PlanInfo>& info) {
  const PoolDesc& d = problem.desc;
  require(d.params.mode == PoolMode::max || d.params.mode == PoolMode::average, "mode", "number ",
          static_cast<int>(d.params.mode), " does not exist");
  const char *x = problem.backward ? "dx" : "x", *y = problem.backward ? "dy" : "y";
  require_floating(x, d.x, false);
  require_floating(y, d.y, false);
  require_dtype(y, d.y, d.x.dtype);
  require_shape(y, d.y, pool2d_output_shape(d.x.shape, d.params));
  require_writable(problem.backward ? x : y, problem.backward ? d.x : d.y);
  require(problem.max() || !d.indices, "indices", "average pooling has none");
  require(!problem.max() || d.indices || !problem.backward, "indices",
          "the backward direction of max pooling needs them");
  if (d.indices) {
    require_dtype("indices", d.indices_desc, DType::i32);
    require_shape("indices", d.indices_desc, d.y.shape);
    require_strides("indices", d.indices_desc);
    if (!problem.backward) require_writable("indices", d.indices_desc);
    to_int("x", d.x.shape[2] * d.x.shape[3]);
  }

  std::vector<Engine<Problem, PoolImpl>> engines = {{"cpu", never, make_cpu}, {"direct", never, make_direct}};
  if (context.device().kind() != DeviceKind::cpu) std::swap(engines[0], engines[1]);
  PlanInfo made;
  const char* op = problem.backward ? "pool2d_backward" : "pool2d";
  std::shared_ptr<const PoolImpl> impl = choose_engine(op, engines, context, problem, options, made);
  const PoolParams& p = d.params;
  made.text =
      cat("op=", op, " engine=", made.engine, " mode=", problem.max() ? "max" : "average", " x=", brief(d.x),
          " kernel=", p.kernel[0], ",", p.kernel[1], " stride=", p.stride[0], ",", p.stride[1],
          " pad=", p.pad_begin[0], ",", p.pad_begin[1], ",", p.pad_end[0], ",", p.pad_end[1],
          " ceil_mode=", p.ceil_mode, " count_include_pad=", p.count_include_pad, " indices=", d.indices);
  made.flops = static_cast<double>(element_count(d.y.shape)) * static_cast<double>(p.kernel[0] * p.kernel[1]);
  made.bytes = traffic({d.x, d.y}) + (d.indices ? traffic({d.indices_desc}) : 0);
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

PoolDesc describe(const Tensor& x, const Tensor& y, const Tensor& indices, const PoolParams& params) {
  PoolDesc desc{x, y, indices.defined(), {}, params};
  if (desc.indices) desc.indices_desc = indices;
  return desc;
}

PlanKey key_of(const char* op, const PoolDesc& desc) {
  PlanKey key = PlanKey(op).add(desc.x).add(desc.y).add(desc.indices).add(desc.indices_desc);
  const PoolParams& p = desc.params;
  for (const auto& pair : {p.kernel, p.stride, p.pad_begin, p.pad_end}) key.add(pair[0]).add(pair[1]);
  return key.add(p.mode).add(p.ceil_mode).add(p.count_include_pad);
}

void check_run(const PlanInfo& info, const Stream& stream, const PoolDesc& desc, const Named& x,
               const Named& y, const Tensor& indices) {
  require_stream(info, stream);
  require_tensor(x.name, x.tensor, stream.context(), desc.x);
  require_tensor(y.name, y.tensor, stream.context(), desc.y);
  if (desc.indices)
    require_tensor("indices", indices, stream.context(), desc.indices_desc);
  else
    require(!indices.defined(), "indices", "is given to a plan without it");
}

}  // namespace

Shape pool2d_output_shape(const Shape& x, const PoolParams& params) {
  require(x.size() == 4, "x", "rank ", x.size(), " must be 4, [N, C, H, W]");
  return {x[0], x[1], output_size("H", x[2], params, 0), output_size("W", x[3], params, 1)};
}

Pool2D::Pool2D(const Context& context, const PoolDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, {desc, false}, options, info_)) {}

void Pool2D::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices) const {
  check_run(*info_, stream, desc_, {"x", x}, {"y", y}, indices);
  require_apart({{"y", y}, {"indices", indices}}, {{"x", x}});
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, x, y, indices);
}

Pool2DBackward::Pool2DBackward(const Context& context, const PoolDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, {desc, true}, options, info_)) {}

void Pool2DBackward::run(const Stream& stream, const Tensor& dy, const Tensor& indices,
                         const Tensor& dx) const {
  check_run(*info_, stream, desc_, {"dx", dx}, {"dy", dy}, indices);
  require_apart({{"dx", dx}}, {{"dy", dy}, {"indices", indices}});
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, dx, dy, indices);
}

void pool2d(const Stream& stream, const Tensor& x, const PoolParams& params, const Tensor& y,
            const Tensor& indices, const Options& options) {
  require_defined({{"x", x}, {"y", y}});
  const PoolDesc desc = describe(x, y, indices, params);
  cached_plan<Pool2D>(stream, key_of("pool2d", desc), desc, options)->run(stream, x, y, indices);
}

void pool2d_backward(const Stream& stream, const Tensor& dy, const Tensor& indices, const PoolParams& params,
                     const Tensor& dx, const Options& options) {
  require_defined({{"dy", dy}, {"dx", dx}});
  const PoolDesc desc = describe(dx, dy, indices, params);
  cached_plan<Pool2DBackward>(stream, key_of("pool2d_backward", desc), desc, options)
      ->run(stream, dy, indices, dx);
}

}  // namespace dlprim
