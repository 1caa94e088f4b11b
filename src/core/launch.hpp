// Launch: binds a kernel's arguments and enqueues it. A tensor takes two arguments in the kernel's list: the
// buffer and, as `long`, the offset of element 0 in elements.
//
//   Launch(stream, kernel).arg(x).arg(y).arg(n).run({global}, {local});
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>

#include <dlprim/random_state.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

#include "core/program_cache.hpp"

namespace dlprim::detail {

struct RecordingState;

/// Where a kernel takes the offset of random numbers that go on when it is replayed.
struct OffsetArgument {
  cl_uint index;
  uint64_t offset;
};

class Launch {
 public:
  Launch(const Stream& stream, const Kernel& kernel);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// An undefined tensor binds a null buffer. Throws ValidationError for a tensor of another context.
  Launch& arg(const Tensor& tensor);
  /// A number, or a plain struct of a header that the kernel includes too: the kernel's parameter must have
  /// the same size and kind.
  template <class T>
  Launch& arg(T value) {
    static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, uint32_t> ||
                      std::is_same_v<T, uint64_t> || std::is_same_v<T, float> || std::is_same_v<T, double> ||
                      (std::is_class_v<T> && std::is_trivially_copyable_v<T>),
                  "kernel parameters are int, long, uint, ulong, float, double or plain structs");
    bind(&value, sizeof value);
    return *this;
  }
  /// Two arguments, seed and offset. One state a launch.
  Launch& arg(const RandomState& state);
  /// A number of a kernel that computes in `real`: a double for f64, else a float.
  Launch& real(DType real, double value) {
    return real == DType::f64 ? arg(value) : arg(static_cast<float>(value));
  }

  /// Enqueues over `global` work-items in groups of `local`; an empty global range enqueues nothing.
  /// Throws ValidationError (missing arguments, ranges that do not divide or exceed the device),
  /// DeviceError, OutOfMemory.
  void run(std::initializer_list<size_t> global, std::initializer_list<size_t> local);
  /// Any other number or struct, as clSetKernelArg takes it; null: local memory.
  Launch& bind(const void* value, size_t size);
  /// A buffer of storages that were touched.
  Launch& buffer(cl_mem buffer);

 private:
  void rehearse(std::initializer_list<size_t> global, std::initializer_list<size_t> local);
  void record(RecordingState& recording, std::initializer_list<size_t> global,
              std::initializer_list<size_t> local);

  const Stream& stream_;
  Kernel kernel_;
  cl::Kernel borrowed_;    ///< null in a rehearsal: nothing is bound or enqueued
  std::string rehearsed_;  ///< the arguments of a rehearsed kernel, see BuildRequest::launch
  unsigned next_ = 0;
  std::optional<OffsetArgument> continues_;
};

[[noreturn]] void throw_command_error(const Context& context, const char* call, const std::string& what,
                                      cl_int code);

/// Calls `enqueue`, which puts a command on a queue and gives OpenCL's code; once more with an emptied cache
/// where there is no room, since some drivers make buffers at their first use. Throws OutOfMemory or
/// DeviceError, which names `call` and `what`.
template <class F>
void enqueue_command(const Context& context, const char* call, const std::string& what, const F& enqueue) {
  cl_int code = enqueue();
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE) {
    context.empty_cache();
    code = enqueue();
  }
  if (code != CL_SUCCESS) throw_command_error(context, call, what, code);
}

}  // namespace dlprim::detail
