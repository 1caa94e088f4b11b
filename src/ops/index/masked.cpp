// Choosing elements by a mask: checks, and how results of the right size come about.
#include <dlprim/masked.hpp>

#include <climits>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/index/compaction.hpp"
#include "ops/index/indexing.hpp"

namespace dlprim {

using namespace detail;

namespace {

/// `packed` is undefined where it is yet to be made.
void check(const Stream& stream, const Compacted& c, const Tensor& packed, const char* x_name,
           const char* packed_name) {
  require_context("mask", c.mask, stream.context());
  if (packed.defined()) require_context(packed_name, packed, stream.context());
  require(c.mask.numel() <= INT_MAX, "mask", c.mask.numel(), " elements are more than 2^31 - 1");
  require_real(stream.context(), c.mask.dtype());
  if (c.x.defined()) {
    require_context(x_name, c.x, stream.context());
    require_shape("mask", c.mask, c.x.shape());
    if (packed.defined()) {
      require_dtype(packed_name, packed, c.x.dtype());
      require_rank(packed_name, packed, 1);
    }
  }
  if (c.total.defined()) {
    require_context("count", c.total, stream.context());
    require_indices({c.total}, "count");
    require_shape("count", c.total, {1});
    require_no_overlap("count", c.total, "mask", c.mask);
  }
  const bool spreads = c.mode == CompactMode::spread;
  const Named written{spreads ? x_name : packed_name, spreads ? c.x : packed};
  if (written.tensor.defined()) require_writable(written.name, written.tensor);
  require_apart({written, {"count", c.total}},
                {{"mask", c.mask}, {spreads ? packed_name : x_name, spreads ? packed : c.x}});
}

double bytes_of(const Compacted& c) {
  return static_cast<double>(c.mask.bytes() + (c.x.defined() ? c.x.bytes() : c.mask.bytes()));
}

void run(const Stream& stream, const Compacted& c, const Tensor& packed, const Options& options) {
  const Compaction compaction(stream, c, options);
  const OperatorScope scope(stream, compaction.text(), 0, bytes_of(c));
  compaction.count(stream);
  compaction.move(stream, packed);
}

/// Counts first, so that no more memory is taken than the result needs.
Tensor of_right_size(const Stream& stream, const Compacted& c, const Options& options) {
  const Compaction compaction(stream, c, options);
  const OperatorScope scope(stream, compaction.text(), 0, bytes_of(c));
  compaction.count(stream);
  Shape shape{compaction.counted(stream)};
  if (c.mode == CompactMode::coordinates) shape.push_back(c.mask.rank());
  const Tensor packed(stream, shape, c.packed);
  if (packed.numel() > 0) compaction.move(stream, packed);
  return packed;
}

}  // namespace

void masked_select(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
                   const Tensor& count, const Options& options) {
  require_defined({{"x", x}, {"mask", mask}, {"y", y}, {"count", count}});
  const Compacted c{CompactMode::pack, mask, x, x.dtype(), count};
  check(stream, c, y, "x", "y");
  run(stream, c, y, options);
}

void masked_select_backward(const Stream& stream, const Tensor& dy, const Tensor& mask, const Tensor& dx,
                            const Options& options) {
  require_defined({{"dy", dy}, {"mask", mask}, {"dx", dx}});
  const Compacted c{CompactMode::spread, mask, dx, dx.dtype(), {}};
  check(stream, c, dy, "dx", "dy");
  run(stream, c, dy, options);
}

void nonzero(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& count,
             const Options& options) {
  require_defined({{"x", x}, {"y", y}, {"count", count}});
  const Compacted c{CompactMode::coordinates, x, {}, y.dtype(), count};
  check(stream, c, y, "x", "y");
  require_indices({y, count}, "count");
  require_rank("y", y, 2);
  require(y.shape()[1] == x.rank(), "y", "shape ", y.shape(), " must be [room, ", x.rank(), "]");
  run(stream, c, y, options);
}

Tensor masked_select(const Stream& stream, const Tensor& x, const Tensor& mask, const Options& options) {
  require_defined({{"x", x}, {"mask", mask}});
  const Compacted c{CompactMode::pack, mask, x, x.dtype(), {}};
  check(stream, c, {}, "x", "y");
  return of_right_size(stream, c, options);
}

Tensor nonzero(const Stream& stream, const Tensor& x, const Options& options) {
  require_defined({{"x", x}});
  const Compacted c{CompactMode::coordinates, x, {}, DType::i64, {}};
  check(stream, c, {}, "x", "y");
  return of_right_size(stream, c, options);
}

}  // namespace dlprim
