// The cpu engine: implicit GEMM by work-groups of one work-item (conv_cpu.cl, conv_cpu_filter.cl over
// gemm_cpu_loop.cl).
#include <algorithm>

#include "core/state.hpp"
#include "ops/conv/conv_cpu.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/lib/epilogue.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvCpu;

namespace {

/// GEMM's tiles with at most 8 rows: filters come in multiples of 8, and 8 rows of 32 columns are as fast as
/// 12 (64 filters: 186 against 165 GFLOP/s, 256: 223 against 220; 2 cores with 16 floats a vector).
GemmCpuTiles tiles_for(const Device& device, const ConvProblem& p) {
  const ConvGemm g = conv_gemm(p);
  GemmCpuTiles tiles = gemm_cpu_tiles_for(device, g.m, g.n, size_of(conv_real(p)));
  const int panels = static_cast<int>(ceil_div(std::max<int64_t>(g.m, 1), 8));
  tiles.mr = static_cast<int>(std::min<int64_t>(8, ceil_div(std::max<int64_t>(g.m, 1), panels)));
  if (panels == 1 && tiles.mr <= 4 && 3 * tiles.vw <= tiles.nc) tiles.nv = 3;
  tiles.mc = std::max(1, tiles.mc / tiles.mr) * tiles.mr;
  const int unit = std::max(1, 8 / tiles.vw);  // backward filter packs 8 columns at a time
  tiles.nv = std::max(unit, tiles.nv / unit * unit);
  tiles.nc = std::min(tiles.nc, 256);  // the pieces of a line of B are listed in private memory
  tiles.nc = tiles.nc / tiles.nr() * tiles.nr();
  return tiles;
}

/// The same with the blocks that were asked for.
GemmCpuTiles tiles_for(const Device& device, const ConvProblem& p, const EngineOptions& options) {
  GemmCpuTiles tiles = tiles_for(device, p);
  if (!options.request.names(kConvCpu.name)) return tiles;
  options.request.take(kConvCpu.name, {{"kc", &tiles.kc}, {"nc", &tiles.nc}, {"mc", &tiles.mc}});
  const bool fit = tiles.kc > 0 && tiles.kc % tiles.vw == 0 && tiles.nc > 0 && tiles.nc <= 256 &&
                   tiles.nc % tiles.nr() == 0 && tiles.mc > 0 && tiles.mc % tiles.mr == 0;
  require(fit, "engine", "blocks of ", tiles.mc, "x", tiles.nc, "x", tiles.kc, " are no multiples of ",
          tiles.mr, "x", tiles.nr(), "x", tiles.vw, ", or have more than 256 columns");
  const uint64_t bytes =
      size_of(conv_real(p)) * static_cast<uint64_t>(tiles.kc) * static_cast<uint64_t>(tiles.mc + tiles.nc);
  require(bytes <= device.facts().local_memory, "engine", "blocks of ", bytes,
          " bytes, the device has local memory of ", device.facts().local_memory);
  return tiles;
}

int64_t packed_count(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const ConvGemm g = conv_gemm(p);
  return p.groups * round_up(g.m, tiles.mr) * g.k;
}

/// Of forward and backward data: bytes of such sums, for one image.
uint64_t image_sum_bytes(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const ConvGemm g = conv_gemm(p);
  if (!conv_sums_apart(p) || g.k <= tiles.kc || p.n == 0) return 0;
  return static_cast<uint64_t>(p.groups * g.m * (g.n / p.n)) * sizeof(float);
}

/// Of backward filter: whether dw is no matrix of Scalars, so that a second kernel has to make it of one.
bool result_apart(const ConvProblem& p) {
  return p.result_dtype != conv_real(p) || !p.w_row_major;
}

/// The least workspace. What constant weights need is not counted: it is no part of the workspace.
uint64_t least_bytes(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const uint64_t real = size_of(conv_real(p));
  if (p.direction != ConvDirection::backward_filter)
    return (p.constant_w ? 0 : static_cast<uint64_t>(packed_count(p, tiles)) * real) +
           image_sum_bytes(p, tiles);
  const ConvGemm g = conv_gemm(p);
  return result_apart(p) ? static_cast<uint64_t>(p.groups * g.m * g.n) * real : 0;
}

class CpuBase : public ConvImpl {
 public:
  CpuBase(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : p_(in_one_row(problem)), tiles_(tiles_for(context.device(), problem, options)) {
    const ConvGemm g = conv_gemm(p_);
    m_ = static_cast<int>(g.m), n_ = static_cast<int>(g.n), k_ = static_cast<int>(g.k);
  }

  size_t workspace_size() const override { return workspace_.size(); }

 protected:
  Defines defines() const {
    Defines result = conv_defines(p_);
    tiles_.define(result);
    return result.set("DEPTH", p_.has_depth());
  }

  const ConvProblem p_;
  GemmCpuTiles tiles_;
  int m_, n_, k_;
  WorkspaceParts workspace_;
};

/// Forward and backward data, pass by pass.
class CpuRows : public CpuBase {
 public:
  CpuRows(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : CpuBase(context, problem, options),
        data_(p_.direction == ConvDirection::backward_data),
        weights_(p_, packed_count(p_, tiles_), workspace_) {
    const uint64_t of_image = image_sum_bytes(p_, tiles_);
    slab_ = p_.n;
    if (of_image > 0) {
      const auto room = static_cast<int64_t>(workspace_.rest(options).workspace_limit / of_image);
      slab_ = static_cast<int>(std::clamp<int64_t>(room, 1, p_.n));
      sums_at_ = workspace_.add(static_cast<size_t>(of_image) * static_cast<size_t>(slab_));
    }
    int64_t packed = 0;
    for (const ConvPass& pass : conv_passes(p_)) {
      const int64_t columns = slab_ * pass.count();
      passes_.push_back({pass, channels() * pass.taps(), packed,
                         gemm_cpu_share_for(tiles_, context.device(), m_, columns, p_.groups)});
      packed += p_.groups * round_up(m_, tiles_.mr) * passes_.back().k;
    }
    weights_.keep_as(context, "conv_cpu", p_, tiles_.mr, tiles_.kc, passes_);
    const Defines form = defines().set("W_PLAIN", w_plain()).set("SUMS_APART", conv_sums_apart(p_));
    pack_ = context.state().programs.kernel("conv_cpu", "gemm_pack_a", form);
    multiply_ = context.state().programs.kernel("conv_cpu", "gemm_cpu", form);
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor a =
        weights_.packed(stream, t.w, workspace, [&](const Tensor& to) { pack(stream, t.w, to); });
    for (const ConvCpuPass& pass : passes_)
      for (int image = 0; image < p_.n; image += slab_)
        multiply(stream, pass, a, t, image, std::min(slab_, p_.n - image), workspace);
  }

  void forget_constants() const override { weights_.forget_constants(); }

 private:
  const ConvStrides& source() const { return data_ ? p_.y : p_.x; }
  const ConvStrides& target() const { return data_ ? p_.x : p_.y; }
  int channels() const { return data_ ? p_.group_k() : p_.group_c(); }
  /// Whether the k of a row of w lie side by side.
  bool w_plain() const { return !data_ && p_.w_row_major; }

  size_t panels() const { return static_cast<size_t>(ceil_div(m_, tiles_.mr)); }
  void pack(const Stream& stream, const Tensor& w, const Tensor& to) const {
    for (const ConvCpuPass& pass : passes_) {
      if (pass.k == 0) continue;
      CpuFilter strides = cpu_filter(p_, pass.at);
      if (w_plain()) strides.target = k_;
      Launch launch(stream, pack_);
      launch.arg(m_).arg(pass.k).arg(packed_from(to, pass.packed)).arg(pass.at.of_w(w));
      launch.arg(sizes_of(pass.at.window())).arg(strides);
      launch.run({panels(), static_cast<size_t>(ceil_div(pass.k, tiles_.kc)), static_cast<size_t>(p_.groups)},
                 {1, 1, 1});
    }
  }

  /// `count` images from `first` on.
  void multiply(const Stream& stream, const ConvCpuPass& pass, const Tensor& a, const ConvTensors& t,
                int first, int count, const Tensor& workspace) const {
    const auto images = [&](const Tensor& x) {
      return count == p_.n || !x.defined() ? x : x.slice(0, first, first + count);
    };
    const auto of_target = [&](const Tensor& x) { return pass.at.of_target(images(x)); };
    EpilogueTensors with = t.with;
    with.residual = of_target(with.residual), with.preactivation = of_target(with.preactivation);
    const int64_t extent = (data_ ? p_.y_extent : p_.x_extent) - first * source()[0];
    const int n = static_cast<int>(count * pass.at.count());
    Launch launch(stream, multiply_);
    launch.arg(m_).arg(n).arg(pass.k).arg(pass.share.columns).arg(pass.share.rows);
    launch.arg(pass.k > 0 ? packed_from(a, pass.packed) : Tensor());
    launch.arg(images(data_ ? t.y : t.x)).arg(static_cast<int>(extent));
    launch.arg(strides_of(source()));
    launch.arg(cpu_shape(channels(), data_ ? p_.y_space : p_.x_space, pass.at));
    launch.arg(of_target(data_ ? t.x : t.y)).arg(long_strides_of(pass.at.target_strides(target())));
    if (conv_sums_apart(p_))
      launch.arg(workspace_part(workspace, sums_at_,
                                {image_sum_bytes(p_, tiles_) > 0 ? int64_t{p_.groups} * m_ * n : 0}));
    bind_epilogue(launch, p_.dtype, with);
    pass.share.run(launch, m_, n, p_.groups);
  }

  const bool data_;
  ConvCpuWeights weights_;
  std::vector<ConvCpuPass> passes_;
  int slab_;  ///< images in a launch: their sums fit into the workspace
  size_t sums_at_ = 0;
  Kernel pack_, multiply_;
};

/// Whether x and dy take each other's place: columns are transposed, rows packed as they lie (576 to 96: 1.80
/// and 1.19 ms).
bool exchanges(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_filter && is_pointwise(p) && p.groups == 1 && p.c > p.k;
}
ConvProblem arranged(const ConvProblem& p) {
  return exchanges(p) ? exchanged(p) : p;
}

class CpuFilter : public CpuBase {
 public:
  CpuFilter(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : CpuBase(context, arranged(problem), options), exchanged_(exchanges(problem)) {
    const size_t real = size_of(conv_real(p_));
    const auto room = static_cast<int64_t>(workspace_.rest(options).workspace_limit / real / 2);
    form_ = conv_cpu_filter_share(p_, tiles_, context.device(), room);
    sums_.emplace(context, p_, form_.parts.count, workspace_, ConvPartsForm{false, result_apart(p_)});
    multiply_ = context.state().programs.kernel("conv_cpu_filter", "gemm_cpu", defines());
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor dw = exchanged_ ? t.w.transpose(0, 1) : t.w;
    Launch launch(stream, multiply_);
    launch.arg(m_).arg(n_).arg(k_).arg(form_.share.columns).arg(form_.share.rows);
    launch.arg(exchanged_ ? t.x : t.y).arg(p_.y_extent).arg(long_strides_of(p_.y));
    launch.arg(form_.parts.steps);
    launch.arg(exchanged_ ? t.y : t.x).arg(static_cast<int>(p_.x_extent)).arg(strides_of(p_.x));
    launch.arg(cpu_shape(p_.group_c(), p_));
    launch.arg(sums_->target(workspace, dw));
    bind_epilogue(launch, p_.dtype, {});
    form_.share.run(launch, m_, n_, p_.groups * form_.parts.count);
    sums_->add_up(stream, workspace, dw);
  }

 private:
  const bool exchanged_;  ///< p_ has x and y, which tensors do not, in each other's place
  ConvCpuFilterShare form_{};
  std::optional<ConvPartSums> sums_;
  Kernel multiply_;
};

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  std::string reason = refuse_gemm_cpu(context.device());
  if (reason.empty()) reason = refuse_large(p);
  // Gathering whole rows still pays where it is all there is to do (2 x naive); gathering a filter's does not
  // (0.3 x).
  if (reason.empty() && p.direction == ConvDirection::backward_filter) reason = refuse_depthwise(p);
  if (reason.empty()) reason = refuse_many_phases(p);
  if (!reason.empty()) return reason;
  const ConvProblem as = arranged(p);
  const uint64_t least = least_bytes(as, tiles_for(context.device(), as, options));
  if (least > options.workspace_limit)
    return cat("needs ", least, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  if (problem.direction == ConvDirection::backward_filter)
    return std::make_unique<CpuFilter>(context, problem, options);
  return std::make_unique<CpuRows>(context, problem, options);
}

/// Half as long blocks of k (backward filter of 512 channels of 7 x 7: 7.5 against 8.0 ms), and twice as long
/// ones with as many numbers in the panels; exhaustively, smaller panels too.
std::vector<std::string> candidates(const Context& context, const ConvProblem& p,
                                    const EngineOptions& options) {
  std::vector<std::string> result = {kConvCpu.name};
  const ConvProblem as = arranged(p);
  const GemmCpuTiles own = tiles_for(context.device(), as);
  const int64_t k = conv_gemm(as).k;
  const auto add = [&](int kc, int nc, int mc) {
    nc = std::max(1, nc / own.nr()) * own.nr(), mc = std::max(1, mc / own.mr) * own.mr;
    if (kc == own.kc || k > std::min(kc, own.kc))  // else the same single block
      result.push_back(cat(kConvCpu.name, ":kc=", kc, ",nc=", nc, ",mc=", mc));
  };
  add(own.kc / 2, own.nc, own.mc);
  add(own.kc * 2, own.nc / 2, own.mc / 2);
  if (options.tune != TuneMode::exhaustive) return result;
  for (const int kc : {own.kc / 2, own.kc}) {
    add(kc, own.nc / 2, own.mc);
    add(kc, own.nc, own.mc / 2);
  }
  return result;
}

}  // namespace

const ConvEngine kConvCpu = {"cpu", refuse, make, avoid_unless_cpu, nullptr, candidates};

}  // namespace dlprim::detail
