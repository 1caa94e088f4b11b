// The engines of pooling that have kernels of their own, pool*.cl.
#include <dlprim/pointwise.hpp>

#include <algorithm>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/pool/pool_impl.hpp"

namespace dlprim::detail {

#include "kernels/pool/pool.h"

namespace {

/// What the kernel's parameters end with; `space` is `block` and a workspace of sums.
enum class Tail : uint8_t { grid, block, space };

struct KernelPool : PoolPlan {
  PoolProblem problem;
  Kernel kernel;
  std::optional<Pointwise> zero;  ///< what dx is filled with before
  std::array<size_t, 3> global{1, 1, 1}, local{1, 1, 1};
  Tail tail = Tail::block;
  bool wide_index = false;
  PoolAxes axes{};
  PoolGrid grid{};  ///< for Tail::grid
  int64_t block = 0;
  int64_t sums = 0;  ///< numbers in the workspace

  DType real() const { return problem.x.dtype == DType::f64 ? DType::f64 : DType::f32; }
  size_t workspace_size() const override { return static_cast<size_t>(sums) * size_of(real()); }
  void bind(Launch& launch, const Tensor& tensor, const std::optional<TensorDesc>& desc) const {
    launch.arg(tensor);
    for (int i = 0; i < 5; i++) {
      const int64_t stride = desc && desc->shape[i] > 1 ? desc->strides[i] : 0;
      if (i == 0 || wide_index)
        launch.arg(stride);
      else
        launch.arg(static_cast<int>(stride));
    }
  }
  void run(const Stream& stream, const PoolTensors& t, const Tensor& workspace) const override {
    if (zero) zero->run(stream, {}, {t.x.as_strided(problem.x.shape, problem.x.strides)}, {});
    if (t.y.numel() == 0) return;
    Launch launch(stream, kernel);
    bind(launch, t.x, problem.x);
    bind(launch, t.y, problem.y);
    bind(launch, t.indices, problem.indices);
    if (problem.backward) {
      bind(launch, t.saved_x, problem.saved_x);
      bind(launch, t.saved_y, problem.saved_y);
    }
    launch.arg(axes).real(problem.x.dtype, problem.norm);
    if (tail == Tail::grid)
      launch.arg(grid);
    else
      launch.arg(static_cast<int>(block));
    if (tail == Tail::space) launch.arg(sums ? workspace_part(workspace, 0, {sums}, real()) : Tensor());
    launch.run({global[0], global[1], global[2]}, {local[0], local[1], local[2]});
  }
};

/// Whether offsets within an image need 64 bits.
bool needs_wide_index(const PoolProblem& problem) {
  for (const TensorDesc& t : problem.tensors()) {
    TensorDesc image = t;
    image.shape[0] = std::min<int64_t>(image.shape[0], 1);
    if (extent_of(image) > int64_t{0x7fffffff}) return true;
  }
  return false;
}

bool products_fit(const PoolProblem& problem) {
  return std::all_of(problem.axes.begin(), problem.axes.end(),
                     [](const PoolAxis& a) { return (a.out + 1) * (a.size + 1) < int64_t{0x7fffffff}; });
}

bool is_trivial(const PoolAxis& a) {
  return a.size == 1 && a.kernel == 1 && a.stride == 1 && a.limit == 1 && a.pad == 0;
}

/// Windows of 2 or 3 along each axis, with one stride of at most 3: few kernels for what most networks have.
bool is_small_cube(const PoolProblem& p) {
  const PoolAxis& last = p.axes[2];
  return last.kernel >= 2 && last.kernel <= 3 && last.stride <= 3 &&
         std::all_of(p.axes.begin(), p.axes.end(), [&](const PoolAxis& a) {
           return is_trivial(a) || (a.kernel == last.kernel && a.stride == last.stride);
         });
}

/// Macros of pool_common.cl. Strides up to `most_stride` are compiled in, and windows that are small cubes.
Defines common_defines(const PoolProblem& p, bool wide_index, int64_t most_stride = 0) {
  const bool f64 = p.x.dtype == DType::f64;
  Defines defines;
  defines.set("DTYPE", name_of(p.x.dtype)).set("T", storage_type(p.x.dtype));
  defines.set("REAL", f64 ? "double" : "float").set("LANE", f64 ? "long" : "int");
  defines.set("INDEX", wide_index ? "long" : "int").set("MODE", static_cast<int>(p.mode));
  defines.set("INDICES", p.indices.has_value() && !p.backward).set("UNIFORM", p.uniform());
  if (p.indices) {
    const bool i64 = p.indices->dtype == DType::i64;
    defines.set("PLACE_TYPE", i64 ? "long" : "int").set("PLACE_VECTOR", i64 ? "long2" : "int4");
  }
  if (p.mode == PoolMode::lp) {
    const bool small = p.norm == 1 || p.norm == 2 || p.norm == 3 || p.norm == 4;
    defines.set("NORM", small ? static_cast<int>(p.norm) : 0);
  }
  defines.set("INCLUDE_PAD", p.uniform() || p.include_pad).set("CHANNELS_LAST", p.channels_last());
  defines.set("ADAPTIVE", !p.adaptive ? 0 : products_fit(p) ? 1 : 2);
  defines.set("DILATED",
              std::any_of(p.axes.begin(), p.axes.end(), [](const PoolAxis& a) { return a.dilation > 1; }));
  for (int i = 0; i < 3 && !p.adaptive; i++) {
    const PoolAxis& a = p.axes[static_cast<size_t>(i)];
    const std::string name(1, "DHW"[i]);
    const bool compiled = is_trivial(a) || is_small_cube(p);
    defines.set("KERNEL_" + name, compiled ? a.kernel : 0);
    defines.set("STRIDE_" + name, compiled || a.stride <= most_stride ? a.stride : 0);
  }
  return defines;
}

const char* kernel_of(const PoolProblem& problem) {
  return problem.backward ? "pool_backward" : "pool_forward";
}

PoolAxes axes_of(const PoolProblem& problem) {
  const auto windows = [](const PoolAxis& a) {
    const auto n = [](int64_t number) { return static_cast<int>(number); };
    return PoolWindows{n(a.size), n(a.out), n(a.kernel), n(a.stride), n(a.dilation), n(a.pad), n(a.limit)};
  };
  const auto& [d, h, w] = problem.axes;
  return {static_cast<int>(problem.x.shape[1]),
          static_cast<int>(problem.divisor ? problem.divisor : problem.volume()), windows(d), windows(h),
          windows(w)};
}

std::unique_ptr<KernelPool> make_kernel(const Context& context, const PoolProblem& problem, const char* file,
                                        const char* kernel, const Defines& defines, Tail tail) {
  auto plan = std::make_unique<KernelPool>();
  plan->problem = problem;
  plan->axes = axes_of(problem);
  plan->tail = tail;
  plan->wide_index = needs_wide_index(problem);
  plan->kernel = context.state().programs.kernel(file, kernel, defines);
  return plan;
}

/// All tensors have stride 1 along the axis.
bool unit_strides(const PoolProblem& problem, int axis) {
  const std::vector<TensorDesc> tensors = problem.tensors();
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const TensorDesc& t) { return t.strides[axis] == 1 || t.shape[axis] == 1; });
}

