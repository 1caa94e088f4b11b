// Counting elements: histogram.cl. There are no atomics on floats that give the same bits twice: weights on
// GPUs are added exactly, as integers (histogram_exact.cl), or scattered by sorting.
#include <dlprim/copy.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/histogram.hpp>
#include <dlprim/pointwise.hpp>

#include <algorithm>
#include <climits>
#include <cmath>

#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/index/indexing.hpp"

namespace dlprim {

using namespace detail;

namespace {

/// What is counted. x and weights are row-major.
struct Counting {
  Tensor x, weights, y;
  bool ranged = false;  ///< bins are parts of a range
  HistogramRange range = {};
  Tensor ends;  ///< of the range, where data says it

  bool wide =
      false;  ///< weights are added up in f64, whatever they are: one after another, in f32 they lose digits

  DType accumulator() const {
    if (!weights.defined()) return DType::i32;
    return wide || weights.dtype() == DType::f64 || y.dtype() == DType::f64 ? DType::f64 : DType::f32;
  }
};

void check(const Stream& stream, const Tensor& x, const Tensor& y) {
  require_context("x", x, stream.context());
  require_context("y", y, stream.context());
  require(x.numel() < INT_MAX, "x", x.numel(), " elements are not less than ", INT_MAX);
  require_real(stream.context(), x.dtype());
  require_real(stream.context(), y.dtype());
  require_rank("y", y, 1);
  require(y.numel() < INT_MAX, "y", y.numel(), " bins are not less than ", INT_MAX);
  require(y.dtype() != DType::boolean, "y", "dtype bool counts nothing");
  require_writable("y", y);
  require_no_overlap("y", y, "x", x);
}

void require_whole(const Tensor& x) {
  require(!is_floating(x.dtype()), "x", "dtype ", name_of(x.dtype()), " must be an integer");
}

Tensor row_major(const Stream& stream, const Tensor& x) {
  return !x.defined() || x.is_contiguous() ? x : contiguous(stream, x);
}

Defines defines_of(const Counting& c) {
  Defines defines;
  const DType w = c.weights.defined() ? c.weights.dtype() : DType::f32;
  defines.set("X_DTYPE", name_of(c.x.dtype())).set("X_T", storage_type(c.x.dtype()));
  defines.set("VALUE", compute_type(c.x.dtype()));
  defines.set("W_DTYPE", name_of(w)).set("W_T", storage_type(w)).set("WEIGHTED", c.weights.defined());
  defines.set("ACC", c.weights.defined() ? storage_type(c.accumulator()) : "uint");
  defines.set("Y_DTYPE", name_of(c.y.dtype())).set("Y_T", storage_type(c.y.dtype()));
  defines.set("Y_VALUE", compute_type(c.y.dtype()));
  return defines.set("RANGE", c.ranged).set("FROM_DATA", c.ends.defined());
}

void bind_range(Launch& launch, const Counting& c) {
  if (!c.ranged) {
    launch.arg(0);
    return;
  }
  for (const double end : {c.range.low, c.range.high})
    if (c.x.dtype() == DType::f64)
      launch.arg(end);
    else
      launch.arg(static_cast<float>(end));
  launch.arg(c.ends);
}

struct Parts {
  Tensor bins;
  int64_t count = 1, step = 0;
};

Parts count_on_cpu(const Stream& stream, const Counting& c, Defines defines) {
  const int bins = static_cast<int>(c.y.numel()), count = static_cast<int>(c.x.numel());
  // Work-groups have enough to do to be worth bins of their own, which stay in the cache.
  const int64_t units = std::max(1, stream.context().device().facts().compute_units);
  const int64_t groups = std::clamp<int64_t>(count / std::max(16384, bins), 1, 4 * units);
  const int chunk = static_cast<int>(ceil_div(std::max(count, 1), groups));
  const int64_t used = ceil_div(std::max(count, 1), chunk), copies = bins <= 1024 ? 4 : 1;
  const Parts parts{Tensor(stream, {used * copies * (bins + 1)}, c.accumulator()), used * copies, bins + 1};
  defines.set("GROUP", 1).set("LOCAL_BINS", 0).set("COPIES", copies);
  Launch launch(stream, stream.context().state().programs.kernel("histogram", "histogram_parts", defines));
  launch.arg(c.x).arg(c.weights).arg(parts.bins).arg(count).arg(chunk).arg(bins);
  bind_range(launch, c);
  launch.run({static_cast<size_t>(used)}, {1});
  return parts;
}

Parts count_on_gpu(const Stream& stream, const Counting& c, Defines defines) {
  constexpr int kMostLocal = 8192, kCopied = 4096;  // bins in local memory: 32 KB; copies: 16 KB
  const DeviceFacts& facts = stream.context().device().facts();
  const int bins = static_cast<int>(c.y.numel()), count = static_cast<int>(c.x.numel());
  const int group = std::min(256, std::max(1, facts.max_work_group));
  int local = 64;
  while (local < bins && local < kMostLocal) local *= 2;
  if (local < bins || static_cast<uint64_t>(local) * 4 > facts.local_memory) local = 0;
  const int copies = local ? std::clamp(kCopied / local, 1, 8) : 1;
  const Parts parts{Tensor(stream, {bins}, DType::i32), 1, bins};
  fill(stream, parts.bins, 0);
  defines.set("GROUP", std::max(2, group)).set("LOCAL_BINS", local).set("COPIES", copies);
  Launch launch(stream, stream.context().state().programs.kernel("histogram", "histogram_count", defines));
  launch.arg(c.x).arg(parts.bins).arg(count).arg(bins);
  bind_range(launch, c);
  const int64_t groups = std::clamp<int64_t>(ceil_div(count, 16 * group), 1, 8LL * facts.compute_units);
  launch.run({static_cast<size_t>(groups * group)}, {static_cast<size_t>(group)});
  return parts;
}

/// Of histogram_exact.cl: how a bin's integers are laid out, and whether bins are in local memory.
struct ExactForm {
  int bits = 16, words = 17, group = 256, local = 0, halves = 0, narrow = 0;

