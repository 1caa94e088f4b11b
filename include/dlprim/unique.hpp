// The distinct elements of a tensor, seen as a vector in row-major order. How many there are is known only on
// the device: results have room for all, or for as many as the caller wants, and the number goes to a tensor.
// What does not fit is dropped, what is behind the results stays as it was.
//
// Elements are equal as numbers are: -0 equals 0, and the first one's bits are kept; each NaN is distinct.
#pragma once

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

/// y in ascending order, NaNs last: torch.unique(sorted=True). x: any dtype and strides, fewer than
/// 2^31 - 4096 elements. Tensors share no memory. Engines, of which each runs on every device: chunks, for
/// CPUs; tiles. Throws ValidationError.
DLPRIM_API void unique(const Stream& stream, const Tensor& x, const UniqueResults& results,
                       const Options& options = {});
/// Only neighbours are compared, y has x's order: torch.unique_consecutive.
DLPRIM_API void unique_consecutive(const Stream& stream, const Tensor& x, const UniqueResults& results,
                                   const Options& options = {});

/// The same with results of the right size, of i64; they wait for the device. `inverse` and `counts` say
/// what is wanted.
DLPRIM_API UniqueResults unique(const Stream& stream, const Tensor& x, bool inverse = false,
                                bool counts = false);
DLPRIM_API UniqueResults unique_consecutive(const Stream& stream, const Tensor& x, bool inverse = false,
                                            bool counts = false);

}  // namespace dlprim