/// How many elements are 16 bytes.
int64_t elements_together(const PoolProblem& problem) {
  return 16 / static_cast<int64_t>(size_of(problem.x.dtype));
}

/// Whether all elements along the axis, at stride 1, can be moved `together` at a time.
bool lie_together(const TensorDesc& t, int axis, int64_t together) {
  bool fits = t.aligned;
  for (int i = 0; i < 5; i++) {
    const int64_t step = i == axis ? t.shape[i] : t.shape[i] > 1 ? t.strides[i] : 0;
    fits &= step % together == 0;
  }
  return fits;
}

/// How many channels a work-item takes: 16 bytes of them where they always lie so.
int64_t channels_together(const PoolProblem& problem) {
  const int64_t together = elements_together(problem);
  if (together < 4 || !problem.channels_last() || !unit_strides(problem, 1)) return 1;
  const std::vector<TensorDesc> tensors = problem.tensors();
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const TensorDesc& t) { return lie_together(t, 1, together); })
             ? together
             : 1;
}

int64_t power_of_two_from(int64_t n) {
  int64_t result = 1;
  while (result < n) result *= 2;
  return result;
}

/// An item for each place of `shape` and each of `groups` channels, or vectors of channels.
PoolGrid grid_of(const Shape& shape, int64_t groups) {
  const auto by = [](int64_t number) { return divisor_of(static_cast<int>(number)); };
  const int64_t items = groups * shape[2] * shape[3] * shape[4];
  return {static_cast<int>(shape[0]),
          static_cast<int>(items),
          by(groups),
          by(shape[4]),
          by(shape[3]),
          by(shape[2])};
}

