// GEMM engine `fma_direct`: multiply-adds straight from global memory, for GPUs where local memory and
// barriers cost. Each work-item is alone with its sums; K is never taken in parts.
#include "core/state.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmFmaDirect;

namespace {

constexpr int kItems = 64;  // of a work-group

struct Tile {
  int rm = 4, rn = 4;  ///< the sums of a work-item
  int gx = 8;          ///< work-items of a group beside each other

  int tm() const { return kItems / gx * rm; }
  int tn() const { return gx * rn; }
  int64_t groups(const GemmProblem& p) const { return ceil_div(p.m, tm()) * ceil_div(p.n, tn()) * p.batch; }
};

/// More sums an item read less, as long as every compute unit has some groups to switch between.
Tile choose(const Device& device, const GemmProblem& p) {
  constexpr Tile kLarge = {8, 4, 8};
  return kLarge.groups(p) >= int64_t{4} * device.facts().compute_units ? kLarge : Tile{};
}

struct Direct : Gemm::Impl {
  Direct(const Context& context, const GemmProblem& problem, const EngineOptions& options)
      : Impl(problem), tile(choose(context.device(), p)) {
    options.request.take(kGemmFmaDirect.name, {{"rm", &tile.rm}, {"rn", &tile.rn}, {"gx", &tile.gx}});
    const auto sums = [](int lines) { return lines == 4 || lines == 8 || lines == 16; };
    require(sums(tile.rm) && sums(tile.rn) && tile.gx > 0 && kItems % tile.gx == 0, "engine", "tiles of ",
            tile.rm, "x", tile.rn, " an item in groups ", tile.gx, " wide do not divide, or are too large");
    Defines defines = gemm_defines(p);
    defines.set("RM", tile.rm).set("RN", tile.rn).set("GX", tile.gx);
    const bool fours = p.dtype != DType::f64;  // of doubles `vectors` says it for twos
    defines.set("A_UNIT_K", p.a.unit_k).set("A_VECTOR", fours && p.a.vectors);
    defines.set("B_UNIT_K", p.b.unit_k).set("B_VECTOR", fours && p.b.vectors);
    defines.set("C_VECTOR", p.c_vector >= 4);
    kernel = context.state().programs.kernel("gemm_fma_direct", "gemm_fma_direct", defines);
  }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor&) const override {
    Launch launch(stream, kernel);
    bind_operands(launch, p, a, b, c);
    bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
    launch.run({static_cast<size_t>(ceil_div(p.n, tile.tn())) * kItems,
                static_cast<size_t>(ceil_div(p.m, tile.tm())), static_cast<size_t>(p.batch)},
               {kItems, 1, 1});
  }

  Tile tile;
  Kernel kernel;
};

std::string refuse(const Context& context, const GemmProblem&, const EngineOptions&) {
  const int most = context.device().facts().max_work_group;
  return most < kItems ? cat("needs work-groups of ", kItems, ", the device has ", most) : std::string();
}

std::string avoid(const Context& context, const GemmProblem& p, const EngineOptions&) {
  const DeviceFacts& facts = context.device().facts();
  if (facts.sharing != Sharing::cache)
    return cat("is for devices that share best by cache, this one does by ", name_of(facts.sharing));
  return avoid_long_and_few(p, Tile{}.groups(p), facts.compute_units);
}

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<Direct>(context, problem, options);
}

}  // namespace

const GemmEngine kGemmFmaDirect = {"fma_direct", refuse, make, avoid};

}  // namespace dlprim::detail
