// GEMM engine `cpu`: work-groups of one work-item, explicit vectors, panels that each group packs for itself.
#include <algorithm>

#include "core/state.hpp"
#include "ops/gemm_cpu_tiles.hpp"
#include "ops/gemm_impl.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmCpu;

namespace {

uint64_t real_size(const GemmProblem& p) {
  return p.dtype == DType::f64 ? sizeof(double) : sizeof(float);
}

GemmCpuTiles tiles_for(const Context& context, const GemmProblem& p) {
  return gemm_cpu_tiles_for(context.device(), p.m, p.n, real_size(p));
}

/// Whether C holds fewer bits than a sum that more blocks of k follow.
bool sums_apart(const GemmProblem& p) {
  return size_of(p.c_dtype) < sizeof(float);
}

/// Bytes of such sums, for `rows` rows of each product.
uint64_t sum_bytes(const GemmProblem& p, const GemmCpuTiles& tiles, int64_t rows) {
  if (!sums_apart(p) || p.k <= tiles.kc) return 0;
  return static_cast<uint64_t>(p.batch * rows * p.n) * sizeof(float);
}

struct Cpu : Gemm::Impl {
  Cpu(const Context& context, const GemmProblem& problem, const Options& options)
      : Impl(problem), tiles(tiles_for(context, p)), slab(std::max(1, p.m)) {
    if (sum_bytes(p, tiles, slab) > options.workspace_limit)
      slab = static_cast<int>(options.workspace_limit / sum_bytes(p, tiles, tiles.mr)) * tiles.mr;
    share = gemm_cpu_share_for(tiles, context.device(), slab, p.n, p.batch, true);
    Defines defines = gemm_defines(p);
    tiles.define(defines);
    defines.set("A_UNIT_K", p.a.unit_k).set("B_UNIT_K", p.b.unit_k).set("SUMS_APART", sums_apart(p));
    kernel = context.state().programs.kernel("gemm_cpu", "gemm_cpu", defines);
  }

  size_t workspace_size() const override { return sum_bytes(p, tiles, std::min(slab, p.m)); }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
           const Tensor& workspace) const override {
    const Tensor sums = workspace.defined() ? workspace.reinterpret(DType::f32) : workspace;
    for (int m0 = 0; m0 < p.m; m0 += slab) {
      const int rows = std::min(slab, p.m - m0);
      Launch launch(stream, kernel);
      launch.arg(rows).arg(p.n).arg(p.k).arg(share.columns).arg(share.rows);
      launch.arg(rows_of(a, m0, rows)).arg(p.a.pitch).arg(p.a.batch).arg(b).arg(p.b.pitch).arg(p.b.batch);
      launch.arg(rows_of(c, m0, rows)).arg(p.ldc).arg(p.c_batch);
      if (sums_apart(p)) launch.arg(sums);
      launch.arg(p.alpha).arg(p.beta);
      launch.arg(p.bias == GemmDesc::Bias::column ? bias.slice(0, m0, m0 + rows) : bias);
      launch.run({static_cast<size_t>(ceil_div(p.n, share.columns)),
                  static_cast<size_t>(ceil_div(rows, share.rows)), static_cast<size_t>(p.batch)},
                 {1, 1, 1});
    }
  }

 private:
  static Tensor rows_of(const Tensor& x, int64_t m0, int64_t rows) {
    return x.slice(x.rank() - 2, m0, m0 + rows);
  }

  GemmCpuTiles tiles;
  GemmCpuShare share{};
  int slab;  ///< rows in a launch: their sums fit into the workspace
  Kernel kernel;
};

std::string refuse(const Context& context, const GemmProblem& p, const Options& options) {
  std::string reason = refuse_gemm_cpu(context.device(), EngineRequest(options).names(kGemmCpu.name));
  if (!reason.empty()) return reason;
  const GemmCpuTiles tiles = tiles_for(context, p);
  const uint64_t least = sum_bytes(p, tiles, std::min(p.m, tiles.mr));
  if (least > options.workspace_limit)
    return cat("needs at least ", least, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const Options& options) {
  return std::make_unique<Cpu>(context, problem, options);
}

}  // namespace

const GemmEngine kGemmCpu = {"cpu", refuse, make};

}  // namespace dlprim::detail
