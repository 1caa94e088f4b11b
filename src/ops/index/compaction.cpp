// Both engines of Compaction: tiles (compact_bits.cl, compact_move.cl) and chunks (compact.cl).
#include "ops/index/compaction.hpp"

#include <dlprim/copy.hpp>

#include <algorithm>
#include <climits>
#include <numeric>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {
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
  const EngineRequest request(options);
  require(request.automatic() || request.names("chunks") || request.names("tiles"), "engine",
          "there is no engine '", options.engine, "'");
  const auto room = static_cast<int64_t>(context.device().facts().max_work_group);
  if (request.automatic()) return context.device().kind() != DeviceKind::cpu && room >= kLeastGroup;
  require(request.names("chunks") || room >= kLeastGroup, "engine", "tiles: work-groups of ", room,
          " items are too small");
  return request.names("tiles");
}

}  // namespace

struct Compaction::Plan {
  bool tiles = false;
  int64_t group = 1, chunk = 1, groups = 1;    ///< chunk: elements of a group
  bool copies_mask = false, copies_x = false;  ///< row-major copies take their place
  IndexNest mask, x;                           ///< of tiles; x: of coordinates without dimensions
  Kernel counting, moving;
  std::string text;

  Plan(const Context& context, const Compacted& c, const Options& options)
      : tiles(by_tiles(context, options)) {
    const int64_t count = c.mask.numel();
    const auto room = static_cast<int64_t>(context.device().facts().max_work_group);
    while (tiles && group < kGroup && 2 * group <= room) group *= 2;
    const int64_t tile = group * kItems;
    chunk = tiles ? std::max<int64_t>(1, ceil_div(ceil_div(count, tile), kGroups)) * tile
                  : cpu_chunk(context, count, kCpuChunk);
    groups = std::max<int64_t>(1, ceil_div(count, chunk));
    text = cat("op=compact engine=", tiles ? "tiles" : "chunks", " mask=", brief(c.mask));
    tiles ? make_tiles(context, c) : make_chunks(context, c);
  }

 private:
  void make_tiles(const Context& context, const Compacted& c);
  void make_chunks(const Context& context, const Compacted& c);
};

namespace {

Defines& set_move(Defines& defines, const Compacted& c) {
  const char* word = word_type(static_cast<int64_t>(size_of(c.packed)));
  defines.set("ELEMENT", c.mode == CompactMode::coordinates ? storage_type(c.packed) : word);
  return defines.set("MODE", static_cast<int>(c.mode)).set("TOTAL", storage_type(c.total.dtype()));
}

}  // namespace

void Compaction::Plan::make_tiles(const Context& context, const Compacted& c) {
  ProgramCache& programs = context.state().programs;
  copies_mask = is_transposed(c.mask);
  const TensorDesc read = copies_mask ? TensorDesc(c.mask.shape(), c.mask.dtype()) : TensorDesc(c.mask);
  mask = nest_of(read);
  const auto size = static_cast<int64_t>(size_of(read.dtype));
  Defines bits = nest_defines(mask, mask.dims.size(), 0);
  bits.set("GROUP", group).set("MASK", word_type(size)).set("FLOATING", is_floating(read.dtype));
  bits.set("V", mask.dims.empty() && read.aligned ? 16 / size : 1);
  counting = programs.kernel("compact_bits", "compact_bits", bits);

  size_t rank = static_cast<size_t>(c.mask.rank());
  if (c.mode == CompactMode::coordinates) {
    x.wide = c.mask.numel() > kNarrow;
  } else {
    copies_x = is_transposed(c.x);
    x = nest_of(copies_x ? TensorDesc(c.x.shape(), c.x.dtype()) : TensorDesc(c.x));
    rank = x.dims.size();
  }
  Defines moves = nest_defines(x, rank, 0);
  moving = programs.kernel("compact_move", "compact_move", set_move(moves, c).set("GROUP", group));
}

void Compaction::Plan::make_chunks(const Context& context, const Compacted& c) {
  ProgramCache& programs = context.state().programs;
  Defines defines;
  defines.set("M_DTYPE", name_of(c.mask.dtype())).set("M", storage_type(c.mask.dtype()));
  defines.set("RANK", c.mask.rank());
  defines.set("FLAT", c.mask.is_contiguous() && (!c.x.defined() || c.x.is_contiguous()));
  set_move(defines, c);
  counting = programs.kernel("compact", "compact_count", defines);
  moving = programs.kernel("compact", "compact_move", defines);
}

