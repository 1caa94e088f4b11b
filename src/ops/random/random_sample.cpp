// Gamma and Poisson samples: random_sample.cl over row-major memory; other tensors go by way of the
// workspace.
#include <dlprim/random_sample.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/lib/row_major.hpp"
#include "ops/random/random_fill.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<RandomSampleDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct RandomSample::Impl {
  Impl(const Context& context, const RandomSampleDesc& d) : x(context, d.x, layout) {
    Defines defines;
    define_type(defines, "X", d.x.dtype);
    define_type(defines, "Y", d.y.dtype);
    defines.set("Y_VALUE", compute_type(d.y.dtype)).set("WHOLE_Y", !is_floating(d.y.dtype));
    defines.set("POISSON", d.kind == SampleKind::poisson);
    kernel = context.state().programs.kernel("random_sample", "random_sample", defines);
    if (is_row_major(d.y)) return;
    made_at = layout.add(static_cast<size_t>(element_count(d.y.shape)) * size_of(d.y.dtype));
    copy.emplace(context, CopyDesc{TensorDesc(d.y.shape, d.y.dtype), d.y});
  }
  WorkspaceParts layout;
  RowMajor x;
  Kernel kernel;
  std::optional<Copy> copy;
  size_t made_at = 0;
};

RandomSample::RandomSample(const Context& context, const RandomSampleDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  require_floating("x", desc.x, true);
  require_real(context, desc.x.dtype);
  require_real(context, desc.y.dtype);
  require_shape("y", desc.y, desc.x.shape);
  require(desc.y.dtype != DType::boolean, "y", "dtype bool holds no samples");
  require_writable("y", desc.y);
  require(desc.kind == SampleKind::gamma || desc.kind == SampleKind::poisson, "kind",
          static_cast<int>(desc.kind), " is no SampleKind");
  auto impl = std::make_shared<Impl>(context, desc);
  PlanInfo info;
  info.text = cat("kind=", desc.kind == SampleKind::gamma ? "gamma" : "poisson", " x=", brief(desc.x),
                  " y=", brief(desc.y));
  info.bytes = traffic({desc.x, desc.y});
  info.workspace = impl->layout.size();
  info_ = single_engine("random_sample", "direct", workspace_refusal(info.workspace, options), context,
                        options, std::move(info));
  impl_ = std::move(impl);
}

void RandomSample::run(const Stream& stream, const Tensor& x, const RandomState& state, const Tensor& y,
                       const Tensor& workspace) const {
  const Impl& p = *impl_;
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}});
  check_state(state, y.numel());
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  const Tensor made = p.copy ? workspace_part(space, p.made_at, y.shape(), y.dtype()) : y;
  Launch launch(stream, p.kernel);
  launch.arg(p.x.of(stream, x, space)).arg(made).arg(y.numel()).arg(state);
  launch.run({items_in_groups(y.numel(), 64)}, {64});
  if (p.copy) p.copy->run(stream, made, y);
}

void random_sample(const Stream& stream, SampleKind kind, const Tensor& x, const RandomState& state,
                   const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const RandomSampleDesc desc{x, y, kind};
  cached_plan<RandomSample>(stream, "random_sample", desc, options, workspace)
      ->run(stream, x, state, y, workspace);
}

}  // namespace dlprim
