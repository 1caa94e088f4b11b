// Max unpooling: checks, and over max_unpool.cl an engine for CPUs and one for GPUs a direction.
#include <algorithm>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "ops/index/indexing.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/pool/max_unpool_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<MaxUnpoolDesc> = 4;
template <>
inline constexpr int kFields<MaxUnpoolBackwardDesc> = 4;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

using Problem = UnpoolProblem;
using Five = UnpoolTensor;

void check(const Problem& problem) {
  const MaxUnpoolDesc& d = problem.desc;
  const char *x = problem.backward ? "dx" : "x", *y = problem.backward ? "dy" : "y";
  require(d.spatial >= 1 && d.spatial <= 3, "spatial", d.spatial, " must be 1, 2 or 3");
  const int rank = d.x.shape.size();
  require(rank == d.spatial + 1 || rank == d.spatial + 2, x, "rank ", rank, " must be ", d.spatial + 1,
          " or ", d.spatial + 2);
  require_rank(y, d.y, rank);
  for (int i = 0; i < rank - d.spatial; i++)
    require(d.y.shape[i] == d.x.shape[i], y, "size ", d.y.shape[i], " of axis ", i, " must be ",
            d.x.shape[i]);
  require_shape("indices", d.indices, d.x.shape);
  require(d.indices.dtype == DType::i32 || d.indices.dtype == DType::i64, "indices", "dtype ",
          name_of(d.indices.dtype), " must be i32 or i64");
  require_dtype(y, d.y, d.x.dtype);
  require_strides("indices", d.indices);
  if (problem.backward) {
    require_strides(y, d.y);
    require_writable(x, d.x);
  } else {
    require_strides(x, d.x);
    require_writable(y, d.y);
  }
  for (const auto& [name, t] : {std::pair{x, problem.x()}, std::pair{y, problem.y()}}) {
    to_int(name, t.size[0]);
    to_int(name, t.size[1] * t.plane());
  }
}

}  // namespace

MaxUnpool::Impl::Impl(const Problem& p) : problem(p), x(p.x()), y(p.y()) {
  const Five indices = p.indices();
  const Five* all[] = {&x, &indices, &y};
  const auto every = [&](auto is) {
    return std::all_of(std::begin(all), std::end(all), [&](const Five* t) { return is(*t); });
  };
  last = x.size[1] > 1 && every([](const Five& t) { return t.stride[1] == 1; });
  const bool flat = every([](const Five& t) { return t.flat(); });
  bool wide = false;
  for (const TensorDesc* t : {&p.desc.x, &p.desc.indices, &p.desc.y})
    wide = wide || extent_of(*t) >= (int64_t{1} << 31);
  defines.set("WORD", word_type(static_cast<int64_t>(size_of(p.desc.x.dtype))))
      .set("INDICES", p.desc.indices.dtype == DType::i32 ? "int" : "long");
  defines.set("FLAT", flat).set("UNIT", flat && every([](const Five& t) { return t.stride[4] == 1; }));
  defines.set("LAST", last).set("WIDE", wide);
}

Kernel MaxUnpool::Impl::kernel(const Context& context, const char* name) const {
  return context.state().programs.kernel("max_unpool", name, defines);
}

void MaxUnpool::Impl::bind(Launch& launch, const Tensor& t) const {
  const auto& s = Five(t, problem.desc.spatial).stride;
  launch.arg(t).arg(UnpoolSteps{s[0], s[1], s[2], s[3], s[4]});
}

UnpoolSizes MaxUnpool::Impl::sizes() const {
  const auto size = [](int64_t s) { return static_cast<int>(s); };
  return {size(x.size[1]), size(x.plane()), size(x.size[3]), size(x.size[4]),
          size(y.plane()), size(y.size[3]), size(y.size[4])};
}

