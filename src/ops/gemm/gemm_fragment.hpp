// Kernels of gemm_fragment.cl: which fragments and tiles a problem takes, as macros. Apart from the engines,
// so that they can also be compiled off line, for devices that are not there. Convolution's kernels, whose
// loop that is too, are described as the matrix product that they are.
#pragma once

#include <string>

#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

/// The matrix instructions of one vendor: a row of the list in gemm_fragment.cpp.
struct MatrixFragment {
  const char* engine;   ///< of GEMM, and of convolution
  const char* macro;    ///< FRAGMENT of fragment.cl
  MatrixEngine matrix;  ///< what the device must have
  int forms[2];         ///< FORM of its file; 0: there is none
};
extern const MatrixFragment kNvFragment, kAmdWmma, kAmdMfma, kIntelDpas;

/// The tile of a work-group, the steps of k it takes at once, and the tile of a sub-group in it.
struct GemmFragmentTile {
  int tm = 0, tn = 0, tk = 0, sm = 0, sn = 0;
};

/// A kernel: what is chosen for a problem, or asked for with parameters.
struct GemmFragmentKernel {
  const MatrixFragment* fragment = nullptr;
  int form = 0;      ///< 0: the compiler knows its device
  int emulate = 0;   ///< 1: the instruction in plain C
  int split = 1;     ///< parts of an element
  std::string type;  ///< FRAG_TYPE; empty if the fragment has none for the problem
  GemmFragmentTile tile;

  /// For a device with so many units whose matrix instructions take so many lanes; the tile is to be filled
  /// up only where it is 0. `gathered`: places of operands' rows take registers too.
  GemmFragmentKernel(const MatrixFragment& fragment, const GemmProblem& problem, const EngineOptions& options,
                     int lanes, int units, bool gathered = false);
  int lanes() const;
  int items() const { return tile.tm / tile.sm * (tile.tn / tile.sn) * lanes(); }
  /// Of local memory.
  uint64_t local_bytes() const;
  /// Throws ValidationError if the parameters do not fit together.
  void require_valid() const;
  Defines defines(const GemmProblem& problem) const;
  /// Adds the macros that are not GEMM's own.
  void define(Defines& defines, const GemmProblem& problem) const;
};

/// What the context's device takes.
GemmFragmentKernel fragment_kernel(const MatrixFragment& fragment, const Context& context,
                                   const GemmProblem& problem);
/// Why the device cannot run it; empty if it can.
std::string refuse_fragment(const GemmFragmentKernel& kernel, const Context& context,
                            const GemmProblem& problem);
/// Engine::avoid of nv_fragment.
template <class Problem>
std::string avoid_nv_fragment(const Context&, const Problem&, const EngineOptions&) {
  return "is a test of the kernel that other makers' engines share; nv_mma is faster by the same "
         "instructions";
}

}  // namespace dlprim::detail
