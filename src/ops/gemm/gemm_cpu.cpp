// GEMM engine `cpu`: work-groups of one work-item, explicit vectors, packed panels. Each work-group packs
// what it needs of A and B; A is packed before, into the workspace, where many groups would pack the same
// rows; constant operands are packed once and kept.
#include <algorithm>

#include "core/constants.hpp"
#include "core/state.hpp"
#include "ops/gemm/gemm_cpu_tiles.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmCpu;

namespace {

/// Blocks of columns from which on A is packed before (2048^3, 4 blocks: 174 against 160 GFLOP/s on 2 cores;
/// 2 blocks: no gain). Where its runs lie along m, work-groups pick pieces of lines, and it pays earlier
/// (1024^3: 140 against 133).
int64_t many_blocks(const GemmProblem& p) {
  return p.a.unit_k ? 4 : 2;
}

DType real_type(const GemmProblem& p) {
  return p.dtype == DType::f64 ? DType::f64 : p.dtype == DType::i8 ? DType::i32 : DType::f32;
}

GemmCpuTiles tiles_for(const Context& context, const GemmProblem& p) {
  return gemm_cpu_tiles_for(context.device(), p.m, p.n, size_of(real_type(p)));
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
  Cpu(const Context& context, const GemmProblem& problem, const EngineOptions& options)
      : Impl(problem), tiles(tiles_for(context, p)), slab(p.m) {
    int before = ceil_div(p.n, tiles.nc) >= many_blocks(p);
    options.request.take(kGemmCpu.name, {{"kc", &tiles.kc},
                                         {"nc", &tiles.nc},
                                         {"mc", &tiles.mc},
                                         {"mr", &tiles.mr},
                                         {"nv", &tiles.nv},
                                         {"before", &before}});
    if (options.request.names(kGemmCpu.name)) require_tiles(context.device());
    if (sum_bytes(p, tiles, slab) > options.workspace_limit)
      slab = static_cast<int>(options.workspace_limit / sum_bytes(p, tiles, tiles.mr)) * tiles.mr;
    sums_size = sum_bytes(p, tiles, slab);
    keep_a = p.constant_a && slab == p.m && p.k > 0;
    keep_b = p.constant_b && p.k > 0;
    pack_before = before != 0 && !keep_a && p.k > 0 && sums_size + packed_a_size() <= options.workspace_limit;
    share =
        gemm_cpu_share_for(tiles, context.device(), slab, p.n, p.batch, {!keep_a && !pack_before, !keep_b});

    make_kernels(context.state().programs);
    if (keep_a) constants_a = Constants(context, form_of("gemm_cpu a", p.a, p.m, tiles.mr));
    if (keep_b) constants_b = Constants(context, form_of("gemm_cpu b", p.b, p.n, tiles.nr()));
  }

  size_t workspace_size() const override { return sums_size + (pack_before ? packed_a_size() : 0); }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor& workspace) const override {
    Tensor packed_a, packed_b, sums;
    if (sums_size > 0) sums = part_of(workspace, 0, sums_size, DType::f32);
    if (pack_before) packed_a = part_of(workspace, sums_size, packed_a_size(), real_type(p));
    if (keep_a) packed_a = constants_a.get(stream, a, [&] { return kept_a(stream, a); });
    if (keep_b) packed_b = constants_b.get(stream, b, [&] { return kept_b(stream, b); });
    for (int m0 = 0; m0 < p.m; m0 += slab) {
      const int rows = std::min(slab, p.m - m0);
      const Tensor a_rows = rows_of(a, m0, rows);
      if (pack_before) pack(stream, pack_a, p.a, a_rows, rows, tiles.mr, packed_a);
      Launch launch(stream, multiply);
      launch.arg(rows).arg(p.n).arg(p.k).arg(share.columns).arg(share.rows);
      if (packed_a.defined())
        launch.arg(packed_a);
      else
        launch.arg(a_rows).arg(p.a.pitch).arg(p.a.batch);
      if (keep_b)
        launch.arg(packed_b);
      else
        launch.arg(b).arg(p.b.pitch).arg(p.b.batch);
      launch.arg(rows_of(c, m0, rows)).arg(p.ldc).arg(p.c_batch);
      if (sums_apart(p)) launch.arg(sums);
      bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, of_rows(with, m0, rows));
      share.run(launch, rows, p.n, p.batch);
    }
  }

  void forget_constants() const override {
    constants_a.forget();
    constants_b.forget();
  }

 private:
  static Tensor rows_of(const Tensor& x, int64_t m0, int64_t rows) {
    return x.slice(x.rank() - 2, m0, m0 + rows);
  }
  EpilogueTensors of_rows(const EpilogueTensors& with, int64_t m0, int64_t rows) const {
    EpilogueTensors part = with;
    if (p.bias == GemmDesc::Vector::column) part.bias = with.bias.slice(0, m0, m0 + rows);
    if (p.scale == GemmDesc::Vector::column) part.scale = with.scale.slice(0, m0, m0 + rows);
    if (p.residual) part.residual = rows_of(with.residual, m0, rows);
    if (p.preactivation) part.preactivation = rows_of(with.preactivation, m0, rows);
    return part;
  }
  static Tensor part_of(const Tensor& workspace, size_t at, size_t size, DType dtype) {
    return workspace.slice(0, static_cast<int64_t>(at), static_cast<int64_t>(at + size)).reinterpret(dtype);
  }

  void require_tiles(const Device& device) const {
    const bool fit = tiles.mr > 0 && tiles.mr <= 14 && tiles.nv > 0 && tiles.nv <= 3 && tiles.kc > 0 &&
                     tiles.kc % tiles.vw == 0 && tiles.nc > 0 && tiles.nc % tiles.nr() == 0 && tiles.mc > 0 &&
                     tiles.mc % tiles.mr == 0;
    require(fit, "engine", "tiles of ", tiles.mr, "x", tiles.nr(), " do not divide blocks of ", tiles.mc, "x",
            tiles.nc, "x", tiles.kc);
    const uint64_t bytes =
        size_of(real_type(p)) * static_cast<uint64_t>(tiles.kc * (int64_t{tiles.mc} + tiles.nc));
    require(bytes <= device.facts().local_memory, "engine", "blocks of ", bytes,
            " bytes, the device has local memory of ", device.facts().local_memory);
  }

  /// Each kernel is a program of its own, whose macros are those that it depends on: products share them.
  void make_kernels(ProgramCache& programs) {
    const bool a_packed = keep_a || pack_before;
    Defines multiplies = gemm_defines(p);
    tiles.define(multiplies);
    multiplies.set("A_PACKED", a_packed).set("B_PACKED", keep_b).set("SUMS_APART", sums_apart(p));
    multiplies.set(a_packed ? "A_ONE" : "A_UNIT_K", a_packed ? p.a.batch == 0 : p.a.unit_k);
    multiplies.set(keep_b ? "B_ONE" : "B_UNIT_K", keep_b ? p.b.batch == 0 : p.b.unit_k);
    multiply = programs.kernel("gemm_cpu", "gemm_cpu", multiplies);

    Defines packs;
    define_real(packs, p).set("VW", tiles.vw).set("KC", tiles.kc).set("MULTIPLIES", 0);
    Defines packs_b = packs;
    packs.set("A_PACKED", 1).set("A_UNIT_K", p.a.unit_k).set("A_ONE", p.a.batch == 0).set("MR", tiles.mr);
    if (a_packed) pack_a = programs.kernel("gemm_cpu", "gemm_pack_a", packs);
    packs_b.set("B_PACKED", 1).set("B_UNIT_K", p.b.unit_k).set("B_ONE", p.b.batch == 0).set("NV", tiles.nv);
    if (keep_b) pack_b = programs.kernel("gemm_cpu", "gemm_pack_b", packs_b);
  }

  /// Of an operand's packed panels, each of `unit` of its `count` rows or columns.
  PlanKey form_of(const char* name, const GemmOperand& x, int64_t count, int unit) const {
    PlanKey form(name);
    form.add(p.dtype).add(x.unit_k).add(x.pitch).add(products(x)).add(x.batch).add(count).add(p.k);
    return form.add(unit).add(tiles.kc);
  }
  int64_t products(const GemmOperand& x) const { return x.batch == 0 ? 1 : p.batch; }
  int64_t packed_a_count() const { return products(p.a) * round_up(slab, tiles.mr) * p.k; }
  int64_t packed_b_count() const { return products(p.b) * round_up(p.n, tiles.nr()) * p.k; }
  size_t packed_a_size() const { return static_cast<size_t>(packed_a_count()) * size_of(real_type(p)); }

  /// Packs `count` rows of A or columns of B, `unit` of them in a panel.
  void pack(const Stream& stream, const Kernel& kernel, const GemmOperand& operand, const Tensor& x,
            int64_t count, int unit, const Tensor& packed) const {
    Launch launch(stream, kernel);
    launch.arg(static_cast<int>(count)).arg(p.k).arg(packed).arg(x).arg(operand.pitch).arg(operand.batch);
    launch.run({static_cast<size_t>(ceil_div(count, unit)), static_cast<size_t>(ceil_div(p.k, tiles.kc)),
                static_cast<size_t>(products(operand))},
               {1, 1, 1});
  }
  Tensor kept_a(const Stream& stream, const Tensor& a) const {
    const Tensor packed(stream, {packed_a_count()}, real_type(p));
    pack(stream, pack_a, p.a, a, p.m, tiles.mr, packed);
    return packed;
  }
  Tensor kept_b(const Stream& stream, const Tensor& b) const {
    const Tensor packed(stream, {packed_b_count()}, real_type(p));
    pack(stream, pack_b, p.b, b, p.n, tiles.nr(), packed);
    return packed;
  }

  GemmCpuTiles tiles;
  GemmCpuShare share{};
  int slab;  ///< rows in a launch: their sums fit into the workspace
  size_t sums_size = 0;
  bool pack_before = false;  ///< A, into the workspace
  bool keep_a = false, keep_b = false;
  Kernel pack_a, pack_b, multiply;
  Constants constants_a, constants_b;
};

