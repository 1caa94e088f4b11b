// Tile sizes for a CPU's registers and caches, and shares for its compute units.
#include "ops/gemm/gemm_cpu_tiles.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/text.hpp"

namespace dlprim::detail {
namespace {

constexpr int kMostPanels = 20;  // 20 panels of 12 x 256 floats are 240 KB
constexpr int kLeastBlock = 32;  // steps of k in a block, below which packing costs more than it saves
/// Columns of a panel of B: the more, the less often A is packed. Where all of A is packed at once, fewer are
/// faster (64 x 2048 x 2048: 156 against 137 GFLOP/s).
constexpr int64_t kMostColumns = 512, kColumnsForLittleA = 256;
/// Packing a strip of B takes about as long as multiplying it by so many panels of A; and packing a panel of
/// A as multiplying it by so many strips.
constexpr double kPackingB = 3, kPackingA = 1;

/// Drivers for CPUs keep local memory in a core's own cache, of which they tell the size: half of it is for
/// B, a quarter for A, the rest for what passes through.
int64_t numbers_of_b(const Device& device, uint64_t real) {
  return static_cast<int64_t>(device.facts().local_memory / 2 / real);
}

int64_t panel_columns(const Device& device, int64_t kc, int64_t nr, uint64_t real) {
  return std::min(kMostColumns, numbers_of_b(device, real) / kc) / nr * nr;
}

}  // namespace

void GemmCpuTiles::define(Defines& defines) const {
  defines.set("VW", vw).set("NV", nv).set("MR", mr).set("KC", kc).set("NC", nc).set("MC", mc);
  defines.set("FETCHES", fetches);
}

GemmCpuTiles gemm_cpu_tiles_for(const Device& device, int64_t m, int64_t n, uint64_t real) {
  GemmCpuTiles t;
  t.fetches = device.kind() == DeviceKind::cpu;
  // The register tile: 24 accumulators of the 32 registers that come with 64 bytes each, 12 of 16 else.
  const bool wide = device.facts().float_vector_width >= 16;
  const int most = static_cast<int>((wide ? 64 : 32) / real);
  t.vw = most == 16 && n <= 8 ? 8 : std::max(most, 4);
  t.nv = n > t.vw ? 2 : 1;
  t.mr = wide ? (m > 8 ? 12 : 8) : (m > 4 ? 6 : 4);
  while (t.kc > kLeastBlock && panel_columns(device, t.kc, t.nr(), real) < 2 * t.nr()) t.kc /= 2;
  t.nc = static_cast<int>(panel_columns(device, t.kc, t.nr(), real));
  t.mc = t.mr *
         static_cast<int>(std::clamp<int64_t>(numbers_of_b(device, real) / 2 / t.kc / t.mr, 1, kMostPanels));
  if (m <= t.mc) t.nc = static_cast<int>(std::min<int64_t>(t.nc, kColumnsForLittleA));
  return t;
}

void GemmCpuShare::run(Launch& launch, int64_t m, int64_t n, int64_t batch) const {
  launch.run({static_cast<size_t>(ceil_div(n, columns)), static_cast<size_t>(ceil_div(m, rows)),
              static_cast<size_t>(batch)},
             {1, 1, 1});
}

GemmCpuShare gemm_cpu_share_for(const GemmCpuTiles& tiles, const Device& device, int64_t m, int64_t n,
                                int64_t batch, GemmCpuPacking packing) {
  const int64_t units = std::max(1, device.facts().compute_units);
  batch = std::max<int64_t>(1, batch);  // a batch of none is shared out like one: work is divided by it
  const int64_t strips = ceil_div(n, tiles.nr()), panels = ceil_div(m, tiles.mr);
  GemmCpuShare best{tiles.nr(), static_cast<int>(std::max<int64_t>(1, panels) * tiles.mr)};
  double best_time = -1;
  for (int64_t width = std::min<int64_t>(tiles.nc / tiles.nr(), strips); width >= 1; width--) {
    const int64_t blocks = ceil_div(strips, width);
    const int64_t most_parts = std::min(panels, std::max<int64_t>(1, ceil_div(4 * units, blocks * batch)));
    for (int64_t parts = 1; parts <= most_parts; parts++) {
      const int64_t height = ceil_div(panels, parts);
      const auto rounds = static_cast<double>(ceil_div(blocks * ceil_div(panels, height) * batch, units));
      const auto w = static_cast<double>(width), h = static_cast<double>(height);
      const double time =
          rounds * (w * h + (packing.b ? w * kPackingB : 0) + (packing.a ? h * kPackingA : 0));
      if (best_time >= 0 && time >= best_time) continue;
      best_time = time;
      best = {static_cast<int>(width * tiles.nr()), static_cast<int>(height * tiles.mr)};
    }
  }
  return best;
}

std::string refuse_gemm_cpu(const Device& device) {
  constexpr int64_t kWidestStrip = 32;
  if (panel_columns(device, kLeastBlock, kWidestStrip, sizeof(float)) == 0)
    return cat("needs ", 2 * kLeastBlock * kWidestStrip * sizeof(float),
               " bytes of local memory, the device has ", device.facts().local_memory);
  return {};
}

}  // namespace dlprim::detail
