// The kernels of grid sampling for CPUs and GPUs, over grid_sample.cl and grid_sample_last.cl.
#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/resample/grid_sample_impl.hpp"

namespace dlprim::detail {

GridSampleImpl::GridSampleImpl(const GridSampleProblem& problem) {
  const auto depth = [](const Shape& s) { return s.size() == 5 ? s[2] : 1; };
  const auto number = [](int64_t size) { return to_int("x", size); };
  const Shape &x = problem.desc.x.shape, &y = problem.desc.y.shape;
  const int rank = x.size();
  sizes = {number(x[0]),        number(x[1]),     number(depth(x)),    number(x[rank - 2]),
           number(x[rank - 1]), number(depth(y)), number(y[rank - 2]), number(y[rank - 1])};
}

namespace {

SampleSteps steps_of(const Strides& s, bool grid) {
  const int rank = s.size(), plane = grid ? 1 : 2;
  return {s[0], grid ? s[rank - 1] : s[1], rank == 5 ? s[plane] : 0, s[plane + rank - 4],
          s[plane + rank - 3]};
}

}  // namespace

void bind_samples(Launch& launch, const Tensor& t, bool grid) {
  launch.arg(t).arg(steps_of(t.strides(), grid));
}

Defines grid_sample_defines(const GridSampleProblem& problem) {
  const GridSampleDesc& d = problem.desc;
  Defines defines;
  define_type(defines, "X", d.x.dtype);
  define_type(defines, "Y", d.y.dtype);
  define_type(defines, "GRID", d.grid.dtype);
  defines.set("REAL", compute_type(problem.real()))
      .set("BITS", problem.real() == DType::f64 ? "long" : "int")
      .set("AXES", problem.volume() ? 3 : 2)
      .set("TAPS", problem.taps());
  defines.set("BORDER", d.params.padding == GridSamplePadding::border);
  defines.set("REFLECTION", d.params.padding == GridSamplePadding::reflection);
  defines.set("ALIGN_CORNERS", d.params.align_corners);
  bool wide = false;
  for (const TensorDesc* t : {&d.x, &d.grid, &d.y}) wide = wide || extent_of(*t) >= (int64_t{1} << 31);
  return defines.set("WIDE", wide);
}

bool channels_together(const GridSampleProblem& problem) {
  const GridSampleDesc& d = problem.desc;
  return problem.channels() > 1 && d.x.strides[1] == 1 && d.y.strides[1] == 1;
}

namespace {

/// The tensors of a kernel: x or dx, the grid, y or dy, and its gradient if it is written.
void bind_operands(Launch& launch, const Tensor& x, const Tensor& grid, const Tensor& y,
                   const Tensor& dgrid = {}) {
  bind_samples(launch, x);
  bind_samples(launch, grid, true);
  bind_samples(launch, y);
  if (dgrid.defined()) bind_samples(launch, dgrid, true);
}

/// Both engines' forward direction and gradient of the grid, and the CPU's gradient of x.
struct Sampler : GridSampleImpl {
  Sampler(const Context& context, const GridSampleProblem& problem, bool cpu_)
      : GridSampleImpl(problem), cpu(cpu_) {
    const GridSampleDirection direction = problem.direction;
    const bool inner = channels_together(problem);
    const int64_t work = problem.batch() * problem.places(), wanted = int64_t{1} << 18;
    if (cpu) {
      block = 64;
      // A CPU's gradient of x has no other work-items than those of planes.
      const bool parts = direction == GridSampleDirection::backward_input && problem.batch() < 8;
      channels = !parts ? problem.channels() : inner ? 16 : ceil_div(problem.channels() * problem.batch(), 8);
    } else {
      block = 1;
      channels = std::max<int64_t>(problem.channels() * work / wanted, 4);
    }
    channels = std::clamp<int64_t>(channels, 1, std::max<int64_t>(problem.channels(), 1));
    const bool whole = direction == GridSampleDirection::backward_grid;
    parts = whole ? problem.batch() : problem.batch() * ceil_div(problem.channels(), channels);
    items = ceil_div(problem.places(), block);
    Defines defines = grid_sample_defines(problem);
    defines.set("STRIP", cpu ? 64 : 1).set("INNER", inner);
    const char* names[] = {"grid_sample", "grid_sample_backward_input", "grid_sample_backward_grid"};
    kernel = context.state().programs.kernel("grid_sample", names[static_cast<int>(direction)], defines);
    if (direction != GridSampleDirection::backward_input || problem.desc.x.dtype == problem.real()) return;
    sums = TensorDesc(problem.desc.x.shape, contiguous_strides(problem.desc.x.shape), problem.real(), true);
    if (inner) sums.strides = problem.desc.x.strides;
    bytes = static_cast<size_t>(extent_of(sums)) * size_of(sums.dtype);
    store = std::make_unique<const Pointwise>(context, std::vector<TensorDesc>{sums},
                                              std::vector<TensorDesc>{problem.desc.x}, 0, "y0 = x0");
  }
  size_t workspace_size() const override { return bytes; }

