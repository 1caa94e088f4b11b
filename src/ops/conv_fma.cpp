// The fma engine: implicit GEMM through local memory (conv_fma.cl over gemm_fma.cl), for GPUs.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include <dlprim/pointwise.hpp>

#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv_parts.hpp"
#include "ops/divisor.hpp"
#include "ops/epilogue.hpp"
#include "ops/gemm_fma_tiles.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvFma;

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

/// Pixels of dx along one dimension that meet the same taps: every stride-th from `first` on, `count` of
/// them. To these backward data is a convolution without stride, by `taps` taps: every `step`-th from `tap`
/// on.
struct Phase {
  int first, count;
  int tap, taps, step;
  int pad, dilation;
};

/// Those that meet any tap.
std::vector<Phase> phases(int size, int taps, int stride, int pad, int dilation) {
  std::vector<Phase> result;
  const int step = stride / std::gcd(stride, dilation), first_taps = std::min(step, taps);
  for (int first = 0; first < std::min(stride, size); first++) {
    int tap = 0;
    while (tap < first_taps && (first + pad - tap * dilation) % stride != 0) tap++;
    if (tap == first_taps) continue;
    result.push_back({first, (size - first + stride - 1) / stride, tap, (taps - tap + step - 1) / step, step,
                      (first + pad - tap * dilation) / stride, step * dilation / stride});
  }
  return result;
}

