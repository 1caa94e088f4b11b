// GEMM engine `fma`: multiply-adds on tiles that go through local memory, for GPUs. Where C has few tiles, K
// is taken in parts, whose sums a second pass adds in their order.
#include <algorithm>
#include <cmath>

#include "core/composed.hpp"
#include "ops/gemm/gemm_fma_tiles.hpp"
#include "ops/gemm/gemm_parts.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmFma;

namespace {

struct Candidate {
  GemmFmaTile tile;
  double alone,
      full;  ///< share of a unit's multiply-adds that a group reaches alone on it, and with others
};

constexpr Candidate kCandidates[] = {
    {{256, 128, 16, 16, 8}, 0.62, 0.8},
    {{128, 128, 8, 8, 8}, 0.6, 0.72},
    {{64, 64, 16, 8, 4}, 0.5, 0.67},
    {{32, 32, 16, 4, 4}, 0.2, 0.45},
};

// Of a GPU with 128 multiply-adds a clock and unit; ratios matter, not the unit.
constexpr double kMultiplyAdds = 128 * 1.7e3;  // a microsecond
constexpr double kLaunch = 3.7;                // microseconds
constexpr double kSecondPass = 3.7;            // and what its traffic takes,
constexpr double kSecondPassBytes = 8e6;       // at so many bytes a microsecond
constexpr int kLeastPart = 64;                 // steps of k

/// What only tuning tries: other ratios of the sides, deeper and shallower steps.
constexpr GemmFmaTile kMoreTiles[] = {
    {128, 256, 8, 8, 16}, {128, 128, 16, 8, 8}, {128, 64, 16, 8, 8}, {64, 128, 16, 8, 8}, {64, 64, 8, 4, 8},
};

struct Choice {
  GemmFmaTile tile;
  int parts = 1;
  double time = 0;  ///< predicted, in microseconds
};

uint64_t bytes_of_sum(const GemmProblem& p) {
  return size_of(gemm_sum_dtype(p));
}
int64_t bytes_of_sums(const GemmProblem& p) {
  return static_cast<int64_t>(bytes_of_sum(p)) * p.m * p.n * p.batch;
}

/// What a run would take, in microseconds. `units` share the tile's groups.
double predicted_time(const Candidate& candidate, const GemmProblem& p, int64_t parts, double units) {
  const auto& [tile, alone, full] = candidate;
  const int64_t tiles = ceil_div(p.m, tile.tm) * ceil_div(p.n, tile.tn) * p.batch;
  const double groups = static_cast<double>(tiles * parts) / units;
  // Up to four groups share a unit; beyond that, and alone, whole turns count.
  const double turns = groups <= 1 ? 1 : groups <= 4 ? groups : std::ceil(groups / 4) * 4;
  const double rate = alone + (full - alone) * std::min(1.0, (turns - 1) / 1.5);
  const auto steps = static_cast<double>(round_up(ceil_div(p.k, parts), tile.tk));
  double time = kLaunch + 1 + turns * steps * tile.tm * tile.tn / (kMultiplyAdds * rate);
  if (parts > 1) time += kSecondPass + static_cast<double>(2 * parts * bytes_of_sums(p)) / kSecondPassBytes;
  return time;
}

/// The parts of K predicted to be fastest with the tile.
Choice best_parts(const Candidate& candidate, const Device& device, const GemmProblem& p,
                  const Options& options) {
  const double units = std::max(1, device.facts().compute_units);
  const auto limit = static_cast<int64_t>(std::min<size_t>(options.workspace_limit, INT64_MAX));
  const GemmFmaTile& tile = candidate.tile;
  const int64_t tiles = ceil_div(p.m, tile.tm) * ceil_div(p.n, tile.tn) * p.batch;
  const int64_t most =
      std::min(ceil_div(p.k, kLeastPart), static_cast<int64_t>(8 * units) / std::max<int64_t>(1, tiles));
  Choice best;
  for (int64_t parts = 1; parts == 1 || (parts <= most && parts * bytes_of_sums(p) <= limit); parts *= 2) {
    const double time = predicted_time(candidate, p, parts, units);
    if (best.time == 0 || time < best.time) best = {tile, static_cast<int>(parts), time};
  }
  return best;
}

/// The tile and the parts of K predicted to be fastest; time is 0 if no tile fits the device.
Choice choose(const Context& context, const GemmProblem& p, const Options& options) {
  Choice best;
  for (const Candidate& candidate : kCandidates) {
    if (!refuse_gemm_fma_tile(context.device(), candidate.tile, bytes_of_sum(p)).empty()) continue;
    // Nothing is gained on a CPU, and its compiler takes seconds for a large tile.
    if (context.device().kind() == DeviceKind::cpu && &candidate != std::end(kCandidates) - 1) continue;
    const Choice choice = best_parts(candidate, context.device(), p, options);
    if (best.time == 0 || choice.time < best.time) best = choice;
  }
  return best;
}

struct Fma : Gemm::Impl {
  Fma(const Context& context, const GemmProblem& problem, const EngineOptions& options) : Impl(problem) {
    Choice choice = choose(context, p, options);
    tile = choice.tile;
    int parts = choice.parts;
    options.request.take(kGemmFma.name, {{"tm", &tile.tm},
                                         {"tn", &tile.tn},
                                         {"tk", &tile.tk},
                                         {"rm", &tile.rm},
                                         {"rn", &tile.rn},
                                         {"parts", &parts}});
    require_gemm_fma_tile(tile);
    const std::string refusal = refuse_gemm_fma_tile(context.device(), tile, bytes_of_sum(p));
    require(refusal.empty(), "engine", "fma ", refusal);
    require(parts > 0, "engine", "parts must be at least 1");
    steps = static_cast<int>(round_up(ceil_div(std::max(1, p.k), parts), tile.tk));
    count = static_cast<int>(std::max<int64_t>(1, ceil_div(p.k, steps)));

    Defines defines = gemm_defines(p), sizes = defines;
    tile.define(sizes);
    const bool f32 = p.dtype == DType::f32;
    sizes.set("A_UNIT_K", p.a.unit_k).set("A_VECTOR", f32 && p.a.vectors);
    sizes.set("B_UNIT_K", p.b.unit_k).set("B_VECTOR", f32 && p.b.vectors);
    sizes.set("C_VECTOR", f32 && (count > 1 ? p.n % 4 == 0 : p.c_vector >= 4)).set("PARTS", count > 1);
    kernel = context.state().programs.kernel("gemm_fma", "gemm_fma", sizes);
    if (count > 1) sums = GemmParts(context, p, count);
  }

