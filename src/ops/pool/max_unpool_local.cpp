// Max unpooling forward on GPUs whose local memory holds the owners of places: over max_unpool_planes.cl for
// dense planes, over max_unpool_tiles.cl for channels that are neighbours.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/pool/max_unpool_impl.hpp"

namespace dlprim::detail {

namespace {

using Impl = MaxUnpool::Impl;
using Problem = UnpoolProblem;

constexpr int64_t kMostScanned = 65536;  // indices of a plane that a work-group goes through
constexpr int64_t kMostGroups = int64_t{1} << 28;

/// Dense planes whose owners fit into local memory, a few at a time, or one in a few ranges of which each
/// reads all of the indices: 24 KB and less let a multiprocessor hold 2048 work-items in groups of 256.
struct Planes : Impl {
  struct Form {
    int64_t tile, group, most_ranges;
  };
  static constexpr Form kForms[] = {{6400, 256, 4}, {12000, 512, 10}};

  /// The first form that serves; null if none does.
  static const Form* form_of(const Context& context, const Problem& p) {
    const DeviceFacts& facts = context.device().facts();
    const int64_t q = p.y().plane();
    for (const Form& form : kForms)
      if (ceil_div(q, form.tile) <= form.most_ranges && facts.max_work_group >= form.group &&
          facts.local_memory >= static_cast<uint64_t>(form.tile) * 4)
        return &form;
    return nullptr;
  }
  static std::string refuse(const Context& context, const Problem& p, const EngineOptions&) {
    for (const TensorDesc* t : {&p.desc.x, &p.desc.indices, &p.desc.y})
      if (t->strides != contiguous_strides(t->shape))
        return cat("strides ", t->strides, " are not row-major");
    if (p.x().plane() > kMostScanned) return cat("planes of x have ", p.x().plane(), " elements");
    if (p.x().size[0] * p.x().size[1] >= kMostGroups) return cat(p.x().size[0] * p.x().size[1], " planes");
    return form_of(context, p) ? std::string() : cat("planes of y have ", p.y().plane(), " elements");
  }

  Planes(const Context& context, const Problem& p) : Impl(p), form(*form_of(context, p)) {
    const int64_t q = std::max<int64_t>(1, y.plane()), units = context.device().facts().compute_units;
    planes = x.size[0] * x.size[1];
    ranges = ceil_div(q, form.tile);
    length = round_up(ceil_div(q, ranges), 8);
    each = std::max<int64_t>(1, std::min({form.tile / q, planes / (8 * std::max<int64_t>(1, units)),
                                          kMostScanned / std::max<int64_t>(1, x.plane())}));
    const auto size = static_cast<int64_t>(size_of(p.desc.x.dtype));
    int64_t v = p.desc.y.aligned ? std::min<int64_t>(8, 16 / size) : 1;
    while (q % v) v /= 2;
    defines.set("SIZE", size).set("V", v).set("TILE", form.tile).set("GROUP", form.group);
    run_ = context.state().programs.kernel("max_unpool_planes", "max_unpool_planes", defines);
  }

  void run(const Stream& stream, const Tensor& x_, const Tensor& indices, const Tensor& y_,
           const Tensor& /*workspace*/) const override {
    Launch l(stream, run_);
    bind_divisor(l.arg(x_).arg(indices).arg(y_), static_cast<int>(x.plane()));
    for (int64_t number : {y.plane(), planes, each, ranges, length}) l.arg(static_cast<int>(number));
    l.run({static_cast<size_t>(ceil_div(planes, each) * ranges * form.group)},
          {static_cast<size_t>(form.group)});
  }

  Form form;
  int64_t planes = 1, each = 1, ranges = 1, length = 1;
  Kernel run_;
};

/// Ranges of places in a few channels that are neighbours, so many as are a sector of memory, more where
/// planes are small, fewer where they are large. With more ranges than a few each reads only those indices
/// that may be its own.
struct Tiles : Impl {
  static constexpr int64_t kTile = 6400, kGroup = 256;  // as the first of Planes::kForms
  static constexpr int64_t kSector = 32;
  static constexpr int64_t kChunk = 32;     // places of x that are read together
  static constexpr int64_t kMostScans = 3;  // ranges that each read all indices
  static constexpr int64_t kMostRanges = 160;
  static constexpr int64_t kLeastPlaces = 64;  // of a range, where more ranges would give work to more units

