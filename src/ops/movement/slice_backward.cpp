// The gradient of a slice: zeros and a copy into them, or one pass over dx (slice_backward_direct.cpp).
#include <dlprim/movement.hpp>

#include "ops/lib/view.hpp"
#include "ops/movement/slice_backward_direct.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<SliceBackwardDesc> = 6;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct SliceBackward::Impl : EngineImpl {
  explicit Impl(const SliceBackwardDesc& d) : desc(d) {}
  virtual void run(const Stream& stream, const Tensor& dy, const Tensor& dx) const = 0;

  SliceBackwardDesc desc;
};

namespace {

using Form = Engine<SliceBackwardDesc, SliceBackward::Impl>;

/// dy is all of dx: nothing is left to be zero.
bool covers(const SliceBackwardDesc& d) {
  return element_count(d.dy.shape) == element_count(d.dx.shape);
}

View view_of(const SliceBackwardDesc& d) {
  return sliced(whole(d.dx), d.axis, d.start, d.end, d.step);
}

struct Direct : SliceBackward::Impl {
  Direct(const Context& context, const SliceBackwardDesc& d)
      : Impl(d), kernel(context, d.dy, {d.axis, d.start, d.step}, d.dx) {}
  void run(const Stream& stream, const Tensor& dy, const Tensor& dx) const override {
    kernel.run(stream, dy, dx);
  }

  SliceBackwardDirect kernel;
};

struct Copies : SliceBackward::Impl {
  Copies(const Context& context, const SliceBackwardDesc& d)
      : Impl(d), copy(context, d.dy, whole(d.dy), d.dx, view_of(d)) {
    if (!covers(d)) zeros.emplace(context, FillDesc{d.dx});
  }
  void run(const Stream& stream, const Tensor& dy, const Tensor& dx) const override {
    if (zeros) zeros->run(stream, 0, dx);
    if (dy.numel() > 0) copy.run(stream, dy, dx);
  }

  ViewCopy copy;
  std::optional<Fill> zeros;
};

std::string refuse_direct(const Context&, const SliceBackwardDesc& d, const EngineOptions&) {
  if (element_count(d.dy.shape) == 0) return "dy has no elements";
  if (covers(d)) return "dy is all of dx";
  if (!SliceBackwardDirect::suits(d.dx)) return cat(element_count(d.dx.shape), " elements are too many");
  return {};
}

template <class Made>
std::unique_ptr<const SliceBackward::Impl> make(const Context& context, const SliceBackwardDesc& d,
                                                const EngineOptions&) {
  return std::make_unique<Made>(context, d);
}

constexpr Form kDirect{"direct", refuse_direct, make<Direct>, avoid_on_cpus},
    kCopies{"copies", nullptr, make<Copies>};
constexpr EngineList<SliceBackwardDesc, SliceBackward::Impl> kEngines = {&kDirect, &kCopies};

/// The description with an axis that counts from the front.
SliceBackwardDesc checked(SliceBackwardDesc d) {
  require_strides("dy", d.dy);
  require_writable("dx", d.dx);
  d.axis = normalize_axis("axis", d.axis, d.dx.shape.size());
  const int64_t size = d.dx.shape[d.axis];
  require(d.start >= 0 && d.start <= size, "start", d.start, " along axis ", d.axis, " of ", brief(d.dx));
  require(d.end >= d.start && d.end <= size, "end", d.end, " behind ", d.start, " along axis ", d.axis,
          " of ", brief(d.dx));
  require(d.step >= 1, "step", d.step, " must be 1 or more");
  require_shape("dy", d.dy, view_of(d).shape);
  return d;
}

}  // namespace

SliceBackward::SliceBackward(const Context& context, const SliceBackwardDesc& desc, const Options& options)
    : Plan(nullptr) {
  const SliceBackwardDesc d = checked(desc);
  PlanInfo info;
  impl_ = choose_engine("slice_backward", kEngines, context, d, options, info);
  info.text = cat("op=slice_backward engine=", info.engine, " dy=", brief(d.dy), " dx=", brief(d.dx),
                  " axis=", d.axis, " start=", d.start, " end=", d.end, " step=", d.step);
  info.bytes = traffic({d.dy, d.dx});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void SliceBackward::run(const Stream& stream, const Tensor& dy, const Tensor& dx,
                        const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), impl_->desc.dy);
  require_tensor("dx", dx, stream.context(), impl_->desc.dx);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dy", dy}});
  workspace_for(*info_, stream, workspace);
  if (dx.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, dy, dx);
}

void slice_backward(const Stream& stream, const Tensor& dy, int axis, int64_t start, int64_t end,
                    int64_t step, const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"dx", dx}});
  const SliceBackwardDesc desc{dy, dx, axis, start, end, step};
  cached_plan<SliceBackward>(stream, "slice_backward", desc, options, workspace)
      ->run(stream, dy, dx, workspace);
}

}  // namespace dlprim
