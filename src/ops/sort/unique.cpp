// Distinct elements: sorting, then the kernels of unique.cl.
#include <dlprim/copy.hpp>
#include <dlprim/sort.hpp>
#include <dlprim/unique.hpp>

#include <algorithm>
#include <climits>

#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/index/indexing.hpp"

namespace dlprim {

using namespace detail;

namespace {

void check(const Stream& stream, const Tensor& x, const UniqueResults& r) {
  require_defined({{"x", x}, {"y", r.y}, {"count", r.count}});
  require_context("x", x, stream.context());
  require_real(stream.context(), x.dtype());
  constexpr int kMost = INT_MAX - 4096;  // tiles of unique.cl may begin that far behind the end
  require(x.numel() <= kMost, "x", x.numel(), " elements are more than ", kMost);
  require_context("y", r.y, stream.context());
  require_rank("y", r.y, 1);
  require_dtype("y", r.y, x.dtype());
  require_writable("y", r.y);
  require_context("count", r.count, stream.context());
  require_indices({r.count}, "count");
  require_shape("count", r.count, {1});
  for (const auto& [name, tensor, shape] :
       {std::tuple("inverse", &r.inverse, &x.shape()), std::tuple("counts", &r.counts, &r.y.shape())})
    if (tensor->defined()) {
      require_context(name, *tensor, stream.context());
      require_shape(name, *tensor, *shape);
      require_dtype(name, *tensor, r.count.dtype());
      require_writable(name, *tensor);
    }
  require_apart({{"y", r.y}, {"count", r.count}, {"inverse", r.inverse}, {"counts", r.counts}}, {{"x", x}});
}

/// Elements of which equal ones are neighbours, and where they were in x if that is not where they are.
struct Sorted {
  Tensor v, order;
};

/// How the elements are shared out.
struct Form {
  int group = 1, chunk = 1, chunks = 0;

