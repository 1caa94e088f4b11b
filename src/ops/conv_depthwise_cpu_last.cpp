// The depthwise_cpu_last engine: depthwise convolution on CPUs of tensors whose channels are last
// (conv_depthwise_cpu_last.cl).
#include <algorithm>

#include "core/state.hpp"
#include "ops/conv_cpu.hpp"
#include "ops/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvDepthwiseCpuLast;

namespace {

constexpr int kBlock = 4;        ///< vectors of channels, as in the kernel
constexpr int kMostTaps = 1024;  ///< they lie in private memory, once for each channel of a block
/// Vectors of results of a work-group: above what it takes to gather its filters.
constexpr int64_t kWork = 2048;

class DepthwiseCpuLast : public ConvImpl {
 public:
  DepthwiseCpuLast(const Context& context, const ConvProblem& problem)
      : p_(problem), passes_(conv_passes(p_)), units_(std::max(1, context.device().facts().compute_units)) {
    const bool wide = context.device().facts().float_vector_width >= 16 && p_.c > 8;
    lanes_ = (wide ? 16 : 8) / (p_.dtype == DType::f64 ? 2 : 1);
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
    const std::array<int, 5> source = narrow(data ? p_.y : p_.x), w = narrow(pass.w_strides(p_.w));
    const ConvStrides target = pass.target_strides(data ? p_.x : p_.y);
    const Spatial pixels = pass.pixels();
    const int64_t blocks = ceil_div(p_.c, kBlock * lanes_), rows = int64_t{p_.n} * pixels[0] * pixels[1];
    const int64_t chunk = std::clamp<int64_t>(kWork / (pixels[2] * kBlock), 1,
                                              std::max<int64_t>(1, rows * blocks / units_ / 4));
    Launch launch(stream, kernel_);
    launch.arg(data ? t.y : t.x).arg(pass.taps() > 0 ? pass.of_w(t.w) : t.w);
    launch.arg(pass.of_target(data ? t.x : t.y)).arg(p_.n).arg(p_.c).arg(static_cast<int>(chunk));
    for (const size_t i : {0, 2, 3, 4}) launch.arg(source[i]);
    for (const size_t i : {0, 2, 3, 4}) launch.arg(target[i]);
    for (const Spatial& numbers : {data ? p_.y_space : p_.x_space, pixels, pass.window(), pass.source_step,
                                   pass.pad(), pass.dilation()})
      bind_each(launch, numbers);
    launch.arg(w[0]);
    bind_each(launch, Spatial{w[2], w[3], w[4]});
    bind_epilogue(launch, 1, 0, with);
    launch.run({static_cast<size_t>(blocks), static_cast<size_t>(ceil_div(rows, chunk))}, {1, 1});
  }

  const ConvProblem p_;
  const std::vector<ConvPass> passes_;
  const int units_;
  int lanes_;
  Kernel kernel_;
};

std::string refuse(const Context& context, const ConvProblem& p, const Options& options) {
  const Device& device = context.device();
  if (device.kind() != DeviceKind::cpu && !EngineRequest(options).names(kConvDepthwiseCpuLast.name))
    return cat("is for CPUs, the device is a ", name_of(device.kind()));
  if (p.direction == ConvDirection::backward_filter) return "is for forward and backward data";
  if (p.group_c() != 1 || p.group_k() != 1)
    return cat("is for one channel and one filter in each group, they are ", p.group_c(), " and ",
               p.group_k());
  std::string reason = refuse_large(p);
  if (reason.empty()) reason = refuse_many_phases(p);
  if (reason.empty()) reason = refuse_channels_apart(p);
  if (reason.empty() && p.taps() > kMostTaps) reason = cat(p.taps(), " taps exceed ", kMostTaps);
  return reason;
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem, const Options&) {
  return std::make_unique<DepthwiseCpuLast>(context, problem);
}

}  // namespace

const ConvEngine kConvDepthwiseCpuLast = {"depthwise_cpu_last", refuse, make};

}  // namespace dlprim::detail
