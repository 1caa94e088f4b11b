// Devices and streams, and the current ones of each thread.
#include "device.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <c10/util/Exception.h>
#include <dlprim/compiling.hpp>

#include "memory.hpp"

namespace ocl {

namespace {

std::atomic<bool> opencl_asked{false}, forked{false};

thread_local c10::DeviceIndex thread_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> thread_streams{};

void register_fork_handler() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { forked = forked || opencl_asked; });
  (void)once;
}

/// Leaked, as the devices are.
const std::vector<dlprim::Device>& listed() {
  static const auto* const list = [] {
    register_fork_handler();
    opencl_asked = true;
    auto* devices = new std::vector<dlprim::Device>;
    try {
      *devices = dlprim::Device::list();
    } catch (const std::exception& e) {
      TORCH_WARN("OpenCL's devices cannot be listed: ", e.what());
    }
    std::stable_sort(devices->begin(), devices->end(),
                     [](const dlprim::Device& a, const dlprim::Device& b) { return a.kind() < b.kind(); });
    if (devices->size() > kMaxDevices) devices->erase(devices->begin() + kMaxDevices, devices->end());
    return devices;
  }();
  return *list;
}

std::array<std::atomic<Device*>, kMaxDevices> made{};
std::mutex making;
std::optional<bool> checks_asked;  ///< by check_indices(), under `making`

c10::DeviceIndex checked(c10::DeviceIndex index) {
  if (index < 0) index = thread_device;
  const int count = device_count();
  TORCH_CHECK(index < count, "there is no device ocl:", int{index}, ": OpenCL has ", count,
              count == 1 ? " device" : " devices");
  return index;
}

cl::CommandQueue measuring_queue(const dlprim::Context& context) {
  cl_int error = CL_SUCCESS;
  cl::CommandQueue queue(context.cl(), context.device().cl(), CL_QUEUE_PROFILING_ENABLE, &error);
  if (error != CL_SUCCESS) throw dlprim::DeviceError("clCreateCommandQueue", error);
  return queue;
}

/// A process that waits for compilers says so, once.
void tell_of_compiling() {
  static const bool told = [] {
    dlprim::on_long_compiling(std::chrono::seconds(2), [](const dlprim::CompileProgress& now) {
      std::fprintf(stderr, "ocl: compiling kernels at their first use, %llu so far\n",
                   static_cast<unsigned long long>(now.done));
    });
    return true;
  }();
  static_cast<void>(told);
}

}  // namespace

void Queue::finish() {
  const std::lock_guard lock(mutex);
  stream_.finish();
  done_ = given_;
}

bool Queue::idle() {
  const std::lock_guard lock(mutex);
  if (done_ == given_) return true;
  if (asked_ != given_ || !mark_.cl()()) {
    mark_ = stream_.record();
    asked_ = given_;
  }
  if (!mark_.done()) return false;
  done_ = asked_;
  return true;
}

void Queue::measure(bool times) {
  const std::lock_guard lock(mutex);
  if (times == (stream_ != plain_)) return;
  if (!measuring_) measuring_.emplace(plain_.context(), measuring_queue(plain_.context()));
  finish();
  stream_ = times ? *measuring_ : plain_;
}

Device::Device(c10::DeviceIndex index_, const dlprim::Device& device)
    : index(index_),
      context(device),
      fp64(device.probes().fp64),
      memory(std::make_unique<Memory>(*this)),
      measures_(profiling.load()) {
  tell_of_compiling();
}

Queue& Device::queue(c10::StreamId id) {
  std::atomic<Queue*>& slot = queues_.at(static_cast<size_t>(id));
  if (Queue* queue = slot.load(std::memory_order_acquire)) return *queue;
  const std::lock_guard lock(mutex_);
  if (slot) return *slot;
  auto queue = std::make_unique<Queue>(context);
  if (measures_) queue->measure(true);
  slot = queue.get();
  return *queue.release();
}

void Device::finish() {
  try {
    for (std::atomic<Queue*>& slot : queues_)
      if (Queue* queue = slot.load(std::memory_order_acquire)) queue->finish();
  } catch (const dlprim::Error&) {
    rethrow(*this);
  }
}

