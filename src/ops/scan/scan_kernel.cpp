// How the rows of scans are split, and their launches.
#include "ops/scan/scan_kernel.hpp"

#include <algorithm>

#include "core/gen/arguments.hpp"
#include "core/gen/engines.hpp"
#include "ops/scan/scan_source.hpp"

namespace dlprim::detail {

struct ScanKernel : EngineImpl {
  Kernel whole;                   ///< PHASE 0
  Kernel totals, before, result;  ///< PHASE 1, scan_totals, PHASE 2
  LoopNest nest;
  std::vector<ScanOperand> operands;
  int64_t n = 1, parts = 1, part = 1;
  int totals_lanes = 1;           ///< that share a row of totals
  int64_t chunk = 0, blocks = 0;  ///< CPU: rows or groups of columns, so many a work-item
  size_t groups = 0, local = 1, state_bytes = 4;
  bool cpu = false;

  size_t workspace_size() const override {
    return parts > 1 ? static_cast<size_t>(parts * nest.kept_count) * state_bytes : 0;
  }
};

namespace {

constexpr int kCpuColumns = 32;
constexpr int kGpuColumns = 64;      // work-items of a group, each with a column
constexpr int64_t kCpuPart = 32768;  // elements of a row that are worth a CPU work-group
constexpr int64_t kGpuColumnPart = 64;

std::unique_ptr<ScanKernel> start(const ScanNest& p, bool cpu) {
  auto kernel = std::make_unique<ScanKernel>();
  kernel->nest = p.nest;
  kernel->operands = p.scan.operands;
  kernel->n = p.nest.reduced_count;
  kernel->state_bytes = scan_state_size(p);
  kernel->cpu = cpu;
  return kernel;
}

/// The axis in parts of a multiple of `unit`, so that there are about `groups` work-groups where `blocks` are
/// already; a part of less than `least` elements is not worth it.
void split(ScanKernel& kernel, int64_t blocks, int64_t groups, int64_t unit, int64_t least, size_t limit) {
  const int64_t room =
      static_cast<int64_t>(limit / kernel.state_bytes) / std::max<int64_t>(kernel.nest.kept_count, 1);
  const int64_t most = std::max<int64_t>(std::min(kernel.n / least, room), 1);
  const int64_t parts = std::clamp<int64_t>(groups / std::max<int64_t>(blocks, 1), 1, most);
  kernel.part = round_up(ceil_div(std::max<int64_t>(kernel.n, 1), parts), unit);
  kernel.parts = ceil_div(std::max<int64_t>(kernel.n, 1), kernel.part);
}

void compile(ScanKernel& kernel, const Context& context, const ScanNest& p, const ScanForm& form) {
  ProgramCache& programs = context.state().programs;
  const auto source = [&](int phase) {
    return kernel.cpu ? scan_cpu_source(p, form, phase) : scan_gpu_source(p, form, phase);
  };
  if (kernel.parts == 1) {
    kernel.whole = programs.generated("scan", source(0), "scan");
    return;
  }
  kernel.totals_lanes = form.totals_lanes;
  kernel.totals = programs.generated("scan", source(1), "scan");
  kernel.before = programs.generated("scan", source(1), "scan_totals");
  kernel.result = programs.generated("scan", source(2), "scan");
}

std::unique_ptr<const ScanKernel> make_gpu(const Context& context, const ScanNest& p,
                                           const EngineOptions& options) {
  auto kernel = start(p, false);
  std::vector<Operand> operands;
  std::vector<TensorDesc> tensors;
  for (size_t i = 0; i < p.scan.operands.size(); i++) {
    const ScanOperand& o = p.scan.operands[i];
    operands.push_back({o.name, o.desc.dtype, o.written});
    operands.back().reduced = unit_along_axis(p, i) ? InnerStride::one : InnerStride::any;
    tensors.push_back(o.desc);
  }
  bool all_unit = p.along;
  for (size_t i = 0; i < tensors.size(); i++) all_unit &= unit_along_axis(p, i);
  ScanForm form;
  const int width = vector_width(operands, tensors, p.nest, true);
  form.wide_access = all_unit && width > 1 && p.real != DType::f64;
  form.vector = form.wide_access ? width : 4;
  const int64_t units = int64_t{context.device().facts().compute_units};
  int64_t blocks = 0;
  if (p.along) {
    form.lanes_x = 8;
    while (form.lanes_x < kGpuGroup && int64_t{form.lanes_x} * form.vector < kernel->n) form.lanes_x *= 2;
    form.lanes_y = kGpuGroup / form.lanes_x;
    blocks = ceil_div(p.nest.kept_count, form.lanes_y);
    const int64_t tile = int64_t{form.lanes_x} * form.vector;
    split(*kernel, blocks, units * 8, tile, 4 * tile, options.workspace_limit);
  } else {
    form.lanes_y = kGpuColumns;
    blocks = ceil_div(p.nest.kept_count, form.lanes_y);
    split(*kernel, blocks, units * 16, form.vector, kGpuColumnPart, options.workspace_limit);
  }
  // Few rows have as many totals as there are groups, too many for one work-item after the other.
  if (p.nest.kept_count < units * kTotalsGroup) form.totals_lanes = kTotalsGroup;
  kernel->groups = static_cast<size_t>(blocks);
  kernel->local = static_cast<size_t>(form.lanes_x) * static_cast<size_t>(form.lanes_y);
  compile(*kernel, context, p, form);
  return kernel;
}

std::unique_ptr<const ScanKernel> make_cpu(const Context& context, const ScanNest& p,
                                           const EngineOptions& options) {
  auto kernel = start(p, true);
  ScanForm form;
  form.lanes_x = p.along ? 1 : kCpuColumns;
  const int64_t inner = p.nest.kept.empty() ? 1 : p.nest.kept.back().size;
  kernel->blocks = inner ? p.nest.kept_count / inner * ceil_div(inner, form.lanes_x) : 0;
  const int64_t units = int64_t{context.device().facts().compute_units}, groups = units * 4;
  kernel->chunk = std::max<int64_t>(ceil_div(kernel->blocks, groups), 1);
  // In parts all is read twice, which only pays where cores would have nothing to do.
  split(*kernel, kernel->blocks < units ? kernel->blocks : groups, groups, 1, kCpuPart,
        options.workspace_limit);
  kernel->groups = static_cast<size_t>(ceil_div(kernel->blocks, kernel->chunk));
  compile(*kernel, context, p, form);
  return kernel;
}

constexpr auto kGpu = generated_gpu<ScanNest, ScanKernel>(make_gpu);
constexpr auto kCpu = generated_cpu<ScanNest, ScanKernel>(make_cpu);
constexpr EngineList<ScanNest, ScanKernel> kEngines = {&kGpu, &kCpu};

}  // namespace

std::shared_ptr<const ScanKernel> make_scan_kernel(const Context& context, const ScanProblem& problem,
                                                   const Options& options, PlanInfo& info) {
  ScanNest p;
  p.scan = problem;
  std::vector<TensorDesc> tensors;
  for (const ScanOperand& o : problem.operands) tensors.push_back(o.desc);
  TensorDesc row(problem.operands[0].desc.shape);
  row.shape[problem.axis] = 1;
  row.strides = contiguous_strides(row.shape);
  p.nest = make_loop_nest(tensors, {row}, true);
  p.real = real_type(tensors, {});
  p.along = p.nest.reduced_innermost || p.nest.kept.empty();
  require_real(context, p.real);
  return choose_engine("scan", kEngines, context, p, options, info);
}

void run_scan_kernel(const ScanKernel& kernel, const Stream& stream, const std::vector<Tensor>& tensors,
                     const Tensor& workspace) {
  const auto bind_index = [&](Launch& launch, int64_t value) {
    if (kernel.nest.wide)
      launch.arg(static_cast<uint64_t>(value));
    else
      launch.arg(static_cast<uint32_t>(value));
  };
  const size_t parts = static_cast<size_t>(kernel.parts);
  const auto launch_scan = [&](const Kernel& program) {
    Launch launch(stream, program);
    for (const Tensor& t : tensors) launch.arg(t);
    for (const LoopDim& d : kernel.nest.kept) {
      bind_index(launch, d.size);
      for (size_t i = 0; i < tensors.size(); i++) bind_index(launch, d.strides[i]);
    }
    for (size_t i = 0; i < tensors.size(); i++)
      bind_index(launch, kernel.nest.reduced.empty() ? 0 : kernel.nest.reduced[0].strides[i]);
    launch.arg(workspace);
    for (int64_t value : {kernel.nest.kept_count, kernel.n, kernel.part}) bind_index(launch, value);
    if (kernel.cpu)
      for (int64_t value : {kernel.chunk, kernel.blocks}) bind_index(launch, value);
    launch.run({kernel.groups * kernel.local, parts}, {kernel.local, 1});
  };
  if (kernel.parts == 1) {
    launch_scan(kernel.whole);
    return;
  }
  launch_scan(kernel.totals);
  {
    Launch launch(stream, kernel.before);
    launch.arg(workspace);
    bind_index(launch, kernel.nest.kept_count);
    bind_index(launch, kernel.parts);
    launch.run({items_in_groups(kernel.nest.kept_count * kernel.totals_lanes, kTotalsGroup)}, {kTotalsGroup});
  }
  launch_scan(kernel.result);
}

}  // namespace dlprim::detail
