// GEMM engines on matrix instructions behind one fragment interface: `amd_wmma`, `amd_mfma`, `intel_dpas`,
// and `nv_fragment`, which shows on hardware that is at hand that the shared kernel is right. f16, bf16 and
// i8 as they are; f32 by parts, or as it is where the hardware multiplies that.
// With the parameter emulate=1 they run on every device, slowly, as a test of their layouts.
// docs/matrix-hardware.md says what was measured.
#include "ops/gemm/gemm_fragment.hpp"

#include <algorithm>

#include "core/state.hpp"

namespace dlprim::detail {

extern const GemmEngine kGemmNvFragment, kGemmAmdWmma, kGemmAmdMfma, kGemmIntelDpas;

const MatrixFragment kNvFragment = {"nv_fragment", "NV_MMA", MatrixEngine::nv_mma, {0, 0}};
const MatrixFragment kAmdWmma = {"amd_wmma", "AMD_WMMA", MatrixEngine::amd_wmma, {11, 12}};
const MatrixFragment kAmdMfma = {"amd_mfma", "AMD_MFMA", MatrixEngine::amd_mfma, {90, 94}};
const MatrixFragment kIntelDpas = {"intel_dpas", "INTEL_DPAS", MatrixEngine::intel_dpas, {8, 16}};

namespace {

/// Elements in a word of 32 bits.
int per_word(const std::string& type) {
  return type == "FRAG_I8" ? 4 : type == "FRAG_F16" || type == "FRAG_BF16" ? 2 : 1;
}

struct Tiles {
  GemmFragmentTile large, small;  ///< tk is set later
};

/// What the sums and operands of a sub-group leave room for in its registers; small ones where large ones
/// would leave units without work.
Tiles tiles_of(const GemmFragmentKernel& kernel) {
  const bool split = kernel.split > 1;
  if (kernel.fragment == &kIntelDpas && kernel.form == 8)
    return split ? Tiles{{64, 32, 0, 8, 8}, {32, 32, 0, 8, 8}}
                 : Tiles{{64, 64, 0, 16, 16}, {32, 32, 0, 8, 8}};
  if (kernel.fragment == &kIntelDpas)
    return split ? Tiles{{64, 64, 0, 16, 16}, {32, 32, 0, 16, 16}}
                 : Tiles{{128, 64, 0, 32, 16}, {64, 64, 0, 16, 16}};
  if (split) return {{64, 64, 0, 32, 32}, {32, 32, 0, 16, 16}};
  if (kernel.fragment == &kAmdMfma) return {{128, 128, 0, 64, 64}, {64, 64, 0, 32, 32}};
  return {{128, 128, 0, 32, 64}, {64, 64, 0, 32, 32}};
}

/// How the fragment takes the problem's elements: FRAG_TYPE and the number of parts.
void choose_type(GemmFragmentKernel& kernel, const GemmProblem& p, MathMode math) {
  if (p.dtype == DType::f16) kernel.type = "FRAG_F16";
  if (p.dtype == DType::bf16) kernel.type = "FRAG_BF16";
  if (p.dtype == DType::i8) kernel.type = "FRAG_I8";
  if (p.dtype != DType::f32) return;
  const bool nv = kernel.fragment == &kNvFragment;
  if (kernel.split == 0)
    kernel.split = kernel.fragment == &kAmdMfma || (nv && math == MathMode::tf32) ? 1 : 3;
  if (nv && kernel.split < 3) kernel.type = "FRAG_TF32";
  if (kernel.fragment == &kAmdMfma && kernel.split == 1) kernel.type = "FRAG_F32";
  if (kernel.split == 3) kernel.type = "FRAG_BF16";
}

}  // namespace

GemmFragmentKernel::GemmFragmentKernel(const MatrixFragment& fragment_, const GemmProblem& p,
                                       const EngineOptions& options, int lanes_of_device, int units,
                                       bool gathered)
    : fragment(&fragment_) {
  split = p.dtype == DType::f32 ? 0 : 1;
  options.request.take(fragment->engine, {{"emulate", &emulate},
                                          {"form", &form},
                                          {"split", &split},
                                          {"tm", &tile.tm},
                                          {"tn", &tile.tn},
                                          {"tk", &tile.tk},
                                          {"sm", &tile.sm},
                                          {"sn", &tile.sn}});
  // Off line, and of a sub-group's width, the compiler knows nothing.
  if (form == 0 && fragment == &kIntelDpas && lanes_of_device != 0) form = lanes_of_device;
  if (form == 0 && (emulate != 0 || fragment == &kIntelDpas)) form = fragment->forms[0];
  choose_type(*this, p, options.math);
  const Tiles tiles = tiles_of(*this);
  const bool large =
      emulate == 0 && ceil_div(p.m, tiles.large.tm) * ceil_div(p.n, tiles.large.tn) * p.batch >= units;
  const GemmFragmentTile& chosen = large ? tiles.large : tiles.small;
  if (tile.tm == 0) tile.tm = chosen.tm;
  if (tile.tn == 0) tile.tn = chosen.tn;
  // Of intel_dpas's registers there are just enough.
  if (tile.sm == 0) tile.sm = gathered && fragment == &kIntelDpas ? std::max(8, chosen.sm / 2) : chosen.sm;
  if (tile.sn == 0) tile.sn = chosen.sn;
  // Elements that are loaded one by one take a register each.
  if (tile.tk == 0) tile.tk = split > 1 ? 16 : (p.a.vectors && p.b.vectors ? 16 : 8) * per_word(type);
}

int GemmFragmentKernel::lanes() const {
  return fragment == &kAmdMfma ? 64 : fragment == &kIntelDpas ? form : 32;
}

uint64_t GemmFragmentKernel::local_bytes() const {
  const int row = tile.tk / per_word(type) + 4;
  // Emulated lanes exchange all their registers.
  const int words = fragment == &kAmdMfma || fragment == &kNvFragment ? 10 : 24;
  return uint64_t{8} * split * (tile.tm + tile.tn) * row + (emulate != 0 ? uint64_t{4} * words * items() : 0);
}

void GemmFragmentKernel::require_valid() const {
  const auto divides = [](int a, int b) { return a > 0 && b > 0 && b % a == 0; };
  require(form == 0 || form == fragment->forms[0] || form == fragment->forms[1], "engine", fragment->engine,
          " has no form ", form);
  require(emulate == 0 || emulate == 1, "engine", "emulate is ", emulate, ", neither 0 nor 1");
  const int fragment_m = fragment == &kIntelDpas ? 8 : 16;
  const int fragment_n = fragment == &kIntelDpas ? form : fragment == &kNvFragment ? 8 : 16;
  const int subs =
      divides(tile.sm, tile.tm) && divides(tile.sn, tile.tn) ? tile.tm / tile.sm * (tile.tn / tile.sn) : 0;
  require(subs > 0 && divides(fragment_m, tile.sm) && divides(fragment_n, tile.sn) && divides(16, tile.tm) &&
              divides(16, tile.tn) && divides(8 * per_word(type), tile.tk),
          "engine", "tiles of ", tile.tm, "x", tile.tn, "x", tile.tk, " in parts of ", tile.sm, "x", tile.sn,
          " do not divide");
}

Defines GemmFragmentKernel::defines(const GemmProblem& p) const {
  Defines defines = gemm_defines(p);
  define(defines, p);
  return defines;
}

void GemmFragmentKernel::define(Defines& defines, const GemmProblem& p) const {
  defines.set("FRAGMENT", fragment->macro)
      .set("FRAG_TYPE", type)
      .set("SPLIT", split)
      .set("EMULATE", emulate != 0);
  if (form != 0) defines.set("FORM", form);
  defines.set("TM", tile.tm).set("TN", tile.tn).set("TK", tile.tk).set("SM", tile.sm).set("SN", tile.sn);
  defines.set("A_UNIT_K", p.a.unit_k).set("A_VECTOR", p.a.vectors);
  defines.set("B_UNIT_K", p.b.unit_k).set("B_VECTOR", p.b.vectors);
}

GemmFragmentKernel fragment_kernel(const MatrixFragment& fragment, const Context& context,
                                   const GemmProblem& p, const EngineOptions& options) {
  const Device& device = context.device();
  const bool there = device.probes().matrix == fragment.matrix;
  return {fragment, p, options, there ? device.probes().matrix_lanes : 0, device.facts().compute_units};
}

std::string refuse_fragment(const GemmFragmentKernel& kernel, const Context& context, const GemmProblem& p) {
  const DeviceProbes& probes = context.device().probes();
  const MatrixFragment& fragment = *kernel.fragment;
  // Hopper has the older instructions too.
  const bool there = probes.matrix == fragment.matrix ||
                     (probes.matrix == MatrixEngine::nv_wgmma && fragment.matrix == MatrixEngine::nv_mma);
  if (!there && kernel.emulate == 0)
    return cat("needs the matrix engine ", name_of(fragment.matrix), ", the device has ",
               name_of(probes.matrix));
  if (kernel.type.empty())
    return cat("has no form for ", name_of(p.dtype), kernel.split != 1 ? " in these parts" : "");
  const DeviceFacts& facts = context.device().facts();
  if (facts.max_work_group < kernel.items())
    return cat("needs work-groups of ", kernel.items(), ", the device has ", facts.max_work_group);
  const uint64_t bytes = kernel.local_bytes();
  if (std::max(facts.local_memory, probes.static_local_memory) < bytes)
    return cat("needs ", bytes, " bytes of local memory, the device has ", facts.local_memory);
  return {};
}

namespace {

struct FragmentGemm : Gemm::Impl {
  FragmentGemm(const MatrixFragment& fragment, const Context& context, const GemmProblem& problem,
               const EngineOptions& options)
      : Impl(problem), choice(fragment_kernel(fragment, context, p, options)) {
    choice.require_valid();
    kernel = context.state().programs.kernel("gemm_fragment", "gemm_fragment", choice.defines(p));
  }

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor&) const override {
    const GemmFragmentTile& tile = choice.tile;
    const auto items = static_cast<size_t>(choice.items());
    Launch launch(stream, kernel);
    bind_operands(launch, p, a, b, c);
    bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
    launch.run({static_cast<size_t>(ceil_div(p.n, tile.tn)) * items,
                static_cast<size_t>(ceil_div(p.m, tile.tm)), static_cast<size_t>(p.batch)},
               {items, 1, 1});
  }

  GemmFragmentKernel choice;
  Kernel kernel;
};

template <const MatrixFragment& fragment>
std::string refuse(const Context& context, const GemmProblem& p, const EngineOptions& options) {
  return refuse_fragment(fragment_kernel(fragment, context, p, options), context, p);
}

template <const MatrixFragment& fragment>
std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions& options) {
  return std::make_unique<FragmentGemm>(fragment, context, problem, options);
}

}  // namespace

const GemmEngine kGemmNvFragment = {kNvFragment.engine, refuse<kNvFragment>, make<kNvFragment>,
                                    avoid_nv_fragment};
const GemmEngine kGemmAmdWmma = {kAmdWmma.engine, refuse<kAmdWmma>, make<kAmdWmma>};
const GemmEngine kGemmAmdMfma = {kAmdMfma.engine, refuse<kAmdMfma>, make<kAmdMfma>};
const GemmEngine kGemmIntelDpas = {kIntelDpas.engine, refuse<kIntelDpas>, make<kIntelDpas>};

}  // namespace dlprim::detail
