// Dropout: `cpu` and `direct` serve row-major tensors in one kernel, `tiles` those whose innermost dimension
// is another one; `masked` serves other strides, and f64, by way of a mask in the workspace.
#include <dlprim/dropout.hpp>
#include <dlprim/pointwise.hpp>

#include <optional>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "ops/random/random_fill.hpp"
#include "ops/random/random_tiles.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<DropoutDesc> = 2;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Dropout::Impl : EngineImpl {
  std::optional<RandomTiles> tiles;
  std::optional<RandomFill> fill;          ///< masked: 1 where an element is dropped
  std::unique_ptr<const Pointwise> apply;  ///< masked
  size_t bytes = 0;
  size_t workspace_size() const override { return bytes; }
};

namespace {

std::string refuse_f64(const DropoutDesc& desc) {
  const bool f64 = desc.x.dtype == DType::f64 || desc.y.dtype == DType::f64;
  return f64 ? "it computes in float, too little for f64" : "";
}

std::string refuse_strides(const Context&, const DropoutDesc& desc, const EngineOptions&) {
  if (std::string refusal = refuse_f64(desc); !refusal.empty()) return refusal;
  if (!is_row_major(desc.x)) return cat("x is not row-major, its strides are ", to_string(desc.x.strides));
  return is_row_major(desc.y) ? "" : cat("y is not row-major, its strides are ", to_string(desc.y.strides));
}

std::string refuse_masked(const Context&, const DropoutDesc& desc, const EngineOptions& options) {
  const auto bytes = static_cast<size_t>(element_count(desc.y.shape));
  return bytes > options.workspace_limit
             ? cat("workspace of ", bytes, " bytes exceeds ", options.workspace_limit)
             : "";
}

std::string refuse_tiles(const Context&, const DropoutDesc& desc, const EngineOptions&) {
  std::string refusal = refuse_f64(desc);
  return refusal.empty() ? RandomTiles::refuse(&desc.x, desc.y) : refusal;
}

Defines defines_of(const DropoutDesc& desc) {
  Defines defines;
  defines.set("DROPOUT", true);
  define_type(defines, "X", desc.x.dtype);
  return defines;
}

std::unique_ptr<const Dropout::Impl> make_whole(const Context& context, const DropoutDesc& desc, bool cpu) {
  auto impl = std::make_unique<Dropout::Impl>();
  impl->fill.emplace(context, desc.y, defines_of(desc), cpu);
  return impl;
}

std::unique_ptr<const Dropout::Impl> make_tiles(const Context& context, const DropoutDesc& desc,
                                                const EngineOptions&) {
  auto impl = std::make_unique<Dropout::Impl>();
  impl->tiles.emplace(context, &desc.x, desc.y, defines_of(desc));
  return impl;
}

std::unique_ptr<const Dropout::Impl> make_cpu(const Context& context, const DropoutDesc& desc,
                                              const EngineOptions&) {
  return make_whole(context, desc, true);
}

std::unique_ptr<const Dropout::Impl> make_direct(const Context& context, const DropoutDesc& desc,
                                                 const EngineOptions&) {
  return make_whole(context, desc, false);
}

std::unique_ptr<const Dropout::Impl> make_masked(const Context& context, const DropoutDesc& desc,
                                                 const EngineOptions&) {
  const TensorDesc mask(desc.x.shape, DType::u8);
  auto impl = std::make_unique<Dropout::Impl>();
  impl->fill.emplace(context, mask, Defines(), RandomFill::prefers_cpu(context));
  impl->apply =
      std::make_unique<const Pointwise>(context, std::vector<TensorDesc>{desc.x, mask},
                                        std::vector<TensorDesc>{desc.y}, 1, "y0 = x1 ? 0 : x0 * s0");
  impl->bytes = static_cast<size_t>(element_count(mask.shape));
  return impl;
}

using Form = Engine<DropoutDesc, Dropout::Impl>;
constexpr Form kDirect{"direct", refuse_strides, make_direct, avoid_on_cpus},
    kCpu{"cpu", refuse_strides, make_cpu}, kTiles{"tiles", refuse_tiles, make_tiles, avoid_on_cpus},
    kMasked{"masked", refuse_masked, make_masked};
constexpr EngineList<DropoutDesc, Dropout::Impl> kEngines = {&kDirect, &kCpu, &kTiles, &kMasked};

}  // namespace

Dropout::Dropout(const Context& context, const DropoutDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  require_floating("x", desc.x, true);
  require_floating("y", desc.y, true);
  require_shape("y", desc.y, desc.x.shape);
  require_writable("y", desc.y);
  PlanInfo info;
  impl_ = choose_engine("dropout", kEngines, context, desc, options, info);
  info.text = cat("op=dropout engine=", info.engine, " x=", brief(desc.x), " y=", brief(desc.y));
  info.bytes = traffic({desc.x, desc.y});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void Dropout::run(const Stream& stream, const Tensor& x, double p, const RandomState& state, const Tensor& y,
                  const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}});
  check_state(state, y.numel());
  Draw draw;
  draw.threshold = probability_threshold("p", p);
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  draw.a = static_cast<float>(scale);
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  if (impl_->tiles) return impl_->tiles->run(stream, &x, y, draw, state);
  if (!impl_->apply) return impl_->fill->run(stream, &x, y, draw, state);
  const Tensor mask = workspace_part(space, 0, y.shape(), DType::u8);
  impl_->fill->run(stream, nullptr, mask, draw, state);
  impl_->apply->run(stream, {x, mask}, {y}, {scale});
}

void dropout(const Stream& stream, const Tensor& x, double p, const RandomState& state, const Tensor& y,
             const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const DropoutDesc desc{x, y};
  cached_plan<Dropout>(stream, "dropout", desc, options, workspace)->run(stream, x, p, state, y, workspace);
}

}  // namespace dlprim
