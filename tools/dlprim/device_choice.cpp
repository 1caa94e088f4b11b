// Device::find, with words for a machine where there is nothing to find.
#include "device_choice.hpp"

#include "commands.hpp"

namespace dlprim::cli {

NoDevice::NoDevice() : Error("there is no OpenCL device.\n" + no_device_advice()) {}

Device choose_device(const std::string& selector) {
  if (Device::list().empty()) throw NoDevice();
  return Device::find(selector);
}

std::string describe(const Device& device) {
  const DeviceFacts& f = device.facts();
  return f.name + " (" + f.platform + "), driver " + f.driver;
}

}  // namespace dlprim::cli
