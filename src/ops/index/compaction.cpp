// Both engines of Compaction: tiles (compact_bits.cl, compact_move.cl) and chunks (compact.cl).
#include "ops/index/compaction.hpp"

#include <algorithm>
#include <climits>
#include <numeric>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/int64.hpp"
#include "ops/lib/two_forms.hpp"

namespace dlprim::detail {

#include "kernels/index/compact.h"

namespace {

constexpr int64_t kGroup = 256;      // work-items of a tile's group, fewer where the device has no room
constexpr int64_t kLeastGroup = 32;  // a device whose groups have less is given chunks
constexpr int64_t kItems = 32;       // neighbours that a work-item counts: a word of bits
constexpr int64_t kGroups = 4096;    // at most; each adds up the counts of those before it
constexpr int64_t kCpuChunk = 4096;  // elements, at least
constexpr int64_t kNarrow = int64_t{1} << 30;  // the last tile may end behind the last element

/// The loops over a tensor in row-major order, neighbours merged where its strides allow; none if its
/// elements lie that way.
IndexNest nest_of(const TensorDesc& x) {
  IndexNest nest;
  nest.count = element_count(x.shape);
  nest.wide = nest.count > kNarrow || extent_of(x) > kNarrow;
  for (int i = 0; i < x.shape.size(); i++) {
    if (x.shape[i] == 1) continue;
    const LoopDim dim{x.shape[i], {0, x.strides[i]}};
    if (!nest.dims.empty() && nest.dims.back().strides[1] == dim.strides[1] * dim.size)
      nest.dims.back() = {nest.dims.back().size * dim.size, dim.strides};
    else
      nest.dims.push_back(dim);
  }
  if (nest.count == 0 || (nest.dims.size() == 1 && nest.dims[0].strides[1] == 1)) nest.dims.clear();
  return nest;
}

/// Neighbours in row-major order lie further apart than others, as with channels last: tiles would move a
/// sector of memory for each element.
bool is_transposed(const TensorDesc& x) {
  const IndexNest nest = nest_of(x);
  return std::any_of(nest.dims.begin(), nest.dims.end(), [&](const LoopDim& dim) {
    return dim.strides[1] > 0 && dim.strides[1] < nest.dims.back().strides[1];
  });
}

bool by_tiles(const Context& context, const Options& options) {
  if (takes_cpu_form(context, options, "chunks", "tiles")) return false;
  const auto room = static_cast<int64_t>(context.device().facts().max_work_group);
  require(room >= kLeastGroup || options.engine == "auto", "engine", "tiles: work-groups of ", room,
          " items are too small");
  return room >= kLeastGroup;
}

}  // namespace

struct Compaction::Plan {
  Compacted c;
  bool tiles = false;
  int64_t group = 1, chunk = 1, groups = 1;  ///< chunk: elements of a group
  std::optional<Copy> mask_copy, x_copy;     ///< row-major copies take their place
  TensorDesc row_mask, row_x;                ///< what the kernels of tiles read and write
  IndexNest mask, x;                         ///< of tiles; x: of coordinates without dimensions
  Kernel counting, moving;
  WorkspaceParts layout;
  size_t counts_at = 0, bits_at = 0, total_at = 0, mask_at = 0, x_at = 0;

  Plan(const Context& context, const Compacted& compacted, const Options& options)
      : c(compacted), tiles(by_tiles(context, options)), row_mask(c.mask) {
    const int64_t count = element_count(c.mask.shape);
    const auto room = static_cast<int64_t>(context.device().facts().max_work_group);
    while (tiles && group < kGroup && 2 * group <= room) group *= 2;
    const int64_t tile = group * kItems;
    chunk = tiles ? std::max<int64_t>(1, ceil_div(ceil_div(count, tile), kGroups)) * tile
                  : cpu_chunk(context, count, kCpuChunk);
    groups = std::max<int64_t>(1, ceil_div(count, chunk));
    tiles ? make_tiles(context) : make_chunks(context);
    counts_at = layout.add(static_cast<size_t>(groups) * 4);
    if (tiles) bits_at = layout.add(static_cast<size_t>(groups * chunk / kItems) * 4);
    if (!c.counts) total_at = layout.add(size_of(c.total));
    if (mask_copy) mask_at = layout.add(bytes_of(row_mask));
    if (x_copy) x_at = layout.add(bytes_of(row_x));
  }
  Tensor counts(const Tensor& workspace) const {
    return workspace_part(workspace, counts_at, {groups}, DType::i32);
  }
  /// Of each element, whether it is chosen.
  Tensor bits(const Tensor& workspace) const {
    return workspace_part(workspace, bits_at, {groups * chunk / kItems}, DType::i32);
  }
  Tensor total(const Tensor& given, const Tensor& workspace) const {
    return c.counts ? given : workspace_part(workspace, total_at, {1}, c.total);
  }

