// Distinct elements: sorting, then the kernels of unique.cl.
#include <dlprim/unique.hpp>

#include <algorithm>
#include <climits>

#include <dlprim/copy.hpp>
#include <dlprim/sort.hpp>

#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/row_major.hpp"
#include "ops/lib/two_forms.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<UniqueDesc> = 6;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

void check(const Context& context, const UniqueDesc& d) {
  require_strides("x", d.x);
  require_real(context, d.x.dtype);
  constexpr int kMost = INT_MAX - 4096;  // tiles of unique.cl may begin that far behind the end
  require(element_count(d.x.shape) <= kMost, "x", element_count(d.x.shape), " elements are more than ",
          kMost);
  require_rank("y", d.y, 1);
  require_dtype("y", d.y, d.x.dtype);
  require_writable("y", d.y);
  require_indices({d.count}, "count");
  require_shape("count", d.count, {1});
  for (const auto& [name, desc, shape] :
       {std::tuple("inverse", &d.inverse, &d.x.shape), std::tuple("counts", &d.counts, &d.y.shape)})
    if (*desc) {
      require_shape(name, **desc, *shape);
      require_dtype(name, **desc, d.count.dtype);
      require_writable(name, **desc);
    }
}

/// How the elements are shared out.
struct Shares {
  bool cpu;
  int group = 1, chunk = 1, chunks = 0;

  Shares(const Context& context, const Options& options, int count) {
    cpu = takes_cpu_form(context, options, "chunks", "tiles");
    const DeviceFacts& facts = context.device().facts();
    while (!cpu && group < 256 && 2 * group <= facts.max_work_group) group *= 2;
    constexpr int64_t kItems = 8;  // ITEMS of unique.cl
    const int64_t tiles = ceil_div(ceil_div(count, 8LL * std::max(1, facts.compute_units)), kItems * group);
    chunk = static_cast<int>(cpu ? cpu_chunk(context, count, 4096)
                                 : std::max<int64_t>(1, tiles) * kItems * group);
    chunks = static_cast<int>(ceil_div(count, chunk));
  }
};

}  // namespace

struct Unique::Impl {
  Impl(const Context& context, const UniqueDesc& d, const Options& options);
  void run(const Stream& stream, const Tensor& x, const UniqueResults& r, const Tensor& workspace) const;
  void find_heads(const Stream& stream, const Tensor& v, const Tensor& order, const UniqueResults& r,
                  const Tensor& workspace) const;
  Tensor scratch(const Tensor& workspace, size_t at, int64_t count, DType dtype) const {
    return workspace_part(workspace, at, {count}, dtype);
  }

  UniqueDesc desc;
  int count;
  Shares shares;
  WorkspaceParts layout;
  RowMajor rows;
  std::optional<Sort> sort;
  std::optional<Copy> inverse_copy;  ///< from one in the workspace
  Kernel counting, scanning, moving, measuring;
  size_t values_at = 0, order_at = 0, sort_at = 0, places_at = 0, bounds_at = 0, inverse_at = 0;
};

Unique::Impl::Impl(const Context& context, const UniqueDesc& d, const Options& options)
    : desc(d),
      count(static_cast<int>(element_count(d.x.shape))),
      shares(context, options, count),
      rows(context, d.x, layout) {
  const auto elements = static_cast<size_t>(count);
  const bool sorts = !d.consecutive && count > 0;
  const auto chunks = static_cast<size_t>(std::max(shares.chunks, 1));
  places_at = layout.add(4 * chunks);
  if (d.counts) bounds_at = layout.add(8 * chunks);
  if (d.inverse && !is_row_major(*d.inverse)) {
    const TensorDesc packed(d.inverse->shape, d.inverse->dtype);
    inverse_copy.emplace(context, CopyDesc{packed, *d.inverse});
    inverse_at = layout.add(elements * size_of(packed.dtype));
  }
  if (sorts) {
    const TensorDesc read({count}, {1}, d.x.dtype, rows.copies() || d.x.aligned);
    SortDesc by{read, TensorDesc({count}, d.x.dtype), {}};
    values_at = layout.add(elements * size_of(d.x.dtype));
    if (d.inverse) {
      by.indices = TensorDesc({count}, DType::i32);
      order_at = layout.add(4 * elements);
    }
    sort.emplace(context, by, layout.rest(options));
    sort_at = layout.add(sort->workspace_size());
  }
  Defines defines;
  defines.set("DTYPE", name_of(d.x.dtype)).set("T", storage_type(d.x.dtype));
  defines.set("WORD", word_type(static_cast<int64_t>(size_of(d.x.dtype))));
  defines.set("INDEX", storage_type(d.count.dtype)).set("GROUP", shares.group);
  defines.set("HAS_ORDER", sorts && d.inverse).set("HAS_INVERSE", d.inverse.has_value());
  defines.set("HAS_COUNTS", d.counts.has_value());
  const auto kernel = [&](const char* name) {
    return context.state().programs.kernel("unique", name, defines);
  };
  counting = kernel("unique_count");
  scanning = kernel("unique_scan");
  moving = kernel("unique_move");
  if (d.counts) measuring = kernel("unique_tails");
}

