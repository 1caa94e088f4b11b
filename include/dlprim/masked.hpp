// Choosing elements by a mask. How many there are is known only on the device: results have room for all that
// may be chosen, or for as many as the caller wants, and the number goes to a tensor. Order is row-major
// order; what does not fit is dropped, what is behind the chosen ones stays as it was. Engines: `tiles`, and
// `chunks` for CPUs.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// y: a vector; its first elements become those of x where mask, of x's shape and any dtype, is not 0. x and
/// y: one dtype, any. count: [1] of i32 or i64, all there are, also those that did not fit. x: fewer than
/// 2^31 elements. Tensors share no memory. Throws ValidationError.
DLPRIM_API void masked_select(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
                              const Tensor& count, const Options& options = {});
/// dx: where mask is not 0 the next element of dy, elsewhere 0; also where dy has no more.
DLPRIM_API void masked_select_backward(const Stream& stream, const Tensor& dy, const Tensor& mask,
                                       const Tensor& dx, const Options& options = {});
/// y: [room, x's rank], i32 or i64: the coordinates of elements that are not 0. count: [1] of y's dtype.
DLPRIM_API void nonzero(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& count,
                        const Options& options = {});

/// The same with results of the right size; they wait for the device between counting and moving.
DLPRIM_API Tensor masked_select(const Stream& stream, const Tensor& x, const Tensor& mask,
                                const Options& options = {});
DLPRIM_API Tensor nonzero(const Stream& stream, const Tensor& x, const Options& options = {});

}  // namespace dlprim
