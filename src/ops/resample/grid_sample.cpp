// Grid sampling: checks, and its two engines, `direct` for GPUs and `cpu`.
#include <dlprim/grid_sample.hpp>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "ops/resample/grid_sample_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<GridSampleParams> = 3;
template <>
inline constexpr int kFields<GridSampleDesc> = 4;
template <>
inline constexpr int kFields<GridSampleBackwardInputDesc> = 4;
template <>
inline constexpr int kFields<GridSampleBackwardGridDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

using Direction = GridSampleDirection;
using Problem = GridSampleProblem;

const char* name_of(GridSampleMode mode) {
  const char* names[] = {"bilinear", "nearest", "bicubic"};
  const auto i = static_cast<size_t>(mode);
  require(i < 3, "mode", "number ", i, " does not exist");
  return names[i];
}

const char* name_of(GridSamplePadding padding) {
  const char* names[] = {"zeros", "border", "reflection"};
  const auto i = static_cast<size_t>(padding);
  require(i < 3, "padding", "number ", i, " does not exist");
  return names[i];
}

void check(const Problem& problem) {
  const GridSampleDesc& d = problem.desc;
  const char *x = problem.direction == Direction::backward_input ? "dx" : "x",
             *y = problem.direction == Direction::forward ? "y" : "dy";
  require_floating(x, d.x, true);
  require_floating("grid", d.grid, true);
  require_floating(y, d.y, true);
  const int rank = d.x.shape.size();
  require(rank == 4 || rank == 5, x, "rank ", rank, " must be 4 or 5, [N, C, H, W] or [N, C, D, H, W]");
  require_rank("grid", d.grid, rank);
  require(d.grid.shape[0] == d.x.shape[0], "grid", "size ", d.grid.shape[0], " of axis 0 must be ",
          d.x.shape[0]);
  require(d.grid.shape[rank - 1] == rank - 2, "grid", "size ", d.grid.shape[rank - 1],
          " of the last axis must be ", rank - 2);
  Shape shape{d.x.shape[0], d.x.shape[1]};
  for (int i = 1; i < rank - 1; i++) shape.push_back(d.grid.shape[i]);
  require_shape(y, d.y, shape);
  for (int i = 2; i < rank; i++) require(d.x.shape[i] >= 1, x, "size 0 of axis ", i, " must be 1 or more");
  to_int(x, problem.batch() * problem.pixels());
  to_int(y, problem.batch() * problem.places());
  name_of(d.params.mode);
  name_of(d.params.padding);
  require(rank == 4 || d.params.mode != GridSampleMode::bicubic, "mode", "bicubic is for rank 4, not 5");
  if (problem.direction == Direction::forward) require_writable(y, d.y);
  if (problem.direction == Direction::backward_input) require_writable(x, d.x);
  if (problem.direction == Direction::backward_grid) {
    require_dtype("dgrid", problem.dgrid, d.grid.dtype);
    require_shape("dgrid", problem.dgrid, d.grid.shape);
    require_writable("dgrid", problem.dgrid);
  }
}

using Form = Engine<Problem, GridSampleImpl>;
constexpr Form kDirect{"direct", nullptr,
                       [](const Context&c, const Problem&p, const EngineOptions&) {
                         return p.direction == Direction::backward_input ? make_grid_lists(c, p)
                                                                         : make_grid_sampler(c, p, false);
                       },
                       avoid_on_cpus},
    kCpu{"cpu", nullptr, [](const Context&c, const Problem&p, const EngineOptions&) {
           return make_grid_sampler(c, p, true);
         }};
constexpr EngineList<Problem, GridSampleImpl> kEngines = {&kDirect, &kCpu};

