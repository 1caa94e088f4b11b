// GEMM engine `tile`: multiply-adds on tiles that go through local memory, for GPUs. Where C has few tiles, K
// is taken in parts, whose sums a second pass adds in their order.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/gemm_impl.hpp"
#include "ops/gemm_tile_sizes.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmTile;

namespace {

struct Candidate {
  GemmTile tile;
  double rate;  ///< of multiply-adds on a full device, relative to the first one's
};

constexpr Candidate kCandidates[] = {
    {{128, 128, 8, 8, 8}, 1.0},
    {{64, 64, 16, 4, 4}, 0.7},
    {{32, 32, 8, 4, 4}, 0.35},
};

/// A group that has the steps of a part to itself should have at least so many.
constexpr int kLeastPart = 128;
/// A part costs this many steps more: the second pass, the start of the loop.
constexpr int kPartCost = 64;

/// The parts of K that make a product with few tiles fastest.
int parts_for(const GemmProblem& p, const GemmTile& tile, const Device& device, int64_t limit) {
  const int64_t units = std::max(1, device.facts().compute_units);
  const int64_t tiles = ceil_div(p.m, tile.tm) * ceil_div(p.n, tile.tn) * p.batch;
  const int64_t results = int64_t{p.m} * p.n * p.batch * (p.dtype == DType::f64 ? 8 : 4);
  int64_t best = 1, best_time = ceil_div(tiles, units) * p.k;
  for (int64_t parts = 2; parts <= ceil_div(p.k, kLeastPart) && parts * results <= limit; parts++) {
    const int64_t time = ceil_div(tiles * parts, units) * (ceil_div(p.k, parts) + kPartCost);
    if (time < best_time) best = parts, best_time = time;
  }
  return static_cast<int>(best);
}

struct Tile : Gemm::Impl {
  Tile(const Context& context, const GemmProblem& problem, const Options& options)
      : Impl(problem), tile(gemm_tile_for(context.device(), problem.m, problem.n, problem.batch)) {
    int parts = 0;
    const EngineRequest request(options);
    if (request.names(kGemmTile.name))
      request.take({{"tm", &tile.tm},
                    {"tn", &tile.tn},
                    {"tk", &tile.tk},
                    {"rm", &tile.rm},
                    {"rn", &tile.rn},
                    {"parts", &parts}});
    require_tile(tile);
    const auto limit = static_cast<int64_t>(std::min<size_t>(options.workspace_limit, INT64_MAX));
    if (parts == 0) parts = parts_for(p, tile, context.device(), limit);
    steps = static_cast<int>(round_up(ceil_div(std::max(1, p.k), parts), tile.tk));
    count = static_cast<int>(std::max<int64_t>(1, ceil_div(p.k, steps)));

    Defines defines = gemm_defines(p), sizes = defines;
    tile.define(sizes);
    const bool f32 = p.dtype == DType::f32;
    sizes.set("A_UNIT_K", p.a.unit_k).set("A_VECTOR", f32 && p.a.vectors);
    sizes.set("B_UNIT_K", p.b.unit_k).set("B_VECTOR", f32 && p.b.vectors);
    sizes.set("C_VECTOR", f32 && (count > 1 ? p.n % 4 == 0 : p.c_vector >= 4)).set("PARTS", count > 1);
    kernel = context.state().programs.kernel("gemm_tile", "gemm_tile", sizes);
    if (count > 1) add = context.state().programs.kernel("gemm_parts", "gemm_parts", defines);
  }

