// The reduction generator: fills the slots of reduce.cl, reduce_cpu.cl and reduce_parts.cl.
#pragma once

#include <string>
#include <vector>

#include <dlprim/pointwise.hpp>

#include "core/gen/expression.hpp"

namespace dlprim::detail {

/// Everything that is compiled into a reduction kernel.
struct ReduceForm {
  std::vector<Operand> operands;  ///< inputs, then outputs
  int scalars = 0;
  Reduction reduction;
  DType real = DType::f32;
  DType limits = DType::i64;  ///< whose numbers REAL_LOWEST and REAL_HIGHEST are, where `real` is an integer
  size_t kept_rank = 1, reduced_rank = 1;
  bool wide = false;
  bool along_reduced = true;   ///< neighbouring lanes take neighbouring reduced elements, not outputs
  bool parts = false;          ///< accumulators go to the workspace, for reduce_parts
  bool whole_outputs = false;  ///< GPU: a lane's neighbouring outputs are stored at once
  int vector = 1;              ///< GPU: elements an access, of the reduced ones or of neighbouring outputs
  int unroll = 1;              ///< GPU: accesses in flight
  int lanes_x = 1, lanes_y = 1;
  int levels = 0;  ///< at which blocks of elements meet; 0: a lane takes all its elements in a row
};
template <>
inline constexpr int kFields<ReduceForm> = 16;
template <>
inline constexpr int kFields<Reduction> = 8;

/// Elements of a block on GPUs and on CPUs, and how many blocks of a level are one of the next.
constexpr int kGpuBlock = 128, kCpuBlockLength = 64, kLevelBits = 5;

/// Bytes of an accumulator in the workspace.
size_t slot_bytes(const ReduceForm& form);
/// The kernel `reduce` for a GPU; last arguments: workspace, kept, reduced, part.
std::string reduce_source(const ReduceForm& form);
/// The kernel `reduce` for a CPU; last arguments: workspace, kept, reduced, part, and the chunk of outputs,
/// or of blocks of lanes_x of them, that a work-item takes.
std::string reduce_cpu_source(const ReduceForm& form);
/// The kernel `reduce_parts`; its parameters are those of outputs and finishing inputs only, then workspace,
/// kept, parts.
std::string reduce_parts_source(const ReduceForm& form, int lanes_x, int lanes_y);

}  // namespace dlprim::detail
