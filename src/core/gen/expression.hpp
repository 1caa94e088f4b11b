// What the pointwise and the reduction generators share: the types of tensors in kernels, parameter lists,
// and the text that turns a flat index into offsets.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <dlprim/tensor.hpp>

#include "core/defines.hpp"
#include "core/fields.hpp"
#include "core/gen/loop_nest.hpp"

namespace dlprim::detail {

/// How a tensor moves along the innermost dimension of a kernel's loop; this much of the strides is compiled
/// in.
enum class InnerStride : uint8_t { one, zero, any };

/// One tensor of a kernel: x0, x1, ... or y0, y1, ...
struct Operand {
  std::string name;
  DType dtype = DType::f32;
  bool output = false;
  InnerStride kept = InnerStride::one;     ///< along the innermost kept dimension
  InnerStride reduced = InnerStride::one;  ///< along the innermost reduced dimension
  bool place = false;                      ///< no memory: an element is its own offset, an INDEX
  bool finishing = false;                  ///< an input with an element for each output of a reduction
};

template <>
inline constexpr int kFields<Operand> = 7;

/// The type of scalars and accumulators: f64, f32, or, where nothing is floating, i64, or u64 if an input is
/// that, or an output where there is no input.
DType real_type(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs);
/// The C type in memory, and the one in expressions.
const char* storage_type(DType dtype);
const char* compute_type(DType dtype);
/// Sets NAME_DTYPE and NAME_T, the type in memory, of a kernel's tensor.
void define_type(Defines& defines, const std::string& name, DType dtype);

/// Operands for the tensors of a nest, inputs first.
std::vector<Operand> make_operands(const std::vector<TensorDesc>& inputs,
                                   const std::vector<TensorDesc>& outputs, const LoopNest& nest);

/// How many elements of `tensors`, the first operands, can be read or written at a time along the innermost
/// reduced dimension, or kept one: 4, 8 if all that step by one there have 16 bits or less, or 1. All
/// accesses then start at aligned places and stay within a run.
int vector_width(const std::vector<Operand>& operands, const std::vector<TensorDesc>& tensors,
                 const LoopNest& nest, bool along_reduced);

/// "#define INDEX uint" and the like, common to all generated kernels. REAL_LOWEST and REAL_HIGHEST are those
/// of floats, or of the integer type `limits`.
std::string common_head(DType real, bool wide, DType limits);
inline std::string common_head(DType real, bool wide) {
  return common_head(real, wide, real);
}
/// "#define SPECIAL" and the like: which of the functions of special.cl, bessel.cl and orthogonal.cl the
/// expressions name, and so have to be compiled.
std::string special_head(std::initializer_list<std::string> expressions);
/// kRoundedQuotients if one of the expressions divides or takes a root in f32.
std::string quotient_head(std::initializer_list<std::string> expressions, DType real);
/// "#define CALLS_AND_CHOICES" (see INDEPENDENT_ROUNDS) if the expression has both a choice and a call of a
/// function that is the driver's on CPUs too, of REAL.
std::string choice_head(const std::string& expression, DType real);
/// "__global const float* x0_p, long x0_o," a line per operand, of inputs only finishing ones unless
/// `inputs_too`, then scalars, then sizes and strides of the kept (n, t) and reduced (m, u) dimensions.
std::string parameter_list(const std::vector<Operand>& operands, int scalars, size_t kept_rank,
                           size_t reduced_rank, bool inputs_too = true);

/// Splits the flat index `index` into coordinates: "const INDEX c0 = ...;" with sizes n0, n1, ...
/// `coordinate` and `size` are the letters.
std::string coordinates(const std::string& index, size_t rank, char coordinate, char size);
/// "c0 * x0_t0 + c1" for the first `rank` of `full_rank` dimensions; "0" for none.
std::string offset(const Operand& operand, size_t rank, size_t full_rank, char coordinate, char stride);

/// The expression with a closing semicolon and without line ends. Throws ValidationError if it is empty or
/// holds a preprocessor line, a comment, a quote or a backslash.
std::string statement(const char* argument, const std::string& text);

}  // namespace dlprim::detail