namespace {

using Impl = MaxUnpool::Impl;

struct Cpu : Impl {
  Cpu(const Context& context, const Problem& p)
      : Impl(p),
        channels(!last ? 1 : std::min<int64_t>(x.size[1], 64)),
        run_(kernel(context, p.backward ? "max_unpool_backward_cpu" : "max_unpool_cpu")) {}

  void run(const Stream& stream, const Tensor& x_, const Tensor& indices, const Tensor& y_,
           const Tensor& /*workspace*/) const override {
    Launch l(stream, run_);
    bind(l, problem.backward ? y_ : x_);
    bind(l, indices);
    bind(l, problem.backward ? x_ : y_);
    l.arg(sizes()).arg(static_cast<int>(channels));
    l.run({static_cast<size_t>(ceil_div(x.size[1], channels)), static_cast<size_t>(x.size[0])}, {1, 1});
  }

  int64_t channels;
  Kernel run_;
};

/// As many images at a time as have owners that stay in a GPU's cache, and fewer than 2^31 elements.
struct Gpu : Impl {
  static constexpr int64_t kOwnerBytes = int64_t{32} << 20;
  static constexpr int64_t kMostElements = int64_t{1} << 30;
  static constexpr int64_t kGroup = 256;

  Gpu(const Context& context, const Problem& p) : Impl(p) {
    const int64_t image = std::max<int64_t>(1, x.size[1] * std::max(x.plane(), y.plane()));
    const int64_t owners = std::max<int64_t>(1, x.size[1] * y.plane() * 4);
    images = std::max<int64_t>(1, std::min(x.size[0], kMostElements / image));
    local = std::min<int64_t>(kGroup, context.device().facts().max_work_group);
    if (p.backward) {
      backward = kernel(context, "max_unpool_backward");
      return;
    }
    images = std::clamp<int64_t>(kOwnerBytes / owners, 1, images);
    clear = kernel(context, "max_unpool_clear");
    claim = kernel(context, "max_unpool_claim");
    write = kernel(context, "max_unpool_write");
  }
  size_t workspace_size() const override {
    return problem.backward ? 0 : static_cast<size_t>(images * x.size[1] * y.plane() * 4);
  }

  void run(const Stream& stream, const Tensor& x_, const Tensor& indices, const Tensor& y_,
           const Tensor& workspace) const override {
    const auto per_image = [&](const Five& t) { return x.size[1] * t.plane(); };
    const Tensor owner =
        problem.backward ? Tensor() : workspace_part(workspace, 0, {images * per_image(y)}, DType::i32);
    if (!problem.backward) {
      const int64_t count = owner.numel();
      Launch(stream, clear)
          .arg(owner)
          .arg(static_cast<int>(count))
          .run({items_in_groups(count, local)}, {static_cast<size_t>(local)});
    }
    for (int64_t first = 0; first < x.size[0]; first += images) {
      const int64_t now = std::min(images, x.size[0] - first);
      if (problem.backward) {
        Launch l(stream, backward);
        bind(l, y_), bind(l, indices), bind(l, x_);
        over(l, first, now * per_image(x), x);
        continue;
      }
      {
        Launch l(stream, claim);
        bind(l, indices);
        over(l.arg(owner), first, now * per_image(x), x);
      }
      Launch l(stream, write);
      bind(l, x_), bind(l, y_);
      over(l.arg(owner), first, now * per_image(y), y);
    }
  }
  /// A work-item for each of `count` elements of planes as t's, from image `first` on.
  void over(Launch& l, int64_t first, int64_t count, const Five& t) const {
    const auto plane = static_cast<int>(t.plane()), channels = static_cast<int>(x.size[1]);
    l.arg(sizes()).arg(UnpoolPart{first, static_cast<int>(count), divisor_of(last ? channels : plane),
                                  divisor_of(last ? plane : channels), 0});
    l.run({items_in_groups(count, local)}, {static_cast<size_t>(local)});
  }

