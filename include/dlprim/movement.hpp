// Moving elements without arithmetic, and the tensors that only their places make. permute, transpose, slice
// and expand are views of Tensor; copy() makes memory of them.
//
// Any dtypes; where x and y differ in it, elements are converted as copy() does. Any strides. Tensors of one
// call share no memory unless it says so. All throw ValidationError, and what copy() throws.
#pragma once

#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Views of x along `axis`, of the given sizes, which add up to x's; or of `size` each, the last one of what
/// is left: PyTorch's split.
DLPRIM_API std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis);
DLPRIM_API std::vector<Tensor> split(const Tensor& x, int64_t size, int axis);
/// y holds the inputs one behind the other along `axis`. Its gradient: views of dy, by split().
DLPRIM_API void concat(const Stream& stream, const std::vector<Tensor>& inputs, int axis, const Tensor& y);

/// dx is zero but in the view x.slice(axis, start, end, step), where it is dy.
DLPRIM_API void slice_backward(const Stream& stream, const Tensor& dy, int axis, int64_t start, int64_t end,
                               int64_t step, const Tensor& dx);

/// x over and over: each size of y is a multiple of x's; y may have more dimensions in front. PyTorch's
/// repeat.
DLPRIM_API void tile(const Stream& stream, const Tensor& x, const Tensor& y);
/// dx: the sum of all of dy's parts. dy's rank and the number of dimensions that are repeated together at
/// most 8.
DLPRIM_API void tile_backward(const Stream& stream, const Tensor& dy, const Tensor& dx);

/// Elements of the named axes in reverse. One dtype. It is its own gradient.
DLPRIM_API void flip(const Stream& stream, const Tensor& x, const std::vector<int>& axes, const Tensor& y);
/// Elements moved by shifts[i] along axes[i]; those that pass the end come in at the front. Its gradient is
/// the roll by the shifts negated.
DLPRIM_API void roll(const Stream& stream, const Tensor& x, const std::vector<int64_t>& shifts,
                     const std::vector<int>& axes, const Tensor& y);

/// x's last two axes, zero above, or below, the diagonal k (0: the main one; above it k is positive). y may
/// be x. They are their own gradients.
DLPRIM_API void tril(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y);
DLPRIM_API void triu(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y);
/// y: [..., R, C], 1 on the diagonal k and 0 elsewhere.
DLPRIM_API void eye(const Stream& stream, int64_t k, const Tensor& y);

/// y: a vector of any dtype. y[i] = start + i step, computed in f64, or f32 where the device has none; in i64
/// if y holds integers, and then both are whole numbers.
DLPRIM_API void arange(const Stream& stream, double start, double step, const Tensor& y);
/// From start to end, both included; symmetric about the middle, as PyTorch's. If y holds integers start and
/// end are whole numbers, and so is each element: without what is behind the point, of an exact quotient
/// (PyTorch's is rounded to f64 first, which can leave one less).
DLPRIM_API void linspace(const Stream& stream, double start, double end, const Tensor& y);

/// y: index's shape and C. 1 where the last coordinate is the index, which counts from the end if negative; 0
/// elsewhere. index: i32 or i64.
DLPRIM_API void one_hot(const Stream& stream, const Tensor& index, const Tensor& y);

/// y = mask ? value : x, the mask of any dtype, broadcast to x. y may be x. Its gradient is masked_fill of dy
/// by 0.
DLPRIM_API void masked_fill(const Stream& stream, const Tensor& x, const Tensor& mask, Scalar value,
                            const Tensor& y);

}  // namespace dlprim
