// The naive engine: direct convolution, one work-item an output element. Accepts every valid problem.
#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv/conv_axes.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_naive.h"

extern const ConvEngine kConvNaive;

namespace {

constexpr int64_t kGroup = 64;

class Naive : public ConvImpl {
 public:
  Naive(const Context& context, const ConvProblem& problem, const Options& options)
      : p_(problem), wide_(!refuse_large(problem).empty()) {
    Defines defines = conv_defines(p_);
    defines.set("INDEX", wide_ ? "long" : "int");
    const char* name = p_.direction == ConvDirection::forward ? "conv_forward" : "conv_backward_data";
    if (p_.direction == ConvDirection::backward_filter) {
      name = "conv_backward_filter";
      const int64_t results = int64_t{p_.k} * p_.group_c() * p_.taps();
      parts_ = conv_parts_for(p_.n, 1, ceil_div(results, kGroup), context.device(), results,
                              static_cast<int64_t>(options.workspace_limit / sizeof(double) / 2));
      sums_.emplace(context, p_, parts_.count, workspace_);
      defines.set("PARTS", parts_.count > 1);
    }
    kernel_ = context.state().programs.kernel("conv_naive", name, defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    Launch launch(stream, kernel_);
    const bool forward = p_.direction == ConvDirection::forward;
    if (p_.direction == ConvDirection::backward_filter) {
      launch.arg(t.x).arg(t.y).arg(t.w).arg(sums_->partial(workspace)).arg(parts_.steps).arg(geometry());
      start(launch, t.w.numel());
      sums_->add_up(stream, workspace, t.w);
      return;
    }
    launch.arg(forward ? t.x : t.y).arg(t.w).arg(forward ? t.y : t.x).arg(geometry());
    bind_epilogue(launch, p_.dtype, t.with);
    start(launch, forward ? t.y.numel() : t.x.numel());
  }

 private:
  NaiveGeometry geometry() const {
    NaiveGeometry g{};
    g.x = long_strides_of(p_.x), g.w = long_strides_of(p_.w), g.y = long_strides_of(p_.y);
    g.n = p_.n, g.groups = p_.groups, g.group_c = p_.group_c(), g.group_k = p_.group_k();
    g.x_space = sizes_of(p_.x_space), g.w_space = sizes_of(p_.w_space), g.y_space = sizes_of(p_.y_space);
    g.stride = sizes_of(p_.stride), g.pad = sizes_of(p_.pad), g.dilation = sizes_of(p_.dilation);
    return g;
  }
  void start(Launch& launch, int64_t items) const {
    launch.run({static_cast<size_t>(round_up(items, kGroup)), static_cast<size_t>(parts_.count)},
               {static_cast<size_t>(kGroup), 1});
  }

  const ConvProblem p_;
  const bool wide_;  ///< indices need 64 bits
  ConvParts parts_;
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;  ///< backward filter
  Kernel kernel_;
};

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<Naive>(context, problem, options);
}

}  // namespace

const ConvEngine kConvNaive = {"naive", nullptr, make};

}  // namespace dlprim::detail
