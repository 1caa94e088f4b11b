// GEMM engine `nv_wgmma`: Hopper's warp-group matrix instructions fed by bulk tensor copies. f16 and bf16;
// f32 by three products of tf32 parts, or, where math allows, by tf32 alone.
#include <algorithm>

#include "core/composed.hpp"
#include "core/gen/wgmma.hpp"
#include "core/kernel_source.hpp"
#include "ops/gemm/gemm_nv_operand.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmNvWgmma;

namespace {

constexpr int kWarpGroups = 2, kTileM = 64 * kWarpGroups;
constexpr int64_t kMapBytes = 128;

struct Tile {
  int n = 0, stages = 0;
};
constexpr Tile kPlainTiles[] = {{256, 4}, {128, 5}, {64, 6}};
constexpr Tile kSplitTiles[] = {{192, 3}, {128, 4}, {64, 5}};

bool is_split(const GemmProblem& p, const Options& options) {
  return p.dtype == DType::f32 && options.math != MathMode::tf32;
}

bool is_tf32(const GemmProblem& p, const Options& options) {
  return p.dtype == DType::f32 && !is_split(p, options);
}

/// Tf32 in local memory must be contiguous along K. A may come through registers instead: where only B would
/// have to, the kernel computes C' = B' A'.
bool is_transposed(const GemmProblem& p, const Options& options) {
  return is_tf32(p, options) && p.a.unit_k && !p.b.unit_k;
}

GemmProblem as_computed(const GemmProblem& p, const Options& options) {
  GemmProblem result = p;
  if (!is_transposed(p, options)) return result;
  std::swap(result.m, result.n);
  std::swap(result.a, result.b);
  std::swap(result.constant_a, result.constant_b);
  return result;
}

struct Choice {
  Tile tile;
  double time = 0;  ///< predicted, in microseconds
};

/// In microseconds, as of an H200: launching, a turn (starting on a tile and storing it) and a step, the
/// latter two with what a column of the tile adds to them, and for each element of B splitting it first.
struct Costs {
  double launch, turn, turn_column, step, step_column, split;
};
constexpr Costs kPlainCosts = {3, 0.7, 0.0043, 0.27, 0.0016, 0},
                kSplitCosts = {9, 0, 0.035, 0.28, 0.006, 3e-6};
/// A turn that follows another one with parts begins while that one is stored: the share of `turn` that is
/// left, and what it takes more where A has K along rows.
constexpr double kLaterTurn = 0.55, kTurnedTurn = 10;

Choice choose(const GemmProblem& p, bool split, const Device& device) {
  const int64_t units = std::max(1, device.facts().compute_units);
  const Costs& cost = split ? kSplitCosts : kPlainCosts;
  const double before =
      p.constant_b ? kPlainCosts.launch : cost.launch + cost.split * static_cast<double>(p.n) * p.k * p.batch;
  const auto steps = static_cast<double>(ceil_div(p.k * static_cast<int64_t>(size_of(p.dtype)), 128));
  Choice best;
  for (const Tile& tile : split ? kSplitTiles : kPlainTiles) {
    const int64_t tiles = ceil_div(p.m, kTileM) * ceil_div(p.n, tile.n) * p.batch;
    const double begins = cost.turn + cost.turn_column * tile.n;
    const double later = split ? kLaterTurn * begins + (p.a.unit_k ? 0 : kTurnedTurn) : begins;
    const auto turns = static_cast<double>(ceil_div(tiles, units));
    const double time =
        before + begins + (turns - 1) * later + turns * steps * (cost.step + cost.step_column * tile.n);
    if (best.time == 0 || time < best.time) best = {tile, time};
  }
  return best;
}

/// Bulk copies need rows that start at multiples of 16 bytes and do not repeat.
bool can_be_copied(const GemmOperand& x, int64_t rows) {
  return x.aligned && (x.pitch > 0 || rows <= 1);
}

uint64_t local_bytes(const Tile& tile, bool split) {
  return static_cast<uint64_t>(tile.stages) * static_cast<uint64_t>(kTileM + tile.n * (split ? 2 : 1)) * 128;
}

/// Parameters that were asked for.
void require_tile(const Context& context, const Tile& tile, bool split, int band) {
  require(tile.n > 0 && tile.n <= 256 && tile.n % 64 == 0, "engine", "tn ", tile.n,
          " is none of 64, 128, 192, 256");
  require(tile.stages >= 2 && band >= 1, "engine", "stages ", tile.stages, " must be 2 or more, band ", band,
          " 1 or more");
  const uint64_t bytes = local_bytes(tile, split), room = context.device().probes().static_local_memory;
  require(bytes <= room, "engine", "needs ", bytes, " bytes of local memory, the device has ", room);
}

struct NvWgmma : Gemm::Impl {
  NvWgmma(const Context& context, const GemmProblem& problem, const EngineOptions& options)
      : Impl(as_computed(problem, options)),
        transposed(is_transposed(problem, options)),
        split(is_split(p, options)),
        tile(choose(p, split, context.device()).tile) {
    int band = 16;
    options.request.take(kGemmNvWgmma.name, {{"tn", &tile.n}, {"stages", &tile.stages}, {"band", &band}});
    require_tile(context, tile, split, band);
    const bool tf32 = is_tf32(p, options);
    a = NvOperand(context, p, p.a, p.m, can_be_copied(p.a, p.a.unit_k ? p.m : p.k), NvOperand::Form::one,
                  p.constant_a, parts);
    b = NvOperand(context, p, p.b, p.n, can_be_copied(p.b, p.b.unit_k ? p.n : p.k) && (p.b.unit_k || !tf32),
                  split ? NvOperand::Form::split : NvOperand::Form::one, p.constant_b, parts);
    tiles = ceil_div(p.m, kTileM) * ceil_div(p.n, tile.n) * p.batch;
    groups = std::min<int64_t>(tiles, std::max(1, context.device().facts().compute_units));
    maps_at = parts.add(static_cast<size_t>(kMapBytes * (groups * (split ? 3 : 2) + 1)));

    const GemmOperand &ra = a.as_read(), &rb = b.as_read();
    Defines defines = gemm_defines(p);
    defines.set("SPLIT", split)
        .set("TILE_N", tile.n)
        .set("STAGES", tile.stages)
        .set("WARP_GROUPS", kWarpGroups);
    defines.set("A_UNIT_K", ra.unit_k).set("B_UNIT_K", rb.unit_k).set("BAND", band);
    defines.set("C_BYTES", static_cast<int>(size_of(p.c_dtype)));
    defines.set("C_PAIRS", p.c_vector >= 2).set("C_WIDE", p.c_vector >= 8).set("C_TRANSPOSED", transposed);
    constexpr int kRoundingToTf32 = 11;
    if (tf32) defines.set("MAP_TYPE", kRoundingToTf32);
    if (p.dtype != DType::f32)
      defines.set("ELEMENT", "ushort")
          .set("ELEMENT_BYTES", 2)
          .set("MAP_TYPE", p.dtype == DType::f16 ? 6 : 10);
    const std::string source = fill_wgmma_slots(
        kernel_source("gemm_nv_wgmma"), {p.dtype, split, tile.n, ra.unit_k, rb.unit_k, tf32 && !ra.unit_k});
    kernel = context.state().programs.generated("gemm_nv_wgmma", source, "gemm_nv_wgmma", defines);
  }