void Device::measure(bool times) {
  {
    const std::lock_guard lock(mutex_);  // what is made later asks
    measures_ = times;
  }
  for (std::atomic<Queue*>& slot : queues_)
    if (Queue* queue = slot) queue->measure(times);
}

c10::StreamId Device::next_stream() noexcept {
  return 1 + turn_++ % (kStreams - 1);
}

dlprim::Event Device::timed(const dlprim::Event& after) {
  const std::lock_guard lock(mutex_);
  if (!timing_()) {
    timing_ = measuring_queue(context);
    cl_int error = CL_SUCCESS;
    timed_ = cl::Buffer(context.cl(), CL_MEM_READ_WRITE, sizeof(cl_uint), nullptr, &error);
    if (error != CL_SUCCESS) throw dlprim::DeviceError("clCreateBuffer", error);
  }
  // Work for the device, if little: NVIDIA's driver gives markers that wait for another queue one and the
  // same time.
  cl::Event event;
  const std::vector<cl::Event> before{after.cl()};
  const cl_int error = timing_.enqueueFillBuffer(timed_, cl_uint{0}, 0, sizeof(cl_uint), &before, &event);
  if (error != CL_SUCCESS) throw dlprim::DeviceError("clEnqueueFillBuffer", error);
  timing_.flush();
  return dlprim::Event(event);
}

uint64_t time_of(const dlprim::Event& event) {
  event.wait();
  cl_ulong time = 0;
  const cl_int error =
      clGetEventProfilingInfo(event.cl()(), CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr);
  if (error != CL_SUCCESS) throw dlprim::DeviceError("clGetEventProfilingInfo", error);
  return time;
}

int device_count() noexcept {
  try {
    return static_cast<int>(listed().size());
  } catch (...) {
    return 0;
  }
}

const dlprim::Device& device_facts(c10::DeviceIndex index) {
  return listed()[static_cast<size_t>(checked(index))];
}

Device& device(c10::DeviceIndex index) {
  TORCH_CHECK(!in_bad_fork(),
              "OpenCL cannot be used in a process that was forked from one that used it: start it by 'spawn' "
              "(torch.multiprocessing.set_start_method('spawn')), or use the device only after the fork");
  index = checked(index);
  std::atomic<Device*>& slot = made[static_cast<size_t>(index)];
  if (Device* found = slot.load(std::memory_order_acquire)) return *found;
  const std::lock_guard lock(making);
  if (!slot) {
    auto device = std::make_unique<Device>(index, listed()[static_cast<size_t>(index)]);
    if (checks_asked) device->context.check_indices(*checks_asked);
    slot = device.release();
  }
  return *slot;
}

void check_indices(bool on) {
  const std::lock_guard lock(making);
  checks_asked = on;
  for (const std::atomic<Device*>& slot : made)
    if (const Device* device = slot) device->context.check_indices(on);
}

bool is_made(c10::DeviceIndex index) noexcept {
  return index >= 0 && index < kMaxDevices && made[static_cast<size_t>(index)] != nullptr;
}

bool in_bad_fork() noexcept {
  return forked;
}

c10::DeviceIndex current_device() noexcept {
  return thread_device;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  if (index < 0 || index == thread_device) return thread_device;
  return std::exchange(thread_device, checked(index));
}

c10::StreamId current_stream(c10::DeviceIndex index) noexcept {
  return thread_streams[static_cast<size_t>(index)];
}

c10::StreamId exchange_stream(c10::DeviceIndex index, c10::StreamId stream) noexcept {
  return std::exchange(thread_streams[static_cast<size_t>(index)], stream);
}

void rethrow(const Device& device) {
  try {
    throw;
  } catch (const dlprim::OutOfMemory& e) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "ocl:", int{device.index}, " (", device.context.device().name(),
                     "): ", e.what());
  } catch (const dlprim::IndexError& e) {
    TORCH_CHECK_INDEX(false, "ocl:", int{device.index}, ": ", e.what());
  }
}

}  // namespace ocl
