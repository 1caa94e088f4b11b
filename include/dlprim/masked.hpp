// Choosing elements by a mask, and filling by one. How many are chosen is known only on the device: results
// have room for all that may be chosen, or for as many as the caller wants, and the number goes to a tensor.
// Order is row-major order; what does not fit is dropped, what is behind the chosen ones stays as it was.
//
// Masks are of any dtype, and choose where they are not 0. Tensors of one run share no memory, unless it says
// so. Constructors throw ValidationError and BuildError.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
class Compaction;
}

/// x, mask: one shape, fewer than 2^31 elements. y: a vector of x's dtype, any. count: [1] of i32 or i64.
struct MaskedSelectDesc {
  TensorDesc x, mask, y, count;
};

/// The first elements of y become those of x that mask chooses; count: all there are, also those that did not
/// fit.
class DLPRIM_API MaskedSelect : public Plan {
 public:
  /// Engines: tiles; chunks, for CPUs.
  explicit MaskedSelect(const Context& context, const MaskedSelectDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y, const Tensor& count,
           const Tensor& workspace = {}) const;

 private:
  MaskedSelectDesc desc_;
  std::shared_ptr<const detail::Compaction> impl_;
};

/// mask, dx: as mask and x are forward. dy: a vector of dx's dtype.
struct MaskedSelectBackwardDesc {
  TensorDesc dy, mask, dx;
};

/// dx: where mask chooses the next element of dy, elsewhere 0; also where dy has no more.
class DLPRIM_API MaskedSelectBackward : public Plan {
 public:
  /// Engines as MaskedSelect's.
  explicit MaskedSelectBackward(const Context& context, const MaskedSelectBackwardDesc& desc,
                                const Options& options = {});
  void run(const Stream& stream, const Tensor& dy, const Tensor& mask, const Tensor& dx,
           const Tensor& workspace = {}) const;

 private:
  MaskedSelectBackwardDesc desc_;
  std::shared_ptr<const detail::Compaction> impl_;
};

/// x: any dtype, fewer than 2^31 elements. y: [room, x's rank], i32 or i64. count: [1] of y's dtype.
struct NonzeroDesc {
  TensorDesc x, y, count;
};

/// y: the coordinates of elements that are not 0; count: all there are.
class DLPRIM_API Nonzero : public Plan {
 public:
  /// Engines as MaskedSelect's.
  explicit Nonzero(const Context& context, const NonzeroDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& count,
           const Tensor& workspace = {}) const;

 private:
  NonzeroDesc desc_;
  std::shared_ptr<const detail::Compaction> impl_;
};

/// x, y: one shape and dtype, any. mask broadcasts to it.
struct MaskedFillDesc {
  TensorDesc x, mask, y;
};

/// y = mask ? value : x. Its gradient is the same of dy with value 0.
class DLPRIM_API MaskedFill : public Plan {
 public:
  /// Its engine is `generated`.
  explicit MaskedFill(const Context& context, const MaskedFillDesc& desc, const Options& options = {});
  /// y may be x. Throws ValidationError for a value that is no 64-bit integer if y holds integers.
  void run(const Stream& stream, const Tensor& x, const Tensor& mask, Scalar value, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void masked_select(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
                              const Tensor& count, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void masked_select_backward(const Stream& stream, const Tensor& dy, const Tensor& mask,
                                       const Tensor& dx, const Options& options = {},
                                       const Tensor& workspace = {});
DLPRIM_API void nonzero(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& count,
                        const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void masked_fill(const Stream& stream, const Tensor& x, const Tensor& mask, Scalar value,
                            const Tensor& y, const Options& options = {}, const Tensor& workspace = {});

/// The same with results of the right size, which is known only once the device has counted: they wait for
/// it, and have no plan. Coordinates are i64.
DLPRIM_API Tensor masked_select(const Stream& stream, const Tensor& x, const Tensor& mask,
                                const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API Tensor nonzero(const Stream& stream, const Tensor& x, const Options& options = {},
                          const Tensor& workspace = {});

}  // namespace dlprim
