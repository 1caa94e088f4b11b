// The row engines of layer normalisation backward: norm_rows_backward.cl and norm_rows_backward_cpu.cl. A
// kernel reads each row once, for dx and for the partial sums of dweight and dbias.
#include <algorithm>
#include <array>
#include <climits>

#include "core/gen/arguments.hpp"
#include "ops/norm/layer_norm_backward_impl.hpp"

namespace dlprim::detail {

extern  // The CPU's kernel would leave a GPU idle.
    const LayerNormBackwardEngine kLayerNormBackwardRows,
    kLayerNormBackwardCpu;

namespace {

struct Rows : LayerNormBackwardImpl {
  Kernel kernel;
  LayerNormColumns columns;
  bool cpu = false, fused = false, has_columns = false;
  DType real = DType::f32;
  int64_t dy_row = 0, x_row = 0, dx_row = 0, rows = 0, length = 0, chunk = 1, sums = 0;
  size_t groups = 0, local = 1, scratch_at = 0, size = 0;

  size_t workspace_size() const override { return size; }
  void run(const Stream& stream, const NormGradientTensors& t) const override {
    if (has_columns && !fused) columns.run(stream, t, 0, scratch_at, real);  // dx may take dy's place
    if (fused || t.dx.defined()) {
      Launch launch(stream, kernel);
      launch.arg(t.dy).arg(dy_row).arg(t.x).arg(x_row).arg(t.weight).arg(t.mean).arg(t.inv_std);
      launch.arg(t.dx).arg(dx_row).arg(workspace_part(t.workspace, 0, {sums}, real));
      launch.arg(static_cast<int>(rows)).arg(static_cast<int>(length));
      if (cpu) launch.arg(static_cast<int>(chunk));
      launch.run({groups * local}, {local});
    }
    if (fused) columns.run(stream, t, 0, scratch_at, real);
  }
};

/// Distances between the rows of dy, x and dx; none if they are no rows.
std::optional<std::array<int64_t, 3>> distances(const LayerNormGradients& p) {
  const int split = p.x.shape.size() - p.axes;
  const auto dy = row_distance(p.dy, split), x = row_distance(p.x, split);
  const auto dx = p.dx ? row_distance(*p.dx, split) : std::optional<int64_t>(0);
  if (!dy || !x || !dx) return {};
  return std::array<int64_t, 3>{*dy, *x, *dx};
}

std::string refuse_rows(const Context&, const LayerNormGradients& p, const EngineOptions&) {
  if (!distances(p)) return "dy, x or dx is not made of rows at equal distances";
  if (p.weight && !is_row_major(*p.weight)) return "weight has gaps";
  return too_many(p.rows, p.length);
}

Defines defines_of(const LayerNormGradients& p, bool fused) {
  Defines defines;
  define_dtype(defines, "X", p.x.dtype);
  define_dtype(defines, "Y", p.dy.dtype);
  define_dtype(defines, "W", p.weight ? p.weight->dtype : DType::f32);
  define_dtype(defines, "DX", p.dx ? p.dx->dtype : DType::f32);
  defines.set("REAL", compute_type(p.real())).set("CENTER", p.center).set("WEIGHT", p.weight && p.dx);
  defines.set("DX", p.dx.has_value()).set("DWEIGHT", fused && p.dweight).set("DBIAS", fused && p.dbias);
  return defines;
}

std::unique_ptr<Rows> start(const Context& context, const LayerNormGradients& p, bool fused) {
  require_real(context, p.real());
  auto impl = std::make_unique<Rows>();
  const auto between = *distances(p);
  impl->dy_row = between[0], impl->x_row = between[1], impl->dx_row = between[2];
  impl->rows = p.rows, impl->length = p.length, impl->real = p.real();
  impl->fused = fused;
  impl->has_columns = p.columns();
  return impl;
}

/// The second step, once `groups` says how many parts the first leaves behind.
void add_columns(Rows& impl, const Context& context, const LayerNormGradients& p, const Options& options) {
  if (!impl.has_columns) return;
  WorkspaceParts parts;
  if (impl.fused) {
    impl.sums = static_cast<int64_t>(impl.groups) * p.length * ((p.dweight ? 1 : 0) + (p.dbias ? 1 : 0));
    parts.add(static_cast<size_t>(impl.sums) * size_of(p.real()));
    impl.columns = LayerNormColumns(context, p, static_cast<int64_t>(impl.groups), parts.rest(options));
  } else {
    impl.columns = LayerNormColumns(context, p, options);
  }
  impl.scratch_at = parts.add(impl.columns.workspace_size());
  impl.size = parts.size();
}

constexpr int kHeld = 16;        // elements of x, dy and both sums, each, in a GPU work-item's registers
constexpr int kHeldDoubles = 8;  // more of them do not stay there

/// With sums of columns a work-item needs up to 128 registers, which halves the largest group.
RowLanes lanes_of(const Context& context, const LayerNormGradients& p, bool fused) {
  const auto between = *distances(p);
  const int vector =
      row_vector(p.length, {&p.dy, &p.x, p.dx ? &*p.dx : nullptr, p.weight ? &*p.weight : nullptr},
                 {between[0], between[1], between[2]});
  return row_lanes(p.length, vector, p.real() == DType::f64 ? kHeldDoubles : kHeld,
                   std::min(context.device().facts().max_work_group, fused ? 512 : 1024));
}

std::string refuse_gpu(const Context& context, const LayerNormGradients& p, const EngineOptions& options) {
  const std::string reason = refuse_rows(context, p, options);
  if (!reason.empty()) return reason;
  if (!lanes_of(context, p, !p.dx).held) return cat("rows of ", p.length, " do not fit into registers");
  return {};
}

/// Parts of the columns' sums that are short enough, where `together` rows go to a part's lanes: a lane's sum
/// is of at most kLongest rows, unless the workspace has no room.
int64_t parts_for(const LayerNormGradients& p, int64_t together, const Options& options) {
  constexpr int64_t kLongest = 128;
  const auto bytes = static_cast<size_t>(2 * p.length) * size_of(p.real());
  const auto room = static_cast<int64_t>(
      std::min<size_t>(options.workspace_limit / 2 / std::max<size_t>(bytes, 1), INT_MAX));
  return std::min(ceil_div(p.rows, kLongest * together), room);
}

std::unique_ptr<const LayerNormBackwardImpl> make_gpu(const Context& context, const LayerNormGradients& p,
                                                      const EngineOptions& options) {
  const bool fused = p.columns() && lanes_of(context, p, true).held;
  auto impl = start(context, p, fused);
  const RowLanes form = lanes_of(context, p, fused);
  Defines defines = defines_of(p, fused);
  defines.set("LX", form.lanes).set("LY", form.together).set("V", form.vector).set("U", form.unroll);
  defines.set("SUMMED", cat(compute_type(p.real()), 2));
  impl->kernel = context.state().programs.kernel("norm_rows_backward", "norm_rows_backward", defines);
  impl->local = static_cast<size_t>(form.lanes) * static_cast<size_t>(form.together);
  int64_t groups = ceil_div(p.rows, form.together);
  // Groups that keep the memory busy; each leaves a part behind.
  constexpr int64_t kItemsPerUnit = 1024;
  if (fused) {
    const int64_t busy =
        context.device().facts().compute_units * kItemsPerUnit / static_cast<int64_t>(impl->local);
    groups =
        std::clamp<int64_t>(groups, 1, std::max<int64_t>({busy, parts_for(p, form.together, options), 1}));
  }
  impl->groups = static_cast<size_t>(groups);
  add_columns(*impl, context, p, options);
  return impl;
}

std::unique_ptr<const LayerNormBackwardImpl> make_cpu(const Context& context, const LayerNormGradients& p,
                                                      const EngineOptions& options) {
  constexpr int kChunksPerUnit = 4;
  auto impl = start(context, p, p.columns());
  impl->cpu = true;
  impl->kernel = context.state().programs.kernel("norm_rows_backward_cpu", "norm_rows_backward",
                                                 defines_of(p, impl->fused));
  const int64_t parts = std::max<int64_t>(context.device().facts().compute_units * kChunksPerUnit,
                                          impl->fused ? parts_for(p, 1, options) : 0);
  impl->chunk = std::max<int64_t>(ceil_div(p.rows, parts), 1);
  impl->groups = static_cast<size_t>(std::max<int64_t>(ceil_div(p.rows, impl->chunk), impl->fused ? 1 : 0));
  add_columns(*impl, context, p, options);
  return impl;
}

}  // namespace

// The CPU's kernel would leave a GPU idle.
const LayerNormBackwardEngine kLayerNormBackwardRows = {"rows", refuse_gpu, make_gpu, avoid_on_cpus};
const LayerNormBackwardEngine kLayerNormBackwardCpu = {"cpu", refuse_rows, make_cpu, avoid_unless_cpu};

}  // namespace dlprim::detail
