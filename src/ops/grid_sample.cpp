// Grid sampling: checks, and its two engines, `direct` for GPUs and `cpu`, over grid_sample.cl and
// grid_sample_lists.cl.
#include <dlprim/grid_sample.hpp>

#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"

namespace dlprim {

using namespace detail;

namespace {

enum class Direction : uint8_t { forward, backward_input, backward_grid };

struct Problem {
  GridSampleDesc desc;
  Direction direction = Direction::forward;

  bool volume() const { return desc.x.shape.size() == 5; }
  int taps() const {
    return desc.params.mode == GridSampleMode::nearest    ? 1
           : desc.params.mode == GridSampleMode::bilinear ? 2
                                                          : 4;
  }
  int64_t combinations() const { return volume() ? taps() * taps() * taps() : taps() * taps(); }
  DType real() const {
    const bool f64 =
        desc.x.dtype == DType::f64 || desc.grid.dtype == DType::f64 || desc.y.dtype == DType::f64;
    return f64 ? DType::f64 : DType::f32;
  }
  int64_t batch() const { return desc.x.shape[0]; }
  int64_t channels() const { return desc.x.shape[1]; }
  /// Elements of a channel.
  int64_t pixels() const { return plane(desc.x); }
  int64_t places() const { return plane(desc.y); }

 private:
  static int64_t plane(const TensorDesc& t) {
    int64_t product = 1;
    for (int i = 2; i < t.shape.size(); i++) product *= t.shape[i];
    return product;
  }
};

/// Steps along N, C, D, H, W; a grid's coordinates are its channels.
std::array<int64_t, 5> steps_of(const Strides& s, bool grid) {
  const int rank = s.size(), plane = grid ? 1 : 2;
  std::array<int64_t, 5> steps{s[0], grid ? s[rank - 1] : s[1], rank == 5 ? s[plane] : 0, 0, 0};
  steps[3] = s[plane + rank - 4];
  steps[4] = s[plane + rank - 3];
  return steps;
}

void bind(Launch& launch, const Tensor& t, bool grid = false) {
  launch.arg(t);
  for (int64_t step : steps_of(t.strides(), grid)) launch.arg(step);
}

}  // namespace

namespace detail {

struct GridSampleImpl : EngineImpl {
  virtual void forward(const Stream&, const Tensor&, const Tensor&, const Tensor&) const {}
  virtual void backward_grid(const Stream&, const Tensor& /*dy*/, const Tensor& /*x*/, const Tensor& /*grid*/,
                             const Tensor& /*dgrid*/) const {}
  virtual void backward_input(const Stream&, const Tensor& /*dy*/, const Tensor& /*grid*/,
                              const Tensor& /*dx*/, const Tensor& /*workspace*/) const {}

  explicit GridSampleImpl(const Problem& problem) {
    const auto put = [&](const Shape& s) {
      const int rank = s.size();
      for (int64_t size : {rank == 5 ? s[2] : 1, s[rank - 2], s[rank - 1]})
        sizes.push_back(to_int("x", size));
    };
    sizes = {to_int("x", problem.batch()), to_int("x", problem.channels())};
    put(problem.desc.x.shape);
    put(problem.desc.y.shape);
  }
  void bind_sizes(Launch& launch) const {
    for (int size : sizes) launch.arg(size);
  }

