// GEMM engine `cpu`: work-groups of one work-item, explicit vectors, packed panels.
#include <algorithm>

#include "core/state.hpp"
#include "ops/gemm_cpu_tiles.hpp"
#include "ops/gemm_impl.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmCpu;

namespace {

constexpr int kPanelsInCache = 20;  // 20 panels of 12 x 256 floats are 240 KB
constexpr int kLeastBlock = 32;     // steps of k in a block, below which packing costs more than it saves
constexpr int64_t kMostColumns = 256;
/// Packing a strip of B takes about as long as multiplying it by so many panels of A.
constexpr double kPackingCost = 3;

/// Columns of B for which a panel of `kc` steps fits into half the local memory. (Drivers for CPUs keep it in
/// the cache, where A is to have room as well.)
int64_t panel_columns(const Device& device, int64_t kc, int64_t nr) {
  const auto floats = static_cast<int64_t>(device.facts().local_memory / 2 / sizeof(float));
  return std::min(kMostColumns, floats / kc) / nr * nr;
}

/// Bytes of packed A for `rows` rows.
int64_t packed_bytes(const GemmProblem& p, const GemmCpuTiles& tiles, int64_t rows) {
  return round_up(rows, tiles.mr) * p.k * static_cast<int64_t>(sizeof(float));
}

struct Cpu : Gemm::Impl {
  Cpu(const Context& context, const GemmProblem& problem, const Options& options)
      : Impl(problem), tiles(gemm_cpu_tiles_for(context.device(), p.m, p.n)) {
    slab = static_cast<int>(round_up(p.m, tiles.mr));
    const auto limit = static_cast<int64_t>(std::min<size_t>(options.workspace_limit, INT64_MAX));
    if (packed_bytes(p, tiles, slab) > limit)
      slab = static_cast<int>(limit / packed_bytes(p, tiles, tiles.mr)) * tiles.mr;
    share = gemm_cpu_share_for(tiles, context.device(), slab, p.n);

    Defines defines = gemm_defines(p);
    tiles.define(defines);
    defines.set("A_UNIT_K", p.a.unit_k).set("B_UNIT_K", p.b.unit_k);
    pack = context.state().programs.kernel("gemm_cpu", "gemm_pack_a", defines);
    multiply = context.state().programs.kernel("gemm_cpu", "gemm_cpu", defines);
  }

  size_t workspace_size() const override { return static_cast<size_t>(packed_bytes(p, tiles, slab)); }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor& workspace) const override {
    const Tensor packed = workspace.defined() ? workspace.reinterpret(DType::f32) : workspace;
    for (int64_t m0 = 0; m0 < p.m; m0 += slab) {
      const int64_t rows = std::min<int64_t>(slab, p.m - m0);
      EpilogueTensors slab_with = with;
      if (p.bias == GemmDesc::Vector::column) slab_with.bias = rows_of(with.bias, m0, rows);
      if (p.scale == GemmDesc::Vector::column) slab_with.scale = rows_of(with.scale, m0, rows);
      if (p.residual) slab_with.residual = rows_of(with.residual, m0, rows);
      if (p.preactivation) slab_with.preactivation = rows_of(with.preactivation, m0, rows);
      run_slab(stream, rows_of(a, m0, rows), b, slab_with, rows_of(c, m0, rows), packed);
    }
  }

 private:
  static Tensor rows_of(const Tensor& x, int64_t m0, int64_t rows) { return x.slice(0, m0, m0 + rows); }

  void run_slab(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
                const Tensor& c, const Tensor& packed) const {
    const auto rows = static_cast<int>(a.size(0));
    const auto panels = static_cast<size_t>(ceil_div(rows, tiles.mr)),
               blocks = static_cast<size_t>(ceil_div(p.k, tiles.kc));
    if (p.k > 0)
      Launch(stream, pack).arg(rows).arg(p.k).arg(packed).arg(a).arg(p.a.pitch).run({panels, blocks}, {1, 1});
    Launch launch(stream, multiply);
    launch.arg(rows).arg(p.n).arg(p.k).arg(share.columns).arg(share.rows).arg(packed).arg(b).arg(p.b.pitch);
    launch.arg(c).arg(p.ldc);
    bind_epilogue(launch, p.alpha, p.beta, with);
    launch.run(
        {static_cast<size_t>(ceil_div(p.n, share.columns)), static_cast<size_t>(ceil_div(rows, share.rows))},
        {1, 1});
  }