void Unique::Impl::find_heads(const Stream& stream, const Tensor& v, const Tensor& order,
                              const UniqueResults& r, const Tensor& workspace) const {
  const int room = static_cast<int>(r.y.numel());
  const int64_t chunks = std::max(shares.chunks, 1);
  const Tensor places = scratch(workspace, places_at, chunks, DType::i32);
  const Tensor bounds = desc.counts ? scratch(workspace, bounds_at, 2 * chunks, DType::i32) : Tensor();
  Tensor inverse = r.inverse;
  if (inverse_copy && count > 0)
    inverse = workspace_part(workspace, inverse_at, r.inverse.shape(), r.inverse.dtype());

  const auto group = static_cast<size_t>(shares.group), items = static_cast<size_t>(shares.chunks) * group;
  Launch first(stream, counting);
  first.arg(v).arg(places).arg(count).arg(shares.chunk).run({items}, {group});
  Launch(stream, scanning).arg(places).arg(shares.chunks).arg(r.count).run({group}, {group});
  Launch last(stream, moving);
  last.arg(v).arg(places).arg(count).arg(shares.chunk).arg(order);
  const int64_t counts_step = desc.counts ? r.counts.strides()[0] : 0;
  last.arg(r.y).arg(r.y.strides()[0]).arg(room).arg(r.counts).arg(counts_step).arg(bounds).arg(inverse);
  last.run({items}, {group});
  if (desc.counts) {
    Launch launch(stream, measuring);
    launch.arg(places).arg(shares.chunks).arg(r.count).arg(bounds).arg(count);
    launch.arg(r.counts).arg(counts_step).arg(room);
    launch.run({items_in_groups(shares.chunks, 64)}, {64});
  }
  if (inverse_copy && count > 0) inverse_copy->run(stream, inverse, r.inverse);
}

void Unique::Impl::run(const Stream& stream, const Tensor& x, const UniqueResults& r,
                       const Tensor& workspace) const {
  if (count == 0) return find_heads(stream, x, {}, r, workspace);
  const Tensor v = rows.of(stream, x, workspace).as_strided({count}, {1});
  if (!sort) return find_heads(stream, v, {}, r, workspace);
  const Tensor sorted = scratch(workspace, values_at, count, x.dtype());
  const Tensor order = desc.inverse ? scratch(workspace, order_at, count, DType::i32) : Tensor();
  sort->run(stream, v, sorted, order, workspace_scratch(workspace, sort_at, *sort));
  find_heads(stream, sorted, order, r, workspace);
}

Unique::Unique(const Context& context, const UniqueDesc& desc, const Options& options) : Plan(nullptr) {
  check(context, desc);
  const auto impl = std::make_shared<const Impl>(context, desc, options);
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y), " inverse=", desc.inverse.has_value(),
                  " counts=", desc.counts.has_value());
  info.bytes = 2 * traffic({desc.x});
  info.workspace = impl->layout.size();
  info_ = single_engine(desc.consecutive ? "unique_consecutive" : "unique",
                        impl->shares.cpu ? "chunks" : "tiles", "", context, options, std::move(info));
  impl_ = impl;
}

void Unique::run(const Stream& stream, const Tensor& x, const UniqueResults& r,
                 const Tensor& workspace) const {
  const UniqueDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), d.x);
  require_tensor("y", r.y, stream.context(), d.y);
  require_tensor("count", r.count, stream.context(), d.count);
  require_optional("inverse", r.inverse, stream.context(), d.inverse);
  require_optional("counts", r.counts, stream.context(), d.counts);
  require_apart({{"y", r.y},
                 {"count", r.count},
                 {"inverse", r.inverse},
                 {"counts", r.counts},
                 {"workspace", workspace}},
                {{"x", x}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, x, r, space);
}

namespace {

void run(const Stream& stream, const Tensor& x, const UniqueResults& r, bool consecutive,
         const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", r.y}, {"count", r.count}});
  const UniqueDesc desc{x, r.y, r.count, described(r.inverse), described(r.counts), consecutive};
  cached_plan<Unique>(stream, "unique", desc, options, workspace)->run(stream, x, r, workspace);
}

UniqueResults of_right_size(const Stream& stream, const Tensor& x, bool inverse, bool counts,
                            bool consecutive, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}});
  const Tensor none;
  UniqueResults r{Tensor(stream, {x.numel()}, x.dtype()), Tensor(stream, {1}, DType::i64),
                  inverse ? Tensor(stream, x.shape(), DType::i64) : none,
                  counts ? Tensor(stream, {x.numel()}, DType::i64) : none};
  run(stream, x, r, consecutive, options, workspace);
  const int64_t count = read<int64_t>(stream, r.count)[0];
  r.y = contiguous(stream, r.y.slice(0, 0, count));
  if (counts) r.counts = contiguous(stream, r.counts.slice(0, 0, count));
  return r;
}

}  // namespace

void unique(const Stream& stream, const Tensor& x, const UniqueResults& results, const Options& options,
            const Tensor& workspace) {
  run(stream, x, results, false, options, workspace);
}
void unique_consecutive(const Stream& stream, const Tensor& x, const UniqueResults& results,
                        const Options& options, const Tensor& workspace) {
  run(stream, x, results, true, options, workspace);
}
UniqueResults unique(const Stream& stream, const Tensor& x, bool inverse, bool counts, const Options& options,
                     const Tensor& workspace) {
  return of_right_size(stream, x, inverse, counts, false, options, workspace);
}
UniqueResults unique_consecutive(const Stream& stream, const Tensor& x, bool inverse, bool counts,
                                 const Options& options, const Tensor& workspace) {
  return of_right_size(stream, x, inverse, counts, true, options, workspace);
}

}  // namespace dlprim
