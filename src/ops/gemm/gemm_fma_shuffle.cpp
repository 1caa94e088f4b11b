// GEMM engine `fma_shuffle`: multiply-adds with operands broadcast within a sub-group, for GPUs where that
// costs less than local memory and barriers. K is never taken in parts.
#include <algorithm>

#include "core/state.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmFmaShuffle;

namespace {

struct Tile {
  int tm = 16, tn = 32, tk = 8;  ///< of a sub-group, and the steps of k it takes at once
  int width = 8;                 ///< lanes of a sub-group
  int groups = 4;                ///< sub-groups of a work-group, below each other

  int64_t tiles(const GemmProblem& p) const { return ceil_div(p.m, tm) * ceil_div(p.n, tn) * p.batch; }
};

/// Sets those of the tile's sizes that the engine's name comes with.
void take(const EngineOptions& options, Tile& tile) {
  options.request.take(kGemmFmaShuffle.name, {{"tm", &tile.tm},
                                              {"tn", &tile.tn},
                                              {"tk", &tile.tk},
                                              {"width", &tile.width},
                                              {"groups", &tile.groups}});
}

/// The narrowest that fills a register of a GPU (8 floats) or a CPU; 0 if a kernel cannot demand it.
int width_for(const DeviceFacts& facts) {
  int best = 0;
  for (const int width : facts.sub_group_widths)
    if (width >= std::max(8, facts.float_vector_width) && (best == 0 || width < best)) best = width;
  return best;
}

/// The largest tile whose sums, with the elements on their way, fit the 128 registers of a thread, as a
/// compiler for such GPUs reports it; smaller ones where C has too few to keep every compute unit busy.
Tile choose(const Device& device, const GemmProblem& p, const EngineOptions& options) {
  Tile tile;
  tile.width = width_for(device.facts());
  take(options, tile);
  tile.tk = p.a.unit_k ? std::max(8, tile.width) : 4;
  tile.tn = std::max(32, tile.width);
  const bool large = p.a.unit_k ? !p.b.unit_k && p.dtype == DType::f32 : p.dtype != DType::i8;
  tile.tm = p.dtype == DType::f64 ? 8 : large ? 16 : 12;
  const int64_t enough = int64_t{4} * device.facts().compute_units;
  if (tile.tiles(p) < enough || p.m < tile.tm) tile.tm = 8;
  if (tile.tiles(p) < enough || p.n < tile.tn) tile.tn = std::max(16, tile.width);
  while (tile.tm > p.m && tile.tm > 1) tile.tm /= 2;
  take(options, tile);
  return tile;
}

struct Shuffle : Gemm::Impl {
  Shuffle(const Context& context, const GemmProblem& problem, const EngineOptions& options)
      : Impl(problem), tile(choose(context.device(), p, options)) {
    constexpr int kMostSums = 256;  // of a lane
    const auto divides = [](int a, int b) { return a > 0 && b > 0 && b % a == 0; };
    const bool steps = tile.tk == 4 || tile.tk == 8 || tile.tk == 16 || tile.tk == 32;
    const bool fits = divides(tile.width, tile.tn) && steps &&
                      (!p.a.unit_k || divides(tile.width, tile.tk)) && tile.tm > 0 &&
                      tile.tm <= kMostSums / (tile.tn / tile.width) && tile.groups > 0;
    require(fits, "engine", "tiles of ", tile.tm, "x", tile.tn, "x", tile.tk, " by ", tile.groups,
            " sub-groups of ", tile.width, " do not divide, or are too large");
    Defines defines = gemm_defines(p);
    defines.set("TM", tile.tm).set("TN", tile.tn).set("TK", tile.tk);
    defines.set("WIDTH", tile.width).set("GROUPS", tile.groups);
    const bool fours = p.dtype != DType::f64;  // of doubles `vectors` says it for twos
    // Every address is a multiple of 4 bytes; else those at even elements are, and an odd size moves a tile
    // to others.
    const bool words = size_of(p.dtype) == 4;
    defines.set("A_UNIT_K", p.a.unit_k).set("A_BLOCKS", words || p.a.vectors);
    defines.set("B_UNIT_K", p.b.unit_k).set("B_BLOCKS", words || p.b.vectors);
    defines.set("B_VECTOR", fours && p.b.vectors);
    kernel = context.state().programs.kernel("gemm_fma_shuffle", "gemm_fma_shuffle", defines);
  }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor&) const override {
    const auto items = static_cast<size_t>(tile.width * tile.groups);
    Launch launch(stream, kernel);
    bind_operands(launch, p, a, b, c);
    bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
    launch.run({static_cast<size_t>(ceil_div(p.n, tile.tn)) * items,
                static_cast<size_t>(ceil_div(p.m, tile.tm * tile.groups)), static_cast<size_t>(p.batch)},
               {items, 1, 1});
  }

  Tile tile;
  Kernel kernel;
};

std::string refuse(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  const Device& device = context.device();
  const Tile tile = choose(device, p, options);
  const std::vector<int>& widths = device.facts().sub_group_widths;
  if (tile.width == 0) return "needs sub-groups of a width that a kernel can demand, the device has none";
  if (tile.width > 1) {  // items alone are for all who ask
    if (std::find(widths.begin(), widths.end(), tile.width) == widths.end())
      return cat("needs sub-groups of ", tile.width, ", which a kernel cannot demand of the device");
    if (device.probes().sub_group_width == 0) return "needs sub-groups, which failed their probe";
  }
  return {};
}

std::string avoid(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  const Device& device = context.device();
  const DeviceFacts& facts = device.facts();
  if (facts.sharing != Sharing::sub_group)
    return cat("is for devices that share best by sub-groups, this one does by ", name_of(facts.sharing));
  return avoid_long_and_few(p, choose(device, p, options).tiles(p), facts.compute_units);
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<Shuffle>(context, problem, options);
}

}  // namespace

const GemmEngine kGemmFmaShuffle = {"fma_shuffle", refuse, make, avoid};

}  // namespace dlprim::detail