  size_t workspace_size() const override {
    const size_t real = p.dtype == DType::f64 ? 8 : 4;
    return count == 1 ? 0 : real * static_cast<size_t>(int64_t{p.m} * p.n * p.batch * count);
  }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
           const Tensor& workspace) const override {
    const auto items = static_cast<size_t>(tile.items());
    const Tensor partial = count == 1 ? Tensor() : workspace.reinterpret(real());
    Launch launch(stream, kernel);
    launch.arg(p.m).arg(p.n).arg(p.k).arg(a).arg(p.a.pitch).arg(p.a.batch).arg(b).arg(p.b.pitch).arg(
        p.b.batch);
    launch.arg(c).arg(p.ldc).arg(p.c_batch).arg(steps).arg(partial).arg(p.alpha).arg(p.beta).arg(bias);
    launch.run({static_cast<size_t>(ceil_div(p.n, tile.tn)) * items,
                static_cast<size_t>(ceil_div(p.m, tile.tm)), static_cast<size_t>(int64_t{p.batch} * count)},
               {items, 1, 1});
    if (count == 1) return;
    Launch second(stream, add);
    second.arg(p.m).arg(p.n).arg(count).arg(partial).arg(c).arg(p.ldc).arg(p.c_batch);
    second.arg(p.alpha).arg(p.beta).arg(bias);
    second.run(
        {static_cast<size_t>(round_up(p.n, 64)), static_cast<size_t>(p.m), static_cast<size_t>(p.batch)},
        {64, 1, 1});
  }

 private:
  DType real() const {
    return p.dtype == DType::f64 ? DType::f64 : p.dtype == DType::i8 ? DType::i32 : DType::f32;
  }
  static void require_tile(const GemmTile& t) {
    const auto divides = [](int a, int b) { return a > 0 && b % a == 0; };
    const bool fits = divides(4, t.rm) && divides(4, t.rn) && divides(t.rm, t.tm) && divides(t.rn, t.tn) &&
                      divides(t.tm, t.items()) && divides(t.tn, t.items()) && divides(4, t.tk) &&
                      divides(t.tk, t.items()) && divides(4 * t.items(), t.tm * t.tk) &&
                      divides(4 * t.items(), t.tn * t.tk);
    require(fits, "engine", "tiles of ", t.tm, "x", t.tn, "x", t.tk, " with ", t.rm, "x", t.rn,
            " an item do not divide");
  }

  GemmTile tile;
  int steps = 0, count = 1;  ///< of K in a part, and parts
  Kernel kernel, add;
};

std::string refuse(const Context& context, const GemmProblem& p, const Options&) {
  return refuse_gemm_tile(context.device(), size_of(p.dtype) == 8 ? 8 : 4);
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const Options& options) {
  return std::make_unique<Tile>(context, problem, options);
}

}  // namespace

void GemmTile::define(Defines& defines) const {
  defines.set("TM", tm).set("TN", tn).set("TK", tk).set("RM", rm).set("RN", rn);
}

GemmTile gemm_tile_for(const Device& device, int64_t m, int64_t n, int64_t batch) {
  const int64_t units = std::max(1, device.facts().compute_units);
  const Candidate* best = nullptr;
  double best_time = 0;
  for (const Candidate& candidate : kCandidates) {
    const GemmTile& t = candidate.tile;
    const int64_t groups = ceil_div(m, t.tm) * ceil_div(n, t.tn) * batch;
    const double time = static_cast<double>(ceil_div(groups, units)) * t.tm * t.tn / candidate.rate;
    if (!best || time < best_time) {
      best = &candidate;
      best_time = time;
    }
  }
  return best->tile;
}

std::string refuse_gemm_tile(const Device& device, uint64_t element) {
  const DeviceFacts& facts = device.facts();
  for (const Candidate& candidate : kCandidates) {
    const GemmTile& t = candidate.tile;
    if (facts.max_work_group < t.items())
      return cat("needs work-groups of ", t.items(), ", the device has ", facts.max_work_group);
    const uint64_t bytes = t.local_bytes() / sizeof(float) * element;
    if (facts.local_memory < bytes)
      return cat("needs ", bytes, " bytes of local memory, the device has ", facts.local_memory);
  }
  return {};
}

const GemmEngine kGemmTile = {"tile", refuse, make};

}  // namespace dlprim::detail
