// Words, blocks and dimensions of interleave.cl and interleave_cpu.cl.
#include "ops/movement/interleave.hpp"

#include <algorithm>
#include <climits>
#include <numeric>
#include <optional>

#include "core/composed.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/movement/interleave.h"

namespace {

constexpr int64_t kMost = 8;      // planes
constexpr int64_t kFarthest = 4;  // elements between neighbouring places of a plane
constexpr int64_t kLeast = 256;   // elements, below which every form takes as long as a launch
constexpr int64_t kWord = 16;     // bytes
constexpr int64_t kItemBytes =
    32;                          // that a work-item has in flight: 2048 of them to a multiprocessor are 64 KB
constexpr int64_t kGroup = 256;  // as in the kernel
constexpr int64_t kPart = 1024;  // places that a CPU goes along at a time

/// The loops of such a copy. Of each dimension strides[0] is in the planes, strides[1] in the packed tensor.
struct Loops {
  bool joins = false;              ///< y is the packed one
  int64_t step = 1;                ///< between a plane's places
  int64_t places = 1, planes = 1;  ///< a row's, of all `small` dimensions
  std::vector<LoopDim> small;      ///< one or two, innermost first
  std::vector<LoopDim> outer;      ///< innermost first
};

/// Along `places` the planes step by one, or a few, and the packed elements by as many as there are planes.
std::optional<Loops> find_loops(std::vector<LoopDim> dims, bool joins) {
  Loops loops;
  loops.joins = joins;
  if (!joins)
    for (LoopDim& dim : dims) std::swap(dim.strides[0], dim.strides[1]);
  const auto take = [&](auto is) {
    const auto found = std::find_if(dims.begin(), dims.end(), is);
    LoopDim dim{0, {0, 0}};
    if (found != dims.end()) dim = *found, dims.erase(found);
    return dim;
  };
  LoopDim places{0, {0, 0}};
  for (int64_t step = 1; step <= kFarthest && places.size == 0; step++)
    places = take(
        [&](const LoopDim& d) { return d.strides[0] == step && d.strides[1] >= 2 && d.strides[1] <= kMost; });
  loops.places = places.size;
  loops.step = places.strides[0];
  while (loops.places && loops.planes < places.strides[1]) {
    loops.small.push_back(take([&](const LoopDim& d) { return d.strides[1] == loops.planes; }));
    const LoopDim& small = loops.small.back();
    if (small.size == 0 || loops.small.size() > 2) return {};
    // Where places are apart and planes are between them, rows of a few elements are what is copied.
    if (loops.step > 1 && small.strides[0] < loops.step * loops.places) return {};
    loops.planes *= loops.small.back().size;
  }
  if (loops.places == 0 || loops.planes != places.strides[1]) return {};
  loops.outer.assign(dims.rbegin(), dims.rend());
  return loops;
}

std::optional<Loops> find_loops(const LoopNest& nest) {
  const std::optional<Loops> joins = find_loops(nest.kept, true);
  return joins ? joins : find_loops(nest.kept, false);
}

/// The largest power of two up to `most` of which `count` and the outer strides of `tensor` are multiples.
int64_t fitting(int64_t most, int64_t count, const std::vector<const std::vector<LoopDim>*>& dims,
                size_t tensor) {
  int64_t all = count;
  for (const std::vector<LoopDim>* some : dims)
    for (const LoopDim& dim : *some) all = std::gcd(all, dim.strides[tensor]);
  while (all % most) most /= 2;
  return most;
}

}  // namespace

bool Interleave::suits(const TensorDesc& x, const TensorDesc& y) {
  if (x.dtype != y.dtype || element_count(y.shape) < kLeast) return false;
  const LoopNest nest = make_loop_nest({x}, {y}, false);
  const std::optional<Loops> loops = find_loops(nest);
  return loops && nest.kept_count / loops->planes < INT_MAX - 4096;
}

Interleave::Interleave(const Context& context, const TensorDesc& x, const TensorDesc& y, bool cpu,
                       bool wide) {
  const LoopNest nest = make_loop_nest({x}, {y}, false);
  const Loops loops = *find_loops(nest);
  const TensorDesc &planes = loops.joins ? x : y, &packed = loops.joins ? y : x;
  places_ = loops.places;
  outer_ = loops.outer;
  step_ = loops.step;
  for (size_t i = 0; i < loops.small.size(); i++) steps_[i] = loops.small[i].strides[0];
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  const int64_t count = loops.planes;
  Defines defines;
  defines.set("ELEMENT", word_type(size)).set("OFFSET", wide || nest.wide ? "long" : "int");
  defines.set("STEPPED", step_ > 1)
      .set("R", count)
      .set("INNER", loops.small[0].size)
      .set("OUTERS", static_cast<int64_t>(outer_.size()));
  if (cpu) {
    row_ = ceil_div(places_, kPart);
    count_ = nest.kept_count / (count * places_) * row_;
    chunk_ = cpu_chunk(context, count_, ceil_div(8192, count * std::min(kPart, places_)));
    defines.set("PART", kPart);
  } else {
    // A plane's word is such a part of 16 bytes as makes the packed side's words neighbours, too, but 4 bytes
    // or more; of an odd number of planes it takes 16 bytes to make whole words.
    const int64_t bytes = kWord / std::gcd<int64_t>(count, 4);
    const int64_t most = std::max<int64_t>(1, bytes / size);
    const int64_t v = step_ > 1        ? fitting(most, places_, {}, 0)
                      : planes.aligned ? fitting(most, places_, {&loops.small, &loops.outer}, 0)
                                       : 1;
    const int64_t p = packed.aligned ? fitting(kWord / size, count * v, {&loops.outer}, 1) : 1;
    row_ = places_ / v;
    count_ = nest.kept_count / (count * v);
    blocks_ = std::clamp<int64_t>(kItemBytes / (count * v * size), 1, 4);
    defines.set("SIZE", size).set("V", v).set("P", p).set("BLOCKS", blocks_);
  }
  kernel_ = context.state().programs.kernel(cpu ? "interleave_cpu" : "interleave",
                                            loops.joins ? "interleave" : "deinterleave", defines);
}

void Interleave::run(const Stream& stream, const Tensor& x, const Tensor& y) const {
  Launch launch(stream, kernel_);
  InterleaveNest nest{};
  nest.place_step = step_, nest.inner_step = steps_[0], nest.outer_step = steps_[1];
  for (size_t d = 0; d < outer_.size(); d++) {
    nest.planes[d] = outer_[d].strides[0], nest.packed[d] = outer_[d].strides[1];
    nest.size[d] = divisor_of(static_cast<int>(outer_[d].size));
  }
  nest.row = divisor_of(static_cast<int>(row_)), nest.count = static_cast<int>(count_);
  launch.arg(x).arg(y).arg(nest);
  if (chunk_) {
    launch.arg(static_cast<int>(places_)).arg(static_cast<int>(chunk_));
    return launch.run({static_cast<size_t>(ceil_div(count_, chunk_))}, {1});
  }
  const int64_t groups = ceil_div(count_, kGroup * blocks_);
  launch.run({static_cast<size_t>(groups * kGroup)}, {static_cast<size_t>(kGroup)});
}

}  // namespace dlprim::detail
