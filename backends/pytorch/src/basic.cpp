// The least that a device must have: making tensors, views of them, their storages, copies, filling, one
// number to the host.
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>
#include <dlprim/copy.hpp>

#include "complex.hpp"
#include "copy.hpp"
#include "memory.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == at::kStrided, "ocl: tensors of layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "only dense CPU tensors can be pinned");
}

c10::Device device_or_current(std::optional<c10::Device> device) {
  if (device && device->has_index()) return *device;
  return {kOcl, current_device()};
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<c10::Device> on, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  const c10::DeviceGuard guard(device_or_current(on));
  return at::detail::empty_generic(size, device_allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<c10::Device> on,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const c10::DeviceGuard guard(device_or_current(on));
  return at::detail::empty_strided_generic(size, stride, device_allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

/// Sizes and strides of a tensor, whose storage grows if they need that.
void set_sizes(at::TensorImpl* self, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
  if (stride)
    self->set_sizes_and_strides(size, *stride);
  else
    self->set_sizes_contiguous(size);
  if (self->numel() == 0) return;
  const size_t needed = stride ? at::detail::computeStorageNbytes(size, *stride, self->itemsize(),
                                                                  static_cast<size_t>(self->storage_offset()))
                               : at::detail::computeStorageNbytesContiguous(
                                     size, self->itemsize(), static_cast<size_t>(self->storage_offset()));
  if (needed > self->unsafe_storage().nbytes())
    resize_storage(*self->unsafe_storage().unsafeGetStorageImpl(), needed);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> format) {
  at::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() != size) set_sizes(impl, size, std::nullopt);
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "resize_: there is no format to preserve");
    impl->empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  set_sizes(self.unsafeGetTensorImpl(), size,
            stride.data() ? at::OptionalIntArrayRef(stride) : at::OptionalIntArrayRef());
  return self;
}

at::Tensor& set_empty(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  return self.set_(at::Storage(at::Storage::use_byte_size_t(), 0, device_allocator(), true), 0, {0}, {});
}

at::Tensor& set_source(at::Tensor& self, at::Storage source) {
  return at::native::set_(self, std::move(source));
}

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  if (self.numel() == 0) return self;
  Device& on = home_of(self);
  if (self.is_complex() && computes(on, c10::toRealValueType(self.scalar_type()))) {
    fill_complex(self, value);
    return self;
  }
  if (!dtype_of(self.scalar_type()) || value.isComplex())
    return self.copy_(at::scalar_tensor(value, self.options().device(at::kCPU)));
  const dlprim::Scalar number = c10::isFloatingType(self.scalar_type()) ? dlprim::Scalar(value.toDouble())
                                : self.scalar_type() == at::kBool       ? dlprim::Scalar(value.toBool())
                                                                        : dlprim::Scalar(value.toLong());
  const at::TensorIterator iter = iterator_over(self);
  if (iter.ndim() > dlprim::kMaxRank) {  // fold a dimension at a time
    for (int64_t i = 0; i < self.size(0); i++) {
      at::Tensor part = self.select(0, i);
      fill_scalar(part, value);
    }
    return self;
  }
  submit(on, [&](const dlprim::Stream& stream) { dlprim::fill(stream, number, operand(iter, 0)); });
  return self;
}

at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ takes a tensor of no dimensions, this one has ", value.dim());
  return self.copy_(value);
}

at::Tensor& zero_(at::Tensor& self) {
  return fill_scalar(self, 0);
}

at::Scalar local_scalar(const at::Tensor& self) {
  const at::Tensor host = at::empty({}, self.options().device(at::kCPU));
  read_bytes(self, host.mutable_data_ptr(), static_cast<int64_t>(self.itemsize()));
  return host.item();
}

/// Streams are known to dlprim's pool, kernel by kernel.
void record_stream(at::Tensor&, at::Stream) {}

/// `p.data = x` and module.to("ocl") keep their Parameter where its implementation may take another's place.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && (t.device().type() == kOcl || t.device().is_cpu());
  };
  return plain(self) && plain(from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_.source_Storage", TORCH_FN(set_source));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor));
  m.impl("zero_", TORCH_FN(zero_));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace

}  // namespace ocl
