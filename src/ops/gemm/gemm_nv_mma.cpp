// GEMM engine `nv_mma`: a warp's matrix instructions, fed by asynchronous copies through local memory. f16,
// bf16 and i8; f32 by three products of tf32 parts, or, where math allows, by tf32 alone.
#include "ops/gemm/gemm_nv_operand.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmNvMma;

namespace {

struct Tile {
  int m = 0, n = 0, warps_m = 0, warps_n = 0, step_bytes = 0, stages = 0, b_parts = 1;
  int64_t items() const { return 32 * int64_t{warps_m} * warps_n; }
  uint64_t local_bytes() const {
    return static_cast<uint64_t>(stages * step_bytes) * static_cast<uint64_t>(m + b_parts * n);
  }
};

struct Candidate {
  Tile tile;
  double rate;  ///< share of the instructions' rate that full turns reach
};
constexpr Candidate kPlain[] = {
    {{128, 256, 2, 4, 128, 3}, 0.73},
    {{128, 128, 2, 2, 128, 3}, 0.68},
    {{64, 64, 2, 2, 128, 3}, 0.45},
};
constexpr Candidate kSplit[] = {
    {{128, 128, 4, 2, 128, 4, 2}, 0.72},
    {{128, 128, 4, 2, 128, 2, 2}, 0.6},  // for less local memory
    {{64, 64, 2, 2, 128, 3, 2}, 0.5},
};

/// Of f32 by parts, in microseconds: an element of A, of B, and of a tile that is stored.
constexpr double kNoted = 1e-6, kWritten = 3e-6, kStored = 4. / (128 * 128);

bool is_split(const GemmProblem& p, const Options& options) {
  return p.dtype == DType::f32 && options.math != MathMode::tf32;
}

struct Choice {
  Tile tile;
  double time = 0;  ///< predicted, in microseconds; 0 if no tile fits the device
};

std::string refuse_tile(const Device& device, const Tile& tile) {
  if (device.facts().max_work_group < tile.items())
    return cat("needs work-groups of ", tile.items(), ", the device has ", device.facts().max_work_group);
  if (tile.local_bytes() > device.probes().static_local_memory)
    return cat("needs ", tile.local_bytes(), " bytes of local memory, the device has ",
               device.probes().static_local_memory);
  return {};
}

Choice choose(const Context& context, const GemmProblem& p, bool split) {
  const Device& device = context.device();
  const int64_t units = std::max(1, device.facts().compute_units);
  // Operations in a microsecond of a unit, as of an H200; ratios matter.
  const double peak = split ? 0.8e6 : p.dtype == DType::f32 ? 2.4e6 : size_of(p.dtype) == 2 ? 4.9e6 : 9.7e6;
  Choice best;
  // Parts of A are noted, those of B written, before.
  const double of_a = static_cast<double>(p.m) * p.k * p.batch,
               of_b = static_cast<double>(p.n) * p.k * p.batch;
  const double before = split ? kNoted * (p.constant_a ? 0 : of_a) + kWritten * (p.constant_b ? 0 : of_b) : 0;
  const auto consider = [&](const Candidate& candidate) {
    const Tile& t = candidate.tile;
    if (!refuse_tile(device, t).empty()) return;
    const int64_t tiles = ceil_div(p.m, t.m) * ceil_div(p.n, t.n) * p.batch;
    const auto steps =
        static_cast<double>(round_up(p.k * static_cast<int64_t>(size_of(p.dtype)), t.step_bytes)) /
        static_cast<double>(size_of(p.dtype));
    const double turn = 2.0 * t.m * t.n * steps / (peak * candidate.rate);
    const double store = split ? kStored * t.m * t.n : 0;
    const double time = 5.5 + before + static_cast<double>(ceil_div(tiles, units)) * (2 + store + turn);
    if (best.time == 0 || time < best.time) best = {t, time};
  };
  if (split)
    for (const Candidate& candidate : kSplit) consider(candidate);
  else
    for (const Candidate& candidate : kPlain) consider(candidate);
  return best;
}

struct NvMma : Gemm::Impl {
  NvMma(const Context& context, const GemmProblem& problem, const EngineOptions& options)
      : Impl(problem), split(is_split(p, options)), tile(choose(context, p, split).tile) {
    int band = 16;
    options.request.take(kGemmNvMma.name, {{"tm", &tile.m},
                                           {"tn", &tile.n},
                                           {"wm", &tile.warps_m},
                                           {"wn", &tile.warps_n},
                                           {"step", &tile.step_bytes},
                                           {"stages", &tile.stages},
                                           {"band", &band}});
    tile.b_parts = split ? 2 : 1;
    require_tile(tile, split);
    const std::string refusal = refuse_tile(context.device(), tile);
    require(refusal.empty(), "engine", refusal);
    const auto straight = [&](const GemmOperand& x) {
      return x.aligned && (x.unit_k || !(split || p.dtype == DType::i8));
    };
    a = NvOperand(context, p, p.a, p.m, straight(p.a), split ? NvOperand::Form::noted : NvOperand::Form::one,
                  p.constant_a, parts);
    b = NvOperand(context, p, p.b, p.n, straight(p.b), split ? NvOperand::Form::split : NvOperand::Form::one,
                  p.constant_b, parts);

    Defines defines = gemm_defines(p);
    defines.set("SPLIT", split).set("ELEMENT_BYTES", static_cast<int>(size_of(p.dtype))).set("BAND", band);
    defines.set("TILE_M", tile.m).set("TILE_N", tile.n);
    defines.set("WARPS_M", tile.warps_m).set("WARPS_N", tile.warps_n);
    defines.set("STEP_BYTES", tile.step_bytes).set("STAGES", tile.stages);
    defines.set("A_UNIT_K", a.as_read().unit_k).set("B_UNIT_K", b.as_read().unit_k);
    defines.set("C_BYTES", static_cast<int>(size_of(p.c_dtype)));
    defines.set("C_PAIRS", p.c_vector >= 2).set("C_WIDE", p.c_vector >= 8);
    kernel = context.state().programs.kernel("gemm_nv_mma", "gemm_nv_mma", defines);
  }