void spread_items(KernelPool& plan, const Shape& shape, int64_t groups) {
  plan.grid = grid_of(shape, groups);
  const int64_t most = std::min<int64_t>(256, plan.kernel.max_work_group());
  const int64_t across = std::min(most, power_of_two_from(plan.grid.items));
  plan.local = {static_cast<size_t>(across), static_cast<size_t>(most / across), 1};
  plan.global = {items_in_groups(plan.grid.items, across), items_in_groups(plan.grid.images, most / across),
                 1};
}

std::unique_ptr<const PoolPlan> make_direct(const Context& context, const PoolProblem& problem,
                                            const EngineOptions&) {
  const int64_t together = channels_together(problem);
  Defines defines = common_defines(problem, needs_wide_index(problem));
  defines.set("V", together);
  auto plan = make_kernel(context, problem, "pool", kernel_of(problem), defines, Tail::grid);
  spread_items(*plan, problem.written().shape, problem.written().shape[1] / together);
  return plan;
}

std::string refuse_columns(const Context&, const PoolProblem& p, const EngineOptions&) {
  if (!p.backward || p.mode != PoolMode::average) return "for the backward direction of averages";
  const int64_t together = elements_together(p);
  if (together < 4) return cat("columns go by four or more, but elements are ", name_of(p.x.dtype));
  if (p.x.strides[4] != 1) return "dx's columns do not lie side by side";
  if (!lie_together(p.x, 4, together)) return cat("dx's rows are not made of aligned ", together, " columns");
  return {};
}

std::string avoid_columns(const Context& context, const PoolProblem& p, const EngineOptions&) {
  const PoolAxis& w = p.axes[2];
  if (!p.adaptive && w.kernel > w.stride)
    return "windows overlap, which `direct` has the bounds compiled in for";
  return for_gpus(context.device());
}

std::unique_ptr<const PoolPlan> make_columns(const Context& context, const PoolProblem& problem,
                                             const EngineOptions&) {
  const int64_t together = elements_together(problem);
  Defines defines = common_defines(problem, needs_wide_index(problem));
  defines.set("V", together);
  auto plan = make_kernel(context, problem, "pool_columns", kernel_of(problem), defines, Tail::grid);
  Shape blocks = problem.x.shape;
  blocks[4] /= together;
  spread_items(*plan, blocks, blocks[1]);
  return plan;
}

constexpr int64_t kFewWindows = 8;  // elements of x a window, from which on maxima are put where they belong

std::string refuse_maxima(const Context&, const PoolProblem& p, const EngineOptions&) {
  return p.backward && p.mode == PoolMode::max ? "" : "for the backward direction of maxima";
}

std::string avoid_scatter(const Context& context, const PoolProblem& p, const EngineOptions&) {
  const int64_t from = element_count(p.y.shape), to = element_count(p.x.shape);
  if (from * kFewWindows > to) return cat("dy has ", from, " elements, more than an eighth of dx's ", to);
  return for_gpus(context.device());
}

