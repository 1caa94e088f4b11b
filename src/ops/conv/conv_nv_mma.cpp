// Convolution engine `nv_mma`: implicit GEMM by a warp's matrix instructions, in three directions, pieces of
// 16 bytes gathered by asynchronous copies. f16 and bf16; f32 by three products of tf32 parts, or, where math
// allows, by tf32 alone. By name only where there is nv_wgmma, which is faster.
#include "ops/conv/conv_nv_mma.hpp"

#include <algorithm>
#include <climits>

#include "ops/conv/conv_nv_pieces.hpp"
#include "ops/conv/conv_parts.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvNvMma;

namespace {

constexpr int kLikelyParts = 64;  // of backward filter: a tile's waste at the edges counts
constexpr int kLeastSteps = 256;  // in a part

using Tile = ConvNvMmaTile;

// As GEMM's; tiles of 64 columns, for few channels, are no faster than the smallest of them.
constexpr Tile kPlain[] = {
    {128, 256, 2, 4, 3, 0.73}, {128, 128, 2, 2, 3, 0.68}, {128, 64, 4, 1, 3, 0.45}, {64, 64, 2, 2, 3, 0.45}};
constexpr Tile kSplit[] = {
    {128, 128, 4, 2, 4, 0.72}, {128, 128, 4, 2, 2, 0.6}, {128, 64, 4, 1, 3, 0.5}, {64, 64, 2, 2, 3, 0.5}};

bool is_split(const ConvProblem& p, const Options& options) {
  return p.dtype == DType::f32 && options.math != MathMode::tf32;
}

std::string refuse_tile(const Device& device, const Tile& tile) {
  if (device.facts().max_work_group < tile.items())
    return cat("needs work-groups of ", tile.items(), ", the device has ", device.facts().max_work_group);
  if (tile.local_bytes() > device.probes().static_local_memory)
    return cat("needs ", tile.local_bytes(), " bytes of local memory, the device has ",
               device.probes().static_local_memory);
  return {};
}

/// The product for each group and phase.
struct Product {
  explicit Product(const ConvGather& gather)
      : m(gather.filter() ? gather.target_channels : gather.source_rows()),
        n(gather.filter() ? gather.source_rows() : gather.target_channels),
        k(gather.steps()) {}
  int64_t m, n, k;
};

/// The tile predicted to be fastest; none if none fits the device.
Tile choose(const Context& context, const ConvProblem& p, bool split) {
  const ConvGather gather(p);
  const Product g(gather);
  const int64_t batch = p.groups * (gather.filter() ? kLikelyParts : gather.phases());
  const int64_t units = std::max(1, context.device().facts().compute_units);
  Tile best;
  double best_time = 0;
  const auto consider = [&](const Tile& tile) {
    if (!refuse_tile(context.device(), tile).empty()) return;
    const int64_t tiles = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * batch;
    const double time = static_cast<double>(ceil_div(tiles, units)) * tile.m * tile.n / tile.rate;
    if (best_time == 0 || time < best_time) best = tile, best_time = time;
  };
  if (split)
    for (const Tile& tile : kSplit) consider(tile);
  else
    for (const Tile& tile : kPlain) consider(tile);
  return best;
}

}  // namespace

void round_up_channels(ConvGather& gather, const ConvProblem& p) {
  gather.channels = static_cast<int>(round_up(gather.channels, static_cast<int64_t>(16 / size_of(p.dtype))));
  gather.channels_last = true;
}