  Form(const Context& context, const Options& options, int count) {
    const EngineRequest request(options);
    require(request.automatic() || request.names("chunks") || request.names("tiles"), "engine",
            "there is no engine '", options.engine, "'");
    const bool cpu =
        request.automatic() ? context.device().kind() == DeviceKind::cpu : request.names("chunks");
    const DeviceFacts& facts = context.device().facts();
    while (!cpu && group < 256 && 2 * group <= facts.max_work_group) group *= 2;
    constexpr int64_t kItems = 8;  // ITEMS of unique.cl
    const int64_t tiles = ceil_div(ceil_div(count, 8LL * std::max(1, facts.compute_units)), kItems * group);
    chunk = static_cast<int>(cpu ? cpu_chunk(context, count, 4096)
                                 : std::max<int64_t>(1, tiles) * kItems * group);
    chunks = static_cast<int>(ceil_div(count, chunk));
  }
};

void find_heads(const Stream& stream, const Sorted& sorted, const UniqueResults& r, const Form& form) {
  const int count = static_cast<int>(sorted.v.numel()), room = static_cast<int>(r.y.numel());
  const DType dtype = sorted.v.dtype();
  const Tensor places(stream, {std::max(form.chunks, 1)}, DType::i32);
  const Tensor bounds =
      r.counts.defined() ? Tensor(stream, {2 * std::max(form.chunks, 1)}, DType::i32) : Tensor();
  const bool direct = !r.inverse.defined() || r.inverse.is_contiguous();
  const Tensor inverse = direct ? r.inverse : Tensor(stream, r.inverse.shape(), r.inverse.dtype());
  const char* word = word_type(static_cast<int64_t>(size_of(dtype)));
  Defines defines;
  defines.set("DTYPE", name_of(dtype)).set("T", storage_type(dtype)).set("WORD", word);
  defines.set("INDEX", storage_type(r.count.dtype())).set("GROUP", form.group);
  defines.set("HAS_ORDER", sorted.order.defined()).set("HAS_INVERSE", inverse.defined());
  defines.set("HAS_COUNTS", r.counts.defined());
  ProgramCache& programs = stream.context().state().programs;
  const auto kernel = [&](const char* name) { return programs.kernel("unique", name, defines); };
  const Kernel counting = kernel("unique_count"), scanning = kernel("unique_scan"),
               moving = kernel("unique_move"), measuring = kernel("unique_tails");

  const auto group = static_cast<size_t>(form.group), items = static_cast<size_t>(form.chunks) * group;
  Launch first(stream, counting);
  first.arg(sorted.v).arg(places).arg(count).arg(form.chunk).run({items}, {group});
  Launch(stream, scanning).arg(places).arg(form.chunks).arg(r.count).run({group}, {group});
  Launch last(stream, moving);
  last.arg(sorted.v).arg(places).arg(count).arg(form.chunk).arg(sorted.order);
  const int64_t counts_step = r.counts.defined() ? r.counts.strides()[0] : 0;
  last.arg(r.y).arg(r.y.strides()[0]).arg(room).arg(r.counts).arg(counts_step).arg(bounds).arg(inverse);
  last.run({items}, {group});
  if (r.counts.defined()) {
    Launch launch(stream, measuring);
    launch.arg(places).arg(form.chunks).arg(r.count).arg(bounds).arg(count);
    launch.arg(r.counts).arg(counts_step).arg(room);
    launch.run({items_in_groups(form.chunks, 64)}, {64});
  }
  if (!direct) copy(stream, inverse, r.inverse);
}

void run(const Stream& stream, const Tensor& x, const UniqueResults& r, bool sorts, const Options& options) {
  check(stream, x, r);
  const Form form(stream.context(), options, static_cast<int>(x.numel()));
  const OperatorScope scope(stream,
                            cat("op=", sorts ? "unique" : "unique_consecutive",
                                " engine=", form.group == 1 ? "chunks" : "tiles", " x=", brief(x)),
                            0, static_cast<double>(2 * x.bytes()));
  Sorted sorted{(x.is_contiguous() ? x : contiguous(stream, x)).reshape({x.numel()}), {}};
  if (sorts && x.numel() > 0) {
    const Tensor v(stream, {x.numel()}, x.dtype());
    if (r.inverse.defined()) sorted.order = Tensor(stream, {x.numel()}, DType::i32);
    sort(stream, sorted.v, {}, v, sorted.order);
    sorted.v = v;
  }
  find_heads(stream, sorted, r, form);
}

UniqueResults of_right_size(const Stream& stream, const Tensor& x, bool inverse, bool counts, bool sorts) {
  require_defined({{"x", x}});
  const Tensor none;
  UniqueResults r{Tensor(stream, {x.numel()}, x.dtype()), Tensor(stream, {1}, DType::i64),
                  inverse ? Tensor(stream, x.shape(), DType::i64) : none,
                  counts ? Tensor(stream, {x.numel()}, DType::i64) : none};
  run(stream, x, r, sorts, {});
  const int64_t count = read<int64_t>(stream, r.count)[0];
  r.y = contiguous(stream, r.y.slice(0, 0, count));
  if (counts) r.counts = contiguous(stream, r.counts.slice(0, 0, count));
  return r;
}

}  // namespace

void unique(const Stream& stream, const Tensor& x, const UniqueResults& results, const Options& options) {
  run(stream, x, results, true, options);
}
void unique_consecutive(const Stream& stream, const Tensor& x, const UniqueResults& results,
                        const Options& options) {
  run(stream, x, results, false, options);
}
UniqueResults unique(const Stream& stream, const Tensor& x, bool inverse, bool counts) {
  return of_right_size(stream, x, inverse, counts, true);
}
UniqueResults unique_consecutive(const Stream& stream, const Tensor& x, bool inverse, bool counts) {
  return of_right_size(stream, x, inverse, counts, false);
}

}  // namespace dlprim
