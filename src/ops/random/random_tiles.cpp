// Dimensions and tiles of random_tiles.cl.
#include "ops/random/random_tiles.hpp"

#include <algorithm>
#include <climits>
#include <optional>

#include "core/composed.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/random/random_tiles.h"

namespace {

constexpr int64_t kLocal = 64;           // work-items a group
constexpr int64_t kLanes = 4;            // as V in the kernel
constexpr int64_t kTiles = 4;            // of four words each that a work-item makes, at most
constexpr int64_t kItemsPerUnit = 1024;  // below which tiles are fewer
constexpr size_t kOuter = 6;             // other dimensions that the kernel takes

struct Loops {
  LoopDim lanes, run;
  std::vector<LoopDim> outer;  ///< innermost first
  bool wide = false;
};

/// Strides are those of the words, x's and y's.
std::optional<Loops> find_loops(const TensorDesc& x, const TensorDesc& y) {
  LoopNest nest = make_loop_nest({TensorDesc(y.shape), x}, {y}, false);
  if (nest.kept.size() < 2) return {};
  Loops loops;
  loops.wide = nest.wide;
  loops.lanes = nest.kept.back();
  nest.kept.pop_back();
  const auto run = std::find_if(nest.kept.begin(), nest.kept.end(),
                                [](const LoopDim& dim) { return dim.strides[0] == 1; });
  if (run == nest.kept.end() || loops.lanes.strides[1] != 1 || loops.lanes.strides[2] != 1) return {};
  loops.run = *run;
  nest.kept.erase(run);
  loops.outer.assign(nest.kept.rbegin(), nest.kept.rend());
  if (loops.outer.size() > kOuter) return {};
  return loops;
}

int64_t items_of(const Loops& loops, int64_t tiles) {
  int64_t items = ceil_div(loops.lanes.size, kLanes) * ceil_div(loops.run.size, 4 * tiles);
  for (const LoopDim& dim : loops.outer) items *= dim.size;
  return items;
}

/// Whether tensor `t` can be read or written in words of kLanes.
bool has_words(const Loops& loops, size_t t, const TensorDesc& desc) {
  bool fits = desc.aligned && loops.lanes.size % kLanes == 0 && loops.run.strides[t] % kLanes == 0 &&
              size_of(desc.dtype) <= 4;
  for (const LoopDim& dim : loops.outer) fits &= dim.strides[t] % kLanes == 0;
  return fits;
}

}  // namespace

std::string RandomTiles::refuse(const TensorDesc* x, const TensorDesc& y) {
  const std::optional<Loops> loops = find_loops(x ? *x : y, y);
  if (!loops)
    return cat("neighbours in memory are neighbours in ", to_string(y.shape), ", or none, of strides ",
               to_string(y.strides));
  const int64_t items = items_of(*loops, 1);
  return items > INT_MAX / 2 ? cat(items, " tiles do not fit in 31 bits") : "";
}

RandomTiles::RandomTiles(const Context& context, const TensorDesc* x, const TensorDesc& y,
                         const Defines& defines, bool wide) {
  const Loops loops = *find_loops(x ? *x : y, y);
  lanes_ = loops.lanes;
  run_ = loops.run;
  outer_ = loops.outer;
  int64_t tiles = kTiles;
  while (tiles > 1 && items_of(loops, tiles) < kItemsPerUnit * context.device().facts().compute_units)
    tiles /= 2;
  count_ = items_of(loops, tiles);
  lane_words_ = ceil_div(lanes_.size, kLanes);
  chunks_ = ceil_div(run_.size, 4 * tiles);
  Defines all = defines;
  all.set("DTYPE", name_of(y.dtype)).set("T", storage_type(y.dtype)).set("WORDS", 1);
  all.set("TILES", tiles).set("LOCAL", kLocal).set("OUTERS", static_cast<int64_t>(outer_.size()));
  all.set("WHOLE", has_words(loops, 2, y) && (!x || has_words(loops, 1, *x)));
  all.set("OFFSET", wide || loops.wide ? "long" : "int");
  kernel_ = context.state().programs.kernel("random_tiles", "random_tiles", all);
}

void RandomTiles::run(const Stream& stream, const Tensor* x, const Tensor& y, const Draw& draw,
                      const RandomState& state) const {
  Launch launch(stream, kernel_);
  if (x) launch.arg(*x);
  launch.arg(y).arg(state);
  launch.arg(draw.a).arg(draw.b).arg(draw.top).arg(draw.threshold).arg(draw.low);
  RandomTilesNest nest{};
  nest.lane_step = lanes_.strides[0];
  nest.x_run = run_.strides[1], nest.y_run = run_.strides[2];
  for (size_t d = 0; d < outer_.size(); d++) {
    const std::vector<int64_t>& strides = outer_[d].strides;
    nest.step[d] = strides[0], nest.x[d] = strides[1], nest.y[d] = strides[2];
    nest.size[d] = divisor_of(static_cast<int>(outer_[d].size));
  }
  nest.lane_words = divisor_of(static_cast<int>(lane_words_));
  nest.chunks = divisor_of(static_cast<int>(chunks_));
  nest.count = static_cast<int>(count_);
  nest.lanes = static_cast<int>(lanes_.size), nest.run = static_cast<int>(run_.size);
  launch.arg(nest);
  launch.run({items_in_groups(count_, kLocal)}, {static_cast<size_t>(kLocal)});
}

}  // namespace dlprim::detail
