// Copies, casts and fills: through the pointwise generator, or by kernels of their own where x and y are
// transposed to each other.
#include <dlprim/copy.hpp>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "ops/movement/interleave.hpp"
#include "ops/movement/transpose.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<CopyDesc> = 2;
template <>
inline constexpr int kFields<FillDesc> = 1;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Copy::Impl : EngineImpl {
  explicit Impl(const CopyDesc& d) : desc(d) {}
  virtual void run(const Stream& stream, const Tensor& x, const Tensor& y) const = 0;

  CopyDesc desc;
};

struct Fill::Impl {
  FillDesc desc;
  Pointwise kernel;
};

namespace {

using Form = Engine<CopyDesc, Copy::Impl>;

/// A few planes at a time, or tiles.
template <class Kernels>
struct Moved : Copy::Impl {
  Moved(const Context& context, const CopyDesc& d)
      : Impl(d), kernels(context, d.x, d.y, context.device().kind() == DeviceKind::cpu) {}
  void run(const Stream& stream, const Tensor& x, const Tensor& y) const override {
    kernels.run(stream, x, y);
  }

  Kernels kernels;
};

struct Generated : Copy::Impl {
  Generated(const Context& context, const CopyDesc& d)
      // A CPU would convert each element there and back: 3 to 6 ms for 1.6 million, as words 0.3 to 1.
      : Impl(d),
        words(context.device().kind() == DeviceKind::cpu && d.x.dtype == d.y.dtype &&
              (d.x.dtype == DType::f16 || d.x.dtype == DType::bf16)),
        kernel(context, {as_moved(d.x)}, {as_moved(d.y)}, 0,
               d.y.dtype == DType::boolean && d.x.dtype != DType::boolean ? "y0 = x0 != 0" : "y0 = x0") {}
  TensorDesc as_moved(TensorDesc t) const {
    if (words) t.dtype = DType::i16;
    return t;
  }
  void run(const Stream& stream, const Tensor& x, const Tensor& y) const override {
    if (words)
      kernel.run(stream, {x.reinterpret(DType::i16)}, {y.reinterpret(DType::i16)}, {});
    else
      kernel.run(stream, {x}, {y}, {});
  }

  bool words;  ///< integers of the elements' size
  Pointwise kernel;
};

template <class Kernels>
std::string refuse_unsuited(const Context&, const CopyDesc& d, const EngineOptions&) {
  return Kernels::suits(d.x, d.y) ? std::string()
                                  : cat(brief(d.x), " and ", brief(d.y), " are not such neighbours");
}

template <class Made>
std::unique_ptr<const Copy::Impl> make(const Context& context, const CopyDesc& d, const EngineOptions&) {
  return std::make_unique<Made>(context, d);
}

constexpr Form kInterleave{"interleave", refuse_unsuited<Interleave>, make<Moved<Interleave>>},
    kTiles{"tiles", refuse_unsuited<Transpose>, make<Moved<Transpose>>},
    kGenerated{"generated", nullptr, make<Generated>};
constexpr EngineList<CopyDesc, Copy::Impl> kEngines = {&kInterleave, &kTiles, &kGenerated};

void check(const CopyDesc& d) {
  require_strides("x", d.x);
  require_writable("y", d.y);
  Shape shape;
  try {
    shape = broadcast_shapes(d.x.shape, d.y.shape);
  } catch (const ValidationError& error) {
    throw renamed(error, "x");
  }
  require(shape == d.y.shape, "x", "shape ", d.x.shape, " does not broadcast to y's ", d.y.shape);
}

}  // namespace

Copy::Copy(const Context& context, const CopyDesc& desc, const Options& options) : Plan(nullptr) {
  check(desc);
  PlanInfo info;
  impl_ = choose_engine("copy", kEngines, context, desc, options, info);
  info.text = cat("op=copy engine=", info.engine, " x=", brief(desc.x), " y=", brief(desc.y));
  info.bytes = 2 * traffic({desc.y});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void Copy::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), impl_->desc.x);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require(!memory_overlaps(y, x) || same_elements(y, x), "y", "overlaps x without being the same elements");
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}});
  workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, x, y);
}

Fill::Fill(const Context& context, const FillDesc& desc, const Options& options) : Plan(nullptr) {
  require_writable("y", desc.y);
  impl_ = std::make_shared<const Impl>(Impl{desc, Pointwise(context, {}, {desc.y}, 1, "y0 = s0")});
  PlanInfo info;
  info.text = cat("y=", brief(desc.y));
  info.bytes = traffic({desc.y});
  info_ = single_engine("fill", "generated", "", context, options, std::move(info));
}

void Fill::run(const Stream& stream, Scalar value, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  const bool boolean = y.dtype() == DType::boolean;
  require(takes(y.dtype(), value), "value", value.real(), " for ", y);
  require_apart({{"workspace", workspace}}, {{"y", y}});
  workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->kernel.run(stream, {}, {y}, {boolean ? Scalar(value.real() != 0) : value});
}

void copy(const Stream& stream, const Tensor& x, const Tensor& y, const Options& options,
          const Tensor& workspace) {
  require_context("x", x, stream.context());
  require_context("y", y, stream.context());
  const CopyDesc desc{x, y};
  cached_plan<Copy>(stream, "copy", desc, options, workspace)->run(stream, x, y, workspace);
}

void fill(const Stream& stream, Scalar value, const Tensor& y, const Options& options,
          const Tensor& workspace) {
  require_context("y", y, stream.context());
  const FillDesc desc{y};
  cached_plan<Fill>(stream, "fill", desc, options, workspace)->run(stream, value, y, workspace);
}

Tensor contiguous(const Stream& stream, const Tensor& x, const Options& options, const Tensor& workspace) {
  require(x.defined(), "x", "is not defined");
  return cast(stream, x, x.dtype(), options, workspace);
}

Tensor cast(const Stream& stream, const Tensor& x, DType dtype, const Options& options,
            const Tensor& workspace) {
  require(x.defined(), "x", "is not defined");
  Tensor y(stream, x.shape(), dtype);
  copy(stream, x, y, options, workspace);
  return y;
}

}  // namespace dlprim
