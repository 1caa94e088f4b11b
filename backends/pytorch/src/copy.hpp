// Copies of any dtypes and strides: to a device, from it, on it, between two.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

/// dst = src, which broadcasts. One of the two is on a device. Returns dst.
at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);
/// The same, after dst got src's sizes.
at::Tensor copy_from_and_resize(const at::Tensor& src, const at::Tensor& dst);

}  // namespace ocl
