// The depthwise_cpu_last engine: depthwise convolution on CPUs of tensors whose channels are last
// (conv_depthwise_cpu_last.cl).
#include <algorithm>

#include "core/state.hpp"
#include "ops/conv/conv_cpu.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvDepthwiseCpuLast;

namespace {

constexpr int kBlock = 4;        ///< vectors of channels, as in the kernel
constexpr int kMostTaps = 1024;  ///< they lie in private memory, once for each channel of a block
/// Vectors of results of a work-group: above what it takes to gather its filters.
constexpr int64_t kWork = 2048;

/// Numbers in a vector.
int lanes_for(const ConvProblem& p, const Device& device) {
  const bool wide = device.facts().float_vector_width >= 16 && p.c > 8;
  return (wide ? 16 : 8) / (p.dtype == DType::f64 ? 2 : 1);
}

/// Forward and backward data, pass by pass.
class DepthwiseCpuLast : public ConvImpl {
 public:
  DepthwiseCpuLast(const Context& context, const ConvProblem& problem)
      : p_(problem),
        passes_(conv_passes(p_)),
        units_(std::max(1, context.device().facts().compute_units)),
        lanes_(lanes_for(p_, context.device())) {
    Defines defines = conv_defines(p_);
    defines.set("VW", lanes_).set("MOST_TAPS", p_.taps());
    kernel_ = context.state().programs.kernel("conv_depthwise_cpu_last", "conv_depthwise", defines);
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor&) const override {
    for (const ConvPass& pass : passes_) run(stream, pass, t);
  }

 private:
  void run(const Stream& stream, const ConvPass& pass, const ConvTensors& t) const {
    const bool data = p_.direction == ConvDirection::backward_data;
    EpilogueTensors with = t.with;
    with.residual = pass.of_target(with.residual);
    with.preactivation = pass.of_target(with.preactivation);
    const Spatial pixels = pass.pixels();
    const int64_t blocks = ceil_div(p_.c, kBlock * lanes_), rows = int64_t{p_.n} * pixels[0] * pixels[1];
    const int64_t chunk = std::clamp<int64_t>(kWork / (pixels[2] * kBlock), 1,
                                              std::max<int64_t>(1, rows * blocks / units_ / 4));
    Launch launch(stream, kernel_);
    launch.arg(data ? t.y : t.x).arg(pass.taps() > 0 ? pass.of_w(t.w) : t.w);
    launch.arg(pass.of_target(data ? t.x : t.y)).arg(p_.n).arg(static_cast<int>(chunk));
    launch.arg(cpu_shape(p_.c, data ? p_.y_space : p_.x_space, pass)).arg(strides_of(data ? p_.y : p_.x));
    launch.arg(long_strides_of(pass.target_strides(data ? p_.x : p_.y)));
    launch.arg(strides_of(pass.w_strides(p_.w)));
    bind_epilogue(launch, p_.dtype, with);
    launch.run({static_cast<size_t>(blocks), static_cast<size_t>(ceil_div(rows, chunk))}, {1, 1});
  }

  const ConvProblem p_;
  const std::vector<ConvPass> passes_;
  const int units_, lanes_;
  Kernel kernel_;
};

class DepthwiseCpuLastFilter : public ConvImpl {
 public:
  DepthwiseCpuLastFilter(const Context& context, const ConvProblem& problem, const Options& options)
      : p_(problem), lanes_(lanes_for(p_, context.device())) {
    constexpr int kSums = 12;  // in registers
    const auto room = static_cast<int64_t>(options.workspace_limit / sizeof(double) / 2);
    parts_ = conv_cpu_parts_for(int64_t{p_.n} * p_.y_space[0] * p_.y_space[1], 1, blocks(), context.device(),
                                int64_t{p_.k} * p_.taps(), room);
    sums_.emplace(context, p_, parts_.count, workspace_);
    Defines defines = conv_defines(p_);
    const int in_row = p_.w_space[2] <= kSums ? p_.w_space[2] : 1;
    defines.set("VW", lanes_).set("MOST_TAPS", p_.taps()).set("BACKWARD_FILTER", true);
    defines.set("TOGETHER", p_.taps() <= kSums ? p_.taps() : in_row).set("TOGETHER_IN_ROW", in_row);
    defines.set("PARTS", parts_.count > 1);
    kernel_ = context.state().programs.kernel("conv_depthwise_cpu_last", "conv_depthwise_filter", defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    Launch launch(stream, kernel_);
    launch.arg(t.x).arg(t.y).arg(t.w).arg(sums_->partial(workspace));
    launch.arg(p_.n).arg(parts_.steps).arg(cpu_shape(p_.c, p_)).arg(strides_of(p_.x));
    launch.arg(long_strides_of(p_.y)).arg(strides_of(p_.w));
    launch.run({static_cast<size_t>(blocks()), static_cast<size_t>(parts_.count)}, {1, 1});
    sums_->add_up(stream, workspace, t.w);
  }

 private:
  int64_t blocks() const { return ceil_div(p_.c, kBlock * lanes_); }

  const ConvProblem p_;
  const int lanes_;
  ConvParts parts_;
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;
  Kernel kernel_;
};

std::string refuse(const Context&, const ConvProblem& p, const EngineOptions&) {
  if (p.group_c() != 1 || p.group_k() != 1)
    return cat("is for one channel and one filter in each group, they are ", p.group_c(), " and ",
               p.group_k());
  std::string reason = refuse_large(p);
  if (reason.empty()) reason = refuse_many_phases(p);
  if (reason.empty()) reason = refuse_channels_apart(p);
  if (reason.empty() && p.taps() > kMostTaps) reason = cat(p.taps(), " taps exceed ", kMostTaps);
  return reason;
}

std::string avoid(const Context& context, const ConvProblem& p, const EngineOptions&) {
  const std::string reason = for_cpus(context.device());
  // Its vectors are channels: with one, planes are faster by rows (64x64, 3x3: 32 against 520 us).
  if (reason.empty() && p.c == 1) return "one channel is for depthwise_cpu";
  // Columns at the edges are summed up tap by tap (960 channels, 7x7: 0.175 against 0.144 ms).
  constexpr int kFewColumns = 8;
  if (!reason.empty() || p.direction != ConvDirection::backward_filter || p.y_space[2] >= kFewColumns)
    return reason;
  return cat("rows of ", p.y_space[2], " pixels are mostly edges, fewer than ", kFewColumns,
             " are for depthwise_cpu");
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  if (problem.direction == ConvDirection::backward_filter)
    return std::make_unique<DepthwiseCpuLastFilter>(context, problem, options);
  return std::make_unique<DepthwiseCpuLast>(context, problem);
}

}  // namespace

const ConvEngine kConvDepthwiseCpuLast = {"depthwise_cpu_last", refuse, make, avoid};

}  // namespace dlprim::detail