std::string refuse(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  std::string reason = refuse_gemm_cpu(context.device());
  if (!reason.empty()) return reason;
  const GemmCpuTiles tiles = tiles_for(context, p);
  const uint64_t least = sum_bytes(p, tiles, std::min(p.m, tiles.mr));
  if (least > options.workspace_limit)
    return cat("needs at least ", least, " bytes of workspace, the limit is ", options.workspace_limit);
  return {};
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<Cpu>(context, problem, options);
}

/// Blocks of k as they are, twice and half as long, with as many numbers in the panels; A packed by each
/// work-group, and before.
std::vector<std::string> candidates(const Context& context, const GemmProblem& p, const EngineOptions&) {
  std::vector<std::string> result = {kGemmCpu.name};
  const GemmCpuTiles own = tiles_for(context, p);
  const auto scaled = [&](int size, int kc, int unit) {
    return std::max(unit, size * own.kc / kc / unit * unit);
  };
  for (const int kc : {own.kc, own.kc * 2, own.kc / 2}) {
    if (kc != own.kc && p.k <= std::min(kc, own.kc)) continue;  // the same single block
    for (const int before : {0, 1})
      result.push_back(cat(kGemmCpu.name, ":kc=", kc, ",nc=", scaled(own.nc, kc, own.nr()),
                           ",mc=", scaled(own.mc, kc, own.mr), ",before=", before));
  }
  return result;
}

}  // namespace

const GemmEngine kGemmCpu = {"cpu", refuse, make, avoid_unless_cpu, nullptr, candidates};

}  // namespace dlprim::detail