  size_t workspace_size() const override { return parts.size(); }

  void run(const Stream& stream, const Tensor& first, const Tensor& second, const EpilogueTensors& with,
           const Tensor& c, const Tensor& workspace) const override {
    const Tensor &x = transposed ? second : first, &y = transposed ? first : second;
    const Tensor of_a = a.prepare(stream, x, workspace), of_b = b.prepare(stream, y, workspace);
    Launch launch(stream, kernel);
    launch.arg(p.m).arg(p.n).arg(p.k).arg(p.batch);
    launch.arg(a.part(0, x, of_a)).arg(a.as_read().pitch).arg(a.as_read().batch);
    launch.arg(b.part(0, y, of_b)).arg(b.as_read().pitch).arg(b.as_read().batch);
    launch.arg(split && p.k > 0 ? b.part(1, y, of_b) : Tensor()).arg(c).arg(p.ldc).arg(p.c_batch);
    if (split) {
      launch.arg(y).arg(p.b.unit_k ? int64_t{1} : p.b.pitch).arg(p.b.unit_k ? p.b.pitch : int64_t{1});
      launch.arg(p.b.batch).arg(b.ranges(of_b)).arg(b.range_count());
    }
    launch.arg(workspace_part(workspace, maps_at, {kMapBytes / 8}, DType::i64));
    bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
    launch.run({static_cast<size_t>(groups * 128 * kWarpGroups)}, {128 * kWarpGroups});
  }

  void forget_constants() const override {
    a.forget_constant();
    b.forget_constant();
  }

  const bool transposed, split;
  Tile tile;
  WorkspaceParts parts;
  NvOperand a, b;
  int64_t tiles = 0, groups = 0;
  size_t maps_at = 0;
  Kernel kernel;
};

std::string refuse(const Context& context, const GemmProblem& problem, const EngineOptions& options) {
  const GemmProblem p = as_computed(problem, options);
  const DeviceProbes& probes = context.device().probes();
  if (probes.matrix != MatrixEngine::nv_wgmma)
    return cat("needs the matrix engine nv_wgmma, the device has ", name_of(probes.matrix));
  if (p.dtype != DType::f32 && size_of(p.dtype) != 2)
    return cat("is for f32, f16 and bf16, the operands are ", name_of(p.dtype));
  const bool split = is_split(p, options);
  const uint64_t bytes = local_bytes(choose(p, split, context.device()).tile, split);
  if (bytes > probes.static_local_memory)
    return cat("needs ", bytes, " bytes of local memory, the device has ", probes.static_local_memory);
  return {};
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<NvWgmma>(context, problem, options);
}

/// The engine's own choice, then tiles and how many of them side by side follow each other, which
/// decides what of A and B is still in the cache.
std::vector<std::string> candidates(const Context&, const GemmProblem& p, const EngineOptions& options) {
  std::vector<std::string> result = {kGemmNvWgmma.name};
  for (const Tile& tile : is_split(p, options) ? kSplitTiles : kPlainTiles)
    for (const int band : {8, 16, 32})
      result.push_back(cat(kGemmNvWgmma.name, ":tn=", tile.n, ",stages=", tile.stages, ",band=", band));
  return result;
}

double predict(const Context& context, const GemmProblem& problem, const EngineOptions& options) {
  const GemmProblem p = as_computed(problem, options);
  return choose(p, is_split(p, options), context.device()).time;
}

}  // namespace

const GemmEngine kGemmNvWgmma = {"nv_wgmma", refuse, make, nullptr, predict, candidates};

}  // namespace dlprim::detail
