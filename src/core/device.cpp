// Devices: listing, choosing, facts. The probes are in device_probe.cpp.
#include <dlprim/device.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

#include "core/check.hpp"
#include "core/device_probe.hpp"

namespace dlprim {

using detail::cat;

struct Device::State {
  cl::Device device;
  DeviceFacts facts;
  std::once_flag probed;
  DeviceProbes probes;
};

namespace {

template <class T>
T device_info(cl_device_id id, cl_device_info what) {
  T value{};
  detail::cl_check(clGetDeviceInfo(id, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string trimmed(std::string text) {
  text = text.c_str();  // drivers count the final zero
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

std::string device_text(cl_device_id id, cl_device_info what) {
  size_t size = 0;
  detail::cl_check(clGetDeviceInfo(id, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string text(size, '\0');
  detail::cl_check(clGetDeviceInfo(id, what, size, text.data(), nullptr), "clGetDeviceInfo");
  return trimmed(text);
}

std::string platform_text(cl_platform_id id, cl_platform_info what) {
  size_t size = 0;
  if (clGetPlatformInfo(id, what, 0, nullptr, &size) != CL_SUCCESS) return "?";
  std::string text(size, '\0');
  if (clGetPlatformInfo(id, what, size, text.data(), nullptr) != CL_SUCCESS) return "?";
  return trimmed(text);
}

DeviceKind kind_of(cl_device_type type) {
  if (type & CL_DEVICE_TYPE_GPU) return DeviceKind::gpu;
  if (type & CL_DEVICE_TYPE_ACCELERATOR) return DeviceKind::accelerator;
  return type & CL_DEVICE_TYPE_CPU ? DeviceKind::cpu : DeviceKind::other;
}

/// See DeviceFacts::architecture. The rest of the facts are known.
std::string architecture_of(cl_device_id id, const DeviceFacts& f) {
  if (f.kind == DeviceKind::cpu) {  // a CPU device is the CPU that we run on
#if defined(__x86_64__) || defined(__i386__)
    return f.float_vector_width >= 16 ? "avx512" : f.float_vector_width >= 8 ? "avx2" : "sse";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "";
#endif
  }
  if (f.extensions.find("cl_nv_device_attribute_query") != std::string::npos) {
    constexpr cl_device_info kMajor = 0x4000, kMinor = 0x4001;  // cl_nv_device_attribute_query
    cl_uint major = 0, minor = 0;
    if (clGetDeviceInfo(id, kMajor, sizeof major, &major, nullptr) == CL_SUCCESS &&
        clGetDeviceInfo(id, kMinor, sizeof minor, &minor, nullptr) == CL_SUCCESS)
      return cat("sm_", major, minor);
  }
  // AMD's drivers call a device "gfx90a:sramecc+:xnack-".
  return f.name.rfind("gfx", 0) == 0 ? f.name.substr(0, f.name.find(':')) : "";
}

bool contains_ignoring_case(const std::string& text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

/// From what is written about the hardware, since it is not ours to measure: Arm's and Qualcomm's GPUs have
/// no fast local memory, whatever they answer; Intel's exchange registers within a sub-group for nothing. A
/// device that keeps local memory in global memory says so itself.
Sharing sharing_of(const DeviceFacts& f, cl_device_local_mem_type local_memory) {
  const auto made_by = [&](std::string_view name) { return contains_ignoring_case(f.vendor, name); };
  if (f.kind == DeviceKind::gpu && made_by("Intel")) return Sharing::sub_group;
  if (f.kind == DeviceKind::gpu && (made_by("Arm") || made_by("Qualcomm"))) return Sharing::cache;
  return local_memory == CL_GLOBAL ? Sharing::cache : Sharing::local_memory;
}

/// cl_intel_required_subgroup_size; other vendors have it as well.
std::vector<int> sub_group_widths(cl_device_id id, const std::string& extensions) {
  constexpr cl_device_info kSubGroupSizes = 0x4108;
  size_t size = 0;
  if (extensions.find("cl_intel_required_subgroup_size") == std::string::npos ||
      clGetDeviceInfo(id, kSubGroupSizes, 0, nullptr, &size) != CL_SUCCESS)
    return {};
  std::vector<size_t> widths(size / sizeof(size_t));
  detail::cl_check(clGetDeviceInfo(id, kSubGroupSizes, size, widths.data(), nullptr), "clGetDeviceInfo");
  return {widths.begin(), widths.end()};
}

bool is_pocl(const DeviceFacts& facts) {
  return facts.platform == "Portable Computing Language";
}

/// PoCL; its users can switch that off.
bool keeps_programs(const DeviceFacts& facts) {
  const char* asked = std::getenv("POCL_KERNEL_CACHE");
  return is_pocl(facts) && !(asked && std::string_view(asked) == "0");
}

DeviceFacts facts_of(cl_device_id id) {
  DeviceFacts f;
  f.platform = platform_text(device_info<cl_platform_id>(id, CL_DEVICE_PLATFORM), CL_PLATFORM_NAME);
  f.name = device_text(id, CL_DEVICE_NAME);
  f.vendor = device_text(id, CL_DEVICE_VENDOR);
  f.driver = device_text(id, CL_DRIVER_VERSION);
  f.version = device_text(id, CL_DEVICE_VERSION);
  f.extensions = device_text(id, CL_DEVICE_EXTENSIONS);
  f.kind = kind_of(device_info<cl_device_type>(id, CL_DEVICE_TYPE));
  f.compute_units = static_cast<int>(device_info<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS));
  f.max_work_group = static_cast<int>(device_info<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  size_t sizes[16] = {};
  detail::cl_check(clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, nullptr),
                   "clGetDeviceInfo");
  for (int i = 0; i < 3; i++)
    f.max_work_item_sizes[i] = static_cast<int>(std::min<size_t>(sizes[i], 1u << 30));
  f.float_vector_width = static_cast<int>(device_info<cl_uint>(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT));
  f.address_bits = static_cast<int>(device_info<cl_uint>(id, CL_DEVICE_ADDRESS_BITS));
  f.global_memory = device_info<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  f.max_allocation = device_info<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  f.local_memory = device_info<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  f.architecture = architecture_of(id, f);
  f.sharing = sharing_of(f, device_info<cl_device_local_mem_type>(id, CL_DEVICE_LOCAL_MEM_TYPE));
  f.rounds_quotients =
      f.kind == DeviceKind::gpu && (device_info<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG) &
                                    CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  f.keeps_programs = keeps_programs(f);
  f.compiles_one_at_a_time = f.platform == "NVIDIA CUDA" || is_pocl(f);
  f.builds_in_one_thread = f.platform == "Oclgrind";
  f.lacks_intrinsics = f.platform == "Oclgrind";
  f.fails_on_calls_of_choices = f.kind == DeviceKind::cpu && f.platform.find("Intel") != std::string::npos;
  f.sub_group_widths = sub_group_widths(id, f.extensions);
  // One whose compiler makes vectors of work-items, as for a GPU: see DriverLimits. A work-item of the
  // kernels for CPUs does much.
  if (f.kind == DeviceKind::cpu && f.float_vector_width == 1 && !detail::driver_limits(id, f).long_loops)
    f.kind = DeviceKind::other;
  return f;
}

/// The platform's devices. Throws DeviceError when it has none to give for a reason other than having none.
std::vector<cl_device_id> devices_of(cl_platform_id platform) {
  cl_uint count = 0;
  const cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (code == CL_DEVICE_NOT_FOUND) return {};
  detail::cl_check(code, "clGetDeviceIDs");
  std::vector<cl_device_id> ids(count);
  detail::cl_check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr),
                   "clGetDeviceIDs");
  return ids;
}

std::string listing(const std::vector<Device>& devices) {
  std::string text;
  for (const Device& d : devices)
    text += cat("\n  ", d.facts().index, " (", d.facts().platform_index, ":", d.facts().device_index, ") ",
                d.name(), ", ", d.facts().platform);
  return text.empty() ? "\n  (none)" : text;
}

/// "3" or "1:0" as one or two numbers; empty if it is neither.
std::vector<int> parse_indices(std::string_view selector) {
  std::vector<int> numbers{0};
  bool digits = false;
  for (char c : selector) {
    if (c == ':' && digits && numbers.size() == 1) {
      numbers.push_back(0);
      digits = false;
    } else if (std::isdigit(static_cast<unsigned char>(c)) && numbers.back() < 100000) {
      numbers.back() = numbers.back() * 10 + (c - '0');
      digits = true;
    } else {
      return {};
    }
  }
  return digits ? numbers : std::vector<int>{};
}

/// The first device of a kind that works; none if `selector` names no kind. Throws ValidationError with what
/// is wrong with each device of the kind.
std::optional<Device> device_of_kind(std::string_view selector, const std::vector<Device>& devices) {
  for (DeviceKind kind : {DeviceKind::gpu, DeviceKind::accelerator, DeviceKind::cpu}) {
    const std::string name = name_of(kind);
    if (selector.size() != name.size() || !contains_ignoring_case(name, selector)) continue;
    std::string failures;
    for (const Device& device : devices) {
      if (device.kind() != kind) continue;
      if (device.probes().works) return device;
      failures += cat("\n  ", device.facts().index, " ", device.name(), ": ", device.probes().failure);
    }
    throw ValidationError(
        "device", failures.empty() ? cat("no device is of the kind ", name, "; there are:", listing(devices))
                                   : cat("no device of the kind ", name, " works:", failures));
  }
  return std::nullopt;
}

Device default_device(const std::vector<Device>& devices) {
  std::string failures;
  for (DeviceKind kind : {DeviceKind::gpu, DeviceKind::accelerator, DeviceKind::cpu, DeviceKind::other})
    for (const Device& device : devices) {
      if (device.kind() != kind) continue;
      if (device.probes().works) return device;
      failures += "\n  " + device.name() + ": " + device.probes().failure;
    }
  throw ValidationError("device",
                        devices.empty() ? "there is no OpenCL device" : "no OpenCL device works:" + failures);
}

}  // namespace

const char* name_of(DeviceKind kind) noexcept {
  switch (kind) {
    case DeviceKind::gpu:
      return "GPU";
    case DeviceKind::accelerator:
      return "accelerator";
    case DeviceKind::cpu:
      return "CPU";
    default:
      return "other";
  }
}

const char* name_of(Sharing sharing) noexcept {
  constexpr const char* kNames[] = {"local memory", "sub-groups", "cache"};
  return kNames[static_cast<size_t>(sharing)];
}

const char* name_of(MatrixEngine engine) noexcept {
  constexpr const char* kNames[] = {"none",     "nv_mma",     "nv_wgmma", "amd_wmma",
                                    "amd_mfma", "intel_dpas", "arm"};
  return kNames[static_cast<size_t>(engine)];
}

/// What the loader shows, asked once in a process: facts never change, and threads read them without a lock.
/// Never destroyed: when the process ends, a driver may be gone before our statics.
struct Device::Listing {
  std::vector<Device> devices;
  std::vector<BrokenPlatform> broken;

  Listing();
  static const Listing& get() {
    static const Listing& listing = *new Listing;
    return listing;
  }
};

Device::Listing::Listing() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return;
  std::vector<cl_platform_id> platforms(count);
  detail::cl_check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  for (int p = 0; p < static_cast<int>(count); p++) {
    const cl_platform_id platform = platforms[static_cast<size_t>(p)];
    try {
      std::vector<Device> found;
      for (cl_device_id id : devices_of(platform)) {
        auto state = std::make_shared<State>();
        state->device = cl::Device(id, true);
        state->facts = facts_of(id);
        state->facts.index = static_cast<int>(devices.size() + found.size());
        state->facts.platform_index = p;
        state->facts.device_index = static_cast<int>(found.size());
        found.push_back(Device(std::move(state)));
      }
      devices.insert(devices.end(), found.begin(), found.end());
    } catch (const Error& error) {
      broken.push_back({p, platform_text(platform, CL_PLATFORM_NAME), error.what()});
    }
  }
}

Device::Device(const cl::Device& device) {
  detail::require(device() != nullptr, "device", "is null");
  for (const Device& listed : Listing::get().devices)
    if (listed.state_->device() == device()) state_ = listed.state_;
  if (state_) return;
  // A part of a device, say. One state for each, so that its probes run once in a process.
  static std::mutex mutex;
  static auto& others = *new std::map<cl_device_id, std::shared_ptr<State>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<State>& state = others[device()];
  if (!state) {
    auto fresh = std::make_shared<State>();
    fresh->device = device;
    fresh->facts = facts_of(device());
    state = std::move(fresh);
  }
  state_ = state;
}

std::vector<Device> Device::list(std::vector<BrokenPlatform>* broken) {
  const Listing& listing = Listing::get();
  if (broken) broken->insert(broken->end(), listing.broken.begin(), listing.broken.end());
  return listing.devices;
}

Device Device::find(std::string_view selector) {
  const std::vector<Device> devices = list();
  if (selector.empty()) return default_device(devices);
  if (std::optional<Device> device = device_of_kind(selector, devices)) return *device;
  const std::vector<int> numbers = parse_indices(selector);
  std::vector<Device> fitting;
  for (const Device& device : devices) {
    const DeviceFacts& f = device.facts();
    if ((numbers.size() == 1 && numbers[0] == f.index) ||
        (numbers.size() == 2 && numbers[0] == f.platform_index && numbers[1] == f.device_index))
      fitting.push_back(device);
  }
  // No index, or one that no device has: "3090" is part of a name.
  if (fitting.empty())
    for (const Device& device : devices)
      if (contains_ignoring_case(device.name(), selector) ||
          contains_ignoring_case(device.facts().platform, selector))
        fitting.push_back(device);
  if (fitting.empty())
    throw ValidationError("device", cat("'", selector, "' fits none of:", listing(devices)));
  for (const Device& device : fitting)
    if (device.name() != fitting[0].name() || device.facts().platform != fitting[0].facts().platform)
      throw ValidationError("device", cat("'", selector, "' fits several:", listing(fitting)));
  return fitting[0];
}

const DeviceFacts& Device::facts() const noexcept {
  return state_->facts;
}
const cl::Device& Device::cl() const noexcept {
  return state_->device;
}

const DeviceProbes& Device::probes() const {
  std::call_once(state_->probed, [&] { state_->probes = detail::probe_device(*this); });
  return state_->probes;
}

std::string Device::identity() const {
  return detail::identity_of(facts());
}

bool operator==(const Device& a, const Device& b) noexcept {
  return a.state_ == b.state_;
}

}  // namespace dlprim
