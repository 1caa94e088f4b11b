// Choosing elements by a mask: three launches of compact.cl.
#include <dlprim/copy.hpp>
#include <dlprim/masked.hpp>

#include <climits>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/indexing.hpp"

namespace dlprim {

using namespace detail;

namespace {

enum Mode : uint8_t { kPack, kSpread, kCoordinates };  // of compact.cl

/// What is chosen, and where it goes. `x` is undefined for coordinates.
struct Compaction {
  Mode mode = kPack;
  Tensor mask, x, packed, count;
};

void bind_dims(Launch& launch, const Compaction& c) {
  for (int i = 0; i < kMaxRank; i++) {
    const bool there = i < c.mask.rank();
    launch.arg(there ? c.mask.shape()[i] : int64_t{1}).arg(there ? c.mask.strides()[i] : int64_t{0});
    launch.arg(there && c.x.defined() ? c.x.strides()[i] : int64_t{0});
  }
}

void check(const Stream& stream, const Compaction& c, const char* x_name, const char* packed_name) {
  require_context("mask", c.mask, stream.context());
  require_context(packed_name, c.packed, stream.context());
  require(c.mask.numel() <= INT_MAX, "mask", c.mask.numel(), " elements are more than 2^31 - 1");
  require_real(stream.context(), c.mask.dtype());
  if (c.x.defined()) {
    require_context(x_name, c.x, stream.context());
    require_shape("mask", c.mask, c.x.shape());
    require_dtype(packed_name, c.packed, c.x.dtype());
    require_rank(packed_name, c.packed, 1);
  }
  if (c.count.defined()) {
    require_context("count", c.count, stream.context());
    require_indices({c.count}, "count");
    require_shape("count", c.count, {1});
    require_no_overlap("count", c.count, "mask", c.mask);
  }
  const bool spreads = c.mode == kSpread;
  const Named written{spreads ? x_name : packed_name, spreads ? c.x : c.packed};
  require_writable(written.name, written.tensor);
  require_apart({written, {"count", c.count}},
                {{"mask", c.mask}, {spreads ? packed_name : x_name, spreads ? c.packed : c.x}});
}

void run(const Stream& stream, const Compaction& c) {
  const Context& context = stream.context();
  const bool cpu = context.device().kind() == DeviceKind::cpu;
  const int64_t count = c.mask.numel(), local = cpu ? 1 : 64;
  const int64_t chunk =
      cpu ? cpu_chunk(context, count, 4096) : std::max<int64_t>(16, ceil_div(count, int64_t{1} << 17));
  const int64_t chunks = ceil_div(count, chunk);
  const auto size = static_cast<int64_t>(size_of(c.packed.dtype()));
  const Tensor counts(stream, {std::max<int64_t>(chunks, 1)}, DType::i32);
  const Tensor total = c.count.defined() ? c.count : Tensor(stream, {1}, DType::i32);
  Defines defines;
  defines.set("M_DTYPE", name_of(c.mask.dtype()))
      .set("M", storage_type(c.mask.dtype()))
      .set("RANK", c.mask.rank());
  defines.set("ELEMENT", c.mode == kCoordinates ? storage_type(c.packed.dtype()) : word_type(size));
  defines.set("FLAT", c.mask.is_contiguous() && (!c.x.defined() || c.x.is_contiguous()));
  defines.set("C", storage_type(total.dtype())).set("MODE", static_cast<int>(c.mode));
  ProgramCache& programs = context.state().programs;
  const Kernel counting = programs.kernel("compact", "compact_count", defines),
               scanning = programs.kernel("compact", "compact_scan", defines),
               moving = programs.kernel("compact", "compact_move", defines);

  const OperatorScope scope(stream, cat("op=compact engine=chunks mask=", brief(c.mask)), 0,
                            static_cast<double>(2 * c.mask.bytes()));
  const size_t items = items_in_groups(chunks, local), group = static_cast<size_t>(local);
  Launch first(stream, counting);
  first.arg(c.mask).arg(counts).arg(count).arg(chunk);
  bind_dims(first, c);
  first.run({items}, {group});
  const size_t scanners = cpu ? 1 : 256;
  Launch(stream, scanning).arg(counts).arg(static_cast<int>(chunks)).arg(total).run({scanners}, {scanners});
  Launch last(stream, moving);
  last.arg(c.mask).arg(counts).arg(count).arg(chunk);
  bind_dims(last, c);
  last.arg(c.x).arg(c.packed).arg(c.packed.shape()[0]).arg(c.packed.strides()[0]);
  last.arg(c.packed.rank() > 1 ? c.packed.strides()[1] : int64_t{0}).run({items}, {group});
}

/// The number on the device.
int64_t waited(const Stream& stream, const Tensor& count) {
  return read<int64_t>(stream, count)[0];
}

}  // namespace

void masked_select(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
                   const Tensor& count) {
  require_defined({{"x", x}, {"mask", mask}, {"y", y}, {"count", count}});
  const Compaction c{kPack, mask, x, y, count};
  check(stream, c, "x", "y");
  run(stream, c);
}

void masked_select_backward(const Stream& stream, const Tensor& dy, const Tensor& mask, const Tensor& dx) {
  require_defined({{"dy", dy}, {"mask", mask}, {"dx", dx}});
  const Compaction c{kSpread, mask, dx, dy, {}};
  check(stream, c, "dx", "dy");
  run(stream, c);
}

void nonzero(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& count) {
  require_defined({{"x", x}, {"y", y}, {"count", count}});
  const Compaction c{kCoordinates, x, {}, y, count};
  check(stream, c, "x", "y");
  require_indices({y, count}, "count");
  require_rank("y", y, 2);
  require(y.shape()[1] == x.rank(), "y", "shape ", y.shape(), " must be [room, ", x.rank(), "]");
  run(stream, c);
}

Tensor masked_select(const Stream& stream, const Tensor& x, const Tensor& mask) {
  require_defined({{"x", x}});
  const Tensor all(stream, {x.numel()}, x.dtype()), count(stream, {1}, DType::i64);
  masked_select(stream, x, mask, all, count);
  return contiguous(stream, all.slice(0, 0, waited(stream, count)));
}

Tensor nonzero(const Stream& stream, const Tensor& x) {
  require_defined({{"x", x}});
  const Tensor all(stream, {x.numel(), x.rank()}, DType::i64), count(stream, {1}, DType::i64);
  nonzero(stream, x, all, count);
  return contiguous(stream, all.slice(0, 0, waited(stream, count)));
}

}  // namespace dlprim
