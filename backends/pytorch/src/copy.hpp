// Copies of any dtypes and strides: to a device, from it, on it, between two.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

/// dst = src, which broadcasts. One of the two is on a device. Returns dst.
at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);
/// The same, after dst got src's sizes.
at::Tensor copy_from_and_resize(const at::Tensor& src, const at::Tensor& dst);

/// The first bytes of a tensor that lies without gaps. Waits for them, but not with the stream's lock: other
/// threads go on.
void read_bytes(const at::Tensor& src, void* host, int64_t bytes);

}  // namespace ocl