  size_t workspace_size() const override { return count == 1 ? 0 : sums.bytes(p); }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor& workspace) const override {
    const auto items = static_cast<size_t>(tile.items());
    const Tensor partial = count == 1 ? Tensor() : workspace.reinterpret(gemm_sum_dtype(p));
    Launch launch(stream, kernel);
    bind_operands(launch, p, a, b, c);
    launch.arg(steps).arg(partial);
    bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
    launch.run({static_cast<size_t>(ceil_div(p.n, tile.tn)) * items,
                static_cast<size_t>(ceil_div(p.m, tile.tm)), static_cast<size_t>(int64_t{p.batch} * count)},
               {items, 1, 1});
    if (count > 1) sums.add_up(stream, p, partial, with, c);
  }

 private:
  GemmFmaTile tile;
  int steps = 0, count = 1;  ///< of K in a part, and parts
  Kernel kernel;
  GemmParts sums;
};

std::string refuse(const Context& context, const GemmProblem& p, const EngineOptions&) {
  std::string refusal;
  for (const Candidate& candidate : kCandidates) {
    refusal = refuse_gemm_fma_tile(context.device(), candidate.tile, bytes_of_sum(p));
    if (refusal.empty()) break;
  }
  return refusal;
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<Fma>(context, problem, options);
}