std::shared_ptr<const GridSampleImpl> plan(const Context& context, const Problem& problem,
                                           const Options& options, std::shared_ptr<const PlanInfo>& info) {
  check(problem);
  require_real(context, problem.real());
  PlanInfo made;
  const char* ops[] = {"grid_sample", "grid_sample_backward_input", "grid_sample_backward_grid"};
  const char* op = ops[static_cast<int>(problem.direction)];
  const GridSampleDesc& d = problem.desc;
  auto impl = choose_engine(op, kEngines, context, problem, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " mode=", name_of(d.params.mode),
                  " padding=", name_of(d.params.padding), " align_corners=", d.params.align_corners,
                  " x=", brief(d.x), " grid=", brief(d.grid), " y=", brief(d.y));
  made.flops =
      2 * static_cast<double>(problem.combinations()) * static_cast<double>(element_count(d.y.shape));
  const bool to_grid = problem.direction == Direction::backward_grid;
  if (!to_grid || d.params.mode != GridSampleMode::nearest) made.bytes = traffic({d.x, d.grid, d.y});
  if (to_grid) made.bytes += traffic({problem.dgrid});
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

}  // namespace

GridSample::GridSample(const Context& context, const GridSampleDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, {desc, Direction::forward}, options, info_)) {}

void GridSample::run(const Stream& stream, const Tensor& x, const Tensor& grid, const Tensor& y,
                     const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("grid", grid, stream.context(), desc_.grid);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}, {"grid", grid}});
  if (y.numel() == 0) return;
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->forward(stream, x, grid, y);
}

GridSampleBackwardInput::GridSampleBackwardInput(const Context& context,
                                                 const GridSampleBackwardInputDesc& desc,
                                                 const Options& options)
    : Plan(nullptr),
      desc_(desc),
      impl_(plan(context, {{desc.dx, desc.grid, desc.dy, desc.params}, Direction::backward_input}, options,
                 info_)) {}

void GridSampleBackwardInput::run(const Stream& stream, const Tensor& dy, const Tensor& grid,
                                  const Tensor& dx, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("grid", grid, stream.context(), desc_.grid);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dy", dy}, {"grid", grid}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->backward_input(stream, dy, grid, dx, space);
}

GridSampleBackwardGrid::GridSampleBackwardGrid(const Context& context, const GridSampleBackwardGridDesc& desc,
                                               const Options& options)
    : Plan(nullptr),
      desc_(desc),
      impl_(plan(context, {{desc.x, desc.grid, desc.dy, desc.params}, Direction::backward_grid, desc.dgrid},
                 options, info_)) {}

void GridSampleBackwardGrid::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid,
                                 const Tensor& dgrid, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("grid", grid, stream.context(), desc_.grid);
  require_tensor("dgrid", dgrid, stream.context(), desc_.dgrid);
  require_apart({{"dgrid", dgrid}, {"workspace", workspace}}, {{"dy", dy}, {"x", x}, {"grid", grid}});
  if (dgrid.numel() == 0) return;
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->backward_grid(stream, dy, x, grid, dgrid);
}

void grid_sample(const Stream& stream, const Tensor& x, const Tensor& grid, const GridSampleParams& params,
                 const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"grid", grid}, {"y", y}});
  const GridSampleDesc desc{x, grid, y, params};
  cached_plan<GridSample>(stream, "grid_sample", desc, options, workspace)
      ->run(stream, x, grid, y, workspace);
}

void grid_sample_backward_input(const Stream& stream, const Tensor& dy, const Tensor& grid,
                                const GridSampleParams& params, const Tensor& dx, const Options& options,
                                const Tensor& workspace) {
  require_defined({{"dy", dy}, {"grid", grid}, {"dx", dx}});
  const GridSampleBackwardInputDesc desc{dy, grid, dx, params};
  cached_plan<GridSampleBackwardInput>(stream, "grid_sample_backward_input", desc, options, workspace)
      ->run(stream, dy, grid, dx, workspace);
}

void grid_sample_backward_grid(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid,
                               const GridSampleParams& params, const Tensor& dgrid, const Options& options,
                               const Tensor& workspace) {
  require_defined({{"dy", dy}, {"x", x}, {"grid", grid}, {"dgrid", dgrid}});
  const GridSampleBackwardGridDesc desc{dy, x, grid, dgrid, params};
  cached_plan<GridSampleBackwardGrid>(stream, "grid_sample_backward_grid", desc, options, workspace)
      ->run(stream, dy, x, grid, dgrid, workspace);
}

}  // namespace dlprim
