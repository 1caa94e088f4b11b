// The row kernels of normalisation, forward: norm_rows.cl and norm_rows_cpu.cl.
#include "ops/norm/norm_rows.hpp"

#include <algorithm>
#include <climits>

#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {
namespace {

constexpr int kHeld = 32;          // elements of a row in a GPU work-item's registers
constexpr int kHeldDoubles = 8;    // 16 did not stay there: 1.26 instead of 0.24 ms for rows of 16384
constexpr int kGroup = 256;        // work-items a group, where rows are short
constexpr int kChunksPerUnit = 8;  // CPU work-groups a compute unit, so that uneven ones balance

struct RowsImpl : NormImpl {
  Kernel kernel;
  NormProblem p;
  bool cpu = false;
  int64_t chunk = 1;
  size_t groups = 0, local = 1;

  void run(const Stream& stream, const NormTensors& t) const override {
    Launch launch(stream, kernel);
    launch.arg(t.x).arg(p.x_row).arg(t.weight).arg(t.bias).arg(t.y).arg(p.y_row);
    launch.arg(t.mean).arg(t.inv_std).arg(t.variance);
    launch.arg(static_cast<int>(p.rows)).arg(static_cast<int>(p.length));
    const int plane = static_cast<int>(std::max<int64_t>(p.plane, 1));
    if (cpu)
      launch.arg(plane);
    else
      bind_divisor(launch, plane);
    launch.arg(static_cast<int>(std::max<int64_t>(p.turns, 1)));
    launch.real(p.real(), p.epsilon);
    if (cpu) launch.arg(static_cast<int>(chunk));
    launch.run({groups * local}, {local});
  }
};

std::string refuse(const Context&, const NormProblem& p, const EngineOptions&) {
  if (!p.no_rows.empty()) return p.no_rows;
  if (const std::string reason = too_many(p.rows, p.length); !reason.empty()) return reason;
  if (p.weight && p.bias && p.weight->dtype != p.bias->dtype) return "weight and bias have two dtypes";
  for (const auto* w : {&p.weight, &p.bias})
    if (*w && !is_row_major(**w)) return "weight or bias has gaps";
  return {};
}

Defines common_defines(const NormProblem& p) {
  Defines defines;
  define_dtype(defines, "X", p.x.dtype);
  define_dtype(defines, "Y", p.y.dtype);
  const auto& w = p.weight ? p.weight : p.bias;
  define_dtype(defines, "W", w ? w->dtype : DType::f32);
  define_dtype(defines, "DX", DType::f32);
  defines.set("REAL", compute_type(p.real())).set("CENTER", p.center).set("PLANES", p.plane > 0);
  defines.set("WEIGHT", p.weight.has_value()).set("BIAS", p.bias.has_value());
  return defines.set("STATISTICS", p.statistics).set("VARIANCE", p.variance);
}

std::unique_ptr<RowsImpl> start(const Context& context, const NormProblem& p) {
  require_real(context, p.real());
  auto impl = std::make_unique<RowsImpl>();
  impl->p = p;
  return impl;
}

std::unique_ptr<const NormImpl> make_gpu(const Context& context, const NormProblem& p, const EngineOptions&) {
  auto impl = start(context, p);
  const TensorDesc* weight = p.weight && !p.plane ? &*p.weight : nullptr;
  const TensorDesc* bias = p.bias && !p.plane ? &*p.bias : nullptr;
  int vector = row_vector(p.length, {&p.x, &p.y, weight, bias}, {p.x_row, p.y_row});
  if (p.plane % vector != 0) vector = 1;  // an access has one weight
  const int held = p.real() == DType::f64 ? kHeldDoubles : kHeld;
  const RowLanes form = row_lanes(p.length, vector, held, context.device().facts().max_work_group);
  Defines defines = common_defines(p);
  defines.set("LX", form.lanes).set("LY", form.together).set("V", vector).set("U", form.unroll);
  impl->kernel = context.state().programs.kernel("norm_rows", "norm_rows", defines.set("HELD", form.held));
  impl->local = static_cast<size_t>(form.lanes) * static_cast<size_t>(form.together);
  impl->groups = static_cast<size_t>(ceil_div(p.rows, form.together));
  return impl;
}

std::unique_ptr<const NormImpl> make_cpu(const Context& context, const NormProblem& p, const EngineOptions&) {
  auto impl = start(context, p);
  impl->cpu = true;
  impl->kernel = context.state().programs.kernel("norm_rows_cpu", "norm_rows", common_defines(p));
  impl->chunk =
      std::max<int64_t>(ceil_div(p.rows, context.device().facts().compute_units * kChunksPerUnit), 1);
  impl->groups = static_cast<size_t>(ceil_div(p.rows, impl->chunk));
  return impl;
}

/// A row is one work-group's: with fewer of them than compute units a generated reduction in parts is better.
std::string avoid_few(const Context& context, const NormProblem& p, const EngineOptions&) {
  const int units = context.device().facts().compute_units;
  constexpr int64_t kLong = 1 << 16;
  return p.rows < units && p.length > kLong ? cat(p.rows, " long rows for ", units, " compute units")
                                            : std::string();
}

std::string avoid_gpu(const Context& context, const NormProblem& p, const EngineOptions& options) {
  const std::string reason = for_gpus(context.device());
  return reason.empty() ? avoid_few(context, p, options) : reason;
}

}  // namespace

