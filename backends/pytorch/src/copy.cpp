// Copies. Across the host's border go plain bytes, in the order in which the device's tensor lies; dtypes are
// converted on the host then, as the CPU does. On a device dlprim's copy converts.
#include "copy.hpp"

#include <ATen/Functions.h>
#include <dlprim/copy.hpp>

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

void copy_to_device(const at::Tensor& src, const at::Tensor& dst) {
  if (!dst.is_non_overlapping_and_dense()) {
    const at::Tensor dense = at::empty(dst.sizes(), dst.options());
    copy_to_device(src, dense);
    copy_on_device(dense, dst);
    return;
  }
  at::Tensor host = src;
  if (src.scalar_type() != dst.scalar_type() || src.strides() != dst.strides() || src.is_conj() ||
      src.is_neg()) {
    host = host_like(dst);
    host.copy_(src);
  }
  submit(home_of(dst), [&](const dlprim::Stream& stream) {
    dlprim::write(stream, flat(dst, dlprim::DType::u8, bytes_of(dst)), host.const_data_ptr(), bytes_of(dst));
  });
}

void copy_to_host(const at::Tensor& src, const at::Tensor& dst) {
  if (!src.is_non_overlapping_and_dense()) {
    const at::Tensor dense = at::empty(src.sizes(), src.options());
    copy_on_device(src, dense);
    copy_to_host(dense, dst);
    return;
  }
  const bool direct = src.scalar_type() == dst.scalar_type() && src.strides() == dst.strides();
  const at::Tensor host = direct ? dst : host_like(src);
  read_bytes(src, host.mutable_data_ptr(), bytes_of(src));
  if (!direct) dst.copy_(host);
}

}  // namespace

void read_bytes(const at::Tensor& src, void* host, int64_t bytes) {
  const dlprim::Event arrived = submit(home_of(src), [&](const dlprim::Stream& stream) {
    return dlprim::read_async(stream, flat(src, dlprim::DType::u8, bytes), host, bytes);
  });
  arrived.wait();
}

at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool) {
  if (dst.numel() == 0) return dst;
  const at::Tensor from = plain(src.sizes() == dst.sizes() ? src : src.expand_as(dst));
  const at::Tensor to = plain(dst);
  if (on_ocl(from) && on_ocl(to) && from.device() == to.device())
    copy_on_device(from, to);
  else if (on_ocl(from) && on_ocl(to))
    copy_to_device(from.cpu(), to);
  else if (on_ocl(to))
    copy_to_device(from.device().is_cpu() ? from : from.cpu(), to);
  else if (to.device().is_cpu())
    copy_to_host(from, to);
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