int pixels(const std::vector<Phase>& phases) {
  return std::accumulate(phases.begin(), phases.end(), 0,
                         [](int sum, const Phase& p) { return sum + p.count; });
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
        defines.set("WINDOW", p_.taps() > 1 || p_.pad[1] != 0 || p_.pad[2] != 0 || reaches_out());
        defines.set("ACTIVATION", name_of(p_.activation)).set("BIAS", p_.bias ? 2 : 0);
        break;
      case ConvDirection::backward_data:
        defines.set("STRIDED", p_.stride[1] > 1 || p_.stride[2] > 1);
        rows_ = phases(p_.x_space[1], p_.w_space[1], p_.stride[1], p_.pad[1], p_.dilation[1]);
        columns_ = phases(p_.x_space[2], p_.w_space[2], p_.stride[2], p_.pad[2], p_.dilation[2]);
        if (!rows_.empty() && !columns_.empty())
          tile_ = tile_for(device, g.m, int64_t{p_.n} * rows_[0].count * columns_[0].count, p_.groups);
        if (pixels(rows_) < p_.x_space[1] || pixels(columns_) < p_.x_space[2])
          zero_.emplace(context, std::vector<TensorDesc>{},
                        std::vector<TensorDesc>{{Shape{p_.n, p_.c, p_.x_space[1], p_.x_space[2]},
                                                 {p_.x[0], p_.x[1], p_.x[3], p_.x[4]},
                                                 DType::f32,
                                                 false}},
                        0, "y0 = 0");
        break;
      case ConvDirection::backward_filter: {
        // Neighbouring work-items take neighbouring elements: pixels, or channels where those lie side by
        // side.
        const bool channels_last = p_.x[1] == 1 && p_.y[1] == 1;
        defines.set("A_UNIT_K", !channels_last).set("B_UNIT_K", !channels_last);
        tile_ = tile_for(device, g.m, g.n, kLikelyParts * p_.groups);
        const int64_t tiles = ceil_div(g.m, tile_.tm) * ceil_div(g.n, tile_.tn) * p_.groups;
        parts_ = conv_parts_for(g.k, kLeastSteps, tiles, device, int64_t{p_.groups} * m_ * n_,
                                static_cast<int64_t>(options.workspace_limit / sizeof(float) / 2));
        sums_.emplace(context, p_, parts_.count, workspace_);
      }
    }
    tile_.define(defines);
    kernel_ = context.state().programs.kernel("conv_fma", "gemm_fma", defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    if (p_.direction == ConvDirection::backward_data) {
      const Tensor dx = flat(t.x);
      if (zero_) zero_->run(stream, {}, {dx}, {});
      for (const Phase& row : rows_)
        for (const Phase& column : columns_) run_phase(stream, t, dx, row, column);
      return;
    }
    Launch launch(stream, kernel_);
    launch.arg(m_).arg(n_).arg(k_);
    if (p_.direction == ConvDirection::backward_filter)
      launch.arg(parts_.steps).arg(t.x).arg(t.y).arg(parts_.count > 1 ? sums_->partial(workspace) : t.w);
    else
      launch.arg(t.w).arg(static_cast<int64_t>(k_)).arg(t.x).arg(t.y);
    launch.arg(p_.group_c()).arg(p_.x_space[1]).arg(p_.x_space[2]);
    for (int divisor : {p_.y_space[1] * p_.y_space[2], p_.y_space[2], p_.taps(), p_.w_space[2]})
      bind_divisor(launch, divisor);
    for (const Spatial& pair : {p_.stride, p_.pad, p_.dilation}) launch.arg(pair[1]).arg(pair[2]);
    bind_strides(launch, p_.x);
    bind_strides(launch, p_.y);
    bind_epilogue(launch, 1, 0, t.with);
    start(launch, n_);
    if (sums_) sums_->add_up(stream, workspace, t.w);
  }

 private:
  static constexpr int kLikelyParts = 64;  // a tile's waste at the edges counts, the number of tiles does not
  static constexpr int kLeastSteps = 256;  // in a part: what it adds up should outweigh what it stores

  /// Negative padding behind moves no tap outside, but padding that only the output's size tells of does.
  bool reaches_out() const {
    const auto out = [&](size_t i) { return int64_t{p_.y_space[i] - 1} * p_.stride[i] >= p_.x_space[i]; };
    return out(1) || out(2);
  }
  /// Without the depth of 1.
  static Tensor flat(const Tensor& x) {
    const Shape &shape = x.shape(), &strides = x.strides();
    return x.as_strided({shape[0], shape[1], shape[3], shape[4]},
                        {strides[0], strides[1], strides[3], strides[4]});
  }
  static void bind_strides(Launch& launch, const ConvStrides& strides) {
    const std::array<int, 5> s = narrow(strides);
    launch.arg(s[0]).arg(s[1]).arg(s[3]).arg(s[4]);
  }
  void start(Launch& launch, int n) const {
    const auto items = static_cast<size_t>(tile_.items());
    launch.run({static_cast<size_t>(ceil_div(n, tile_.tn)) * items,
                static_cast<size_t>(ceil_div(m_, tile_.tm)), static_cast<size_t>(p_.groups * parts_.count)},
               {items, 1, 1});
  }
  void run_phase(const Stream& stream, const ConvTensors& t, const Tensor& dx, const Phase& row,
                 const Phase& column) const {
    const int plane = row.count * column.count, taps = row.taps * column.taps, window = p_.w_space[2];
    Launch launch(stream, kernel_);
    launch.arg(m_).arg(p_.n * plane).arg(p_.group_k() * taps);
    launch.arg(t.w).arg(static_cast<int64_t>(m_ * p_.taps())).arg(t.y);
    launch.arg(dx.slice(2, row.first, p_.x_space[1]).slice(3, column.first, p_.x_space[2]));
    launch.arg(p_.taps()).arg(row.tap * window + column.tap).arg(row.step * window).arg(column.step);
    launch.arg(p_.group_k()).arg(p_.y_space[1]).arg(p_.y_space[2]);
    for (int divisor : {plane, column.count, taps, column.taps}) bind_divisor(launch, divisor);
    launch.arg(1).arg(1).arg(row.pad).arg(column.pad).arg(row.dilation).arg(column.dilation);
    bind_strides(launch, p_.y);
    const std::array<int, 5> strides = narrow(p_.x);
    launch.arg(strides[0]).arg(strides[1]);
    launch.arg(row.count > 1 ? strides[3] * p_.stride[1] : 0);
    launch.arg(column.count > 1 ? strides[4] * p_.stride[2] : 0);
    bind_epilogue(launch, 1, 0, {});
    start(launch, p_.n * plane);
  }

  const ConvProblem p_;
  int m_, n_, k_;
  GemmFmaTile tile_;
  ConvParts parts_;
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;
  Kernel kernel_;
  // Backward data: phases, and what writes dx first where there are pixels that no tap meets.
  std::vector<Phase> rows_, columns_;
  std::optional<Pointwise> zero_;
};

std::string refuse(const Context& context, const ConvProblem& p, const Options&) {
  std::string reason;
  for (const Candidate& candidate : kCandidates)
    if (reason.empty()) reason = refuse_gemm_fma_tile(context.device(), candidate.tile);
  if (reason.empty()) reason = refuse_large(p);
  if (reason.empty()) reason = refuse_depthwise(p);
  if (reason.empty()) reason = refuse_general(p);
  return reason;
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const Options& options) {
  return std::make_unique<Fma>(context, problem, options);
}

}  // namespace

const ConvEngine kConvFma = {"fma", refuse, make};

}  // namespace dlprim::detail