  void launch(Launch& l, bool has_block, bool has_channels) const {
    l.arg(sizes);
    if (has_block) l.arg(static_cast<int>(block));
    if (has_channels) l.arg(static_cast<int>(channels));
    const int64_t local = cpu ? 1 : 128;
    l.run({has_block ? items_in_groups(items, local) : 1, static_cast<size_t>(parts)},
          {has_block ? static_cast<size_t>(local) : 1, 1});
  }
  void forward(const Stream& stream, const Tensor& x, const Tensor& grid, const Tensor& y) const override {
    Launch l(stream, kernel);
    bind_operands(l, x, grid, y);
    launch(l, true, true);
  }
  void backward_grid(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid,
                     const Tensor& dgrid) const override {
    Launch l(stream, kernel);
    bind_operands(l, x, grid, dy, dgrid);
    launch(l, true, false);
  }
  void backward_input(const Stream& stream, const Tensor& dy, const Tensor& grid, const Tensor& dx,
                      const Tensor& workspace) const override {
    const Tensor to = !store ? dx
                             : workspace_part(workspace, 0, {extent_of(sums)}, sums.dtype)
                                   .as_strided(sums.shape, sums.strides);
    {
      Launch l(stream, kernel);
      bind_operands(l, to, grid, dy);
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

/// On a GPU, where channels are neighbours: a few work-items for each place.
struct Last : GridSampleImpl {
  static constexpr int64_t kGroup = 256;
  // A place has up to kLanes work-items, so many that each has kVectors vectors or more; and up to kMostLanes
  // as long as there are fewer work-items than kItems.
  static constexpr int64_t kVectors = 4, kLanes = 8, kMostLanes = 32, kItems = int64_t{1} << 17;

  // Loads of vectors that a work-item issues together, four times as many of single elements; a place's taps
  // at a time, and no more vectors of them than kMostTogether.
  static constexpr int64_t kLoads = 8, kMostTogether = 4;

  Last(const Context& context, const GridSampleProblem& problem) : GridSampleImpl(problem) {
    const int64_t v = vector_of(problem);
    vectors = problem.channels() / v;
    places = problem.batch() * problem.places();
    const auto more = [&] {
      const bool few = places * lanes < kItems;
      return lanes < vectors && (few ? lanes < kMostLanes : lanes < kLanes && lanes * kVectors < vectors);
    };
    while (more()) lanes *= 2;
    group = std::min<int64_t>(kGroup, context.device().facts().max_work_group) / lanes * lanes;
    Defines defines = grid_sample_defines(problem);
    defines.set("V", v).set("LANES", lanes).set("GROUP", group);
    const int64_t together = std::max<int64_t>(1, (v == 1 ? 4 * kLoads : kLoads) / problem.combinations());
    defines.set("BATCH", std::clamp<int64_t>(ceil_div(vectors, lanes), 1, std::min(together, kMostTogether)));
    const bool forward = problem.direction == GridSampleDirection::forward;
    kernel = context.state().programs.kernel(
        "grid_sample_last", forward ? "grid_sample_last" : "grid_sample_last_backward_grid", defines);
  }
  /// Channels to a vector: of up to 16 bytes, which all of x and y have to consist of.
  static int64_t vector_of(const GridSampleProblem& problem) {
    const TensorDesc *x = &problem.desc.x, *y = &problem.desc.y;
    if (!x->aligned || !y->aligned) return 1;
    for (int64_t v : {8, 4}) {
      bool fits = problem.channels() % v == 0;
      for (const TensorDesc* t : {x, y}) {
        fits = fits && v * static_cast<int64_t>(size_of(t->dtype)) <= 16;
        for (int axis = 0; axis < t->shape.size(); axis++)
          fits = fits && (axis == 1 || t->shape[axis] == 1 || t->strides[axis] % v == 0);
      }
      if (fits) return v;
    }
    return 1;
  }
  void launch(Launch& l) const {
    l.arg(SamplePlaces{static_cast<int>(vectors), sizes.d, sizes.h, sizes.w, static_cast<int>(places),
                       divisor_of(sizes.o), divisor_of(sizes.p), divisor_of(sizes.q)});
    l.run({static_cast<size_t>(ceil_div(places, group / lanes) * group)}, {static_cast<size_t>(group)});
  }
  void forward(const Stream& stream, const Tensor& x, const Tensor& grid, const Tensor& y) const override {
    Launch l(stream, kernel);
    bind_operands(l, x, grid, y);
    launch(l);
  }
  void backward_grid(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid,
                     const Tensor& dgrid) const override {
    Launch l(stream, kernel);
    bind_operands(l, x, grid, dy, dgrid);
    launch(l);
  }

  Kernel kernel;
  int64_t vectors = 1, places = 1, lanes = 1, group = 1;
};

/// The gradient of the grid by `nearest`: which element is the nearest does not change as the grid does.
struct Zeros : GridSampleImpl {
  Zeros(const Context& context, const GridSampleProblem& problem)
      : GridSampleImpl(problem), zeros(context, {problem.dgrid}) {}
  void backward_grid(const Stream& stream, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor& dgrid) const override {
    zeros.run(stream, 0, dgrid);
  }

  Fill zeros;
};

}  // namespace

std::unique_ptr<const GridSampleImpl> make_grid_sampler(const Context& context, const GridSampleProblem& p,
                                                        bool cpu) {
  if (p.direction == GridSampleDirection::backward_grid && p.desc.params.mode == GridSampleMode::nearest)
    return std::make_unique<const Zeros>(context, p);
  if (!cpu && channels_together(p)) return std::make_unique<const Last>(context, p);
  return std::make_unique<const Sampler>(context, p, cpu);
}

}  // namespace dlprim::detail