Defines conv_nv_mma_defines(const ConvProblem& p, const ConvGather& gather, const ConvNvMmaTile& tile,
                            bool split, bool unit_source) {
  const auto piece = static_cast<int>(16 / size_of(p.dtype));
  const bool filter = gather.filter(), last = filter || gather.target.strides[1] <= 1;
  Defines defines = conv_defines(p, last ? ConvChannels::columns : ConvChannels::rows);
  gather.define(defines);
  defines.set("SPLIT", split).set("ELEMENT_BYTES", static_cast<int>(size_of(p.dtype)));
  defines.set("TILE_M", tile.m).set("TILE_N", tile.n).set("STAGES", tile.stages);
  defines.set("WARPS_M", tile.warps_m).set("WARPS_N", tile.warps_n);
  defines.set("RAGGED", p.group_c() % piece != 0 || p.group_k() % piece != 0);
  if (!filter) defines.set("B_UNIT_K", unit_source);
  const bool aligned = p.direction == ConvDirection::backward_data ? p.x_aligned : p.y_aligned;
  const int64_t vector =
      filter || !last ? 1 : conv_result_vector(p, gather.target_channels, gather.target.strides, aligned);
  defines.set("C_BYTES", static_cast<int>(size_of(p.result_dtype))).set("C_TRANSPOSED", !last);
  return defines.set("C_PAIRS", vector >= 2).set("C_WIDE", vector >= 8);
}

namespace {

class NvMma : public ConvImpl {
 public:
  NvMma(const Context& context, const ConvProblem& problem, const EngineOptions& options)
      : p_(problem), gather_(p_), split_(is_split(p_, options)), tile_(choose(context, p_, split_)) {
    int parts = 0;
    options.request.take(kConvNvMma.name, {{"tm", &tile_.m},
                                           {"tn", &tile_.n},
                                           {"wm", &tile_.warps_m},
                                           {"wn", &tile_.warps_n},
                                           {"stages", &tile_.stages},
                                           {"parts", &parts}});
    require_tile(context);
    const bool data = p_.direction == ConvDirection::backward_data;
    round_up_channels(gather_, p_);
    source_.emplace(context, p_, data, gather_.source, workspace_);
    if (gather_.filter())
      target_.emplace(context, p_, true, gather_.target, workspace_);
    else
      weights_.emplace(context, p_, gather_, workspace_);
    const Product g(gather_);
    m_ = static_cast<int>(g.m), n_ = static_cast<int>(g.n), k_ = static_cast<int>(g.k);
    if (gather_.filter()) plan_parts(context, options, parts);
    const bool unit_source = !weights_ || weights_->unit_source();
    kernel_ = context.state().programs.kernel("conv_nv_mma", "gemm_nv_mma",
                                              conv_nv_mma_defines(p_, gather_, tile_, split_, unit_source));
  }

  size_t workspace_size() const override { return workspace_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const bool data = p_.direction == ConvDirection::backward_data;
    const Tensor source = source_->prepare(stream, data ? t.y : t.x, workspace);
    const Tensor other =
        target_ ? target_->prepare(stream, t.y, workspace) : weights_->prepare(stream, t.w, workspace);
    Launch launch(stream, kernel_);
    launch.arg(m_).arg(n_).arg(k_).arg(source).arg(other);
    if (sums_)
      launch.arg(sums_->partial(workspace)).arg(parts_.count).arg(parts_.steps);
    else
      launch.arg(data ? t.x : t.y);
    launch.arg(data ? p_.group_k() : p_.group_c()).arg(gather_.shape());
    bind_epilogue(launch, p_.dtype, t.with);
    const int64_t tiles =
        ceil_div(m_, tile_.m) * ceil_div(n_, tile_.n) * p_.groups * (sums_ ? parts_.count : gather_.phases());
    const auto items = static_cast<size_t>(tile_.items());
    launch.run({static_cast<size_t>(tiles) * items}, {items});
    if (sums_) sums_->add_up(stream, workspace, t.w);
  }

  void forget_constants() const override {
    if (weights_) weights_->forget_constants();
  }