const NormEngine kNormRows = {"rows", refuse, make_gpu, avoid_gpu};
const NormEngine kNormCpu = {"cpu", refuse, make_cpu, avoid_few};

std::shared_ptr<const NormImpl> norm_plan(const char* op, const EngineList<NormProblem, NormImpl>& engines,
                                          const Context& context, const NormProblem& problem,
                                          const Options& options, const std::string& text,
                                          std::shared_ptr<const PlanInfo>& info) {
  PlanInfo made;
  std::shared_ptr<const NormImpl> impl = choose_engine(op, engines, context, problem, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " x=", brief(problem.x), " y=", brief(problem.y),
                  " weight=", problem.weight.has_value(), " bias=", problem.bias.has_value(),
                  " epsilon=", problem.epsilon, text);
  made.flops = 8 * static_cast<double>(element_count(problem.x.shape));
  made.bytes = traffic({problem.x, problem.y});
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

std::optional<int64_t> row_distance(const TensorDesc& desc, int split) {
  const int rank = desc.shape.size();
  int64_t step = 1;
  for (int i = rank - 1; i >= split; i--) {
    if (desc.shape[i] != 1 && desc.strides[i] != step) return {};
    step *= desc.shape[i];
  }
  int64_t distance = step, next = -1;
  for (int i = split - 1; i >= 0; i--) {
    if (desc.shape[i] == 1) continue;
    if (next < 0) distance = next = desc.strides[i];
    if (desc.strides[i] != next) return {};
    next *= desc.shape[i];
  }
  return distance;
}

std::string too_many(int64_t rows, int64_t length) {
  constexpr int64_t kMost = INT_MAX / 2;  // room for the steps by which a loop passes its end
  return rows > kMost || length > kMost ? cat(rows, " rows of ", length, " exceed 32 bits") : std::string();
}

RowLanes row_lanes(int64_t length, int vector, int most, int group) {
  RowLanes form;
  form.vector = vector;
  const int64_t accesses = std::max<int64_t>(ceil_div(length, vector), 1);
  const int deepest = most / vector, usual = std::min(deepest, 4);
  while (2 * form.lanes <= group && accesses > int64_t{form.lanes} * usual) form.lanes *= 2;
  while (form.unroll < deepest && accesses > int64_t{form.lanes} * form.unroll) form.unroll *= 2;
  form.held = accesses <= int64_t{form.lanes} * form.unroll;
  if (!form.held) form.unroll = usual;
  form.together = std::max(std::min(kGroup, group) / form.lanes, 1);
  return form;
}

int row_vector(int64_t length, std::initializer_list<const TensorDesc*> tensors,
               std::initializer_list<int64_t> distances) {
  size_t widest = 0;
  for (const TensorDesc* t : tensors)
    if (t) widest = std::max(widest, size_of(t->dtype));
  const int vector = widest <= 2 ? 8 : widest <= 4 ? 4 : 1;
  bool fits = length % vector == 0;
  for (int64_t distance : distances) fits &= distance % vector == 0;
  for (const TensorDesc* t : tensors) fits &= !t || t->aligned;
  return fits ? vector : 1;
}

void define_dtype(Defines& defines, const std::string& name, DType dtype) {
  defines.set(name + "_DTYPE", name_of(dtype)).set(name + "_TYPE", storage_type(dtype));
}

}  // namespace dlprim::detail