  size_t workspace_size() const override { return parts.size(); }

  void run(const Stream& stream, const Tensor& x, const Tensor& y, const EpilogueTensors& with,
           const Tensor& c, const Tensor& workspace) const override {
    const Tensor of_a = a.prepare(stream, x, workspace), of_b = b.prepare(stream, y, workspace);
    Launch launch(stream, kernel);
    launch.arg(p.m).arg(p.n).arg(p.k);
    launch.arg(a.part(0, x, of_a)).arg(a.as_read().pitch).arg(a.as_read().batch);
    launch.arg(b.part(0, y, of_b)).arg(b.as_read().pitch).arg(b.as_read().batch);
    launch.arg(c).arg(p.ldc).arg(p.c_batch);
    if (split) {
      launch.arg(p.k > 0 ? b.part(1, y, of_b) : Tensor());
      launch.arg(a.ranges(of_a)).arg(a.range_count()).arg(b.ranges(of_b)).arg(b.range_count());
    }
    bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
    const auto items = static_cast<size_t>(tile.items());
    const int64_t tiles = ceil_div(p.m, tile.m) * ceil_div(p.n, tile.n) * p.batch;
    launch.run({static_cast<size_t>(tiles) * items}, {items});
  }

  void forget_constants() const override {
    a.forget_constant();
    b.forget_constant();
  }

 private:
  /// What the kernel's fragments and copies need.
  static void require_tile(const Tile& t, bool split) {
    const auto divides = [](int64_t a, int64_t b) { return a > 0 && b % a == 0; };
    const bool fits = t.warps_m > 0 && t.warps_n > 0 && divides(16 * int64_t{t.warps_m}, t.m) &&
                      divides(32 * int64_t{t.warps_n}, t.n) && divides(64, t.m) && divides(64, t.n) &&
                      (t.step_bytes == 128 || (t.step_bytes == 64 && !split)) && t.stages >= 2 &&
                      divides(16 * t.items(), int64_t{t.m} * t.step_bytes) &&
                      divides(16 * t.items(), int64_t{t.n} * t.step_bytes);
    require(fits, "engine", "tiles of ", t.m, "x", t.n, " by ", t.warps_m, "x", t.warps_n, " warps, ",
            t.step_bytes, " bytes of k a step and ", t.stages, " stages do not divide");
  }

  const bool split;
  Tile tile;
  WorkspaceParts parts;
  NvOperand a, b;
  Kernel kernel;
};

std::string refuse(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  const Device& device = context.device();
  const MatrixEngine matrix = device.probes().matrix;
  if (matrix != MatrixEngine::nv_mma && matrix != MatrixEngine::nv_wgmma)
    return cat("needs the matrix engine nv_mma, the device has ", name_of(matrix));
  if (p.dtype == DType::f64) return "is for f32, f16, bf16 and i8, the operands are f64";
  if (choose(context, p, is_split(p, options)).time == 0) return refuse_tile(device, kSplit[2].tile);
  return {};
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<NvMma>(context, problem, options);
}

double predict(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  return choose(context, p, is_split(p, options)).time;
}

std::vector<std::string> candidates(const Context& context, const GemmProblem& p,
                                    const EngineOptions& options) {
  std::vector<std::string> result = {kGemmNvMma.name};
  // Where there are warp-group instructions, these rarely win: more than one try is not worth the time.
  if (context.device().probes().matrix != MatrixEngine::nv_mma) return result;
  const auto add = [&](const Candidate& candidate) {
    const Tile& t = candidate.tile;
    if (refuse_tile(context.device(), t).empty())
      result.push_back(cat(kGemmNvMma.name, ":tm=", t.m, ",tn=", t.n, ",wm=", t.warps_m, ",wn=", t.warps_n,
                           ",step=", t.step_bytes, ",stages=", t.stages));
  };
  if (is_split(p, options))
    for (const Candidate& candidate : kSplit) add(candidate);
  else
    for (const Candidate& candidate : kPlain) add(candidate);
  return result;
}

}  // namespace

const GemmEngine kGemmNvMma = {"nv_mma", refuse, make, nullptr, predict, candidates};

}  // namespace dlprim::detail
