// The pointwise generator: fills the slots of pointwise.cl and pointwise_cpu.cl.
#pragma once

#include <string>
#include <vector>

#include "core/gen/expression.hpp"

namespace dlprim::detail {

/// Everything that is compiled into a pointwise kernel.
struct PointwiseForm {
  std::vector<Operand> operands;  ///< inputs, then outputs
  int scalars = 0;
  std::string body;
  DType real = DType::f32;
  size_t rank = 1;    ///< dimensions of the loop nest
  bool wide = false;  ///< 64-bit indices
  int vector = 1;     ///< elements an access (GPU): 8, 4 or 1
  int unroll = 1;     ///< accesses a work-item (GPU)
  int local = 1;      ///< work-items a group (GPU)
};
template <>
inline constexpr int kFields<PointwiseForm> = 9;

/// The kernel `pointwise` for a GPU. Its arguments after the list of expression.hpp: count.
std::string pointwise_source(const PointwiseForm& form);
/// The kernel `pointwise` for a CPU. Its last arguments: count, chunk.
std::string pointwise_cpu_source(const PointwiseForm& form);

/// "X0": the array that stands for an operand.
std::string array_name(const Operand& operand);

/// An array, X0, by way of which a CPU's kernel takes elements with gaps between them: they come to it or go
/// from it one by one, as they lie in memory, and are converted in vectors.
class Staged {
 public:
  explicit Staged(const Operand& operand);
  std::string declared(const char* length) const;
  /// Copies `count` elements, of which number j lies at `at` from the operand's pointer.
  std::string copied(const char* count, const std::string& at) const;
  /// The array and element `j`, as LOAD_t and STORE_t take them.
  std::string element(const std::string& j) const;

 private:
  const Operand& operand_;
  std::string name_, word_;
};

/// "const float x0 = LOAD_f32(element);", for an array and an index in it.
std::string cpu_load(const Operand& operand, const std::string& element);
/// Reads `operand` at an offset into array X with V elements an access at access `u`; used by reductions too.
std::string gpu_load(const Operand& operand, const std::string& at, InnerStride inner,
                     const std::string& step, int vector);
/// "const float x0 = X0[e]; ..." for all inputs, from the arrays that gpu_load fills.
std::string inputs_from_arrays(const std::vector<Operand>& operands);
/// "float y0; ..." for all outputs.
std::string declare_outputs(const std::vector<Operand>& operands);
/// The index of element `j` along an innermost dimension: "j", "0" or "j * stride".
std::string inner_index(InnerStride inner, const std::string& j, const std::string& stride);

}  // namespace dlprim::detail