  GemmCpuTiles tiles;
  GemmCpuShare share{};
  int slab = 0;  ///< rows whose packed A fits into the workspace; a multiple of MR
  Kernel pack, multiply;
};

std::string refuse(const Context& context, const GemmProblem& p, const Options& options) {
  std::string reason = refuse_but_plain_f32(p);
  if (reason.empty()) reason = refuse_gemm_cpu(context.device(), EngineRequest(options).names(kGemmCpu.name));
  if (!reason.empty()) return reason;
  const GemmCpuTiles tiles = gemm_cpu_tiles_for(context.device(), p.m, p.n);
  const auto least = static_cast<uint64_t>(packed_bytes(p, tiles, std::min(p.m, tiles.mr)));
  if (least > options.workspace_limit)
    return cat("needs at least ", least, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const Options& options) {
  return std::make_unique<Cpu>(context, problem, options);
}

}  // namespace

void GemmCpuTiles::define(Defines& defines) const {
  defines.set("VW", vw).set("NV", nv).set("MR", mr).set("KC", kc).set("NC", nc).set("MC", mc);
}

GemmCpuTiles gemm_cpu_tiles_for(const Device& device, int64_t m, int64_t n) {
  GemmCpuTiles t;
  // The register tile: 24 accumulators of the 32 registers that come with 16 floats, 12 of 16 else.
  const bool wide = device.facts().float_vector_width >= 16;
  t.vw = wide && n > 8 ? 16 : 8;
  t.nv = n > t.vw ? 2 : 1;
  t.mr = wide ? (m > 8 ? 12 : 8) : (m > 4 ? 6 : 4);
  while (t.kc > kLeastBlock && panel_columns(device, t.kc, t.nr()) < 2 * t.nr()) t.kc /= 2;
  t.nc = static_cast<int>(panel_columns(device, t.kc, t.nr()));
  t.mc = t.mr * kPanelsInCache;
  return t;
}

GemmCpuShare gemm_cpu_share_for(const GemmCpuTiles& tiles, const Device& device, int64_t m, int64_t n,
                                int64_t batch) {
  const int64_t units = std::max(1, device.facts().compute_units);
  const int64_t strips = ceil_div(n, tiles.nr()), panels = ceil_div(m, tiles.mr);
  GemmCpuShare best{tiles.nr(), static_cast<int>(std::max<int64_t>(1, panels) * tiles.mr)};
  double best_time = -1;
  for (int64_t width = std::min<int64_t>(tiles.nc / tiles.nr(), strips); width >= 1; width--) {
    const int64_t blocks = ceil_div(strips, width);
    const int64_t most_parts = std::min(panels, std::max<int64_t>(1, ceil_div(4 * units, blocks * batch)));
    for (int64_t parts = 1; parts <= most_parts; parts++) {
      const int64_t height = ceil_div(panels, parts);
      const auto rounds = static_cast<double>(ceil_div(blocks * ceil_div(panels, height) * batch, units));
      const double time = rounds * static_cast<double>(width) * (static_cast<double>(height) + kPackingCost);
      if (best_time >= 0 && time >= best_time) continue;
      best_time = time;
      best = {static_cast<int>(width * tiles.nr()), static_cast<int>(height * tiles.mr)};
    }
  }
  return best;
}

std::string refuse_gemm_cpu(const Device& device, bool asked_by_name) {
  if (device.kind() != DeviceKind::cpu && !asked_by_name)
    return cat("is for CPUs, the device is a ", name_of(device.kind()));
  constexpr int64_t kWidestStrip = 32;
  if (panel_columns(device, kLeastBlock, kWidestStrip) == 0)
    return cat("needs ", 2 * kLeastBlock * kWidestStrip * sizeof(float),
               " bytes of local memory, the device has ", device.facts().local_memory);
  return {};
}

const GemmEngine kGemmCpu = {"cpu", refuse, make};

}  // namespace dlprim::detail