  std::vector<int> sizes;  ///< SIZES of grid_sample_parts.cl
};

}  // namespace detail

namespace {

Defines defines_of(const Problem& problem) {
  const GridSampleDesc& d = problem.desc;
  Defines defines;
  defines.set("X_DTYPE", name_of(d.x.dtype)).set("X_T", storage_type(d.x.dtype));
  defines.set("Y_DTYPE", name_of(d.y.dtype)).set("Y_T", storage_type(d.y.dtype));
  defines.set("GRID_DTYPE", name_of(d.grid.dtype)).set("GRID_T", storage_type(d.grid.dtype));
  defines.set("REAL", compute_type(problem.real()))
      .set("AXES", problem.volume() ? 3 : 2)
      .set("TAPS", problem.taps());
  defines.set("BORDER", d.params.padding == GridSamplePadding::border);
  defines.set("REFLECTION", d.params.padding == GridSamplePadding::reflection);
  defines.set("ALIGN_CORNERS", d.params.align_corners);
  bool wide = false;
  for (const TensorDesc* t : {&d.x, &d.grid, &d.y}) wide = wide || extent_of(*t) >= (int64_t{1} << 31);
  return defines.set("WIDE", wide);
}

bool channels_together(const Problem& problem) {
  const GridSampleDesc& d = problem.desc;
  return problem.channels() > 1 && d.x.strides[1] == 1 && d.y.strides[1] == 1;
}

/// Both engines' forward direction and gradient of the grid, and the CPU's gradient of x.
struct Sampler : GridSampleImpl {
  Sampler(const Context& context, const Problem& problem, bool cpu_) : GridSampleImpl(problem), cpu(cpu_) {
    const Direction direction = problem.direction;
    if (direction == Direction::backward_input && !cpu) return;
    const bool inner = channels_together(problem);
    const int64_t work = problem.batch() * problem.places(), wanted = int64_t{1} << 18;
    if (cpu) {
      block = 64;
      // A CPU's gradient of x has no other work-items than those of planes.
      const bool parts = direction == Direction::backward_input && problem.batch() < 8;
      channels = !parts ? problem.channels() : inner ? 16 : ceil_div(problem.channels() * problem.batch(), 8);
    } else {
      block = 1;
      channels = inner ? 8 : std::clamp<int64_t>(problem.channels() * work / wanted, 4, problem.channels());
    }
    channels = std::clamp<int64_t>(channels, 1, std::max<int64_t>(problem.channels(), 1));
    const bool whole = direction == Direction::backward_grid;
    parts = whole ? problem.batch() : problem.batch() * ceil_div(problem.channels(), channels);
    items = ceil_div(problem.places(), block);
    Defines defines = defines_of(problem);
    defines.set("STRIP", cpu ? 64 : 1).set("INNER", inner);
    const char* names[] = {"grid_sample", "grid_sample_backward_input", "grid_sample_backward_grid"};
    kernel = context.state().programs.kernel("grid_sample", names[static_cast<int>(direction)], defines);
    if (direction != Direction::backward_input || problem.desc.x.dtype == problem.real()) return;
    sums = TensorDesc(problem.desc.x.shape, contiguous_strides(problem.desc.x.shape), problem.real(), true);
    if (inner) sums.strides = problem.desc.x.strides;
    bytes = static_cast<size_t>(extent_of(sums)) * size_of(sums.dtype);
    store = std::make_unique<const Pointwise>(context, std::vector<TensorDesc>{sums},
                                              std::vector<TensorDesc>{problem.desc.x}, 0, "y0 = x0");
  }
  size_t workspace_size() const override { return bytes; }

  void launch(Launch& l, bool has_block, bool has_channels) const {
    bind_sizes(l);
    if (has_block) l.arg(static_cast<int>(block));
    if (has_channels) l.arg(static_cast<int>(channels));
    const int64_t local = cpu ? 1 : 128;
    l.run({has_block ? items_in_groups(items, local) : 1, static_cast<size_t>(parts)},
          {has_block ? static_cast<size_t>(local) : 1, 1});
  }
  void forward(const Stream& stream, const Tensor& x, const Tensor& grid, const Tensor& y) const override {
    Launch l(stream, kernel);
    bind(l, x);
    bind(l, grid, true);
    bind(l, y);
    launch(l, true, true);
  }
  void backward_grid(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid,
                     const Tensor& dgrid) const override {
    Launch l(stream, kernel);
    bind(l, x);
    bind(l, grid, true);
    bind(l, dy);
    bind(l, dgrid, true);
    launch(l, true, false);
  }
  void backward_input(const Stream& stream, const Tensor& dy, const Tensor& grid, const Tensor& dx,
                      const Tensor& workspace) const override {
    const Tensor to = !store ? dx
                             : workspace_part(workspace, 0, {extent_of(sums)}, sums.dtype)
                                   .as_strided(sums.shape, sums.strides);
    {
      Launch l(stream, kernel);
      bind(l, to);
      bind(l, grid, true);
      bind(l, dy);
      launch(l, false, true);
    }
    if (store) store->run(stream, {to}, {dx}, {});
  }

  bool cpu;
  Kernel kernel;
  int64_t block = 1, channels = 1, parts = 1, items = 1;
  TensorDesc sums;  ///< of the CPU's gradient of x, where dx itself cannot hold them
  std::unique_ptr<const Pointwise> store;
  size_t bytes = 0;
};

/// The gradient of x by lists.
struct Lists : GridSampleImpl {
  static constexpr int64_t kGroup = 256;