  ExactForm(const Context& context, const Options& options, int64_t count, int64_t bins) {
    const DeviceFacts& facts = context.device().facts();
    const EngineRequest request(options);
    if (request.names("exact")) request.take({{"halves", &halves}, {"narrow", &narrow}});
    if (narrow || count > 1 << 24) bits = 8, words = 33;
    while (group > facts.max_work_group) group /= 2;
    const int64_t rounded = round_up(bins, 64);
    if (static_cast<uint64_t>(rounded * words) * 8 <= facts.local_memory) local = static_cast<int>(rounded);
  }
};

void add_exactly(const Stream& stream, const Counting& c, const ExactForm& form) {
  const int bins = static_cast<int>(c.y.numel()), count = static_cast<int>(c.x.numel());
  if (bins == 0) return;
  const OperatorScope scope(stream, cat("op=bincount engine=exact x=", brief(c.x), " y=", brief(c.y)), 0,
                            static_cast<double>(c.x.bytes() + c.weights.bytes() + c.y.bytes()));
  const Tensor sums(stream, {static_cast<int64_t>(bins) * form.words}, DType::i64);
  fill(stream, sums, 0);
  Defines defines = defines_of(c);
  defines.set("BITS", form.bits).set("GROUP", form.group).set("LOCAL_BINS", form.local);
  defines.set("HALVES", form.halves);
  const auto kernel = [&](const char* name) {
    return stream.context().state().programs.kernel("histogram_exact", name, defines);
  };
  if (count > 0) {
    const auto group = static_cast<size_t>(form.group);
    const int64_t most = 8LL * stream.context().device().facts().compute_units;
    const int64_t groups = std::clamp<int64_t>(ceil_div(count, 16 * form.group), 1, most);
    Launch launch(stream, kernel("histogram_exact_sums"));
    launch.arg(c.x).arg(c.weights).arg(sums).arg(count).arg(bins);
    launch.run({static_cast<size_t>(groups) * group}, {group});
  }
  Launch launch(stream, kernel("histogram_exact_finish"));
  launch.arg(sums).arg(bins).arg(c.y).arg(c.y.strides()[0]).run({items_in_groups(bins, 64)}, {64});
}

/// Whether each work-group has bins of its own; otherwise it is one of the engines `others`.
bool in_parts(const Context& context, const Options& options, std::initializer_list<const char*> others) {
  const EngineRequest request(options);
  bool known = request.automatic() || request.names("parts");
  for (const char* other : others) known = known || request.names(other);
  require(known, "engine", "there is no engine '", options.engine, "'");
  return request.automatic() ? context.device().kind() == DeviceKind::cpu : request.names("parts");
}

/// Whether weights are added exactly, not sorted.
bool is_exact(const Options& options, const Counting& c) {
  constexpr int64_t kMost = 1 << 20;  // bins, of 136 bytes or 264
  const bool serves = c.accumulator() == DType::f32 && c.y.numel() <= kMost;
  const EngineRequest request(options);
  if (!request.names("exact")) return serves && request.automatic();
  require(serves, "engine", "exact takes no f64 and at most ", kMost, " bins");
  return true;
}

void run(const Stream& stream, const char* op, const Counting& c, bool cpu) {
  const int64_t bins = c.y.numel();
  if (bins == 0) return;
  const double weights = c.weights.defined() ? static_cast<double>(c.weights.bytes()) : 0;
  const OperatorScope scope(
      stream, cat("op=", op, " engine=", cpu ? "parts" : "atomics", " x=", brief(c.x), " y=", brief(c.y)), 0,
      static_cast<double>(c.x.bytes() + c.y.bytes()) + weights);
  const Defines defines = defines_of(c);
  const Parts parts = cpu ? count_on_cpu(stream, c, defines) : count_on_gpu(stream, c, defines);
  Defines last = defines;
  last.set("GROUP", 1).set("LOCAL_BINS", 0).set("COPIES", 1);
  Launch launch(stream, stream.context().state().programs.kernel("histogram", "histogram_finish", last));
  launch.arg(parts.bins).arg(static_cast<int>(parts.count)).arg(static_cast<int>(bins)).arg(parts.step);
  launch.arg(c.y).arg(c.y.strides()[0]).run({items_in_groups(bins, 64)}, {64});
}

/// Both accumulators of a reduction of row-major data.
Tensor pair_of(const Stream& stream, const Tensor& x, DType dtype, const Reduction& both) {
  const Tensor ends(stream, {2}, dtype);
  reduce(stream, {x.reshape({x.numel()})}, {ends.slice(0, 0, 1), ends.slice(0, 1, 2)}, {}, both);
  return ends;
}

/// Both ends of row-major data, NaN if one element is.
Tensor ends_of(const Stream& stream, const Tensor& x) {
  return pair_of(
      stream, x, x.dtype() == DType::f64 ? DType::f64 : DType::f32,
      {2, "a0 = INFINITY; a1 = -INFINITY",
       "a0 = x0 < a0 || x0 != x0 ? x0 : a0; a1 = x0 > a1 || x0 != x0 ? x0 : a1",
       "a0 = b0 < a0 || b0 != b0 ? b0 : a0; a1 = b1 > a1 || b1 != b1 ? b1 : a1", "y0 = a0; y1 = a1"});
}

/// How many bins x's numbers need. Waits.
int64_t bins_for(const Stream& stream, const Tensor& x) {
  if (x.numel() == 0) return 0;
  const Tensor ends = pair_of(stream, row_major(stream, x), DType::i64,
                              {2, "a0 = 0; a1 = 0", "a0 = min(a0, (real)x0); a1 = max(a1, (real)x0)",
                               "a0 = min(a0, b0); a1 = max(a1, b1)", "y0 = a0; y1 = a1"});
  const std::vector<int64_t> found = read<int64_t>(stream, ends);
  require(found[0] >= 0, "x", "the element ", found[0], " is below 0");
  return found[1] + 1;
}

}  // namespace

void bincount(const Stream& stream, const Tensor& x, const Tensor& y, const Options& options) {
  require_defined({{"x", x}, {"y", y}});
  check(stream, x, y);
  require_whole(x);
  const bool parts = in_parts(stream.context(), options, {"atomics"});
  run(stream, "bincount", {row_major(stream, x), {}, y, false, {}, {}}, parts);
}

void bincount(const Stream& stream, const Tensor& x, const Tensor& weights, const Tensor& y,
              const Options& options) {
  require_defined({{"x", x}, {"weights", weights}, {"y", y}});
  check(stream, x, y);
  require_whole(x);
  require_context("weights", weights, stream.context());
  require_shape("weights", weights, x.shape());
  require_floating("weights", weights, true);
  require_floating("y", y, true);
  require_real(stream.context(), weights.dtype());
  require_no_overlap("y", y, "weights", weights);
  const auto counting = [&] {
    return Counting{row_major(stream, x), row_major(stream, weights), y, false, {}, {}};
  };
  if (in_parts(stream.context(), options, {"exact", "sorted"})) {
    Counting in_order = counting();
    in_order.wide = stream.context().device().probes().fp64;
    run(stream, "bincount", in_order, true);
    return;
  }
  if (is_exact(options, {x, weights, y, false, {}, {}})) {
    const ExactForm form(stream.context(), options, x.numel(), y.numel());
    add_exactly(stream, counting(), form);
    return;
  }
  const Tensor bins(stream, x.shape(), DType::i32);
  pointwise(stream, {x}, {bins}, {static_cast<double>(y.numel())}, "y0 = x0 < 0 || x0 >= s0 ? s0 : x0");
  const Shape flat{x.numel()};
  scatter(stream, {}, bins.reshape(flat), row_major(stream, weights).reshape(flat), 0, y,
          {ScatterReduce::sum, true});
}

Tensor bincount(const Stream& stream, const Tensor& x, const Tensor& weights, int64_t minlength) {
  require_defined({{"x", x}});
  require_context("x", x, stream.context());
  require_whole(x);
  require(minlength >= 0, "minlength", minlength, " is below 0");
  const bool weighted = weights.defined();
  if (weighted) require_floating("weights", weights, true);
  const Tensor y(stream, {std::max(minlength, bins_for(stream, x))},
                 !weighted                       ? DType::i64
                 : weights.dtype() == DType::f64 ? DType::f64
                                                 : DType::f32);
  if (weighted)
    bincount(stream, x, weights, y);
  else
    bincount(stream, x, y);
  return y;
}

void histc(const Stream& stream, const Tensor& x, const Tensor& y, const HistogramRange& range,
           const Options& options) {
  require_defined({{"x", x}, {"y", y}});
  check(stream, x, y);
  require_floating("x", x, true);
  require(std::isfinite(range.low) && std::isfinite(range.high) && range.low <= range.high, "range", "from ",
          range.low, " to ", range.high, " is none");
  const bool parts = in_parts(stream.context(), options, {"atomics"});
  Counting counting{row_major(stream, x), {}, y, true, range, {}};
  if (range.low == range.high) counting.ends = ends_of(stream, counting.x);
  run(stream, "histc", counting, parts);
}

}  // namespace dlprim
