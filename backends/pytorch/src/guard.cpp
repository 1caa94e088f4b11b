// What PyTorch asks of a device in terms of its own: the current device and stream, events, synchronisation.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device.hpp"

#if __has_include(<c10/core/DeviceCapability.h>)
#include <c10/core/DeviceCapability.h>
#define OCL_HAS_CAPABILITY
#endif

namespace ocl {

namespace {

/// A point in a stream's work. `timed` is empty for events that do not measure time.
struct Recorded {
  bool times = false;
  dlprim::Event done, timed;
};

Queue& queue_of(const c10::Stream& stream) {
  return device(stream.device_index()).queue(stream.id());
}

c10::Stream stream_on(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kOcl, index), id);
}

c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : current_device();
}

// `override` is left out where not every version of torch has the method.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kOcl; }

  c10::Device exchangeDevice(c10::Device device) const override {
    return {kOcl, exchange_device(device.index())};
  }
  c10::Device getDevice() const override { return {kOcl, current_device()}; }
  void setDevice(c10::Device device) const override { exchange_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() < device_count()) exchange_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  c10::Stream getStream(c10::Device device) const override {
    return stream_on(index_of(device), current_stream(index_of(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_on(index_of(device), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device on, int) const override {
    return stream_on(index_of(on), device(index_of(on)).next_stream());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_on(stream.device_index(), exchange_stream(stream.device_index(), stream.id()));
  }
  /// The cl_command_queue.
  void* getStreamNativeHandle(const c10::Stream stream) const {
    return queue_of(stream).use([](const dlprim::Stream& s) { return s.cl()(); });
  }
  bool queryStream(const c10::Stream& stream) const override { return queue_of(stream).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    try {
      queue_of(stream).finish();
    } catch (const dlprim::Error&) {
      rethrow(device(stream.device_index()));
    }
  }
  bool isStreamCapturing(const c10::Stream&) const { return false; }
  void synchronizeDevice(const c10::DeviceIndex index) const override { device(index).finish(); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "an event of ocl:", int{index},
                " cannot be recorded in a stream of ocl:", int{stream.device_index()});
    auto recorded = std::make_unique<Recorded>();
    recorded->times = flag == c10::EventFlag::BACKEND_DEFAULT;
    recorded->done = queue_of(stream).use([](const dlprim::Stream& s) { return s.record(); });
    if (recorded->times) recorded->timed = device(stream.device_index()).timed(recorded->done);
    destroyEvent(*event, index);
    *event = recorded.release();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!event) return;
    queue_of(stream).use([&](const dlprim::Stream& s) { s.wait(static_cast<const Recorded*>(event)->done); });
  }
  bool queryEvent(void* event) const override {
    return !event || static_cast<const Recorded*>(event)->done.done();
  }
  void synchronizeEvent(void* event) const override {
    if (event) static_cast<const Recorded*>(event)->done.wait();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (!in_bad_fork()) delete static_cast<Recorded*>(event);
  }
  /// Milliseconds.
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from && to, "both events must be recorded before the time between them is asked");
    const auto &a = *static_cast<const Recorded*>(from), &b = *static_cast<const Recorded*>(to);
    TORCH_CHECK(a.times && b.times, "both events must be made with enable_timing=True");
    return (static_cast<double>(time_of(b.timed)) - static_cast<double>(time_of(a.timed))) * 1e-6;
  }

  /// dlprim's pool learns of every stream that uses a block when a kernel is given it.
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

#ifdef OCL_HAS_CAPABILITY
  c10::DeviceCapability getDeviceCapability(c10::Device on) const {
    c10::DeviceCapability all;
    auto& has = all.capability_data.supported_scalar_types;
    all.capability_data.capability_bits = 0;
    has.has_Byte = has.has_Char = has.has_Short = has.has_Int = has.has_Long = has.has_Bool = 1;
    has.has_Half = has.has_BFloat16 = has.has_Float = 1;
    has.has_Double = device(on.index()).fp64;
    return all;
  }
#endif
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

}  // namespace ocl
