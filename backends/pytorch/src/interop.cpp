// OpenCL's own handles, and tensors around memory of other libraries: buffers as they are, and as DLPack
// hands them on. Nothing is copied. torch_ocl/interop.py says what users have to keep to.
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include <ATen/DLConvertor.h>
#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include "memory.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

int64_t context_handle(int64_t index) {
  return reinterpret_cast<int64_t>(device(static_cast<c10::DeviceIndex>(index)).context.cl()());
}

void check_has_memory(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.device().type() == kOcl, "tensor: is on ", tensor.device(), ", not on ocl");
  TORCH_CHECK_VALUE(tensor.numel() > 0, "tensor: has no elements, and so no memory");
}

cl_mem memory_of(const at::Tensor& tensor) {
  return place_of(tensor.storage()).block.memory.buffer()();
}

/// The byte of the buffer where the tensor begins.
int64_t byte_of(const at::Tensor& tensor) {
  const Place place = place_of(tensor.storage());
  return place.block.memory.offset() + place.offset +
         tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
}

std::tuple<int64_t, int64_t> memory_handle(const at::Tensor& tensor) {
  check_has_memory(tensor);
  return {reinterpret_cast<int64_t>(memory_of(tensor)), byte_of(tensor)};
}

template <class Value>
Value info(cl_mem memory, cl_mem_info what) {
  Value value{};
  const cl_int error = clGetMemObjectInfo(memory, what, sizeof value, &value, nullptr);
  TORCH_CHECK_VALUE(error == CL_SUCCESS, "handle: ", static_cast<void*>(memory),
                    " is no cl_mem: ", dlprim::opencl_error_name(error));
  return value;
}

/// Whether the process may read a word there. OpenCL would not ask.
bool readable(const void* address) {
  uintptr_t word;
  const iovec to{&word, sizeof word}, from{const_cast<void*>(address), sizeof word};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) >= 0 || errno != EFAULT;
}

/// Throws for what is no buffer, as far as that can be told.
cl_mem checked(void* handle) {
  TORCH_CHECK_VALUE(handle, "handle: is null, not a cl_mem");
  TORCH_CHECK_VALUE(
      !device_of_address(handle), "handle: ", handle,
      " is an address as of Tensor.data_ptr(), not a cl_mem: torch.ocl.cl_mem(tensor) gives that");
  TORCH_CHECK_VALUE(readable(handle), "handle: ", handle, " is no cl_mem: there is nothing at this address");
  const auto memory = static_cast<cl_mem>(handle);
  const auto type = info<cl_mem_object_type>(memory, CL_MEM_TYPE);
  TORCH_CHECK_VALUE(type >= CL_MEM_OBJECT_BUFFER && type <= 0x10FF, "handle: ", handle,
                    " is of another kind than cl_mem");
  TORCH_CHECK_VALUE(type == CL_MEM_OBJECT_BUFFER, "handle: ", handle, " is an image or a pipe, not a buffer");
  const auto* host = info<char*>(memory, CL_MEM_HOST_PTR);
  TORCH_CHECK_VALUE(!(info<cl_mem_flags>(memory, CL_MEM_FLAGS) & CL_MEM_USE_HOST_PTR) ||
                        reinterpret_cast<uintptr_t>(host) % 16 == 0,
                    "handle: ", handle, " lies in the host's memory at ", static_cast<const void*>(host),
                    ", which is no multiple of 16 bytes");
  return memory;
}

/// The device in whose context the buffer is.
Device& owner_of(cl_mem memory) {
  const auto context = info<cl_context>(memory, CL_MEM_CONTEXT);
  for (c10::DeviceIndex i = 0; i < device_count(); i++)
    if (is_made(i) && device(i).context.cl()() == context) return device(i);
  TORCH_CHECK_VALUE(false, "handle: ", static_cast<void*>(memory), " is a buffer of the context ",
                    static_cast<void*>(context), ", not of torch.ocl.context_handle(), which is ",
                    static_cast<void*>(device(-1).context.cl()()), ": make it there");
}

/// A tensor over part of a buffer, which is retained.
at::Tensor around(cl_mem memory, at::IntArrayRef shape, at::OptionalIntArrayRef strides, at::ScalarType dtype,
                  int64_t offset, std::shared_ptr<void> owner) {
  Device& on = owner_of(memory);
  const auto unit = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : shape) TORCH_CHECK_VALUE(size >= 0, "shape: ", shape, " has a negative size");
  if (strides) {
    TORCH_CHECK_VALUE(strides->size() == shape.size(), "strides: ", *strides, " are not as many as sizes of ",
                      shape);
    for (const int64_t stride : *strides)
      TORCH_CHECK_VALUE(stride >= 0, "strides: ", *strides, " has a negative stride");
  }
  TORCH_CHECK_VALUE(offset >= 0, "offset: ", offset, " is negative");
  TORCH_CHECK_VALUE(offset % unit == 0, "offset: ", offset, " is no multiple of the ", unit, " bytes of a ",
                    dtype);
  const size_t bytes = info<size_t>(memory, CL_MEM_SIZE);
  const auto first = static_cast<size_t>(offset / unit);
  const size_t needed = strides ? at::detail::computeStorageNbytes(shape, *strides, unit, first)
                                : at::detail::computeStorageNbytesContiguous(shape, unit, first);
  TORCH_CHECK_VALUE(needed <= bytes, "shape: ", shape, " of ", dtype, " from byte ", offset,
                    " on ends at byte ", needed, " of a buffer of ", bytes);

  // The storage is the whole buffer: an address in it is as aligned as the memory is.
  const size_t whole = bytes / unit * unit;
  const auto tensor = dlprim::Tensor::wrap(on.context, cl::Buffer(memory, /*retainObject=*/true),
                                           {static_cast<int64_t>(whole)}, dlprim::DType::u8);
  at::Storage storage(at::Storage::use_byte_size_t(), whole,
                      on.memory->adopt(tensor, whole, std::move(owner)), device_allocator(),
                      /*resizable=*/false);
  at::Tensor result = at::detail::make_tensor<at::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  result.unsafeGetTensorImpl()->set_storage_offset(offset / unit);
  if (strides)
    result.unsafeGetTensorImpl()->set_sizes_and_strides(shape, *strides);
  else
    result.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return result;
}

