// The distinct elements of a tensor, seen as a vector in row-major order. How many there are is known only on
// the device: results have room for all, or for as many as the caller wants, and the number goes to a tensor.
// What does not fit is dropped, what is behind the results stays as it was.
//
// Elements are equal as numbers are: -0 equals 0, and the first one's bits are kept; each NaN is distinct.
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

struct UniqueResults {
  Tensor y;        ///< [room], x's dtype: the distinct elements
  Tensor count;    ///< [1], i32 or i64: how many there are, also those that did not fit
  Tensor inverse;  ///< x's shape, count's dtype, or undefined: of each element its place in y
  Tensor counts;   ///< [room], count's dtype, or undefined: how many equal elements each one stands for
};

/// x: any dtype and strides, fewer than 2^31 - 4096 elements. The others: those of UniqueResults.
struct UniqueDesc {
  TensorDesc x, y, count;
  std::optional<TensorDesc> inverse{}, counts{};
  bool consecutive = false;  ///< only neighbours are compared, and y has x's order
};

/// y in ascending order, NaNs last: torch.unique(sorted=True); or as torch.unique_consecutive.
class DLPRIM_API Unique : public Plan {
 public:
  /// Engines, of which each runs on every device: chunks, for CPUs; tiles. Throws ValidationError,
  /// BuildError.
  explicit Unique(const Context& context, const UniqueDesc& desc, const Options& options = {});
  /// Tensors share no memory.
  void run(const Stream& stream, const Tensor& x, const UniqueResults& results,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void unique(const Stream& stream, const Tensor& x, const UniqueResults& results,
                       const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void unique_consecutive(const Stream& stream, const Tensor& x, const UniqueResults& results,
                                   const Options& options = {}, const Tensor& workspace = {});

/// The same with results of the right size, of i64; they wait for the device, and have no plan. `inverse` and
/// `counts` say what is wanted.
DLPRIM_API UniqueResults unique(const Stream& stream, const Tensor& x, bool inverse = false,
                                bool counts = false, const Options& options = {},
                                const Tensor& workspace = {});
DLPRIM_API UniqueResults unique_consecutive(const Stream& stream, const Tensor& x, bool inverse = false,
                                            bool counts = false, const Options& options = {},
                                            const Tensor& workspace = {});

}  // namespace dlprim