  struct Form {
    int64_t channels = 1, parts = 1, ranges = 1;
  };
  static Form form_of(const Context& context, const Problem& p) {
    const UnpoolTensor y = p.y();
    const int64_t n = std::max<int64_t>(1, y.size[0]), c = y.size[1], q = std::max<int64_t>(1, y.plane());
    const int64_t groups = 4 * std::max<int64_t>(1, context.device().facts().compute_units);
    const int64_t sector = kSector / static_cast<int64_t>(size_of(p.desc.x.dtype));
    Form form;
    const auto more = [&] {
      const int64_t twice = 2 * form.channels;
      return twice <= sector || (twice <= kGroup && twice * q <= kTile && n * ceil_div(c, twice) >= groups);
    };
    while (form.channels < c && more()) form.channels *= 2;
    const auto needed = [&] { return ceil_div(q, kTile / form.channels); };
    while (form.channels > 1 && needed() > kMostRanges) form.channels /= 2;
    form.parts = ceil_div(c, form.channels);
    form.ranges =
        std::max(needed(), std::min({ceil_div(groups, n * form.parts), q / kLeastPlaces, kMostRanges}));
    return form;
  }
  static std::string refuse(const Context& context, const Problem& p, const EngineOptions&) {
    const DeviceFacts& facts = context.device().facts();
    if (facts.max_work_group < kGroup) return cat("work-groups have ", facts.max_work_group, " work-items");
    if (facts.local_memory < (kTile + kGroup + 1) * 4)
      return cat("local memory has ", facts.local_memory, " bytes");
    if (p.x().size[1] < 2) return cat(p.x().size[1], " channels");
    const UnpoolTensor x = p.x(), y = p.y(), indices = p.indices();
    for (const UnpoolTensor* t : {&x, &indices, &y})
      if (t->stride[1] != 1 || !t->flat())
        return cat("strides ", t->stride[1], " of C and ", t->stride[3], ", ", t->stride[4], " of H and W");
    if (x.plane() > kMostScanned) return cat("planes of x have ", x.plane(), " elements");
    const Form form = form_of(context, p);
    if (form.ranges > kMostRanges) return cat("planes of y have ", y.plane(), " elements");
    const int64_t groups = x.size[0] * std::max(form.parts * form.ranges, ceil_div(x.plane(), kChunk));
    return groups >= kMostGroups ? cat(groups, " work-groups") : std::string();
  }

  Tiles(const Context& context, const Problem& p) : Impl(p), form(form_of(context, p)) {
    chunks = ceil_div(x.plane(), kChunk);
    known = form.ranges > kMostScans && chunks > 0;
    defines.set("CHANNELS", form.channels).set("TILE", kTile).set("CHUNK", kChunk).set("GROUP", kGroup);
    const auto kernel_of = [&](const char* name) {
      return context.state().programs.kernel("max_unpool_tiles", name, defines);
    };
    if (known) bounds_ = kernel_of("max_unpool_bounds");
    run_ = kernel_of("max_unpool_tiles");
  }
  size_t workspace_size() const override {
    return known ? static_cast<size_t>(x.size[0] * chunks * 2) * 4 : 0;
  }

  void run(const Stream& stream, const Tensor& x_, const Tensor& indices, const Tensor& y_,
           const Tensor& workspace) const override {
    const auto tensor = [&](Launch& l, const Tensor& t) {
      const auto& stride = UnpoolTensor(t, problem.desc.spatial).stride;
      l.arg(t).arg(stride[0]).arg(stride[4]);
    };
    const auto number = [](int64_t n) { return static_cast<int>(n); };
    const UnpoolTiles of{number(x.size[1]),
                         number(x.plane()),
                         number(y.plane()),
                         number(chunks),
                         static_cast<int>(known),
                         number(ceil_div(y.plane(), form.ranges)),
                         divisor_of(number(form.parts)),
                         divisor_of(number(form.ranges))};
    const auto launch = [&](Launch& l, int64_t groups) {
      l.run({static_cast<size_t>(groups * kGroup)}, {static_cast<size_t>(kGroup)});
    };
    const Tensor bounds =
        known ? workspace_part(workspace, 0, {x.size[0] * chunks * 2}, DType::i32) : Tensor();
    if (known) {
      Launch l(stream, bounds_);
      tensor(l, indices);
      l.arg(bounds).arg(divisor_of(of.channels)).arg(of.p).arg(of.q).arg(divisor_of(of.chunks));
      launch(l, x.size[0] * chunks);
    }
    Launch l(stream, run_);
    tensor(l, x_), tensor(l, indices), tensor(l, y_);
    l.arg(bounds).arg(of);
    launch(l, x.size[0] * form.ranges * form.parts);
  }

  Form form;
  int64_t chunks = 0;
  bool known = false;  ///< the bounds of chunks are found before
  Kernel bounds_, run_;
};

template <class T>
std::unique_ptr<const Impl> make(const Context& context, const Problem& problem, const EngineOptions&) {
  return std::make_unique<const T>(context, problem);
}

}  // namespace

const UnpoolEngine kUnpoolPlanes{"planes", Planes::refuse, make<Planes>, avoid_on_cpus},
    kUnpoolTiles{"tiles", Tiles::refuse, make<Tiles>, avoid_on_cpus};

}  // namespace dlprim::detail
