// Writes what scripts/check-matrix compiles off line, for devices that are not there: the text of the kernels
// into a folder, and for each engine on matrix instructions a line with the macros that the library would
// set: ENGINE FORM NAME FILE OPTIONS.
#include <fstream>
#include <iostream>

#include "core/kernel_source.hpp"
#include "ops/gemm_fragment.hpp"

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

void line(const MatrixFragment& fragment, int form, const std::string& name, const char* file,
          const std::string& options) {
  std::cout << fragment.engine << '\t' << form << '\t' << name << '\t' << file << '\t' << options << '\n';
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
        const GemmFragmentKernel kernel(fragment, p, options, form, kUnits);
        kernel.require_valid();
        line(fragment, form,
             cat(name_of(dtype), math == MathMode::tf32 ? " by tf32" : "", " to ", name_of(c_dtype),
                 large ? ", large" : ", small"),
             "gemm_fragment", kernel.defines(p).options());
      }
}

void probes(const MatrixFragment& fragment, int form) {
  for (const char* type : {"FRAG_F16", "FRAG_BF16", "FRAG_I8", "FRAG_F32", "FRAG_TF32"}) {
    if (type == std::string("FRAG_F32") && &fragment != &kAmdMfma) continue;
    if (type == std::string("FRAG_TF32") && &fragment != &kNvFragment) continue;
    Defines defines;
    defines.set("PROBE_FRAGMENT", 1).set("FRAGMENT", fragment.macro).set("FRAG_TYPE", type).set("EMULATE", 0);
    if (&fragment == &kIntelDpas) defines.set("FORM", form);
    line(fragment, form, cat("probe ", type), "probe", defines.options());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: matrix_kernels FOLDER\n";
    return 2;
  }
  for (const char* file : {"gemm_fragment", "probe"})
    std::ofstream(cat(argv[1], '/', file, ".cl")) << kernel_source(file);
  for (const MatrixFragment* fragment : {&kNvFragment, &kAmdWmma, &kAmdMfma, &kIntelDpas})
    for (int i = 0; i < (fragment->forms[1] == 0 ? 1 : 2); i++) {
      gemms(*fragment, fragment->forms[i]);
      probes(*fragment, fragment->forms[i]);
    }
  return std::cout.good() ? 0 : 1;
}