 private:
  /// What the kernel's fragments and copies need.
  void require_tile(const Context& context) const {
    const Tile& t = tile_;
    const auto divides = [](int64_t a, int64_t b) { return a > 0 && b % a == 0; };
    const bool fits = t.warps_m > 0 && t.warps_n > 0 && divides(16 * int64_t{t.warps_m}, t.m) &&
                      divides(32 * int64_t{t.warps_n}, t.n) && divides(64, t.m) && divides(64, t.n) &&
                      t.stages >= 2 && divides(16 * t.items(), int64_t{t.m} * Tile::kStepBytes) &&
                      divides(16 * t.items(), int64_t{t.n} * Tile::kStepBytes);
    require(fits, "engine", "tiles of ", t.m, "x", t.n, " by ", t.warps_m, "x", t.warps_n, " warps and ",
            t.stages, " stages do not divide");
    const std::string refusal = refuse_tile(context.device(), t);
    require(refusal.empty(), "engine", refusal);
  }

  void plan_parts(const Context& context, const Options& options, int asked) {
    const int64_t tiles = ceil_div(m_, tile_.m) * ceil_div(n_, tile_.n) * p_.groups;
    const int64_t results = int64_t{p_.k} * p_.group_c() * p_.taps();
    parts_ = conv_parts_for(k_, kLeastSteps, tiles, context.device(), results,
                            static_cast<int64_t>(options.workspace_limit / sizeof(float) / 2));
    if (asked > 0) {
      parts_.steps = static_cast<int>(round_up(ceil_div(k_, asked), 64));
      parts_.count = static_cast<int>(ceil_div(k_, parts_.steps));
    }
    sums_.emplace(context, p_, parts_.count, workspace_, ConvPartsForm{true, true});
  }

  const ConvProblem p_;
  ConvGather gather_;
  const bool split_;
  Tile tile_;
  int m_ = 0, n_ = 0, k_ = 0;
  WorkspaceParts workspace_;
  std::optional<ConvNvPixels> source_, target_;
  std::optional<ConvNvMmaWeights> weights_;
  ConvParts parts_;
  std::optional<ConvPartSums> sums_;  ///< backward filter
  Kernel kernel_;
};

/// Of operands with channels rounded up to pieces.
std::string refuse_packed(const ConvProblem& p) {
  constexpr int64_t most = INT_MAX - (1 << 16);
  const auto piece = static_cast<int64_t>(16 / size_of(p.dtype));
  const int64_t c = round_up(p.group_c(), piece) * p.groups, k = round_up(p.group_k(), piece) * p.groups;
  for (const int64_t elements : {p.n * p.x_pixels() * c, p.n * p.y_pixels() * k, p.taps() * c * k / p.groups})
    if (elements > most) return cat("would pack ", elements, " elements, counts up to ", most);
  return {};
}

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  const Device& device = context.device();
  const MatrixEngine matrix = device.probes().matrix;
  if (matrix != MatrixEngine::nv_mma && matrix != MatrixEngine::nv_wgmma)
    return cat("needs the matrix engine nv_mma, the device has ", name_of(matrix));
  if (p.dtype == DType::f64) return "is for f32, f16 and bf16, the operands are f64";
  if (p.n == 0 || p.c == 0 || p.k == 0 || p.x_pixels() == 0) return "has an empty side";
  std::string reason = refuse_large(p);
  if (reason.empty()) reason = refuse_depthwise(p);
  if (reason.empty()) reason = refuse_packed(p);
  if (reason.empty() && choose(context, p, is_split(p, options)).m == 0)
    reason = refuse_tile(device, is_split(p, options) ? kSplit[3] : kPlain[3]);
  return reason;
}

std::string avoid(const Context& context, const ConvProblem&, const EngineOptions&) {
  const bool newer = context.device().probes().matrix == MatrixEngine::nv_wgmma;
  return newer ? "is for devices without nv_wgmma" : "";
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  return std::make_unique<NvMma>(context, problem, options);
}

}  // namespace

const ConvEngine kConvNvMma = {"nv_mma", refuse, make, avoid};

}  // namespace dlprim::detail
