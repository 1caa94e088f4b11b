// General matrix multiplication: C = activation(scale * alpha * A B + beta * C + bias + residual).
#pragma once

#include <dlprim/activation.hpp>
#include <dlprim/epilogue.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct GemmBatches;
}

/// A: [M, K], B: [K, N], C: [M, N]; or a batch of products, A: [..., M, K], B: [..., K, N], C: [..., M, N]
/// with any number of dimensions in front, the same in all three, where A or B may be the same for all: an
/// expanded view, of stride 0. Dimensions that do not lie as one in all three are looped over, but for the
/// largest. A transposed operand is a view: a.transpose(-1, -2). Each of A and B has one of its last
/// dimensions of stride 1 (or of size 1); C's rows are contiguous.
///
/// A and B have one dtype: f32, f16, bf16 or f64, summed in f32 or f64, or i8, summed in i32. C has the same;
/// f16 and bf16 may also give f32; i8 gives i32. All that the epilogue reads and writes has C's.
struct GemmDesc {
  TensorDesc a, b, c;
  /// Finite, for i8 whole numbers; computed in f32, or in f64 where C is. beta 0: C is not read, NaN in it
  /// does not spread. alpha 0: the same of A, B.
  double alpha = 1, beta = 0;
  enum class Vector : uint8_t {
    none,
    row,    ///< [N], the same for every row of C
    column  ///< [M] or [M, 1], the same for every column of C
  } bias = Vector::none;
  Activation activation = Activation::identity;
  Vector scale = Vector::none;  ///< factors of alpha * A B: a folded normalisation, a quantisation's steps
  bool residual = false;        ///< added before the activation; shape and strides as C
  /// What is given to the activation is stored too, for its backward pass; shape and strides as C.
  bool preactivation = false;
  /// The operand's memory holds the same numbers in every run, as weights do in inference: what is prepared
  /// of it (packed panels, parts), at about its size, is kept with it until its memory ends or
  /// forget_constants(), and shared by all plans that prepare it alike. A tensor is known by its memory,
  /// which its copies and views share. The engine gives the same bits as without; "auto" may choose other
  /// tiles.
  bool constant_a = false, constant_b = false;
};

class DLPRIM_API Gemm : public Plan {
 public:
  /// Throws ValidationError (ranks, sizes that do not match or exceed 2^31 - 4097, strides, dtypes; for i8,
  /// an activation other than identity, relu and relu6), BuildError.
  explicit Gemm(const Context& context, const GemmDesc& desc, const Options& options = {});
  /// Tensors as described. c and the preactivation share no memory with each other and the rest. K = 0 gives
  /// activation(beta * C + bias + residual).
  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor& workspace = {}) const;
  /// For constant operands that were changed after all: what was kept of them is prepared anew by the next
  /// runs, of this plan and of those that share it.
  void forget_constants() const;
  using Plan::serialize;

  struct Impl;

 private:
  GemmDesc desc_;
  std::shared_ptr<const detail::GemmBatches> batches_;
  std::shared_ptr<const Impl> impl_;
};

struct GemmParams {
  double alpha = 1, beta = 0;
  Activation activation = Activation::identity;
};

/// The plan is found in the context's cache, or made. The epilogue has those of its tensors that are defined;
/// bias and scale are [N], or [M] given as [M, 1].
DLPRIM_API void gemm(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
                     const GemmParams& params, const Tensor& c, const Options& options = {},
                     const Tensor& workspace = {});

}  // namespace dlprim