double predict(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  return choose(context, p, options).time;
}

std::string request_for(const GemmFmaTile& t, int parts) {
  return cat(kGemmFma.name, ":tm=", t.tm, ",tn=", t.tn, ",tk=", t.tk, ",rm=", t.rm, ",rn=", t.rn,
             ",parts=", parts);
}

/// The engine's own choice, every tile with the parts predicted for it, and the best of these with half and
/// twice as many. On a CPU the engine is the slower one whatever its tile is.
std::vector<std::string> candidates(const Context& context, const GemmProblem& p,
                                    const EngineOptions& options) {
  std::vector<std::string> result = {kGemmFma.name};
  const Device& device = context.device();
  if (device.kind() == DeviceKind::cpu) return result;
  const Choice best = choose(context, p, options);
  const auto add = [&](const GemmFmaTile& tile, int64_t parts) {
    const std::string request = request_for(tile, static_cast<int>(parts));
    const bool known = std::find(result.begin(), result.end(), request) != result.end();
    const bool fits = parts == 1 || parts * bytes_of_sums(p) <= static_cast<int64_t>(std::min<size_t>(
                                                                    options.workspace_limit, INT64_MAX));
    if (!known && fits && parts >= 1 && refuse_gemm_fma_tile(device, tile, bytes_of_sum(p)).empty())
      result.push_back(request);
  };
  add(best.tile, best.parts / 2);
  add(best.tile, best.parts * 2);
  if (options.tune == TuneMode::exhaustive) {
    for (int64_t parts = 1; parts <= 32; parts *= 2) {
      for (const Candidate& candidate : kCandidates) add(candidate.tile, parts);
      for (const GemmFmaTile& tile : kMoreTiles) add(tile, parts);
    }
    return result;
  }
  for (const Candidate& candidate : kCandidates)
    add(candidate.tile, best_parts(candidate, device, p, options).parts);
  for (const GemmFmaTile& tile : kMoreTiles)
    add(tile, best_parts({tile, kCandidates[1].alone, kCandidates[1].full}, device, p, options).parts);
  return result;
}

}  // namespace

void GemmFmaTile::define(Defines& defines) const {
  defines.set("TM", tm).set("TN", tn).set("TK", tk).set("RM", rm).set("RN", rn);
}

void require_gemm_fma_tile(const GemmFmaTile& t) {
  const auto divides = [](int a, int b) { return a > 0 && b % a == 0; };
  const bool fits = divides(4, t.rm) && divides(4, t.rn) && divides(t.rm, t.tm) && divides(t.rn, t.tn) &&
                    divides(t.tm, t.items()) && divides(t.tn, t.items()) && divides(4, t.tk) &&
                    divides(t.tk, t.items()) && divides(4 * t.items(), t.tm * t.tk) &&
                    divides(4 * t.items(), t.tn * t.tk);
  require(fits, "engine", "tiles of ", t.tm, "x", t.tn, "x", t.tk, " with ", t.rm, "x", t.rn,
          " an item do not divide");
}

std::string refuse_gemm_fma_tile(const Device& device, const GemmFmaTile& tile, uint64_t element) {
  const DeviceFacts& facts = device.facts();
  if (facts.max_work_group < tile.items())
    return cat("needs work-groups of ", tile.items(), ", the device has ", facts.max_work_group);
  const uint64_t bytes = tile.local_bytes() / sizeof(float) * element;
  if (facts.local_memory < bytes && device.probes().static_local_memory < bytes)
    return cat("needs ", bytes, " bytes of local memory, the device has ", facts.local_memory);
  return {};
}

const GemmEngine kGemmFma = {"fma", refuse, make, nullptr, predict, candidates};

}  // namespace dlprim::detail
