// The cpu engine: implicit GEMM by work-groups of one work-item (conv_cpu.cl, conv_cpu_filter.cl over
// gemm_cpu_loop.cl).
#include <algorithm>

#include "core/constants.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv_parts.hpp"
#include "ops/epilogue.hpp"
#include "ops/gemm_cpu_tiles.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvCpu;

namespace {

DType real_type(const ConvProblem& p) {
  return p.dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// GEMM's tiles with at most 8 rows: filters come in multiples of 8, and 8 rows of 32 columns are as fast as
/// 12 (64 filters: 186 against 165 GFLOP/s, 256: 223 against 220; 2 cores with 16 floats a vector).
GemmCpuTiles tiles_for(const Device& device, const ConvProblem& p) {
  const ConvGemm g = conv_gemm(p);
  GemmCpuTiles tiles = gemm_cpu_tiles_for(device, g.m, g.n, size_of(real_type(p)));
  tiles.mr = std::min(tiles.mr, 8);
  tiles.mc = tiles.mc / tiles.mr * tiles.mr;
  tiles.nv = std::max(tiles.nv, 8 / tiles.vw);  // backward filter packs 8 columns at a time
  tiles.nc = std::min(tiles.nc, 256);           // the pieces of a line of B are listed in private memory
  tiles.nc = tiles.nc / tiles.nr() * tiles.nr();
  return tiles;
}

/// The same with the blocks that were asked for.
GemmCpuTiles tiles_for(const Device& device, const ConvProblem& p, const Options& options) {
  GemmCpuTiles tiles = tiles_for(device, p);
  const EngineRequest request(options);
  if (!request.names(kConvCpu.name)) return tiles;
  request.take({{"kc", &tiles.kc}, {"nc", &tiles.nc}, {"mc", &tiles.mc}});
  const bool fit = tiles.kc > 0 && tiles.kc % tiles.vw == 0 && tiles.nc > 0 && tiles.nc <= 256 &&
                   tiles.nc % tiles.nr() == 0 && tiles.mc > 0 && tiles.mc % tiles.mr == 0;
  require(fit, "engine", "blocks of ", tiles.mc, "x", tiles.nc, "x", tiles.kc, " are no multiples of ",
          tiles.mr, "x", tiles.nr(), "x", tiles.vw, ", or have more than 256 columns");
  const uint64_t bytes =
      size_of(real_type(p)) * static_cast<uint64_t>(tiles.kc) * static_cast<uint64_t>(tiles.mc + tiles.nc);
  require(bytes <= device.facts().local_memory, "engine", "blocks of ", bytes,
          " bytes, the device has local memory of ", device.facts().local_memory);
  return tiles;
}

int64_t packed_count(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const ConvGemm g = conv_gemm(p);
  return p.groups * round_up(g.m, tiles.mr) * g.k;
}

/// Whether the result holds fewer bits than a sum that more blocks of k follow.
bool sums_apart(const ConvProblem& p) {
  return size_of(p.result_dtype) < sizeof(float);
}

/// Of forward and backward data: bytes of such sums, for one image.
uint64_t image_sum_bytes(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const ConvGemm g = conv_gemm(p);
  if (!sums_apart(p) || g.k <= tiles.kc || p.n == 0) return 0;
  return static_cast<uint64_t>(p.groups * g.m * (g.n / p.n)) * sizeof(float);
}

/// Of backward filter: whether dw is no matrix of Scalars, so that a second kernel has to make it of one.
bool result_apart(const ConvProblem& p) {
  return p.result_dtype != real_type(p) || !p.w_row_major;
}

/// The least workspace. What constant weights need is not counted: it is no part of the workspace.
uint64_t least_bytes(const ConvProblem& p, const GemmCpuTiles& tiles) {
  const uint64_t real = size_of(real_type(p)), packed = static_cast<uint64_t>(packed_count(p, tiles)) * real;
  if (p.direction != ConvDirection::backward_filter)
    return (p.constant_w ? 0 : packed) + image_sum_bytes(p, tiles);
  const ConvGemm g = conv_gemm(p);
  return packed + (result_apart(p) ? static_cast<uint64_t>(p.groups * g.m * g.n) * real : 0);
}

template <class Numbers>
void bind_each(Launch& launch, const Numbers& of_axes) {
  for (auto number : of_axes) launch.arg(number);
}

class CpuBase : public ConvImpl {
 public:
  CpuBase(const Context& context, const ConvProblem& problem, const Options& options)
      : p_(problem), tiles_(tiles_for(context.device(), problem, options)) {
    const ConvGemm g = conv_gemm(p_);
    m_ = static_cast<int>(g.m), n_ = static_cast<int>(g.n), k_ = static_cast<int>(g.k);
  }

  size_t workspace_size() const override { return workspace_.size(); }

 protected:
  int64_t packed_count() const { return detail::packed_count(p_, tiles_); }
  size_t panels() const { return static_cast<size_t>(ceil_div(m_, tiles_.mr)); }
  void add_packed() {
    packed_at_ = workspace_.add(static_cast<size_t>(packed_count()) * size_of(real_type(p_)));
  }
  Tensor packed(const Tensor& workspace) const {
    return workspace_part(workspace, packed_at_, {packed_count()}, real_type(p_));
  }

  void build(const Context& context, const char* file, Defines defines) {
    tiles_.define(defines);
    defines.set("DEPTH", p_.has_depth());
    pack_ = context.state().programs.kernel(file, "gemm_pack_a", defines);
    multiply_ = context.state().programs.kernel(file, "gemm_cpu", defines);
  }

  const ConvProblem p_;
  GemmCpuTiles tiles_;
  int m_, n_, k_;
  GemmCpuShare share_{};
  WorkspaceParts workspace_;
  size_t packed_at_ = 0;
  Kernel pack_, multiply_;
};

/// Forward and backward data.
class CpuRows : public CpuBase {
 public:
  CpuRows(const Context& context, const ConvProblem& problem, const Options& options)
      : CpuBase(context, problem, options), data_(p_.direction == ConvDirection::backward_data) {
    if (!p_.constant_w) add_packed();
    const uint64_t of_image = image_sum_bytes(p_, tiles_);
    slab_ = p_.n;
    if (of_image > 0) {
      const auto room = static_cast<int64_t>(workspace_.rest(options).workspace_limit / of_image);
      slab_ = static_cast<int>(std::clamp<int64_t>(room, 1, p_.n));
      sums_at_ = workspace_.add(static_cast<size_t>(of_image) * static_cast<size_t>(slab_));
    }
    share_ = gemm_cpu_share_for(tiles_, context.device(), m_, columns(slab_), p_.groups);
    Defines defines = conv_defines(p_);
    defines.set("BACKWARD_DATA", data_).set("W_PLAIN", w_plain()).set("SUMS_APART", sums_apart(p_));
    build(context, "conv_cpu", defines);
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor a = packed_w(stream, t.w, workspace);
    for (int image = 0; image < p_.n; image += slab_)
      multiply(stream, a, t, image, std::min(slab_, p_.n - image), workspace);
  }

  void forget_constants() const override { constants_.forget(); }

 private:
  const ConvStrides& source() const { return data_ ? p_.y : p_.x; }
  const ConvStrides& target() const { return data_ ? p_.x : p_.y; }
  int columns(int images) const { return p_.n == 0 ? 0 : n_ / p_.n * images; }
  /// Whether the k of a row of w lie side by side.
  bool w_plain() const { return !data_ && p_.w_row_major; }

  Tensor packed_w(const Stream& stream, const Tensor& w, const Tensor& workspace) const {
    if (k_ == 0) return {};
    if (!p_.constant_w) {
      const Tensor result = packed(workspace);
      pack(stream, w, result);
      return result;
    }
    return constants_.get(stream, w, [&] {
      const Tensor kept(stream, {packed_count()}, real_type(p_));
      pack(stream, w, kept);
      return kept;
    });
  }
  void pack(const Stream& stream, const Tensor& w, const Tensor& to) const {
    const std::array<int, 5> strides = narrow(p_.w);
    Launch launch(stream, pack_);
    launch.arg(m_).arg(k_).arg(to).arg(w).arg(data_ ? p_.group_k() : p_.group_c());
    bind_each(launch, p_.w_space);
    launch.arg(w_plain() ? k_ : strides[data_ ? 1 : 0]).arg(strides[data_ ? 0 : 1]);
    bind_each(launch, Spatial{strides[2], strides[3], strides[4]});
    launch.run({panels(), static_cast<size_t>(ceil_div(k_, tiles_.kc)), static_cast<size_t>(p_.groups)},
               {1, 1, 1});
  }

  /// `count` images from `first` on.
  void multiply(const Stream& stream, const Tensor& a, const ConvTensors& t, int first, int count,
                const Tensor& workspace) const {
    const auto images = [&](const Tensor& x) {
      return count == p_.n || !x.defined() ? x : x.slice(0, first, first + count);
    };
    EpilogueTensors with = t.with;
    with.residual = images(with.residual), with.preactivation = images(with.preactivation);
    const int64_t extent = (data_ ? p_.y_extent : p_.x_extent) - first * source()[0];
    const int n = columns(count);
    Launch launch(stream, multiply_);
    launch.arg(m_).arg(n).arg(k_).arg(share_.columns).arg(share_.rows).arg(a);
    launch.arg(images(data_ ? t.y : t.x)).arg(static_cast<int>(extent));
    bind_each(launch, narrow(source()));
    launch.arg(data_ ? p_.group_k() : p_.group_c());
    const Spatial &x = p_.x_space, &y = p_.y_space;
    for (const Spatial& numbers : {data_ ? y : x, data_ ? x : y, p_.w_space, p_.stride, p_.pad, p_.dilation})
      bind_each(launch, numbers);
    launch.arg(images(data_ ? t.x : t.y));
    bind_each(launch, target());
    if (sums_apart(p_))
      launch.arg(workspace_part(workspace, sums_at_,
                                {image_sum_bytes(p_, tiles_) > 0 ? int64_t{p_.groups} * m_ * n : 0}));
    bind_epilogue(launch, 1, 0, with);
    launch.run({static_cast<size_t>(ceil_div(n, share_.columns)),
                static_cast<size_t>(ceil_div(m_, share_.rows)), static_cast<size_t>(p_.groups)},
               {1, 1, 1});
  }

  const bool data_;
  int slab_;  ///< images in a launch: their sums fit into the workspace
  size_t sums_at_ = 0;
  Constants constants_;
};

class CpuFilter : public CpuBase {
 public:
  CpuFilter(const Context& context, const ConvProblem& problem, const Options& options)
      : CpuBase(context, problem, options) {
    // A work-group takes all rows, so that what it gathers is gathered once.
    const int64_t strips = std::max<int64_t>(1, ceil_div(n_, tiles_.nr()));
    const int64_t blocks = ceil_div(strips * tiles_.nr(), tiles_.nc);
    share_.rows = static_cast<int>(round_up(std::max(1, m_), tiles_.mr));
    share_.columns = static_cast<int>(ceil_div(strips, blocks) * tiles_.nr());
    add_packed();
    const size_t real = size_of(real_type(p_));
    const auto room = static_cast<int64_t>(workspace_.rest(options).workspace_limit / real / 2);
    parts_ = conv_parts_for(k_, tiles_.kc, blocks * p_.groups, context.device(), int64_t{p_.groups} * m_ * n_,
                            room);
    sums_.emplace(context, p_, parts_.count, workspace_, ConvPartsForm{false, result_apart(p_)});
    build(context, "conv_cpu_filter", conv_defines(p_));
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor a = packed(workspace);
    const auto batch = static_cast<size_t>(p_.groups * parts_.count);
    if (k_ > 0) {
      Launch launch(stream, pack_);
      launch.arg(m_).arg(k_).arg(a).arg(parts_.steps).arg(t.y);
      bind_each(launch, p_.y);
      bind_each(launch, p_.y_space);
      launch.run({panels(), static_cast<size_t>(ceil_div(parts_.steps, tiles_.kc)), batch}, {1, 1, 1});
    }
    Launch launch(stream, multiply_);
    launch.arg(m_).arg(n_).arg(k_).arg(share_.columns).arg(share_.rows).arg(a).arg(parts_.steps);
    launch.arg(t.x).arg(static_cast<int>(p_.x_extent));
    bind_each(launch, narrow(p_.x));
    launch.arg(p_.group_c());
    for (const Spatial& numbers : {p_.x_space, p_.y_space, p_.w_space, p_.stride, p_.pad, p_.dilation})
      bind_each(launch, numbers);
    launch.arg(sums_->target(workspace, t.w));
    bind_epilogue(launch, 1, 0, {});
    launch.run({static_cast<size_t>(ceil_div(n_, share_.columns)),
                static_cast<size_t>(ceil_div(m_, share_.rows)), batch},
               {1, 1, 1});
    sums_->add_up(stream, workspace, t.w);
  }

 private:
  ConvParts parts_;
  std::optional<ConvPartSums> sums_;
};

std::string refuse(const Context& context, const ConvProblem& p, const Options& options) {
  std::string reason = refuse_gemm_cpu(context.device(), EngineRequest(options).names(kConvCpu.name));
  if (reason.empty()) reason = refuse_large(p);
  // Gathering whole rows still pays where it is all there is to do (2 x naive); gathering a filter's does not
  // (0.3 x).
  if (reason.empty() && p.direction == ConvDirection::backward_filter) reason = refuse_depthwise(p);
  if (!reason.empty()) return reason;
  const uint64_t least = least_bytes(p, tiles_for(context.device(), p, options));
  if (least > options.workspace_limit)
    return cat("needs ", least, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const Options& options) {
  if (problem.direction == ConvDirection::backward_filter)
    return std::make_unique<CpuFilter>(context, problem, options);
  return std::make_unique<CpuRows>(context, problem, options);
}

/// Half as long blocks of k (backward filter of 512 channels of 7 x 7: 7.5 against 8.0 ms), and twice as long
/// ones with as many numbers in the panels; exhaustively, smaller panels too.
std::vector<std::string> candidates(const Context& context, const ConvProblem& p, const Options& options) {
  std::vector<std::string> result = {kConvCpu.name};
  const GemmCpuTiles own = tiles_for(context.device(), p);
  const int64_t k = conv_gemm(p).k;
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

const ConvEngine kConvCpu = {"cpu", refuse, make, nullptr, candidates};

}  // namespace dlprim::detail
