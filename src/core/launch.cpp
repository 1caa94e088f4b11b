// Binding arguments, checking ranges, enqueuing.
#include "core/launch.hpp"

#include <algorithm>

#include <dlprim/rehearsal.hpp>

#include "core/check.hpp"
#include "core/observer.hpp"
#include "core/recorder.hpp"
#include "core/state.hpp"

namespace dlprim::detail {

OperatorObserver* operator_observer = nullptr;

void touch(const StreamState& stream, const Tensor& tensor) {
  tensor.storage()->touch(stream.queue);
  if (RecordingState* recording = RecordingState::active(stream)) recording->use(tensor.storage());
  if (operator_observer) operator_observer->uses(stream, tensor);
}

Launch::Launch(const Stream& stream, const Kernel& kernel)
    : stream_(stream),
      kernel_(kernel),
      borrowed_(Rehearsal::active() ? cl::Kernel() : kernel.shared().borrow()) {}

Launch::~Launch() {
  if (borrowed_() == nullptr) return;
  kernel_.shared().give_back(std::move(borrowed_));
}

Launch& Launch::bind(const void* value, size_t size) {
  if (borrowed_() == nullptr) {
    if (kernel_.rehearsed()) rehearsed_ += cat(' ', value ? 'v' : 'l', size);
    return *this;
  }
  const cl_int code = clSetKernelArg(borrowed_(), next_, size, value);
  if (code != CL_SUCCESS) throw DeviceError(cat("clSetKernelArg(", kernel_.name(), ", ", next_, ")"), code);
  next_++;
  return *this;
}

Launch& Launch::buffer(cl_mem buffer) {
  if (borrowed_() != nullptr) return bind(&buffer, sizeof buffer);
  if (kernel_.rehearsed()) rehearsed_ += " m";
  return *this;
}

Launch& Launch::arg(const Tensor& tensor) {
  cl_mem buffer = nullptr;
  cl_long offset = 0;
  if (tensor.defined() && borrowed_() != nullptr) {
    require(tensor.context() == stream_.context(), "tensor", "belongs to another context than the stream");
    touch(stream_.state(), tensor);
    buffer = tensor.buffer()();
    offset = tensor.offset();
  }
  return this->buffer(buffer).bind(&offset, sizeof offset);
}

Launch& Launch::arg(const RandomState& state) {
  arg(state.seed);
  if (state.continues) continues_ = OffsetArgument{next_, state.offset};
  return arg(state.offset);
}

/// The kernel goes into the recording with the arguments that it has.
void Launch::record(RecordingState& recording, std::initializer_list<size_t> global,
                    std::initializer_list<size_t> local) {
  RecordedLaunch& launch = recording.launches.emplace_back();
  launch.shared = kernel_.handle();
  launch.dimensions = static_cast<cl_uint>(global.size());
  std::copy(global.begin(), global.end(), launch.global.begin());
  std::copy(local.begin(), local.end(), launch.local.begin());
  launch.continues = continues_;
  launch.kernel = std::move(borrowed_);
}

/// The kernel is made in the background for groups of this size.
void Launch::rehearse(std::initializer_list<size_t> global, std::initializer_list<size_t> local) {
  constexpr size_t kSpecial = 65535;  // groups along an axis up to which drivers make a kernel of its own
  std::string text = cat(kernel_.rehearsed()->kernel, ' ', local.size());
  bool common = global.size() == local.size();
  for (size_t i = 0; i < local.size() && common; i++) {
    const size_t groups = global.begin()[i] / std::max<size_t>(local.begin()[i], 1);
    common = groups > 0 && groups < kSpecial;
    text += cat(' ', local.begin()[i]);
  }
  if (common) stream_.context().state().programs.prefetch(*kernel_.rehearsed(), text + rehearsed_);
}

void Launch::run(std::initializer_list<size_t> global, std::initializer_list<size_t> local) {
  if (borrowed_() == nullptr) {
    if (kernel_.rehearsed()) rehearse(global, local);
    return;
  }
  Kernel::Shared& kernel = kernel_.shared();
  require(next_ == kernel.arguments, "kernel", kernel.name, " got ", next_, " of ", kernel.arguments,
          " arguments");
  require(global.size() == local.size() && global.size() >= 1 && global.size() <= 3, "range", kernel.name,
          ": global and local ranges need one to three equal dimensions");
  size_t items = 1, group = 1;
  for (size_t i = 0; i < global.size(); i++) {
    const size_t g = global.begin()[i], l = local.begin()[i];
    require(l > 0 && g % l == 0, "range", kernel.name, ": ", g, " work-items do not divide into groups of ",
            l);
    const auto most = static_cast<size_t>(stream_.context().device().facts().max_work_item_sizes[i]);
    require(l <= most, "range", kernel.name, ": ", l, " work-items in dimension ", i,
            " of a group exceed the device's ", most);
    items *= g;
    group *= l;
  }
  require(group <= static_cast<size_t>(kernel.max_work_group), "range", kernel.name, ": groups of ", group,
          " exceed the device's ", kernel.max_work_group);
  if (items == 0) return;

  StreamState& stream = stream_.state();
  cl_event event = nullptr;
  enqueue_command(stream_.context(), "clEnqueueNDRangeKernel", kernel.name, [&] {
    return clEnqueueNDRangeKernel(stream.queue->queue(), borrowed_(), static_cast<cl_uint>(global.size()),
                                  nullptr, global.begin(), local.begin(), 0, nullptr,
                                  stream.notes() ? &event : nullptr);
  });
  const cl::Event done(event);
  stream.queue->submitted++;
  if (RecordingState* recording = RecordingState::active(stream)) record(*recording, global, local);
  if (!stream.notes()) return;
  if (stream.open_operators == 0) stream.records.push_back({"op=" + kernel.name, 0, 0, {}});
  stream.records.back().kernels.emplace_back(kernel.name, done);
}

void throw_command_error(const Context& context, const char* call, const std::string& what, cl_int code) {
  const std::string name = what.empty() ? call : cat(call, "(", what, ")");
  if (code != CL_MEM_OBJECT_ALLOCATION_FAILURE) throw DeviceError(name, code);
  const MemoryStats stats = context.memory_stats();
  throw OutOfMemory(cat("no room for the buffers of ", name, " while holding ", stats.held,
                        " bytes of at most ", stats.limit),
                    0, stats.held, stats.limit);
}

}  // namespace dlprim::detail
