// Grid sampling backward with respect to x on GPUs, over grid_sample_lists.cl.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/resample/grid_sample_impl.hpp"

namespace dlprim::detail {

namespace {

struct Lists : GridSampleImpl {
  static constexpr int64_t kGroup = 256;

  Lists(const Context& context, const GridSampleProblem& problem)
      : GridSampleImpl(problem),
        real(problem.real()),
        places(problem.places()),
        pixels(to_int("dx", problem.batch() * problem.pixels())),
        entries(problem.batch() * places * problem.combinations()),
        inner(channels_together(problem)) {
    to_int("grid", entries);
    channels = std::clamp<int64_t>(problem.channels(), 1, 4);
    const int64_t group = std::min<int64_t>(kGroup, context.device().facts().max_work_group);
    Defines defines = grid_sample_defines(problem);
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
    const auto batch = static_cast<size_t>(sizes.n);
    Launch(stream, clear).arg(counts).arg(total).arg(pixels).run({all}, {local});
    {
      Launch l(stream, count);
      bind_samples(l, grid, true);
      l.arg(counts).arg(sizes);
      l.run({by_place, batch}, {local, 1});
    }
    Launch(stream, place).arg(counts).arg(ends).arg(total).arg(pixels).run({all}, {local});
    {
      Launch l(stream, fill);
      bind_samples(l, grid, true);
      l.arg(ends).arg(list).arg(weights).arg(sizes);
      l.run({by_place, batch}, {local, 1});
    }
    Launch(stream, sort).arg(counts).arg(ends).arg(list).arg(weights).arg(pixels).run({all}, {local});
    Launch l(stream, gather);
    bind_samples(l, dx);
    bind_samples(l, dy);
    l.arg(counts).arg(ends).arg(list).arg(weights).arg(sizes);
    const int64_t parts_of_channels = ceil_div(sizes.c, channels);
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

}  // namespace

std::unique_ptr<const GridSampleImpl> make_grid_lists(const Context& context,
                                                      const GridSampleProblem& problem) {
  return std::make_unique<const Lists>(context, problem);
}

}  // namespace dlprim::detail
