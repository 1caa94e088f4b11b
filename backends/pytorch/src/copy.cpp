// Copies. Across the host's border go plain bytes, in the order in which the device's tensor lies; dtypes are
// converted on the host then, as the CPU does. On a device dlprim's copy converts. Copies to and from pinned
// memory return before they are done if the caller says non_blocking; dtypes and strides are converted on the
// device then.
#include "copy.hpp"

#include <ATen/Functions.h>
#include <dlprim/copy.hpp>

#include "complex.hpp"
#include "host_memory.hpp"
#include "memory.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

bool on_ocl(const at::Tensor& t) {
  return t.device().type() == kOcl;
}

/// The same memory without the marks of conjugated and negated numbers.
at::Tensor plain(at::Tensor t) {
  if (t.is_conj()) t = t.conj();
  if (t.is_neg()) t = t._neg_view();
  return t;
}

int64_t bytes_of(const at::Tensor& t) {
  return t.numel() * static_cast<int64_t>(t.itemsize());
}

/// A tensor on the host that lies as `like` does, without gaps.
at::Tensor host_like(const at::Tensor& like) {
  return at::empty_strided(like.sizes(), like.strides(),
                           like.options().device(at::kCPU).pinned_memory(false));
}

void copy_on_device(const at::Tensor& src, const at::Tensor& dst) {
  Device& on = home_of(dst);
  const bool same = src.scalar_type() == dst.scalar_type();
  if (!same && (src.is_complex() || dst.is_complex())) return convert_complex(src, dst);
  if (!same && !(computes(on, src.scalar_type()) && computes(on, dst.scalar_type()))) {
    dst.copy_(src.to(at::kCPU));
    return;
  }
  auto iter = iterator_over(dst, {src});
  if (iter.ndim() >= dlprim::kMaxRank) {  // fold a dimension at a time
    for (int64_t i = 0; i < dst.size(0); i++) copy_on_device(src.select(0, i), dst.select(0, i));
    return;
  }
  const Elements elements = same ? Elements::bits : Elements::numbers;
  submit(on, [&](const dlprim::Stream& stream) {
    dlprim::copy(stream, operand(iter, 1, elements), operand(iter, 0, elements));
  });
}

void write_bytes(const at::Tensor& host, const at::Tensor& dst, bool from_pinned) {
  const int64_t bytes = bytes_of(dst);
  submit(home_of(dst), [&](const dlprim::Stream& stream) {
    const dlprim::Tensor y = flat(dst, dlprim::DType::u8, bytes);
    if (from_pinned)
      keep_until(host.const_data_ptr(), dlprim::write_async(stream, y, host.const_data_ptr(), bytes));
    else
      dlprim::write(stream, y, host.const_data_ptr(), bytes);
  });
}

/// True if a tensor on the host takes part in a copy that the caller does not wait for.
bool in_flight(const at::Tensor& host, bool non_blocking) {
  return non_blocking && host.is_non_overlapping_and_dense() && is_pinned(host.const_data_ptr());
}

/// On the device: `src` with the dtype and strides of `like`.
at::Tensor shaped_on_device(const at::Tensor& src, const at::Tensor& like) {
  const at::Tensor result =
      at::empty_strided(like.sizes(), like.strides(), src.options().dtype(like.scalar_type()));
  copy_on_device(src, result);
  return result;
}

bool converts(const Device& on, const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() ||
         (computes(on, a.scalar_type()) && computes(on, b.scalar_type()));
}

void copy_to_device(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  const bool alike = src.scalar_type() == dst.scalar_type() && src.strides() == dst.strides() &&
                     dst.is_non_overlapping_and_dense() && !src.is_conj() && !src.is_neg();
  if (in_flight(src, non_blocking) && (alike || (converts(home_of(dst), src, dst) && !src.is_complex()))) {
    const at::Tensor there = alike
                                 ? dst
                                 : at::empty_strided(src.sizes(), src.strides(),
                                                     src.options().device(dst.device()).pinned_memory(false));
    write_bytes(src, there, true);
    if (!alike) copy_on_device(there, dst);
    return;
  }
  if (!dst.is_non_overlapping_and_dense()) {
    const at::Tensor dense = at::empty(dst.sizes(), dst.options());
    copy_to_device(src, dense, false);
    copy_on_device(dense, dst);
    return;
  }
  at::Tensor host = src;
  if (src.scalar_type() != dst.scalar_type() || src.strides() != dst.strides() || src.is_conj() ||
      src.is_neg()) {
    host = host_like(dst);
    host.copy_(src);
  }
  write_bytes(host, dst, false);
}

void copy_to_host(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  const bool alike = src.scalar_type() == dst.scalar_type() && src.strides() == dst.strides();
  if (in_flight(dst, non_blocking) && (alike || (converts(home_of(src), src, dst) && !src.is_complex()))) {
    const at::Tensor from = alike ? src : shaped_on_device(src, dst);
    submit(home_of(src), [&](const dlprim::Stream& stream) {
      keep_until(dst.const_data_ptr(),
                 dlprim::read_async(stream, flat(from, dlprim::DType::u8, bytes_of(from)),
                                    dst.mutable_data_ptr(), bytes_of(from)));
    });
    return;
  }
  if (!src.is_non_overlapping_and_dense()) {
    const at::Tensor dense = at::empty(src.sizes(), src.options());
    copy_on_device(src, dense);
    copy_to_host(dense, dst, false);
    return;
  }
  const at::Tensor host = alike ? dst : host_like(src);
  read_bytes(src, host.mutable_data_ptr(), bytes_of(src));
  if (!alike) dst.copy_(host);
}

}  // namespace

void read_bytes(const at::Tensor& src, void* host, int64_t bytes) {
  const dlprim::Event arrived = submit(home_of(src), [&](const dlprim::Stream& stream) {
    return dlprim::read_async(stream, flat(src, dlprim::DType::u8, bytes), host, bytes);
  });
  arrived.wait();
}

at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0) return dst;
  const at::Tensor from = plain(src.sizes() == dst.sizes() ? src : src.expand_as(dst));
  const at::Tensor to = plain(dst);
  // The host negates such numbers after the copy, and so waits for it.
  const bool marked = src.is_conj() != dst.is_conj() || src.is_neg() != dst.is_neg();
  if (on_ocl(from) && on_ocl(to) && from.device() == to.device())
    copy_on_device(from, to);
  else if (on_ocl(from) && on_ocl(to))
    copy_to_device(from.cpu(), to, false);
  else if (on_ocl(to))
    copy_to_device(from.device().is_cpu() ? from : from.cpu(), to, non_blocking);
  else if (to.device().is_cpu())
    copy_to_host(from, to, non_blocking && !marked);
  else
    to.copy_(from.cpu());
  if (src.is_conj() != dst.is_conj()) at::view_as_real(to).select(-1, 1).neg_();
  if (src.is_neg() != dst.is_neg()) (to.is_complex() ? at::view_as_real(to) : to).neg_();
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& src, const at::Tensor& dst) {
  if (dst.sizes() != src.sizes()) dst.resize_(src.sizes());
  return copy_from(src, dst, false);
}

}  // namespace ocl
