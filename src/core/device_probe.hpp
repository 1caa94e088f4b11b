// Probes: what a device can really do, shown by running it.
#pragma once

#include <dlprim/device.hpp>

namespace dlprim::detail {

/// Runs the probes, or reads an earlier process's verdict from the binary cache. Never throws.
DeviceProbes probe_device(const Device& device);

}  // namespace dlprim::detail
