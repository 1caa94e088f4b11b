// A convolution as the engines see it: checked numbers. One struct serves the three directions; "x" always
// means the side of shape [N, C, D, H, W] and "y" that of [N, K, O, P, Q], whichever is read and whichever is
// written. A transposed convolution is one in another direction, its x the y of this.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include <dlprim/conv.hpp>

#include "core/defines.hpp"
#include "core/engine.hpp"

namespace dlprim::detail {

enum class ConvDirection : uint8_t { forward, backward_data, backward_filter };

/// Along depth, height and width; axes that the problem lacks come first, with size, stride and dilation 1.
using Spatial = std::array<int, 3>;
/// Elements, [N, C, D, H, W]; 0 where nothing steps: along dimensions of size 1.
using ConvStrides = std::array<int64_t, 5>;

struct ConvProblem {
  ConvDirection direction = ConvDirection::forward;
  DType dtype = DType::f32, result_dtype = DType::f32;  ///< of what is read; of what is written
  int n = 0, c = 0, k = 0, groups = 1;
  Spatial x_space{1, 1, 1}, w_space{1, 1, 1}, y_space{1, 1, 1};
  /// `pad` is that in front; the sizes hold the rest.
  Spatial stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  ConvStrides x{}, w{}, y{};
  int64_t x_extent = 0, y_extent = 0, w_extent = 0;  ///< elements from the first to the last one
  bool x_aligned = false, w_aligned = false, y_aligned = false;
  bool w_row_major = false;
  // The epilogue, on x in the backward data direction.
  Activation activation = Activation::identity;
  bool bias = false, scale = false, residual = false, preactivation = false;
  bool constant_w = false;

  int group_c() const { return c / groups; }
  int group_k() const { return k / groups; }
  int taps() const { return w_space[0] * w_space[1] * w_space[2]; }
  /// With padding in front, the only tap may lie outside.
  bool has_depth() const { return x_space[0] != 1 || y_space[0] != 1 || w_space[0] != 1 || pad[0] != 0; }
  int64_t x_pixels() const { return int64_t{x_space[0]} * x_space[1] * x_space[2]; }
  int64_t y_pixels() const { return int64_t{y_space[0]} * y_space[1] * y_space[2]; }
  bool has_epilogue() const {
    return bias || scale || residual || preactivation || activation != Activation::identity;
  }
};

/// The tensors of a run, with five dimensions each: in the backward directions gradients take the place of
/// what they are gradients of.
struct ConvTensors {
  const Tensor &x, &w, &y;
  const EpilogueTensors& with;
};

struct ConvImpl : EngineImpl {
  virtual void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const = 0;
  virtual void forget_constants() const {}
};

/// The backward directions' descriptions as one, with gradients in the places of x, w and y.
ConvDesc sides_of(const ConvBackwardDataDesc& desc);
ConvDesc sides_of(const ConvBackwardFilterDesc& desc);

/// What a plan's description says in the problem's terms: exchanged if transposed, with five dimensions.
struct ConvSides {
  ConvDirection direction;
  TensorDesc x, w, y;
};
ConvSides conv_sides(ConvDirection direction, const ConvDesc& desc);
/// x with five dimensions, the missing ones behind the second.
TensorDesc with_depth(const TensorDesc& x);
Tensor with_depth(const Tensor& x);

/// Checks descriptions and parameters. Throws ValidationError.
ConvProblem conv_problem(ConvDirection direction, const ConvDesc& desc);

/// Multiplications and additions of one run.
double conv_flops(const ConvProblem& problem);
/// Bytes of the elements of x and y.
double conv_pixel_bytes(const ConvProblem& problem);
/// "n=64 c=3 size=224x224 ...", for the log.
std::string conv_text(const ConvProblem& problem);

/// The matrix product that a direction is, for one group: C[m, n] = sum over k of A[m, k] B[k, n].
struct ConvGemm {
  int64_t m, n, k;
};
ConvGemm conv_gemm(const ConvProblem& problem);

// Refusals; empty if there is nothing to refuse.

/// Of an engine that counts elements and matrix columns in 32 bits.
std::string refuse_large(const ConvProblem& problem);
/// Of an engine that multiplies matrices: with one channel and one filter a group they have one row.
std::string refuse_depthwise(const ConvProblem& problem);
/// Of an engine for groups of few channels: at most `most` of x and of y, or 1 of one and any number of the
/// other.
std::string refuse_wide_groups(const ConvProblem& problem, int most);

/// Elements from a position to the next, row by row along the three axes, if all are so far apart; 0 if there
/// is one position.
std::optional<int64_t> even_stride(const ConvStrides& strides, const Spatial& space);

/// The numbers as kernels take them that count in 32 bits.
std::array<int, 5> narrow(const ConvStrides& strides);

/// The macros of gemm_types.cl: dtypes and epilogue. To the product that the engine computes, channels of the
/// result are:
enum class ConvChannels : uint8_t { rows, columns };
Defines conv_defines(const ConvProblem& problem, ConvChannels channels = ConvChannels::rows);
/// How many neighbouring channels of the result a kernel can store at once: the largest power of 2, of 16
/// bytes at most, that divides their number and what lies between the pixels.
int64_t conv_result_vector(const ConvProblem& problem, int channels, const ConvStrides& target, bool aligned);

using ConvEngine = Engine<ConvProblem, ConvImpl>;
/// Makes what computes the convolution that another one was turned into.
using MakeConv = std::unique_ptr<const ConvImpl> (*)(const Context&, const ConvProblem&,
                                                     const EngineOptions&);

}  // namespace dlprim::detail
