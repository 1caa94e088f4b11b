// The fma engine: implicit GEMM through local memory (conv_fma.cl over gemm_fma.cl), for GPUs.
#include <algorithm>
#include <array>

#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv_parts.hpp"
#include "ops/conv_problem.hpp"
#include "ops/epilogue.hpp"
#include "ops/gemm_fma_tiles.hpp"

namespace dlprim::detail {
namespace {

struct Candidate {
  GemmFmaTile tile;
  double rate;  ///< of multiply-adds on a full device, relative to the first one's
};

constexpr Candidate kCandidates[] = {
    {{128, 128, 8, 8, 8}, 1.0},
    {{64, 64, 16, 4, 4}, 0.7},
    {{32, 32, 8, 4, 4}, 0.35},
};

/// The tile predicted to be fastest for `batch` products of M x N results each.
GemmFmaTile tile_for(const Device& device, int64_t m, int64_t n, int64_t batch) {
  const int64_t units = std::max(1, device.facts().compute_units);
  const Candidate* best = nullptr;
  double best_time = 0;
  for (const Candidate& candidate : kCandidates) {
    const GemmFmaTile& t = candidate.tile;
    const int64_t groups = ceil_div(m, t.tm) * ceil_div(n, t.tn) * batch;
    const double time = static_cast<double>(ceil_div(groups, units)) * t.tm * t.tn / candidate.rate;
    if (!best || time < best_time) {
      best = &candidate;
      best_time = time;
    }
  }
  return best->tile;
}

/// The kernel's DIVISOR: the value, and its reciprocal rounded up to 32 bits.
void bind_divisor(Launch& launch, int d) {
  uint32_t shift = 0;
  while ((int64_t{1} << shift) < d) shift++;
  const uint64_t power = uint64_t{1} << (31 + shift);
  const auto divisor = static_cast<uint64_t>(std::max(1, d));
  launch.arg(d).arg(static_cast<uint32_t>((power + divisor - 1) / divisor)).arg(shift);
}

class Fma : public ConvImpl {
 public:
  Fma(const Context& context, const ConvProblem& problem, const Options& options) : p_(problem) {
    const ConvGemm g = conv_gemm(p_);
    m_ = static_cast<int>(g.m), n_ = static_cast<int>(g.n), k_ = static_cast<int>(g.k);
    const Device& device = context.device();
    tile_ = tile_for(device, g.m, g.n, p_.groups);
    Defines defines;
    defines.set("DIRECTION", static_cast<int>(p_.direction));
    switch (p_.direction) {
      case ConvDirection::forward:
        defines.set("WINDOW", p_.taps() > 1 || p_.pad[0] != 0 || p_.pad[1] != 0 || reaches_out());
        defines.set("ACTIVATION", name_of(p_.activation)).set("BIAS", p_.bias ? 2 : 0);
        break;
      case ConvDirection::backward_data:
        defines.set("STRIDED", p_.stride[0] > 1 || p_.stride[1] > 1);
        break;
      case ConvDirection::backward_filter: {
        // Neighbouring work-items take neighbouring elements: pixels, or channels where those lie side by
        // side.
        const bool channels_last = p_.c > 1 && p_.x[1] == 1 && p_.k > 1 && p_.y[1] == 1;
        defines.set("A_UNIT_K", !channels_last).set("B_UNIT_K", !channels_last);
        tile_ = tile_for(device, g.m, g.n, kLikelyParts * p_.groups);
        const int64_t tiles = ceil_div(g.m, tile_.tm) * ceil_div(g.n, tile_.tn) * p_.groups;
        parts_ = conv_parts_for(g.k, kLeastSteps, tiles, device, results(),
                                static_cast<int64_t>(options.workspace_limit / sizeof(float)));
        if (parts_.count > 1) add_ = conv_add_parts_kernel(context);
      }
    }
    tile_.define(defines);
    kernel_ = context.state().programs.kernel("conv_fma", "gemm_fma", defines);
  }

  size_t workspace_size() const override {
    return parts_.count > 1 ? static_cast<size_t>(parts_.count * results()) * sizeof(float) : 0;
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const bool filter = p_.direction == ConvDirection::backward_filter;
    const bool data = p_.direction == ConvDirection::backward_data;
    const Tensor sums = parts_.count > 1 ? workspace.reinterpret(DType::f32) : t.w;
    Launch launch(stream, kernel_);
    launch.arg(m_).arg(n_).arg(k_);
    if (filter)
      launch.arg(parts_.steps).arg(t.x).arg(t.y).arg(sums);
    else
      launch.arg(t.w)
          .arg(static_cast<int64_t>(data ? m_ * p_.taps() : k_))
          .arg(data ? t.y : t.x)
          .arg(data ? t.x : t.y);
    bind_shape(launch, data);
    bind_epilogue(launch, 1, 0, t.bias);
    const auto items = static_cast<size_t>(tile_.items());
    launch.run({static_cast<size_t>(ceil_div(n_, tile_.tn)) * items,
                static_cast<size_t>(ceil_div(m_, tile_.tm)), static_cast<size_t>(p_.groups * parts_.count)},
               {items, 1, 1});
    if (parts_.count > 1) conv_add_parts(stream, add_, sums, t.w, parts_.count);
  }

 private:
  static constexpr int kLikelyParts = 64;  // a tile's waste at the edges counts, the number of tiles does not
  static constexpr int kLeastSteps = 256;  // in a part: what it adds up should outweigh what it stores

  int64_t results() const { return int64_t{p_.groups} * m_ * n_; }
  /// Negative padding behind moves no tap outside, but padding that only the output's size tells of does.
  bool reaches_out() const {
    return int64_t{p_.p - 1} * p_.stride[0] >= p_.h || int64_t{p_.q - 1} * p_.stride[1] >= p_.w;
  }
  void bind_shape(Launch& launch, bool data) const {
    const std::array<int, 4> source = data ? p_.y_sizes() : p_.x_sizes();
    const std::array<int, 4> target = data ? p_.x_sizes() : p_.y_sizes();
    launch.arg(data ? p_.group_k() : p_.group_c()).arg(source[2]).arg(source[3]);
    for (int divisor : {target[2] * target[3], target[3], p_.taps(), p_.s, p_.stride[0], p_.stride[1]})
      bind_divisor(launch, divisor);
    launch.arg(p_.pad[0]).arg(p_.pad[1]).arg(p_.dilation[0]).arg(p_.dilation[1]);
    for (int stride : used_strides(data ? p_.y : p_.x, source)) launch.arg(stride);
    for (int stride : used_strides(data ? p_.x : p_.y, target)) launch.arg(stride);
  }

  const ConvProblem p_;
  int m_, n_, k_;
  GemmFmaTile tile_;
  ConvParts parts_;
  Kernel kernel_, add_;
};

std::string refuse(const Context& context, const ConvProblem& p, const Options&) {
  std::string reason;
  for (const Candidate& candidate : kCandidates)
    if (reason.empty()) reason = refuse_gemm_fma_tile(context.device(), candidate.tile);
  if (reason.empty()) reason = refuse_large(p);
  if (reason.empty()) reason = refuse_depthwise(p);
  return reason;
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const Options& options) {
  return std::make_unique<Fma>(context, problem, options);
}

}  // namespace

const ConvEngine kConvFma = {"fma", refuse, make};

}  // namespace dlprim::detail