 private:
  void make_tiles(const Context& context);
  void make_chunks(const Context& context);
  Defines& set_move(Defines& defines) const {
    const char* word = word_type(static_cast<int64_t>(size_of(c.packed)));
    defines.set("ELEMENT", c.mode == CompactMode::coordinates ? storage_type(c.packed) : word);
    return defines.set("MODE", static_cast<int>(c.mode)).set("TOTAL", storage_type(c.total));
  }
  static size_t bytes_of(const TensorDesc& t) {
    return static_cast<size_t>(element_count(t.shape)) * size_of(t.dtype);
  }
};

void Compaction::Plan::make_tiles(const Context& context) {
  ProgramCache& programs = context.state().programs;
  if (is_transposed(c.mask)) {
    row_mask = TensorDesc(c.mask.shape, c.mask.dtype);
    mask_copy.emplace(context, CopyDesc{c.mask, row_mask});
  }
  mask = nest_of(row_mask);
  const auto size = static_cast<int64_t>(size_of(row_mask.dtype));
  Defines bits = nest_defines(mask, mask.dims.size(), 0);
  bits.set("GROUP", group).set("MASK", word_type(size)).set("FLOATING", is_floating(row_mask.dtype));
  bits.set("V", mask.dims.empty() && row_mask.aligned ? 16 / size : 1);
  counting = programs.kernel("compact_bits", "compact_bits", bits);

  auto rank = static_cast<size_t>(c.mask.shape.size());
  if (!c.x) {
    x.wide = element_count(c.mask.shape) > kNarrow;
  } else {
    row_x = *c.x;
    if (is_transposed(*c.x)) {
      row_x = TensorDesc(c.x->shape, c.x->dtype);
      const bool packs = c.mode == CompactMode::pack;
      x_copy.emplace(context, packs ? CopyDesc{*c.x, row_x} : CopyDesc{row_x, *c.x});
    }
    x = nest_of(row_x);
    rank = x.dims.size();
  }
  Defines moves = nest_defines(x, rank, 0);
  moving = programs.kernel("compact_move", "compact_move", set_move(moves).set("GROUP", group));
}

void Compaction::Plan::make_chunks(const Context& context) {
  ProgramCache& programs = context.state().programs;
  Defines defines;
  defines.set("M_DTYPE", name_of(c.mask.dtype)).set("M", storage_type(c.mask.dtype));
  defines.set("RANK", c.mask.shape.size());
  const auto flat = [](const TensorDesc& t) { return t.strides == contiguous_strides(t.shape); };
  defines.set("FLAT", flat(c.mask) && (!c.x || flat(*c.x)));
  set_move(defines);
  counting = programs.kernel("compact", "compact_count", defines);
  moving = programs.kernel("compact", "compact_move", defines);
}

Compaction::Compaction(const Context& context, const Compacted& compacted, const Options& options)
    : plan_(std::make_shared<const Plan>(context, compacted, options)) {
  const Plan& p = *plan_;
  constexpr const char* kOps[] = {"masked_select", "masked_select_backward", "nonzero"};
  PlanInfo info;
  info.text = cat("mask=", brief(p.c.mask));
  info.bytes = traffic({p.c.mask, p.c.x ? *p.c.x : p.c.mask});
  info.workspace = p.layout.size();
  info_ = single_engine(kOps[static_cast<int>(p.c.mode)], p.tiles ? "tiles" : "chunks", "", context, options,
                        std::move(info));
}

namespace {

CompactNest chunks_nest(const Compacted& c, int64_t chunk) {
  CompactNest nest{};
  for (int i = 0; i < c.mask.shape.size(); i++) {
    nest.size[i] = c.mask.shape[i], nest.mask[i] = c.mask.strides[i];
    nest.x[i] = c.x ? c.x->strides[i] : 0;
  }
  nest.count = element_count(c.mask.shape), nest.chunk = chunk;
  return nest;
}

/// SIZE of indexing.cl.
void bind_size(Launch& launch, bool wide, int64_t size) {
  if (wide)
    launch.arg(size);
  else
    bind_divisor(launch, static_cast<int>(size));
}

/// Of each dimension its size, and the elements of one step along it.
void bind_coordinates(Launch& launch, bool wide, const Shape& shape) {
  int64_t inner = element_count(shape);
  for (int64_t size : shape) {
    inner /= std::max<int64_t>(size, 1);
    bind_size(launch, wide, size);
    bind_size(launch, wide, inner);
  }
}

}  // namespace

void Compaction::count(const Stream& stream, const Tensor& mask, const Tensor& workspace) const {
  const Plan& p = *plan_;
  Tensor read = mask;
  if (p.mask_copy && mask.numel() > 0) {
    read = workspace_part(workspace, p.mask_at, mask.shape(), mask.dtype());
    p.mask_copy->run(stream, mask, read);
  }
  Launch launch(stream, p.counting);
  launch.arg(read);
  if (p.tiles) {
    launch.arg(p.bits(workspace)).arg(p.counts(workspace));
    bind_offset(launch, p.mask.wide, mask.numel());
    launch.arg(static_cast<int>(p.chunk / (p.group * kItems)));
    bind_nest(launch, p.mask, {}, p.mask.dims, {});
  } else {
    launch.arg(p.counts(workspace)).arg(chunks_nest(p.c, p.chunk));
  }
  launch.run({static_cast<size_t>(p.groups * p.group)}, {static_cast<size_t>(p.group)});
}

int64_t Compaction::counted(const Stream& stream, const Tensor& workspace) const {
  const std::vector<int32_t> counts = read<int32_t>(stream, plan_->counts(workspace));
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void Compaction::move(const Stream& stream, const CompactTensors& t, const Tensor& workspace) const {
  const Plan& p = *plan_;
  if (!p.tiles) return move_chunks(stream, t, workspace);
  if (!p.x_copy || t.x.numel() == 0) return move_tiles(stream, t, t.x, workspace);
  const Tensor rows = workspace_part(workspace, p.x_at, t.x.shape(), t.x.dtype());
  if (p.c.mode == CompactMode::pack) p.x_copy->run(stream, t.x, rows);
  move_tiles(stream, t, rows, workspace);
  if (p.c.mode == CompactMode::spread) p.x_copy->run(stream, rows, t.x);
}

void Compaction::move_tiles(const Stream& stream, const CompactTensors& t, const Tensor& x,
                            const Tensor& workspace) const {
  const Plan& p = *plan_;
  Launch launch(stream, p.moving);
  launch.arg(p.bits(workspace)).arg(p.counts(workspace));
  bind_offset(launch, p.x.wide, t.mask.numel());
  launch.arg(static_cast<int>(p.chunk / (p.group * kItems))).arg(p.total(t.total, workspace));
  const Tensor& packed = t.packed;
  const int64_t room = packed.numel() > 0 ? packed.shape()[0] : 0;  // rows may have no columns
  launch.arg(packed).arg(static_cast<int>(std::min<int64_t>(room, INT_MAX))).arg(packed.strides()[0]);
  if (p.c.mode == CompactMode::coordinates) {
    launch.arg(packed.strides()[1]);
    bind_coordinates(launch, p.x.wide, t.mask.shape());
  } else {
    launch.arg(x);
    bind_nest(launch, p.x, {}, p.x.dims, {});
  }
  launch.run({static_cast<size_t>(p.groups * p.group)}, {static_cast<size_t>(p.group)});
}

void Compaction::move_chunks(const Stream& stream, const CompactTensors& t, const Tensor& workspace) const {
  const Plan& p = *plan_;
  const Tensor& packed = t.packed;
  Launch launch(stream, p.moving);
  launch.arg(t.mask).arg(p.counts(workspace)).arg(chunks_nest(p.c, p.chunk));
  launch.arg(t.x).arg(packed).arg(packed.shape()[0]).arg(packed.strides()[0]);
  launch.arg(packed.rank() > 1 ? packed.strides()[1] : int64_t{0}).arg(p.total(t.total, workspace));
  launch.run({static_cast<size_t>(p.groups)}, {1});
}

}  // namespace dlprim::detail