  Lists(const Context& context, const Problem& problem)
      : GridSampleImpl(problem),
        real(problem.real()),
        places(problem.places()),
        pixels(to_int("dx", problem.batch() * problem.pixels())),
        entries(problem.batch() * places * problem.combinations()),
        inner(channels_together(problem)) {
    to_int("grid", entries);
    channels = std::clamp<int64_t>(problem.channels(), 1, 4);
    const int64_t group = std::min<int64_t>(kGroup, context.device().facts().max_work_group);
    Defines defines = defines_of(problem);
    defines.set("GROUP", group).set("INNER", inner).set("CHANNELS", channels);
    const auto kernel = [&](const char* name) {
      return context.state().programs.kernel("grid_sample_lists", name, defines);
    };
    clear = kernel("grid_lists_clear");
    count = kernel("grid_lists_count");
    place = kernel("grid_lists_place");
    fill = kernel("grid_lists_fill");
    sort = kernel("grid_lists_sort");
    gather = kernel("grid_lists_gather");
    local = static_cast<size_t>(group);
    counts_at = parts.add(static_cast<size_t>(pixels) * 4);
    ends_at = parts.add(static_cast<size_t>(pixels) * 4);
    total_at = parts.add(4);
    entries_at = parts.add(static_cast<size_t>(entries) * 4);
    weights_at = parts.add(static_cast<size_t>(entries) * size_of(real));
  }
  size_t workspace_size() const override { return parts.size(); }

  void backward_input(const Stream& stream, const Tensor& dy, const Tensor& grid, const Tensor& dx,
                      const Tensor& workspace) const override {
    const Tensor counts = workspace_part(workspace, counts_at, {pixels}, DType::i32);
    const Tensor ends = workspace_part(workspace, ends_at, {pixels}, DType::i32);
    const Tensor total = workspace_part(workspace, total_at, {1}, DType::i32);
    const Tensor list = workspace_part(workspace, entries_at, {entries}, DType::i32);
    const Tensor weights = workspace_part(workspace, weights_at, {entries}, real);
    const auto local_ = static_cast<int64_t>(local);
    const size_t all = items_in_groups(pixels, local_), by_place = items_in_groups(places, local_);
    const auto batch = static_cast<size_t>(sizes[0]);
    Launch(stream, clear).arg(counts).arg(total).arg(pixels).run({all}, {local});
    {
      Launch l(stream, count);
      bind(l, grid, true);
      bind_sizes(l.arg(counts));
      l.run({by_place, batch}, {local, 1});
    }
    Launch(stream, place).arg(counts).arg(ends).arg(total).arg(pixels).run({all}, {local});
    {
      Launch l(stream, fill);
      bind(l, grid, true);
      bind_sizes(l.arg(ends).arg(list).arg(weights));
      l.run({by_place, batch}, {local, 1});
    }
    Launch(stream, sort).arg(counts).arg(ends).arg(list).arg(weights).arg(pixels).run({all}, {local});
    Launch l(stream, gather);
    bind(l, dx);
    bind(l, dy);
    bind_sizes(l.arg(counts).arg(ends).arg(list).arg(weights));
    const int64_t parts_of_channels = ceil_div(sizes[1], channels);
    const int64_t across = inner ? to_int("dx", pixels * parts_of_channels) : pixels;
    l.run({items_in_groups(across, local_), inner ? 1 : static_cast<size_t>(parts_of_channels)}, {local, 1});
  }

  DType real;
  int64_t places;
  int pixels;
  int64_t entries, channels = 4;
  bool inner;
  Kernel clear, count, place, fill, sort, gather;
  WorkspaceParts parts;
  size_t counts_at = 0, ends_at = 0, total_at = 0, entries_at = 0, weights_at = 0, local = 1;
};

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
    require_dtype("dgrid", problem.desc.dgrid, d.grid.dtype);
    require_shape("dgrid", problem.desc.dgrid, d.grid.shape);
    require_writable("dgrid", problem.desc.dgrid);
  }
}

/// The gradient of the grid by `nearest`: which element is the nearest does not change as the grid does.
struct Zeros : GridSampleImpl {
  using GridSampleImpl::GridSampleImpl;
  void backward_grid(const Stream& stream, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor& dgrid) const override {
    fill(stream, dgrid, 0);
  }
};

std::unique_ptr<const GridSampleImpl> make_sampler(const Context& context, const Problem& p, bool cpu) {
  if (p.direction == Direction::backward_grid && p.desc.params.mode == GridSampleMode::nearest)
    return std::make_unique<const Zeros>(p);
  return std::make_unique<const Sampler>(context, p, cpu);
}

