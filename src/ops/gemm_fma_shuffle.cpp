// GEMM engine `fma_shuffle`: multiply-adds with operands broadcast within a sub-group, for GPUs where that
// costs less than local memory and barriers. K is never taken in parts.
#include <algorithm>

#include "core/state.hpp"
#include "ops/gemm_impl.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmFmaShuffle;

namespace {

struct Tile {
  int tm = 16, tn = 32, tk = 8;  ///< of a sub-group, and the steps of k it takes at once
  int width = 8;                 ///< lanes of a sub-group
  int groups = 4;                ///< sub-groups of a work-group, below each other

  int items() const { return width * groups; }
  int64_t tiles(const GemmProblem& p) const { return ceil_div(p.m, tm) * ceil_div(p.n, tn) * p.batch; }
};

/// The narrowest that fills a register of a GPU (8 floats) or a CPU; 0 if a kernel cannot demand it.
int width_for(const Device& device) {
  const DeviceFacts& facts = device.facts();
  int best = 0;
  for (const int width : facts.sub_group_widths)
    if (width >= std::max(8, facts.float_vector_width) && (best == 0 || width < best)) best = width;
  return best;
}

Tile choose(const Device& device, const GemmProblem& p) {
  Tile tile;
  tile.width = std::max(1, width_for(device));
  tile.tk = std::max(8, tile.width);
  tile.tn = std::max(32, tile.width);
  const int64_t enough = int64_t{4} * device.facts().compute_units;
  if (tile.tiles(p) < enough) tile.tm = 8;
  if (tile.tiles(p) < enough) tile.tn = std::max(16, tile.width);
  return tile;
}

struct Shuffle : Gemm::Impl {
  Shuffle(const Context& context, const GemmProblem& problem, const Options& options)
      : Impl(problem), tile(choose(context.device(), p)) {
    take(options, tile);
    const auto divides = [](int a, int b) { return a > 0 && b > 0 && b % a == 0; };
    const bool fits = tile.tm > 0 && divides(tile.width, tile.tn) && divides(tile.width, tile.tk) &&
                      divides(4, tile.tk) && tile.groups > 0 && tile.items() <= kernel_limit(context);
    require(fits, "engine", "tiles of ", tile.tm, "x", tile.tn, "x", tile.tk, " by ", tile.groups,
            " sub-groups of ", tile.width, " do not divide");
    Defines defines = gemm_defines(p);
    defines.set("TM", tile.tm).set("TN", tile.tn).set("TK", tile.tk);
    defines.set("WIDTH", tile.width).set("GROUPS", tile.groups);
    const bool fours = p.dtype != DType::f64;  // four doubles need more than 16-byte alignment
    const bool words = size_of(p.dtype) == 4;  // every address is a multiple of 4 bytes
    defines.set("A_UNIT_K", p.a.unit_k).set("A_BLOCKS", words || p.a.aligned);
    defines.set("B_UNIT_K", p.b.unit_k).set("B_BLOCKS", words || p.b.aligned);
    defines.set("B_VECTOR", fours && p.b.vectors);
    kernel = context.state().programs.kernel("gemm_fma_shuffle", "gemm_fma_shuffle", defines);
  }

  /// Sets those of the tile's sizes that the engine's name comes with.
  static void take(const Options& options, Tile& tile) {
    const EngineRequest request(options);
    if (request.names(kGemmFmaShuffle.name))
      request.take({{"tm", &tile.tm},
                    {"tn", &tile.tn},
                    {"tk", &tile.tk},
                    {"width", &tile.width},
                    {"groups", &tile.groups}});
  }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
           const Tensor&) const override {
    const auto items = static_cast<size_t>(tile.items());
    Launch launch(stream, kernel);
    launch.arg(p.m).arg(p.n).arg(p.k).arg(a).arg(p.a.pitch).arg(p.a.batch).arg(b).arg(p.b.pitch).arg(
        p.b.batch);
    launch.arg(c).arg(p.ldc).arg(p.c_batch).arg(p.alpha).arg(p.beta).arg(bias);
    launch.run({static_cast<size_t>(ceil_div(p.n, tile.tn)) * items,
                static_cast<size_t>(ceil_div(p.m, tile.tm * tile.groups)), static_cast<size_t>(p.batch)},
               {items, 1, 1});
  }

  Tile tile;
  Kernel kernel;

 private:
  static int kernel_limit(const Context& context) { return context.device().facts().max_work_group; }
};

std::string refuse(const Context& context, const GemmProblem& p, const Options& options) {
  const DeviceFacts& facts = context.device().facts();
  const std::vector<int>& widths = facts.sub_group_widths;
  const bool by_name = EngineRequest(options).names(kGemmFmaShuffle.name);
  if (!by_name && facts.sharing != Sharing::sub_group)
    return cat("is for devices that share best by sub-groups, this one does by ", name_of(facts.sharing));
  Tile tile = choose(context.device(), p);
  tile.width = width_for(context.device());
  Shuffle::take(options, tile);
  // Items alone (width 1) need no sub-groups: for those who ask.
  if (tile.width != 1 && std::find(widths.begin(), widths.end(), tile.width) == widths.end())
    return tile.width == 0 ? cat("needs sub-groups of a width that a kernel can demand, the driver has none")
                           : cat("needs sub-groups of ", tile.width, ", a kernel cannot demand them");
  return by_name ? std::string() : refuse_long_and_few(p, tile.tiles(p), facts.compute_units);
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const Options& options) {
  return std::make_unique<Shuffle>(context, problem, options);
}

}  // namespace

const GemmEngine kGemmFmaShuffle = {"fma_shuffle", refuse, make};

}  // namespace dlprim::detail