std::unique_ptr<const PoolPlan> make_scatter(const Context& context, const PoolProblem& problem,
                                             const EngineOptions&) {
  const Defines defines = common_defines(problem, needs_wide_index(problem));
  auto plan = make_kernel(context, problem, "pool", "pool_scatter", defines, Tail::grid);
  plan->zero.emplace(context, std::vector<TensorDesc>{}, std::vector<TensorDesc>{problem.x}, 0, "y0 = 0");
  spread_items(*plan, problem.y.shape, problem.y.shape[1]);
  return plan;
}

std::string refuse_wide(const Context&, const PoolProblem& p, const EngineOptions&) {
  if (p.backward) return "for the forward direction";
  return p.channels_last() ? "columns do not lie side by side" : "";
}

std::string avoid_wide(const Context& context, const PoolProblem& p, const EngineOptions&) {
  constexpr int64_t kLeastVolume = 32, kLeastStride = 4;
  constexpr int64_t kMany = 1 << 18, kMedium = 256;  // results that keep a GPU busy, with an item for each
  const int64_t results = element_count(p.y.shape);
  if (results >= kMany && p.volume() <= kMedium)
    return cat(results, " windows of ", p.volume(), " elements are enough for an item each");
  if (p.volume() < kLeastVolume)
    return cat("a window has ", p.volume(), " elements, fewer than ", kLeastVolume);
  const int64_t stride = p.axes[2].stride;
  if (stride < kLeastStride && p.axes[2].out > 1)
    return cat("windows are ", stride, " apart, less than ", kLeastStride);
  return for_gpus(context.device());
}

std::unique_ptr<const PoolPlan> make_wide(const Context& context, const PoolProblem& problem,
                                          const EngineOptions&) {
  constexpr int64_t kGroup = 128;
  const int64_t width = problem.axes[2].kernel, height = problem.axes[1].kernel;
  const int64_t lanes_w = power_of_two_from(std::min<int64_t>(width, height > 1 ? 32 : kGroup));
  const int64_t lanes_h = power_of_two_from(std::min(height, kGroup / lanes_w));
  Defines defines = common_defines(problem, needs_wide_index(problem));
  defines.set("LANES_W", lanes_w).set("LANES_H", lanes_h);
  auto plan = make_kernel(context, problem, "pool_wide", kernel_of(problem), defines, Tail::grid);
  const Shape& y = problem.y.shape;
  plan->grid = grid_of(y, y[1]);
  plan->local = {static_cast<size_t>(lanes_w), static_cast<size_t>(lanes_h), 1};
  plan->global = {static_cast<size_t>(y[1] * y[2] * y[3] * y[4] * lanes_w), static_cast<size_t>(lanes_h),
                  static_cast<size_t>(y[0])};
  return plan;
}

std::unique_ptr<const PoolPlan> make_cpu(const Context& context, const PoolProblem& problem,
                                         const EngineOptions&) {
  constexpr int64_t kElements = 4096;  // of one work-group: far above the cost of starting it
  const bool last = problem.channels_last();
  const Shape& written = problem.written().shape;
  const int64_t along = last ? written[1] : std::max(problem.y.shape[4], problem.axes[2].kernel);
  const int64_t most = last && problem.x.dtype != DType::f64 ? 16 : 8;
  const int64_t lanes = along >= most ? most : along >= 8 ? 8 : 4;
  Defines defines = common_defines(problem, needs_wide_index(problem), last ? 0 : 2);
  defines.set("L", lanes).set("UNIT", unit_strides(problem, last ? 1 : 4));
  auto plan = make_kernel(context, problem, last ? "pool_cpu_last" : "pool_cpu", kernel_of(problem), defines,
                          Tail::block);
  const int64_t lines = written[2] * written[3];
  const int64_t line = std::max<int64_t>(written[4] * (last ? written[1] : 1), 1);
  plan->block = std::clamp<int64_t>(kElements / line, 1, lines);
  plan->global[0] = static_cast<size_t>(ceil_div(lines, plan->block));
  plan->global[1] = static_cast<size_t>(last ? written[0] : written[1]);
  if (!last) plan->global[2] = static_cast<size_t>(written[0]);
  return plan;
}

