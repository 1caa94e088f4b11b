// Listing and choosing devices, facts, probes; broken platforms and no platform at all (in child processes,
// since the loader is asked once).
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/device.hpp>

#include "catch.hpp"
#include "child.hpp"
#include "core/device_probe.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
using test::error_of;

namespace {

namespace fs = std::filesystem;

Device under_test() {
  return test::context().device();
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("device: the list numbers devices in order", "[device][small]") {
  const std::vector<Device> devices = Device::list();
  REQUIRE_FALSE(devices.empty());
  int platform = 0, inside = 0;
  for (size_t i = 0; i < devices.size(); i++) {
    const DeviceFacts& f = devices[i].facts();
    CHECK(f.index == static_cast<int>(i));
    if (f.platform_index != platform) {
      CHECK(f.platform_index > platform);
      platform = f.platform_index;
      inside = 0;
    }
    CHECK(f.device_index == inside++);
    CHECK(devices[i] == Device::list()[i]);
  }
}

TEST_CASE("device: facts are there", "[device][small]") {
  const Device device = under_test();
  const DeviceFacts& f = device.facts();
  CHECK_FALSE(f.name.empty());
  CHECK_FALSE(f.platform.empty());
  CHECK_FALSE(f.driver.empty());
  CHECK(f.version.find("OpenCL ") == 0);
  CHECK(f.compute_units >= 1);
  CHECK(f.max_work_group >= 1);
  for (int size : f.max_work_item_sizes) CHECK(size >= 1);
  CHECK(f.float_vector_width >= 1);
  CHECK((f.address_bits == 32 || f.address_bits == 64));
  CHECK(f.global_memory >= f.max_allocation);
  CHECK(f.max_allocation >= 1u << 20);
  CHECK(f.local_memory >= 1024);
  for (int width : f.sub_group_widths) CHECK(width >= 1);
  CHECK(f.name == f.name.c_str());  // no zero counted in
  CHECK(device.identity().find(f.driver) != std::string::npos);
  CHECK(device.identity().find(f.name) != std::string::npos);
}

TEST_CASE("device: probes find what the driver claims, and nothing impossible", "[device]") {
  const Device device = under_test();
  const DeviceProbes& p = device.probes();
  INFO(p.failure);
  REQUIRE(p.works);
  CHECK(&p == &device.probes());
  CHECK(p.failure.empty());
  CHECK(p.static_local_memory >= 8192);
  CHECK((p.sub_group_width == 0 || (p.sub_group_width >= 2 && p.sub_group_width <= 128)));
  // A listed extension that does not work would be news: look at it before loosening this.
  const auto listed = [&](const char* name) {
    return device.facts().extensions.find(name) != std::string::npos;
  };
  if (listed("cl_khr_fp64")) CHECK(p.fp64);
  if (listed("cl_khr_fp16")) CHECK(p.fp16);
  if (device.kind() == DeviceKind::cpu) CHECK(p.matrix == MatrixEngine::none);
  // Tests of matrix engines are left out where the probe finds none.
  if (device.facts().architecture == "sm_90") CHECK(p.matrix == MatrixEngine::nv_wgmma);
}

TEST_CASE("device: limits of the driver are those that kernels meet", "[device][small]") {
  constexpr const char* kSource = R"CLC(
__kernel void steps(__global int* x, long x_offset) {
  x += x_offset;
  int taken = 0;
  for (int i = 0; i < x[0]; i++) taken += x[1 + (i & 1)];
  x[3] = taken;
}
)CLC";
  const Stream stream(test::context());
  const detail::DriverLimits& limits = detail::driver_limits(test::context().device());
  CHECK(&limits == &detail::driver_limits(under_test()));
  const Tensor x(stream, {4}, DType::i32);
  write(stream, x, std::vector<int32_t>{100000, 1, 1, 0});
  detail::Launch(stream, test::context().state().programs.generated("test_device", kSource, "steps"))
      .arg(x)
      .run({1}, {1});
  CHECK((read<int32_t>(stream, x)[3] == 100000) == limits.long_loops);
  if (!limits.long_loops) CHECK(under_test().kind() != DeviceKind::cpu);  // whose work-items do much
}

TEST_CASE("device: threads that list and probe at once agree", "[device][threads]") {
  std::vector<std::thread> threads;
  std::vector<int> works(8, -1);
  for (size_t i = 0; i < works.size(); i++)
    threads.emplace_back([&, i] {
      const std::vector<Device> devices = Device::list();
      const auto index = static_cast<size_t>(under_test().facts().index);
      works[i] = devices[index].probes().works && devices[index].facts().index == static_cast<int>(index);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(works == std::vector<int>(8, 1));
}

TEST_CASE("device: chosen by index, by platform and device, by part of a name", "[device][small]") {
  const Device device = under_test();
  const DeviceFacts& f = device.facts();
  CHECK(Device::find(std::to_string(f.index)) == device);
  CHECK(Device::find(std::to_string(f.platform_index) + ":" + std::to_string(f.device_index)) == device);
  if (Device::list().size() == 1) {
    CHECK(Device::find(f.name.substr(f.name.size() / 3)) == device);
    CHECK(Device::find(upper(f.name)) == device);
    CHECK(Device::find(upper(f.platform).substr(0, 4)) == device);
  }
}

TEST_CASE("device: a selector that fits nothing is refused with the list", "[device][small]") {
  const Device device = under_test();
  for (const char* selector : {"no such device", "999", "0:999", "999:0", "1:2:3", ":", "0:", ":0", "-1",
                               "0x0", "99999999999999999999"}) {
    const std::string text = error_of<ValidationError>([&] { Device::find(selector); });
    INFO(text);
    CHECK(text.find(std::string("device: '") + selector + "' fits none of:") == 0);
    CHECK(text.find(device.name()) != std::string::npos);
  }
}

TEST_CASE("device: the default works, and no GPU that works is passed over for a CPU", "[device][small]") {
  const Device device = Device::find();
  CHECK(device.probes().works);
  for (const Device& other : Device::list())
    if (other.probes().works) CHECK(static_cast<int>(device.kind()) <= static_cast<int>(other.kind()));
}

TEST_CASE("device: around the user's cl::Device", "[device][small]") {
  const Device listed = under_test();
  const Device wrapped(listed.cl());
  CHECK(wrapped == listed);
  CHECK(wrapped.facts().index == listed.facts().index);
  CHECK_THROWS_AS(Device(cl::Device()), ValidationError);
}

TEST_CASE("device: a part of a device is a device that is not in the list", "[device]") {
  const Device whole = under_test();
  const cl_device_partition_property by_counts[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  std::vector<cl_device_id> ids(static_cast<size_t>(whole.facts().compute_units));
  cl_uint count = 0, most = 0;
  clGetDeviceInfo(whole.cl()(), CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof most, &most, nullptr);
  if (most < 2) return;  // some drivers do not even have the function
  if (clCreateSubDevices(whole.cl()(), by_counts, static_cast<cl_uint>(ids.size()), ids.data(), &count) !=
      CL_SUCCESS)
    return;  // most GPUs cannot be divided
  ids.resize(count);
  std::vector<cl::Device> parts;
  for (cl_device_id id : ids) parts.emplace_back(id);
  const Device part(parts.at(0));
  CHECK(part != whole);
  CHECK(part == Device(parts.at(0)));
  CHECK(part.facts().index == -1);
  CHECK(part.facts().compute_units == 1);
}

TEST_CASE("device: names of kinds and engines", "[device][small]") {
  CHECK(std::string(name_of(DeviceKind::gpu)) == "GPU");
  CHECK(std::string(name_of(DeviceKind::other)) == "other");
  CHECK(std::string(name_of(Sharing::local_memory)) == "local memory");
  CHECK(std::string(name_of(MatrixEngine::none)) == "none");
  CHECK(std::string(name_of(MatrixEngine::arm)) == "arm");
}

// ---- the loader's other answers, each in a process of its own

TEST_CASE("child: no platform", "[.]") {
  std::vector<BrokenPlatform> broken;
  CHECK(Device::list(&broken).empty());
  CHECK(broken.empty());
  CHECK(error_of<ValidationError>([] { Device::find(); }) == "device: there is no OpenCL device");
  CHECK(error_of<ValidationError>([] { Device::find("0"); }) == "device: '0' fits none of:\n  (none)");
}

TEST_CASE("child: broken platform beside a good one", "[.]") {
  std::vector<BrokenPlatform> broken;
  const std::vector<Device> devices = Device::list(&broken);
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].name == "A broken platform");
  CHECK(broken[0].error == "clGetDeviceIDs failed: CL_OUT_OF_HOST_MEMORY (-6)");
  REQUIRE_FALSE(devices.empty());
  for (const Device& device : devices) CHECK(device.facts().platform_index != broken[0].index);
  const Device device = Device::find();
  CHECK(device.probes().works);
  CHECK(Device::find(std::to_string(device.facts().platform_index) + ":0").facts().platform ==
        device.facts().platform);
}

TEST_CASE("child: several platforms of one name part", "[.]") {
  const std::vector<Device> devices = Device::list();
  REQUIRE(devices.size() >= 2);
  // A letter that all devices or their platforms have in their names fits them all.
  std::string letter;
  for (char c = 'A'; c <= 'Z' && letter.empty(); c++)
    if (std::all_of(devices.begin(), devices.end(), [&](const Device& device) {
          return upper(device.name() + device.facts().platform).find(c) != std::string::npos;
        }))
      letter = c;
  REQUIRE_FALSE(letter.empty());
  const std::string text = error_of<ValidationError>([&] { Device::find(letter); });
  INFO(text);
  CHECK(text.find("device: '" + letter + "' fits several:") == 0);
  for (const Device& device : devices) CHECK(text.find(device.name()) != std::string::npos);
}

TEST_CASE("child: default device", "[.]") {
  CHECK(Device::find().probes().works);
}

TEST_CASE("child: what a fake GPU shares best by", "[.]") {
  const DeviceFacts& f = Device::find("A fake GPU").facts();
  CHECK(std::string(name_of(f.sharing)) == std::getenv("DLPRIM_EXPECTED_SHARING"));
  CHECK(f.sub_group_widths == std::vector<int>{8, 16, 32});
}

TEST_CASE("device: with no platform listing is empty and choosing says so", "[device]") {
  const test::TempDir empty;
  const test::Child child =
      test::run_child("child: no platform", {{"OCL_ICD_VENDORS", empty.path().string() + "/"}});
  INFO(child.output);
  CHECK(child.passed);
}

TEST_CASE("device: drivers that are missing or are no drivers harm nothing", "[device]") {
  const test::TempDir vendors;
  test::copy_vendors(vendors.path());
  write_text(vendors.path() / "0_missing.icd", "/nonexistent/libOpenCL-missing.so\n");
  write_text(vendors.path() / "1_useless.icd", "libm.so.6\n");
  write_text(vendors.path() / "2_text.icd", vendors / "0_missing.icd");
  const test::Child child =
      test::run_child("child: default device", {{"OCL_ICD_VENDORS", vendors.path().string() + "/"}});
  INFO(child.output);
  CHECK(child.passed);
}

TEST_CASE("device: a platform that fails is listed as broken and the others work", "[device]") {
  const test::TempDir vendors;
  test::copy_vendors(vendors.path());
  write_text(vendors.path() / "0_broken.icd", built_file("lib/libfake_icd.so") + "\n");
  const test::Child child = test::run_child("child: broken platform beside a good one",
                                            {{"OCL_ICD_VENDORS", vendors.path().string() + "/"}});
  INFO(child.output);
  CHECK(child.passed);
}

TEST_CASE("device: how work-items share follows from vendor and local memory", "[device]") {
  const test::TempDir vendors;
  write_text(vendors.path() / "0_fake.icd", built_file("lib/libfake_icd.so") + "\n");
  struct Gpu {
    const char *vendor, *local, *sharing;
  };
  for (const Gpu& gpu : {Gpu{"Intel(R) Corporation", "local", "sub-groups"}, Gpu{"ARM", "global", "cache"},
                         Gpu{"QUALCOMM", "local", "cache"}, Gpu{"Somebody", "global", "cache"},
                         Gpu{"Somebody", "local", "local memory"}}) {
    const test::Child child = test::run_child("child: what a fake GPU shares best by",
                                              {{"OCL_ICD_VENDORS", vendors.path().string() + "/"},
                                               {"DLPRIM_FAKE_VENDOR", gpu.vendor},
                                               {"DLPRIM_FAKE_LOCAL", gpu.local},
                                               {"DLPRIM_EXPECTED_SHARING", gpu.sharing}});
    INFO(gpu.vendor << " " << gpu.local << ": " << child.output);
    CHECK(child.passed);
  }
}

TEST_CASE("device: a selector that fits several different devices is refused", "[device]") {
  // PoCL has as many devices as it is told; with others the machine must have two.
  const bool pocl = under_test().facts().platform == "Portable Computing Language";
  if (!pocl && Device::list().size() < 2) return test::note_skipped("there is one device");
  const test::Child child =
      test::run_child("child: several platforms of one name part", {{"POCL_DEVICES", "basic pthread"}});
  INFO(child.output);
  CHECK(child.passed);
}
