// Choosing the device for a subcommand, and what to tell a machine without one.
#pragma once

#include <string>

#include <dlprim/device.hpp>

namespace dlprim::cli {

/// This machine has no OpenCL device, or none that works. The text says which, and how to get one.
class NoDevice : public Error {
 public:
  explicit NoDevice(const std::string& reason);
};

/// As Device::find. Throws NoDevice, or ValidationError if nothing fits `selector`.
Device choose_device(const std::string& selector);
/// "pthread-... (Portable Computing Language), driver 3.1"
std::string describe(const Device& device);

}  // namespace dlprim::cli
