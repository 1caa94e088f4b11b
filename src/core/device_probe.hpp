// Probes: what a device can really do, shown by running it.
#pragma once

#include <dlprim/device.hpp>

namespace dlprim::detail {

/// Where a driver does less, or more, than it says, as a small kernel showed. The defaults are those of a
/// driver that is as it should be.
struct DriverLimits {
  /// False: it ends a work-item's loops after 65535 steps, without a word. Such a driver ends the process,
  /// too, at an index into a struct that is a kernel's argument (lib/arguments.cl), which no probe can ask.
  bool long_loops = true;
  /// A kernel runs in groups of the device's size although the driver says that its own are smaller.
  bool exceeds_kernel_groups = false;
  bool waits_for_flushed = true;  ///< clFinish waits, too, for what clFlush has handed over before
  bool measures_time = true;      ///< events of a profiling queue tell when commands ran
  /// fma() is an instruction; else it is a hundred, and sums that need no single rounding do without.
  bool fuses_multiply_add = true;
};

/// Runs the probe once in a process, or reads an earlier one's verdict from the binary cache. Never throws.
DLPRIM_API const DriverLimits& driver_limits(cl_device_id id, const DeviceFacts& facts);
inline const DriverLimits& driver_limits(const Device& device) {
  return driver_limits(device.cl()(), device.facts());
}

/// See Device::identity.
std::string identity_of(const DeviceFacts& facts);

/// Runs the probes, or reads an earlier process's verdict from the binary cache. Never throws.
DeviceProbes probe_device(const Device& device);

}  // namespace dlprim::detail
