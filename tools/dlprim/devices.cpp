// `dlprim devices`: what the OpenCL loader offers, what tiny test kernels found there, and which device is
// the default. Broken platforms are listed as broken. With no device that works it says how to get one.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <dlprim/device.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"

namespace dlprim::cli {
namespace {

using Row = std::vector<std::string>;

/// "5.9 GiB", "512 KiB"
std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, unit++;
  char text[32];
  std::snprintf(text, sizeof text, value < 10 && value != static_cast<int>(value) ? "%.1f %s" : "%.0f %s",
                value, kUnits[unit]);
  return text;
}

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

Row row_of(const Device& device, bool is_default) {
  const DeviceFacts& f = device.facts();
  const DeviceProbes& p = device.probes();
  const std::string probed = p.works ? "" : "?";
  const auto shown = [&](const std::string& text) { return p.works ? text : probed; };
  return {is_default ? "*" : "",
          std::to_string(f.index),
          std::to_string(f.platform_index) + ":" + std::to_string(f.device_index),
          name_of(f.kind),
          yes_no(p.works),
          size_text(f.global_memory),
          size_text(f.max_allocation),
          std::to_string(f.compute_units),
          std::to_string(f.float_vector_width),
          shown(p.sub_group_width > 0 ? std::to_string(p.sub_group_width) : "none"),
          size_text(f.local_memory),
          shown(size_text(p.static_local_memory)),
          shown(yes_no(p.fp16)),
          shown(yes_no(p.fp64)),
          shown(name_of(p.matrix)),
          f.architecture.empty() ? "?" : f.architecture,
          f.name};
}

void print_json(const Device& device, bool is_default) {
  const DeviceFacts& f = device.facts();
  const DeviceProbes& p = device.probes();
  const nlohmann::ordered_json line = {
      {"index", f.index},
      {"id", std::to_string(f.platform_index) + ":" + std::to_string(f.device_index)},
      {"name", f.name},
      {"vendor", f.vendor},
      {"platform", f.platform},
      {"version", f.version},
      {"driver", f.driver},
      {"kind", name_of(f.kind)},
      {"architecture", f.architecture},
      {"compute_units", f.compute_units},
      {"global_memory", f.global_memory},
      {"largest_allocation", f.max_allocation},
      {"default", is_default},
      {"works", p.works},
      {"failure", p.failure},
      {"fp16", p.fp16},
      {"fp64", p.fp64},
      {"sub_group_width", p.sub_group_width},
      {"static_local_memory", p.static_local_memory},
      {"matrix", name_of(p.matrix)}};
  std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void print_table(const std::vector<Row>& rows, const std::vector<std::string>& below) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], row[i].size());
  for (size_t r = 0; r < rows.size(); r++) {
    std::string line;
    for (size_t i = 0; i < rows[r].size(); i++) {
      line += rows[r][i];
      if (i + 1 < rows[r].size()) line += std::string(widths[i] - rows[r][i].size() + 2, ' ');
    }
    std::printf("%s\n", line.c_str());
    if (!below[r].empty()) std::printf("      %s\n", below[r].c_str());
  }
}

}  // namespace

std::string no_device_advice() {
  return "How to get an OpenCL device:\n"
         "  - on any machine, the CPU: apt-get install pocl-opencl-icd\n"
         "  - a GPU: install its vendor's driver together with the driver's OpenCL part; the folder\n"
         "    /etc/OpenCL/vendors must then hold an .icd file for it (or set OCL_ICD_VENDORS to a folder "
         "that does)\n"
         "  - if the driver is there and the device is not: the user may have to be in the groups render and "
         "video\n"
         "`dlprim devices` lists what is found.\n";
}

int run_devices(bool json) {
  std::vector<BrokenPlatform> broken;
  const std::vector<Device> devices = Device::list(&broken);
  int chosen = -1;
  try {
    chosen = Device::find().facts().index;
  } catch (const ValidationError&) {  // none works: the table says why
  }
  if (json) {
    for (const Device& device : devices) print_json(device, device.facts().index == chosen);
    return chosen >= 0 ? 0 : 2;
  }
  if (!devices.empty()) {
    std::vector<Row> rows{{"", "#", "id", "kind", "works", "memory", "largest", "units", "vector",
                           "sub-group", "local", "usable", "fp16", "fp64", "matrix", "arch", "name"}};
    std::vector<std::string> below{""};
    for (const Device& device : devices) {
      const DeviceFacts& f = device.facts();
      rows.push_back(row_of(device, f.index == chosen));
      below.push_back(f.platform + "; " + f.version + "; driver " + f.driver +
                      (device.probes().works ? "" : "\n      does not work: " + device.probes().failure));
    }
    print_table(rows, below);
    std::printf(
        "\n* is the default. largest: one allocation's limit. units: compute units. vector: native width in "
        "floats.\n"
        "local: what the driver admits to; usable: what a kernel could really declare. --device takes #, id "
        "or part of "
        "a name.\n");
  }
  for (const BrokenPlatform& platform : broken)
    std::printf("Platform %d, %s, is broken: %s\n", platform.index, platform.name.c_str(),
                platform.error.c_str());
  if (chosen >= 0) return 0;
  std::printf("%s\n%s", devices.empty() ? "There is no OpenCL device." : "No OpenCL device works.",
              no_device_advice().c_str());
  return 2;
}

}  // namespace dlprim::cli
