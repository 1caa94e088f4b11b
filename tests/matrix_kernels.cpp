// Writes what scripts/check-matrix compiles off line, for devices that are not there: the text of the kernels
// into a folder, and for each engine on matrix instructions a line with the macros that the library would
// set: ENGINE FORM NAME FILE OPTIONS.
#include <algorithm>
#include <fstream>
#include <iostream>

#include "core/gen/wgmma.hpp"
#include "core/kernel_source.hpp"
#include "ops/conv/conv_fragment.hpp"
#include "ops/conv/conv_nv_mma.hpp"
#include "ops/conv/conv_nv_patch.hpp"

using namespace dlprim;
using namespace dlprim::detail;

namespace {

constexpr int kUnits = 32;

/// Large, K contiguous and read by 16 bytes; or small, neither.
GemmProblem problem_of(DType dtype, DType c_dtype, bool large) {
  GemmProblem p;
  p.m = p.n = p.k = large ? 4096 : 63;
  p.dtype = dtype;
  p.c_dtype = c_dtype;
  for (GemmOperand* x : {&p.a, &p.b}) x->unit_k = x->vectors = x->aligned = large;
  p.bias = GemmDesc::Vector::row;
  p.activation = Activation::relu;
  return p;
}

void line(const char* engine, int form, const std::string& name, const char* file,
          const std::string& options) {
  std::cout << engine << '\t' << form << '\t' << name << '\t' << file << '\t' << options << '\n';
}

void gemms(const MatrixFragment& fragment, int form) {
  static constexpr std::pair<DType, DType> kTypes[] = {{DType::f32, DType::f32},
                                                       {DType::f16, DType::f16},
                                                       {DType::f16, DType::f32},
                                                       {DType::bf16, DType::bf16},
                                                       {DType::i8, DType::i32}};
  for (const auto& [dtype, c_dtype] : kTypes)
    for (const MathMode math : {MathMode::strict, MathMode::tf32})
      for (const bool large : {true, false}) {
        if (math == MathMode::tf32 && dtype != DType::f32) continue;
        const GemmProblem p = problem_of(dtype, c_dtype, large);
        Options options;
        options.math = math;
        const GemmFragmentKernel kernel(fragment, p, EngineOptions(options), form, kUnits);
        kernel.require_valid();
        line(fragment.engine, form,
             cat(name_of(dtype), math == MathMode::tf32 ? " by tf32" : "", " to ", name_of(c_dtype),
                 large ? ", large" : ", small"),
             "gemm_fragment", kernel.defines(p).options());
      }
}

/// 3x3 on pixels whose channels are contiguous and read by 16 bytes; or, with a stride, in planes.
ConvProblem conv_of(ConvDirection direction, DType dtype, bool last) {
  const int c = last ? 256 : 21, k = last ? 256 : 37, stride = last ? 1 : 2;
  ConvProblem p;
  p.direction = direction;
  p.dtype = p.result_dtype = dtype;
  p.n = 64, p.c = c, p.k = k;
  p.x_space = {1, 56, 56}, p.w_space = {1, 3, 3}, p.y_space = {1, 56 / stride, 56 / stride};
  p.stride = {1, stride, stride}, p.pad = {0, 1, 1};
  const auto lie = [&](int64_t channels, const Spatial& s) {
    const int64_t plane = int64_t{s[1]} * s[2];
    return last ? ConvStrides{plane * channels, 1, 0, s[2] * channels, channels}
                : ConvStrides{plane * channels, plane, 0, s[2], 1};
  };
  p.x = lie(c, p.x_space), p.w = lie(c, p.w_space), p.y = lie(k, p.y_space);
  p.x_aligned = p.w_aligned = p.y_aligned = true;
  p.bias = direction == ConvDirection::forward;
  if (p.bias) p.activation = Activation::relu;
  return p;
}

constexpr std::pair<ConvDirection, const char*> kDirections[] = {
    {ConvDirection::forward, "forward"},
    {ConvDirection::backward_data, "backward data"},
    {ConvDirection::backward_filter, "backward filter"}};

void convs(const MatrixFragment& fragment, int form) {
  for (const auto& [direction, name] : kDirections)
    for (const DType dtype : {DType::f32, DType::f16})
      for (const bool last : {true, false}) {
        const ConvProblem p = conv_of(direction, dtype, last);
        const ConvFragmentKernel kernel(fragment, p, EngineOptions(Options()), form, kUnits);
        kernel.kernel.require_valid();
        // In what computes rare sums again, beside the loop: docs/matrix-hardware.md.
        const bool spills = &fragment == &kIntelDpas && direction != ConvDirection::backward_filter &&
                            dtype == DType::f32 && !last;
        line(fragment.engine, form,
             cat("convolution ", name, ' ', name_of(dtype), last ? ", channels last" : ", planes, strided",
                 spills ? ", known to spill" : ""),
             "conv_fragment", kernel.defines(p, direction == ConvDirection::backward_filter).options());
      }
}

/// Kernels on warp-group matrix instructions: f32 in parts, every tile; the text has slots, so each is a
/// file.
void nv_wgmma(const char* folder) {
  const auto add = [&](const char* kernel, const std::string& name, const std::string& text,
                       const std::string& options) {
    const std::string file = cat(kernel, '-', name);
    std::ofstream(cat(folder, '/', file, ".cl")) << text;
    // In what computes rare sums again, behind the loop.
    const std::string large[] = {"192", "192t", "forward64x3", "data64x3", "2x3", "1x6"};
    const bool spills = std::find(std::begin(large), std::end(large), name) != std::end(large);
    line("nv_wgmma", 0, cat(file, spills ? ", known to spill" : ""), file.c_str(), options);
  };
  const GemmProblem p = problem_of(DType::f32, DType::f32, true);
  for (const int tile_n : {192, 128, 64}) {
    const int stages = tile_n == 192 ? 3 : tile_n == 128 ? 4 : 5;
    for (const bool unit_k : {true, false}) {
      Defines defines = gemm_defines(p);
      defines.set("SPLIT", 1).set("TILE_N", tile_n).set("STAGES", stages).set("WARP_GROUPS", 2);
      defines.set("A_UNIT_K", unit_k).set("C_PAIRS", 1).set("C_BYTES", 4);
      add("gemm_nv_wgmma", cat(tile_n, unit_k ? "" : "t"),
          fill_wgmma_slots(kernel_source("gemm_nv_wgmma"), {DType::f32, true, tile_n, unit_k, true, false}),
          defines.options());
    }
  }
  struct ConvTile {
    int n, stages, groups;
  };
  for (const bool planes : {false, true})
    for (const ConvTile& tile :
         {ConvTile{128, 4, 2}, ConvTile{64, 5, 3}, ConvTile{64, 5, 2}, ConvTile{16, 7, 3}}) {
      Defines defines = conv_defines(conv_of(ConvDirection::forward, DType::f32, true));
      defines.set("DEPTH", 0).set("SPLIT", 1).set("PLANES", planes);
      defines.set("TILE_N", tile.n).set("STAGES", tile.stages).set("WARP_GROUPS", tile.groups);
      defines.set("C_BYTES", 4).set("C_PAIRS", 1).set("C_TRANSPOSED", 1);
      add("conv_nv_wgmma", cat(planes ? "planes" : "pixels", tile.n, 'x', tile.groups),
          fill_wgmma_slots(kernel_source("conv_nv_wgmma"), {DType::f32, true, tile.n, true, true, false}),
          defines.options());
    }
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const ConvTile& tile : {ConvTile{256, 4, 2}, ConvTile{128, 5, 3}, ConvTile{96, 7, 2},
                                 ConvTile{144, 5, 2}, ConvTile{24, 8, 2}}) {
      const bool wide = size_of(dtype) == 2;
      if (wide && tile.n % 32 != 0) continue;
      ConvProblem p = conv_of(ConvDirection::forward, dtype, true);
      p.residual = true;
      Defines defines = conv_defines(p, ConvChannels::columns);
      defines.set("DEPTH", 0).set("SPLIT", 0).set("PLANES", 0);
      defines.set("TILE_N", tile.n).set("STAGES", tile.stages).set("WARP_GROUPS", tile.groups);
      defines.set("C_BYTES", static_cast<int>(size_of(dtype))).set("C_PAIRS", 1).set("C_WIDE", wide);
      if (wide)
        defines.set("ELEMENT", "ushort").set("ELEMENT_BYTES", 2).set("MAP_TYPE", 10);
      else
        defines.set("W_MAP_TYPE", 11);
      add("conv_nv_wgmma", cat(name_of(dtype), "plain", tile.n, 'x', tile.groups),
          fill_wgmma_slots(kernel_source("conv_nv_wgmma"), {dtype, false, tile.n, true, true}),
          defines.options());
    }
  struct FilterTile {
    int m_blocks, n_blocks, stages;
  };
  for (const FilterTile& tile :
       {FilterTile{2, 3, 3}, FilterTile{2, 2, 4}, FilterTile{1, 4, 3}, FilterTile{1, 6, 2}}) {
    constexpr int kParts = 3, kPixels = 32, kGroups = 2, kBlock = 64, kLineBytes = 128;
    WgmmaPartsForm slots;
    slots.parts = kParts, slots.tile_n = kBlock * tile.n_blocks * tile.m_blocks / kGroups,
    slots.pixels = kPixels;
    slots.a_bytes = tile.m_blocks * kPixels * kLineBytes,
    slots.b_bytes = tile.n_blocks * kPixels * kLineBytes;
    Defines defines;
    defines.set("M_BLOCKS", tile.m_blocks).set("N_BLOCKS", tile.n_blocks).set("STAGES", tile.stages);
    defines.set("WARP_GROUPS", kGroups).set("DEPTH", 0).set("ACTIVATION", name_of(Activation::identity));
    defines.set("PARTS", kParts).set("PIXELS", kPixels).set("MAP_TYPE", 10);
    add("conv_nv_filter", cat(tile.m_blocks, 'x', tile.n_blocks),
        fill_wgmma_parts_slots(kernel_source("conv_nv_filter"), slots), defines.options());
  }
}