  int64_t images = 1, local = 1;
  Kernel clear, claim, write, backward;
};

template <class Made>
std::unique_ptr<const Impl> make(const Context& context, const Problem& p, const EngineOptions&) {
  return std::make_unique<const Made>(context, p);
}

constexpr UnpoolEngine kClaims{"claims", nullptr, make<Gpu>, avoid_on_cpus},
    kDirect{"direct", nullptr, make<Gpu>, avoid_on_cpus}, kCpu{"cpu", nullptr, make<Cpu>, avoid_unless_cpu};
constexpr EngineList<Problem, Impl> kEngines = {&kUnpoolPlanes, &kUnpoolTiles, &kClaims, &kCpu},
                                    kBackwardEngines = {&kDirect, &kCpu};

std::shared_ptr<const Impl> plan(const Context& context, const Problem& problem, const Options& options,
                                 std::shared_ptr<const PlanInfo>& info) {
  check(problem);
  const char* op = problem.backward ? "max_unpool_backward" : "max_unpool";
  PlanInfo made;
  auto impl =
      choose_engine(op, problem.backward ? kBackwardEngines : kEngines, context, problem, options, made);
  const MaxUnpoolDesc& d = problem.desc;
  made.text = cat("op=", op, " engine=", made.engine, " x=", brief(d.x), " indices=", brief(d.indices),
                  " y=", brief(d.y));
  made.bytes = traffic({d.x, d.indices, problem.backward ? d.x : d.y});
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

}  // namespace

MaxUnpool::MaxUnpool(const Context& context, const MaxUnpoolDesc& desc, const Options& options)
    : Plan(nullptr), impl_(plan(context, {desc, false}, options, info_)) {}

void MaxUnpool::run(const Stream& stream, const Tensor& x, const Tensor& indices, const Tensor& y,
                    const Tensor& workspace) const {
  const MaxUnpoolDesc& d = impl_->problem.desc;
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), d.x);
  require_tensor("indices", indices, stream.context(), d.indices);
  require_tensor("y", y, stream.context(), d.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}, {"indices", indices}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  check_index(stream, "max_unpool", "indices", indices, {0, impl_->y.plane(), {}});
  impl_->run(stream, x, indices, y, space);
}

MaxUnpoolBackward::MaxUnpoolBackward(const Context& context, const MaxUnpoolBackwardDesc& desc,
                                     const Options& options)
    : Plan(nullptr),
      impl_(plan(context, {{desc.dx, desc.indices, desc.dy, desc.spatial}, true}, options, info_)) {}

void MaxUnpoolBackward::run(const Stream& stream, const Tensor& dy, const Tensor& indices, const Tensor& dx,
                            const Tensor& workspace) const {
  const MaxUnpoolDesc& d = impl_->problem.desc;
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), d.y);
  require_tensor("indices", indices, stream.context(), d.indices);
  require_tensor("dx", dx, stream.context(), d.x);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dy", dy}, {"indices", indices}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  check_index(stream, "max_unpool_backward", "indices", indices, {0, impl_->y.plane(), {}});
  impl_->run(stream, dx, indices, dy, space);
}

void max_unpool(const Stream& stream, const Tensor& x, const Tensor& indices, int spatial, const Tensor& y,
                const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"indices", indices}, {"y", y}});
  const MaxUnpoolDesc desc{x, indices, y, spatial};
  cached_plan<MaxUnpool>(stream, "max_unpool", desc, options, workspace)
      ->run(stream, x, indices, y, workspace);
}

void max_unpool_backward(const Stream& stream, const Tensor& dy, const Tensor& indices, int spatial,
                         const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"indices", indices}, {"dx", dx}});
  const MaxUnpoolBackwardDesc desc{dy, indices, dx, spatial};
  cached_plan<MaxUnpoolBackward>(stream, "max_unpool_backward", desc, options, workspace)
      ->run(stream, dy, indices, dx, workspace);
}

}  // namespace dlprim