/// Whether sums have to be held before they are rounded: no element of x belongs to one window alone.
bool sums_rounded(const PoolProblem& p) {
  const bool overlap = std::any_of(p.axes.begin(), p.axes.end(),
                                   [](const PoolAxis& a) { return a.out > 1 && a.reach() > a.stride; });
  return size_of(p.x.dtype) == 2 && (p.adaptive || overlap);
}

int64_t plane_of(const PoolProblem& p) {
  return p.x.shape[2] * p.x.shape[3] * p.x.shape[4];
}

/// Whether the sums of a plane fit into a work-item's memory, into 64 KB of it.
bool holds_plane(const PoolProblem& p) {
  return plane_of(p) * (p.x.dtype == DType::f64 ? 8 : 4) <= 65536;
}

std::string refuse_planes(const Context& context, const PoolProblem& p, const EngineOptions& options) {
  const std::string reason = refuse_maxima(context, p, options);
  return reason.empty() && p.channels_last() ? "columns do not lie side by side" : reason;
}

std::string avoid_planes(const Context& context, const PoolProblem& p, const EngineOptions&) {
  constexpr int64_t kLittle = 1 << 16;  // elements that one compute unit may have alone
  const int64_t planes = p.x.shape[0] * p.x.shape[1], units = context.device().facts().compute_units;
  if (planes < units && planes * plane_of(p) > kLittle)
    return cat(planes, " planes are not enough for ", units, " compute units");
  const int64_t from = element_count(p.y.shape), to = element_count(p.x.shape);
  if (from * kFewWindows > to && unit_strides(p, 4))
    return cat("dy has ", from, " elements, more than an eighth of dx's ", to, ", and rows without gaps");
  return for_cpus(context.device());
}

std::unique_ptr<const PoolPlan> make_planes(const Context& context, const PoolProblem& problem,
                                            const EngineOptions&) {
  constexpr int64_t kElements = 4096;
  Defines defines = common_defines(problem, needs_wide_index(problem));
  defines.set("HELD", holds_plane(problem) ? plane_of(problem) : 0);
  const bool in_workspace = sums_rounded(problem) && !holds_plane(problem);
  defines.set("SPACE", in_workspace);
  auto plan = make_kernel(context, problem, "pool_planes", kernel_of(problem), defines, Tail::space);
  const Shape& x = problem.x.shape;
  plan->block = std::max<int64_t>(kElements / std::max<int64_t>(plane_of(problem), 1), 1);
  if (in_workspace)  // of no more planes than keep the device busy
    plan->block =
        std::max(plan->block, ceil_div(x[0] * x[1], int64_t{4} * context.device().facts().compute_units));
  plan->block = std::min(plan->block, std::max<int64_t>(x[1], 1));
  const int64_t blocks = ceil_div(x[1], plan->block);
  plan->global = {static_cast<size_t>(blocks), static_cast<size_t>(x[0]), 1};
  if (in_workspace) plan->sums = blocks * x[0] * plane_of(problem);
  return plan;
}

}  // namespace

const PoolEngine kPoolWide{"wide", refuse_wide, make_wide, avoid_wide};
const PoolEngine kPoolScatter{"scatter", refuse_maxima, make_scatter, avoid_scatter};
const PoolEngine kPoolColumns{"columns", refuse_columns, make_columns, avoid_columns};
const PoolEngine kPoolDirect{"direct", nullptr, make_direct, avoid_on_cpus};
const PoolEngine kPoolPlanes{"planes", refuse_planes, make_planes, avoid_planes};
const PoolEngine kPoolCpu{"cpu", nullptr, make_cpu, avoid_unless_cpu};

}  // namespace dlprim::detail