std::shared_ptr<const GridSampleImpl> plan(const Context& context, const Problem& problem,
                                           const Options& options, std::shared_ptr<const PlanInfo>& info) {
  check(problem);
  require_real(context, problem.real());
  const auto never = [](const Context&, const Problem&, const Options&) { return std::string(); };
  using Form = Engine<Problem, GridSampleImpl>;
  const Form cpu{"cpu", never,
                 [](const Context& c, const Problem& p, const Options&) { return make_sampler(c, p, true); }};
  const Form direct{"direct", never, [](const Context& c, const Problem& p, const Options&) {
                      return p.direction == Direction::backward_input
                                 ? std::unique_ptr<const GridSampleImpl>(std::make_unique<const Lists>(c, p))
                                 : make_sampler(c, p, false);
                    }};
  const bool first = context.device().kind() == DeviceKind::cpu;
  PlanInfo made;
  const char* ops[] = {"grid_sample", "grid_sample_backward_input", "grid_sample_backward_grid"};
  const char* op = ops[static_cast<int>(problem.direction)];
  const GridSampleDesc& d = problem.desc;
  auto impl = choose_engine(op, std::vector<Form>{first ? cpu : direct, first ? direct : cpu}, context,
                            problem, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " mode=", name_of(d.params.mode),
                  " padding=", name_of(d.params.padding), " align_corners=", d.params.align_corners,
                  " x=", brief(d.x), " grid=", brief(d.grid), " y=", brief(d.y));
  made.flops =
      2 * static_cast<double>(problem.combinations()) * static_cast<double>(element_count(d.y.shape));
  const bool to_grid = problem.direction == Direction::backward_grid;
  if (!to_grid || d.params.mode != GridSampleMode::nearest) made.bytes = traffic({d.x, d.grid, d.y});
  if (to_grid) made.bytes += traffic({d.dgrid});
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

PlanKey key_of(const char* op, const GridSampleDesc& desc) {
  const GridSampleParams& p = desc.params;
  return PlanKey(op).add(desc.x).add(desc.grid).add(desc.y).add(p.mode).add(p.padding).add(p.align_corners);
}

}  // namespace

GridSample::GridSample(const Context& context, const GridSampleDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, {desc, Direction::forward}, options, info_)) {}

void GridSample::run(const Stream& stream, const Tensor& x, const Tensor& grid, const Tensor& y) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("grid", grid, stream.context(), desc_.grid);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}}, {{"x", x}, {"grid", grid}});
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->forward(stream, x, grid, y);
}

GridSampleBackwardInput::GridSampleBackwardInput(const Context& context, const GridSampleDesc& desc,
                                                 const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, {desc, Direction::backward_input}, options, info_)) {}

void GridSampleBackwardInput::run(const Stream& stream, const Tensor& dy, const Tensor& grid,
                                  const Tensor& dx, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.y);
  require_tensor("grid", grid, stream.context(), desc_.grid);
  require_tensor("dx", dx, stream.context(), desc_.x);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dy", dy}, {"grid", grid}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->backward_input(stream, dy, grid, dx, space);
}

GridSampleBackwardGrid::GridSampleBackwardGrid(const Context& context, const GridSampleDesc& desc,
                                               const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, {desc, Direction::backward_grid}, options, info_)) {}

void GridSampleBackwardGrid::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid,
                                 const Tensor& dgrid) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.y);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("grid", grid, stream.context(), desc_.grid);
  require_tensor("dgrid", dgrid, stream.context(), desc_.dgrid);
  require_apart({{"dgrid", dgrid}}, {{"dy", dy}, {"x", x}, {"grid", grid}});
  if (dgrid.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->backward_grid(stream, dy, x, grid, dgrid);
}

void grid_sample(const Stream& stream, const Tensor& x, const Tensor& grid, const GridSampleParams& params,
                 const Tensor& y, const Options& options) {
  require_defined({{"x", x}, {"grid", grid}, {"y", y}});
  const GridSampleDesc desc{x, grid, y, params, {}};
  cached_plan<GridSample>(stream, key_of("grid_sample", desc), desc, options)->run(stream, x, grid, y);
}

void grid_sample_backward_input(const Stream& stream, const Tensor& dy, const Tensor& grid,
                                const GridSampleParams& params, const Tensor& dx, const Options& options) {
  require_defined({{"dy", dy}, {"grid", grid}, {"dx", dx}});
  const GridSampleDesc desc{dx, grid, dy, params, {}};
  cached_plan<GridSampleBackwardInput>(stream, key_of("grid_sample_backward_input", desc), desc, options)
      ->run(stream, dy, grid, dx);
}

void grid_sample_backward_grid(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid,
                               const GridSampleParams& params, const Tensor& dgrid, const Options& options) {
  require_defined({{"dy", dy}, {"x", x}, {"grid", grid}, {"dgrid", dgrid}});
  const GridSampleDesc desc{x, grid, dy, params, dgrid};
  const PlanKey key = key_of("grid_sample_backward_grid", desc).add(desc.dgrid);
  cached_plan<GridSampleBackwardGrid>(stream, key, desc, options)->run(stream, dy, x, grid, dgrid);
}

}  // namespace dlprim