/// Its largest tiles.
void nv_mma_convs() {
  for (const auto& [direction, name] : kDirections)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool last : {true, false}) {
        const bool split = dtype == DType::f32;
        const ConvProblem p = conv_of(direction, dtype, last);
        ConvGather gather(p);
        round_up_channels(gather, p);
        const ConvNvMmaTile tile =
            split ? ConvNvMmaTile{128, 128, 4, 2, 4} : ConvNvMmaTile{128, 256, 2, 4, 3};
        const bool unit_source = direction != ConvDirection::backward_data || !last;
        // 22 words of parameters, which do not change in the loop.
        const bool spills = direction == ConvDirection::backward_data && split && last;
        line("nv_mma", 0,
             cat("convolution ", name, ' ', name_of(dtype), last ? ", channels last" : ", planes, strided",
                 spills ? ", known to spill" : ""),
             "conv_nv_mma", conv_nv_mma_defines(p, gather, tile, split, unit_source).options());
      }
}

/// First layers of networks.
void nv_patch_convs() {
  for (const int taps : {3, 7, 11})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool last : {true, false}) {
        ConvProblem p = conv_of(ConvDirection::forward, dtype, last);
        // Images come in planes or channel by channel; what follows has its channels last.
        p.c = 3, p.w_space = {1, taps, taps}, p.y[1] = 1, p.x[1] = last ? 1 : 56 * 56;
        Options options;
        options.math = MathMode::tf32;
        line("nv_patch", 0,
             cat("convolution ", taps, ' ', name_of(dtype), last ? ", channels last" : ", planes"),
             "conv_nv_patch",
             ConvNvPatchKernel(p, EngineOptions(options), {kUnits, 160 << 10}).defines(p, false).options());
      }
}

