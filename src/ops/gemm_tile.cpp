// GEMM engine `tile`: tiles through local memory, for GPUs.
#include <algorithm>

#include "core/state.hpp"
#include "ops/gemm_impl.hpp"
#include "ops/gemm_tile_sizes.hpp"

namespace dlprim::detail {
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

struct Tile : Gemm::Impl {
  Tile(const Context& context, const GemmProblem& problem)
      : Impl(problem), tile(gemm_tile_for(context.device(), problem.m, problem.n, problem.batch)) {
    Defines defines = gemm_defines(p);
    const bool f32 = p.dtype == DType::f32;
    tile.define(defines);
    defines.set("A_UNIT_K", p.a.unit_k).set("A_VECTOR", f32 && p.a.vectors);
    defines.set("B_UNIT_K", p.b.unit_k).set("B_VECTOR", f32 && p.b.vectors);
    defines.set("C_VECTOR", f32 && p.c_vector >= 4);
    kernel = context.state().programs.kernel("gemm_tile", "gemm_tile", defines);
  }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
           const Tensor&) const override {
    const auto items = static_cast<size_t>(tile.items());
    Launch launch(stream, kernel);
    launch.arg(p.m).arg(p.n).arg(p.k).arg(a).arg(p.a.pitch).arg(p.a.batch).arg(b).arg(p.b.pitch).arg(
        p.b.batch);
    launch.arg(c).arg(p.ldc).arg(p.c_batch).arg(p.alpha).arg(p.beta).arg(bias);
    launch.run({static_cast<size_t>(ceil_div(p.n, tile.tn)) * items,
                static_cast<size_t>(ceil_div(p.m, tile.tm)), static_cast<size_t>(p.batch)},
               {items, 1, 1});
  }

  GemmTile tile;
  Kernel kernel;
};

std::string refuse(const Context& context, const GemmProblem& p, const Options&) {
  return refuse_gemm_tile(context.device(), size_of(p.dtype) == 8 ? 8 : 4);
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem, const Options&) {
  return std::make_unique<Tile>(context, problem);
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

extern const GemmEngine kGemmTile;
const GemmEngine kGemmTile = {"tile", refuse, make};

}  // namespace dlprim::detail
