// Device::find, with words for a machine where there is nothing to find.
#include "device_choice.hpp"

#include "commands.hpp"

namespace dlprim::cli {

NoDevice::NoDevice(const std::string& reason) : Error(reason + "\n" + no_device_advice()) {}

Device choose_device(const std::string& selector) {
  if (!Device::list().empty() && !selector.empty()) return Device::find(selector);
  try {
    return Device::find();
  } catch (const ValidationError& error) {
    throw NoDevice(error.what());
  }
}

std::string describe(const Device& device) {
  const DeviceFacts& f = device.facts();
  return f.name + " (" + f.platform + "), driver " + f.driver;
}

}  // namespace dlprim::cli