void probes(const MatrixFragment& fragment, int form) {
  for (const char* type : {"FRAG_F16", "FRAG_BF16", "FRAG_I8", "FRAG_F32", "FRAG_TF32"}) {
    if (type == std::string("FRAG_F32") && &fragment != &kAmdMfma) continue;
    if (type == std::string("FRAG_TF32") && &fragment != &kNvFragment) continue;
    Defines defines;
    defines.set("PROBE_FRAGMENT", 1).set("FRAGMENT", fragment.macro).set("FRAG_TYPE", type).set("EMULATE", 0);
    if (&fragment == &kIntelDpas) defines.set("FORM", form);
    line(fragment.engine, form, cat("probe ", type), "probe", defines.options());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: matrix_kernels FOLDER\n";
    return 2;
  }
  for (const char* file : {"gemm_fragment", "conv_fragment", "conv_nv_mma", "conv_nv_patch", "probe"})
    std::ofstream(cat(argv[1], '/', file, ".cl")) << kernel_source(file);
  for (const MatrixFragment* fragment : {&kNvFragment, &kAmdWmma, &kAmdMfma, &kIntelDpas})
    for (int i = 0; i < (fragment->forms[1] == 0 ? 1 : 2); i++) {
      gemms(*fragment, fragment->forms[i]);
      convs(*fragment, fragment->forms[i]);
      probes(*fragment, fragment->forms[i]);
    }
  nv_mma_convs();
  nv_patch_convs();
  nv_wgmma(argv[1]);
  return std::cout.good() ? 0 : 1;
}