Compaction::Compaction(const Stream& stream, const Compacted& compacted, const Options& options)
    : compacted_(compacted) {
  if (!compacted_.total.defined()) compacted_.total = Tensor(stream, {1}, DType::i64);
  PlanKey key("compact");
  key.add(compacted.mode).add(TensorDesc(compacted.mask)).add(compacted.packed);
  key.add(compacted_.total.dtype());
  key.add(described(compacted.x));
  plan_ = cached_plan<Plan>(stream, std::move(key), compacted_, options);
  counts_ = Tensor(stream, {plan_->groups}, DType::i32);
  if (plan_->tiles) bits_ = Tensor(stream, {plan_->groups * plan_->chunk / kItems}, DType::i32);
}

const std::string& Compaction::text() const {
  return plan_->text;
}

namespace {

void bind_dims(Launch& launch, const Compacted& c) {
  for (int i = 0; i < kMaxRank; i++) {
    const bool there = i < c.mask.rank();
    launch.arg(there ? c.mask.shape()[i] : int64_t{1}).arg(there ? c.mask.strides()[i] : int64_t{0});
    launch.arg(there && c.x.defined() ? c.x.strides()[i] : int64_t{0});
  }
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

void Compaction::count(const Stream& stream) const {
  const Plan& p = *plan_;
  const Tensor mask = p.copies_mask ? contiguous(stream, compacted_.mask) : compacted_.mask;
  Launch launch(stream, p.counting);
  launch.arg(mask);
  if (p.tiles) {
    launch.arg(bits_).arg(counts_);
    bind_offset(launch, p.mask.wide, mask.numel());
    launch.arg(static_cast<int>(p.chunk / (p.group * kItems)));
    bind_nest(launch, p.mask, {}, p.mask.dims, {});
  } else {
    launch.arg(counts_).arg(mask.numel()).arg(p.chunk);
    bind_dims(launch, compacted_);
  }
  launch.run({static_cast<size_t>(p.groups * p.group)}, {static_cast<size_t>(p.group)});
}

int64_t Compaction::counted(const Stream& stream) const {
  const std::vector<int32_t> counts = read<int32_t>(stream, counts_);
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void Compaction::move(const Stream& stream, const Tensor& packed) const {
  const Plan& p = *plan_;
  const Tensor& x = compacted_.x;
  if (!p.tiles) return move_chunks(stream, packed);
  if (!p.copies_x) return move_tiles(stream, x, packed);
  if (compacted_.mode == CompactMode::pack) return move_tiles(stream, contiguous(stream, x), packed);
  const Tensor spread(stream, x.shape(), x.dtype());
  move_tiles(stream, spread, packed);
  copy(stream, spread, x);
}

void Compaction::move_tiles(const Stream& stream, const Tensor& x, const Tensor& packed) const {
  const Plan& p = *plan_;
  const Tensor& mask = compacted_.mask;
  Launch launch(stream, p.moving);
  launch.arg(bits_).arg(counts_);
  bind_offset(launch, p.x.wide, mask.numel());
  launch.arg(static_cast<int>(p.chunk / (p.group * kItems))).arg(compacted_.total);
  const int64_t room = packed.numel() > 0 ? packed.shape()[0] : 0;  // rows may have no columns
  launch.arg(packed).arg(static_cast<int>(std::min<int64_t>(room, INT_MAX))).arg(packed.strides()[0]);
  if (compacted_.mode == CompactMode::coordinates) {
    launch.arg(packed.strides()[1]);
    bind_coordinates(launch, p.x.wide, mask.shape());
  } else {
    launch.arg(x);
    bind_nest(launch, p.x, {}, p.x.dims, {});
  }
  launch.run({static_cast<size_t>(p.groups * p.group)}, {static_cast<size_t>(p.group)});
}

void Compaction::move_chunks(const Stream& stream, const Tensor& packed) const {
  const Plan& p = *plan_;
  Launch launch(stream, p.moving);
  launch.arg(compacted_.mask).arg(counts_).arg(compacted_.mask.numel()).arg(p.chunk);
  bind_dims(launch, compacted_);
  launch.arg(compacted_.x).arg(packed).arg(packed.shape()[0]).arg(packed.strides()[0]);
  launch.arg(packed.rank() > 1 ? packed.strides()[1] : int64_t{0}).arg(compacted_.total);
  launch.run({static_cast<size_t>(p.groups)}, {1});
}

}  // namespace dlprim::detail