at::Tensor from_cl(int64_t handle, at::IntArrayRef shape, at::ScalarType dtype, int64_t offset,
                   at::OptionalIntArrayRef strides) {
  return around(checked(reinterpret_cast<void*>(handle)), shape, strides, dtype, offset, nullptr);
}

/// A tensor that another library holds.
struct Export {
  at::Tensor tensor;
  DLManagedTensor managed{};
};

/// The address of a DLManagedTensor. All work on the device is done before.
int64_t to_dlpack(const at::Tensor& tensor) {
  check_has_memory(tensor);
  TORCH_CHECK_VALUE(!tensor.requires_grad(), "tensor: requires grad: detach() it");
  TORCH_CHECK_VALUE(!tensor.is_conj() && !tensor.is_neg(), "tensor: is marked as conjugated or negated");
  const DLDataType dtype = at::getDLDataType(tensor);
  home_of(tensor).finish();
  auto* held = new Export{tensor};
  held->managed.manager_ctx = held;
  held->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Export*>(self->manager_ctx); };
  DLTensor& t = held->managed.dl_tensor;
  t.data = memory_of(tensor);
  t.byte_offset = static_cast<uint64_t>(byte_of(tensor));
  t.device = {kDLOpenCL, tensor.device().index()};
  t.dtype = dtype;
  t.ndim = static_cast<int32_t>(tensor.dim());
  t.shape = const_cast<int64_t*>(held->tensor.sizes().data());
  t.strides = const_cast<int64_t*>(held->tensor.strides().data());
  return reinterpret_cast<int64_t>(&held->managed);
}

void let_go(void* managed, bool versioned) {
  if (versioned) {
    auto* self = static_cast<DLManagedTensorVersioned*>(managed);
    if (self->deleter) self->deleter(self);
  } else {
    auto* self = static_cast<DLManagedTensor*>(managed);
    if (self->deleter) self->deleter(self);
  }
}

/// Takes a DLManagedTensor(Versioned), unless it throws. Its work on the memory must be done.
at::Tensor from_dlpack(int64_t address, bool versioned) {
  auto* managed = reinterpret_cast<void*>(address);
  if (versioned) {
    const DLPackVersion version = static_cast<DLManagedTensorVersioned*>(managed)->version;
    TORCH_CHECK_VALUE(version.major == DLPACK_MAJOR_VERSION, "capsule: is of DLPack ", version.major, ".",
                      version.minor, ", not ", DLPACK_MAJOR_VERSION);
  }
  const DLTensor& t = versioned ? static_cast<DLManagedTensorVersioned*>(managed)->dl_tensor
                                : static_cast<DLManagedTensor*>(managed)->dl_tensor;
  TORCH_CHECK_VALUE(t.device.device_type == kDLOpenCL, "capsule: is of DLPack's device type ",
                    static_cast<int>(t.device.device_type), ", not ", static_cast<int>(kDLOpenCL),
                    " (kDLOpenCL)");
  TORCH_CHECK_VALUE(t.ndim >= 0 && (t.ndim == 0 || t.shape), "capsule: has ", t.ndim,
                    " dimensions and no shape");
  const auto rank = static_cast<size_t>(t.ndim);
  at::OptionalIntArrayRef strides;
  if (t.strides) strides = at::IntArrayRef(t.strides, rank);
  const cl_mem memory = checked(t.data);
  at::Tensor result = around(memory, at::IntArrayRef(t.shape, rank), strides, at::toScalarType(t.dtype),
                             static_cast<int64_t>(t.byte_offset), nullptr);
  // Now that nothing throws any more.
  Block& block = *Memory::held_by(result.storage().data_ptr());
  block.owner = std::shared_ptr<void>(managed, [versioned](void* m) { let_go(m, versioned); });
  return result;
}

constexpr const char *kFresh = "dltensor", *kUsed = "used_dltensor",
                     *kUsedVersioned = "used_dltensor_versioned";

/// Of a capsule that nobody may have taken the tensor from. Python's functions are looked for when they are
/// needed, so that the library loads where there is no Python.
void end_capsule(void* capsule) {
  const auto is_valid =
      reinterpret_cast<int (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_IsValid"));
  const auto pointer =
      reinterpret_cast<void* (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer"));
  if (is_valid && pointer && is_valid(capsule, kFresh)) let_go(pointer(capsule, kFresh), false);
}

/// What Python makes capsules of: their names, and what ends them.
std::vector<int64_t> capsule_addresses() {
  return {reinterpret_cast<int64_t>(kFresh), reinterpret_cast<int64_t>(kUsed),
          reinterpret_cast<int64_t>(kUsedVersioned), reinterpret_cast<int64_t>(&end_capsule)};
}

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("context_handle", TORCH_FN(context_handle));
  m.def("memory_handle", TORCH_FN(memory_handle));
  m.def("from_cl(int handle, int[] shape, ScalarType dtype, int offset, int[]? strides) -> Tensor",
        TORCH_FN(from_cl));
  m.def("to_dlpack", TORCH_FN(to_dlpack));
  m.def("from_dlpack", TORCH_FN(from_dlpack));
  m.def("capsule_addresses", TORCH_FN(capsule_addresses));
}

}  // namespace

}  // namespace ocl
