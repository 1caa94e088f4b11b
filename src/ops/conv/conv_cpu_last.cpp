// The cpu_last engine: implicit GEMM on CPUs of tensors whose channels are last (conv_cpu_last.cl,
// conv_cpu_last_filter.cl over gemm_cpu_loop.cl).
#include <algorithm>
#include <numeric>

#include "core/state.hpp"
#include "ops/conv/conv_cpu.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvCpuLast;

namespace {

bool is_filter(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_filter;
}
bool is_data(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_data;
}

/// The product as these kernels have it: forward and backward data with pixels as rows.
ConvGemm product(const ConvProblem& p) {
  const ConvGemm g = conv_gemm(p);
  return is_filter(p) ? g : ConvGemm{g.n, g.m, g.k};
}

GemmCpuTiles tiles_for(const Device& device, const ConvProblem& p) {
  const ConvGemm g = product(p);
  GemmCpuTiles tiles = gemm_cpu_tiles_for(device, g.m, g.n, size_of(conv_real(p)));
  // Rows of filters come in multiples of 8 or 12; pixels are many.
  for (int mr = tiles.mr - 1; is_filter(p) && mr >= 8; mr--)
    if (round_up(g.m, mr) < round_up(g.m, tiles.mr)) tiles.mr = mr;
  // Blocks of k that are as many as with the longest ones, but equal; and panels of few steps of k lie close
  // together. In backward filter k are pixels, of which kernels know nothing.
  const int shorter = tiles.kc * 3 / 4;
  if (!is_filter(p) && g.k > tiles.kc && ceil_div(g.k, shorter) == ceil_div(g.k, tiles.kc))
    tiles.kc = shorter;
  constexpr int kLeastSteps = 32;
  while (!is_filter(p) && tiles.kc / 2 >= std::max<int64_t>(g.k, kLeastSteps)) tiles.kc /= 2;
  const int64_t three = round_up(g.n, int64_t{3} * tiles.vw);
  if (device.facts().float_vector_width >= 16 && tiles.nv == 2 && three < round_up(g.n, tiles.nr()))
    tiles.nv = 3, tiles.mr = std::min(tiles.mr, 8);
  tiles.mr = static_cast<int>(std::clamp<int64_t>(g.m, 1, tiles.mr));
  tiles.mc = std::max(1, tiles.mc / tiles.mr) * tiles.mr;
  tiles.nc = std::max(1, tiles.nc / tiles.nr()) * tiles.nr();
  return tiles;
}

int64_t packed_count(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const ConvGemm g = product(p);
  return p.groups * round_up(g.n, tiles.nr()) * g.k;
}

uint64_t sum_bytes(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const ConvGemm g = product(p);
  if (!conv_sums_apart(p) || g.k <= tiles.kc) return 0;
  return static_cast<uint64_t>(p.groups * g.m * g.n) * sizeof(float);
}

/// Whether dw is no matrix [K, T, R, S, C/groups] of what is computed with.
bool result_apart(const ConvProblem& p) {
  ConvStrides packed{};
  const std::array<int64_t, 5> sizes = {p.k, p.group_c(), p.w_space[0], p.w_space[1], p.w_space[2]};
  int64_t step = 1;
  for (const size_t i : {1, 4, 3, 2, 0}) {
    packed[i] = sizes[i] > 1 ? step : 0;
    step *= sizes[i];
  }
  return p.result_dtype != conv_real(p) || p.w != packed;
}

uint64_t least_bytes(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const uint64_t real = size_of(conv_real(p));
  if (is_filter(p)) return result_apart(p) ? static_cast<uint64_t>(p.k) * p.group_c() * p.taps() * real : 0;
  return (p.constant_w ? 0 : static_cast<uint64_t>(packed_count(p, tiles)) * real) + sum_bytes(p, tiles);
}

/// Elements from one pixel to the next, if they are evenly spaced over all images.
std::optional<int64_t> pitch_of(int images, const ConvStrides& strides, const Spatial& space) {
  const int64_t pixels = int64_t{space[0]} * space[1] * space[2];
  const std::optional<int64_t> even = even_stride(strides, space);
  if (!even || images == 1) return even;
  if (pixels == 1) return strides[0];
  return strides[0] == *even * pixels ? even : std::nullopt;
}

/// Forward and backward data, pass by pass.
class LastRows : public ConvImpl {
 public:
  LastRows(const Context& context, const ConvProblem& problem)
      : p_(problem),
        tiles_(tiles_for(context.device(), p_)),
        n_(static_cast<int>(product(p_).n)),
        weights_(p_, packed_count(p_, tiles_), workspace_) {
    sums_at_ = workspace_.add(sum_bytes(p_, tiles_));
    GemmCpuTiles all = tiles_;  // w is packed, so that a work-group may take all columns
    all.nc = static_cast<int>(round_up(std::max(n_, 1), tiles_.nr()));
    int64_t packed = 0;
    for (const ConvPass& pass : conv_passes(p_)) {
      GemmCpuShare share = gemm_cpu_share_for(all, context.device(), p_.n * pass.count(), n_, p_.groups,
                                              GemmCpuPacking{true, false});
      share.rows = rows_for(context.device(), p_.n * pass.count(), share);
      passes_.push_back({pass, channels() * pass.taps(), packed, share});
      packed += p_.groups * round_up(n_, tiles_.nr()) * passes_.back().k;
    }
    weights_.keep_as(context, "conv_cpu_last", p_, tiles_.nr(), tiles_.kc, passes_);
    Defines defines = conv_defines(p_, ConvChannels::columns);
    tiles_.define(defines);
    defines.set("DEPTH", p_.has_depth()).set("SUMS_APART", conv_sums_apart(p_));
    // Packing pays where sums have several blocks (960 to 160: 0.49 against 0.52 ms; 24 to 144: 1.03 against
    // 0.91).
    const ConvGemm g = product(p_);
    const bool direct = is_pointwise(p_) && p_.dtype == conv_real(p_) && g.k <= tiles_.kc && g.m >= tiles_.mr;
    if (direct) pitch_ = pitch_of(p_.n, is_data(p_) ? p_.y : p_.x, p_.y_space);
    defines.set("A_DIRECT", pitch_.has_value());
    defines.set("W_FORM", w_of_source() == 1 ? 1 : w_of_target() == 1 ? 2 : 0);
    pack_ = context.state().programs.kernel("conv_cpu_last", "gemm_pack_b", defines);
    multiply_ = context.state().programs.kernel("conv_cpu_last", "gemm_cpu", defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor b =
        weights_.packed(stream, t.w, workspace, [&](const Tensor& to) { pack(stream, t.w, to); });
    for (const ConvCpuPass& pass : passes_) multiply(stream, pass, b, t, workspace);
  }

  void forget_constants() const override { weights_.forget_constants(); }

 private:
  /// Pixels of a work-group, at most `share` of `all`: so many that work-groups come to the same number for
  /// each unit, and no more than what their lines fit into half of the room for if w is small (128 to 128,
  /// 3x3: 6.8 and 6.2 ms; if it is large, packed w is read less often: 512 to 512, 7.7 and 9.4 ms).
  int rows_for(const Device& device, int64_t all, GemmCpuShare share) const {
    constexpr uint64_t kSmall = 3 << 20;
    const uint64_t bytes = static_cast<uint64_t>(packed_count(p_, tiles_)) * size_of(conv_real(p_));
    const int64_t room = std::max(tiles_.mr, tiles_.mc / (bytes < kSmall ? 2 : 1));
    const int64_t groups = std::max<int64_t>(1, ceil_div(all, std::min<int64_t>(share.rows, room)));
    const int64_t beside = ceil_div(n_, share.columns) * p_.groups,
                  units = std::max(1, device.facts().compute_units);
    const int64_t even = round_up(groups, units / std::gcd(units, beside));
    return static_cast<int>(std::min<int64_t>(share.rows, round_up(ceil_div(all, even), tiles_.mr)));
  }

  int channels() const { return is_data(p_) ? p_.group_k() : p_.group_c(); }
  /// w's strides along the channels of the source and of the target.
  int64_t w_of_source() const { return p_.w[is_data(p_) ? 0 : 1]; }
  int64_t w_of_target() const { return p_.w[is_data(p_) ? 1 : 0]; }

  void pack(const Stream& stream, const Tensor& w, const Tensor& to) const {
    for (const ConvCpuPass& pass : passes_) {
      if (pass.k == 0) continue;
      Launch launch(stream, pack_);
      launch.arg(n_).arg(pass.k).arg(packed_from(to, pass.packed)).arg(pass.at.of_w(w));
      launch.arg(channels()).arg(sizes_of(pass.at.window())).arg(cpu_filter(p_, pass.at));
      launch.run({static_cast<size_t>(ceil_div(n_, tiles_.nr())),
                  static_cast<size_t>(ceil_div(pass.k, tiles_.kc)), static_cast<size_t>(p_.groups)},
                 {1, 1, 1});
    }
  }

  void multiply(const Stream& stream, const ConvCpuPass& pass, const Tensor& b, const ConvTensors& t,
                const Tensor& workspace) const {
    const bool data = is_data(p_);
    const int m = static_cast<int>(p_.n * pass.at.count());
    EpilogueTensors with = t.with;
    with.residual = pass.at.of_target(with.residual);
    with.preactivation = pass.at.of_target(with.preactivation);
    PixelStrides source = strides_of(data ? p_.y : p_.x);
    if (pitch_) source.w = static_cast<int>(*pitch_);
    Launch launch(stream, multiply_);
    launch.arg(m).arg(n_).arg(pass.k).arg(pass.share.columns).arg(pass.share.rows);
    launch.arg(data ? t.y : t.x).arg(static_cast<int>(data ? p_.y_extent : p_.x_extent));
    launch.arg(source).arg(cpu_shape(channels(), data ? p_.y_space : p_.x_space, pass.at));
    launch.arg(pass.k > 0 ? packed_from(b, pass.packed) : Tensor());
    launch.arg(pass.at.of_target(data ? t.x : t.y));
    launch.arg(long_strides_of(pass.at.target_strides(data ? p_.x : p_.y)));
    if (conv_sums_apart(p_)) {
      const auto sums = static_cast<int64_t>(sum_bytes(p_, tiles_) / sizeof(float));
      launch.arg(workspace_part(workspace, sums_at_, {sums}));
    }
    bind_epilogue(launch, p_.dtype, with);
    pass.share.run(launch, m, n_, p_.groups);
  }

  const ConvProblem p_;
  const GemmCpuTiles tiles_;
  const int n_;
  WorkspaceParts workspace_;
  ConvCpuWeights weights_;
  std::optional<int64_t> pitch_;  ///< of lines that are read where they lie
  std::vector<ConvCpuPass> passes_;
  size_t sums_at_ = 0;
  Kernel pack_, multiply_;
};

/// Whether x and dy take each other's place: rows are packed, columns may be read where they lie. With few
/// channels (24 to 144: 2.48 and 1.77 ms; 64 to 384: 0.67 and 0.72).
bool exchanges(const ConvProblem& p) {
  constexpr int kFewChannels = 48;
  return is_filter(p) && is_pointwise(p) && p.groups == 1 && p.k > p.c && p.c <= kFewChannels;
}
ConvProblem arranged(const ConvProblem& p) {
  return exchanges(p) ? exchanged(p) : p;
}

class LastFilter : public ConvImpl {
 public:
  LastFilter(const Context& context, const ConvProblem& problem, const Options& options)
      : exchanged_(exchanges(problem)), p_(arranged(problem)), tiles_(tiles_for(context.device(), p_)) {
    const ConvGemm g = product(p_);
    m_ = static_cast<int>(g.m), n_ = static_cast<int>(g.n), k_ = static_cast<int>(g.k);
    const auto room = static_cast<int64_t>(options.workspace_limit / size_of(conv_real(p_)) / 2);
    form_ = conv_cpu_filter_share(p_, tiles_, context.device(), room);
    sums_.emplace(context, p_, form_.parts.count, workspace_, ConvPartsForm{true, result_apart(p_)});
    Defines defines = conv_defines(p_);
    tiles_.define(defines);
    // Packing pays from so many rows on (96 to 576: 1.01 against 1.15 ms; 192 to 32: 0.64 against 0.59).
    constexpr int kFewRows = 96;
    const bool direct =
        is_pointwise(p_) && p_.dtype == conv_real(p_) && n_ % tiles_.nr() == 0 && m_ <= kFewRows;
    if (direct) x_pitch_ = pitch_of(p_.n, p_.x, p_.x_space);
    defines.set("DEPTH", p_.has_depth()).set("B_DIRECT", x_pitch_.has_value());
    multiply_ = context.state().programs.kernel("conv_cpu_last_filter", "gemm_cpu", defines);
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor dw = exchanged_ ? t.w.transpose(0, 1) : t.w;
    PixelStrides x = strides_of(p_.x);
    if (x_pitch_) x.w = static_cast<int>(*x_pitch_);
    Launch launch(stream, multiply_);
    launch.arg(m_).arg(n_).arg(k_).arg(form_.share.columns).arg(form_.share.rows);
    launch.arg(form_.parts.steps).arg(exchanged_ ? t.x : t.y).arg(static_cast<int>(p_.y_extent));
    launch.arg(exchanged_ ? t.y : t.x).arg(static_cast<int>(p_.x_extent)).arg(x);
    launch.arg(long_strides_of(p_.y)).arg(cpu_shape(p_.group_c(), p_));
    launch.arg(sums_->target(workspace, dw));
    bind_epilogue(launch, p_.dtype, {});
    form_.share.run(launch, m_, n_, p_.groups * form_.parts.count);
    sums_->add_up(stream, workspace, dw);
  }

 private:
  const bool exchanged_;  ///< p_ has x and y, which tensors do not, in each other's place
  const ConvProblem p_;
  const GemmCpuTiles tiles_;
  int m_, n_, k_;
  std::optional<int64_t> x_pitch_;  ///< where x is read as it lies
  ConvCpuFilterShare form_{};
  WorkspaceParts workspace_;
  std::optional<ConvPartSums> sums_;
  Kernel multiply_;
};

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  std::string reason = refuse_gemm_cpu(context.device());
  if (reason.empty()) reason = refuse_large(p);
  if (reason.empty()) reason = refuse_depthwise(p);
  if (reason.empty()) reason = refuse_many_phases(p);
  if (reason.empty()) reason = refuse_channels_apart(p);
  if (!reason.empty()) return reason;
  const uint64_t least = least_bytes(arranged(p), tiles_for(context.device(), arranged(p)));
  if (least > options.workspace_limit)
    return cat("needs ", least, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  if (is_filter(problem)) return std::make_unique<LastFilter>(context, problem, options);
  return std::make_unique<LastRows>(context, problem);
}

}  // namespace

const ConvEngine kConvCpuLast = {"cpu_last", refuse, make, avoid_unless_cpu};

}  // namespace dlprim::detail
