#include "core/device_probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/binary_cache.hpp"
#include "core/check.hpp"
#include "core/defines.hpp"
#include "core/device_ptx.hpp"
#include "core/kernel_source.hpp"
#include "core/log.hpp"
#include "core/program_binary.hpp"

namespace dlprim::detail {
namespace {

constexpr int kItems = 64;
constexpr int kUnset = -7;   // what results hold before
constexpr int kRoom = 1024;  // ints of the buffer; what a probe has behind its results is its own
constexpr const char* kKeyVersion = "probes 6";
constexpr const char* kLimitsVersion = "limits 1";

/// A context and a queue of its own, and the runs of probe kernels in them.
class Prober {
 public:
  explicit Prober(cl_device_id id) : id_(id), source_(kernel_source("probe")) {
    cl_int code = CL_SUCCESS;
    context_ = cl::Context(clCreateContext(nullptr, 1, &id_, nullptr, nullptr, &code));
    cl_check(code, "clCreateContext");
    cl_device_type type = 0;
    cl_check(clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, nullptr), "clGetDeviceInfo");
    cpu_ = (type & CL_DEVICE_TYPE_CPU) != 0;
    queue_ = cl::CommandQueue(clCreateCommandQueue(context_(), id_, CL_QUEUE_PROFILING_ENABLE, &code));
    cl_check(code, "clCreateCommandQueue");
    buffer_ =
        cl::Buffer(clCreateBuffer(context_(), CL_MEM_READ_WRITE, kRoom * sizeof(cl_int), nullptr, &code));
    cl_check(code, "clCreateBuffer");
  }

  /// Runs the probe that `macro` selects in one group of `items`. The first result is returned, -1 if any of
  /// the others is not what it must be. Throws DeviceError when it cannot build or run.
  int run(const char* macro, int64_t local_bytes = 1024, size_t items = kItems) const {
    return run(macro, Defines().set("LOCAL_BYTES", local_bytes), items);
  }
  int run(const char* macro, const Defines& defines, size_t items) const {
    return run(build(macro, defines), items);
  }

  /// What one program shows; see DriverLimits.
  DriverLimits limits() const {
    constexpr int kSteps = 70000;
    uint32_t last = 1;  // as probe.cl computes it
    for (int s = 0; s < kSteps; s++) {
      last = last * 5 + 3;
      last ^= last >> 9;
    }
    const cl::Kernel kernel =
        build("PROBE_LIMITS", Defines().set("STEPS", kSteps + kUnset).set("LAST", cat(last, 'u')));
    size_t most = 0;
    cl_check(clGetKernelWorkGroupInfo(kernel(), id_, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr),
             "clGetKernelWorkGroupInfo");
    DriverLimits result;
    cl_ulong first = 0, second = 0;
    const int verdict = run(kernel, kItems, &first);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // more than a step of any such clock
    run(kernel, kItems, &second);
    result.long_loops = verdict == 1;
    result.exceeds_kernel_groups = most < kItems && verdict >= 0;
    result.measures_time = second > first;
    result.waits_for_flushed = waits_for_flushed(kernel);
    return result;
  }

  /// True if the probe builds, runs and is right.
  bool shows(const char* macro, int64_t local_bytes = 1024, size_t items = kItems) const {
    return shows(macro, Defines().set("LOCAL_BYTES", local_bytes), items);
  }
  bool shows(const char* macro, const Defines& defines, size_t items) const {
    try {
      return run(macro, defines, items) == 1;
    } catch (const Error&) {
      return false;  // not having a capability is an answer
    }
  }
  /// True if the matrix instructions of fragment.cl are there in all of the types, and its layout is theirs.
  /// `form` 0: the compiler knows.
  bool multiplies(const char* fragment, int form, size_t lanes,
                  std::initializer_list<const char*> types) const {
    return std::all_of(types.begin(), types.end(), [&](const char* type) {
      Defines defines;
      defines.set("FRAGMENT", fragment).set("FRAG_TYPE", type).set("EMULATE", 0);
      if (form != 0) defines.set("FORM", form);
      return shows("PROBE_FRAGMENT", defines, lanes);
    });
  }

  /// The first result, 0 if the probe fails.
  int width(const char* macro) const {
    try {
      return std::max(run(macro), 0);
    } catch (const Error&) {
      return 0;
    }
  }

 private:
  /// The probe that `macro` selects.
  cl::Kernel build(const char* macro, Defines defines) const {
    const std::string options = defines.set(macro, 1).options();
    const char* text = source_.c_str();
    const size_t size = source_.size();
    cl_int code = CL_SUCCESS;
    cl::Program program(clCreateProgramWithSource(context_(), 1, &text, &size, &code));
    cl_check(code, "clCreateProgramWithSource");
    cl_check(clBuildProgram(program(), 1, &id_, options.c_str(), nullptr, nullptr), "clBuildProgram");
    if (!cpu_ && has_covered_ptx(program_binary(program)))
      program = uncover_ptx(context_, id_, program, macro);
    cl::Kernel kernel(clCreateKernel(program(), "probe", &code));
    cl_check(code, "clCreateKernel");
    return kernel;
  }

  /// Whether a kernel that takes some time is over after clFlush and clFinish.
  bool waits_for_flushed(const cl::Kernel& kernel) const {
    const size_t items = kItems;
    cl_event event = nullptr;
    cl_check(clEnqueueNDRangeKernel(queue_(), kernel(), 1, nullptr, &items, &items, 0, nullptr, &event),
             "clEnqueueNDRangeKernel");
    const cl::Event owned(event);
    cl_check(clFlush(queue_()), "clFlush");
    cl_check(clFinish(queue_()), "clFinish");
    cl_int status = CL_COMPLETE;
    clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    cl_check(clWaitForEvents(1, &event), "clWaitForEvents");
    return status == CL_COMPLETE;
  }

  /// `ended`: when the device says that it ended, 0 if it does not.
  int run(const cl::Kernel& kernel, size_t items, cl_ulong* ended = nullptr) const {
    std::vector<cl_int> y(kItems, kUnset);
    const size_t bytes = y.size() * sizeof(cl_int);
    const cl_mem memory = buffer_();
    cl_check(clEnqueueWriteBuffer(queue_(), memory, CL_TRUE, 0, bytes, y.data(), 0, nullptr, nullptr),
             "clEnqueueWriteBuffer");
    cl_check(clSetKernelArg(kernel(), 0, sizeof memory, &memory), "clSetKernelArg");
    cl_event event = nullptr;
    cl_check(clEnqueueNDRangeKernel(queue_(), kernel(), 1, nullptr, &items, &items, 0, nullptr, &event),
             "clEnqueueNDRangeKernel");
    const cl::Event owned(event);
    cl_check(clEnqueueReadBuffer(queue_(), memory, CL_TRUE, 0, bytes, y.data(), 0, nullptr, nullptr),
             "clEnqueueReadBuffer");
    if (ended && clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *ended, ended, nullptr))
      *ended = 0;
    for (int i = 1; i < kItems; i++)
      if (y[static_cast<size_t>(i)] != 3 * i + 1) return -1;
    return y[0];
  }

  cl_device_id id_;
  bool cpu_ = false;  ///< whose programs hold no PTX: binaries may cost a second compilation
  std::string source_;
  cl::Context context_;
  cl::CommandQueue queue_;
  cl::Buffer buffer_;
};

/// Sizes at which vendors draw a line, largest first.
constexpr uint64_t kLocalSizes[] = {231424, 166912, 101376, 65536, 49152, 32768, 16384, 8192};

/// A kernel may declare more than the driver admits to only on NVIDIA's OpenCL (226 KB on Hopper against 48
/// admitted); elsewhere larger ones are not tried, since CPU devices put the array on a stack.
uint64_t probe_local_memory(const Prober& prober, uint64_t admitted, bool nvidia) {
  for (uint64_t size : kLocalSizes)
    if ((nvidia || size <= admitted) && prober.shows("PROBE_LOCAL", static_cast<int64_t>(size))) return size;
  return 0;
}

/// The matrix engine, and how many work-items share an instruction.
std::pair<MatrixEngine, int> probe_matrix(const Prober& prober, const DeviceFacts& facts) {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  if (has(facts.vendor, "NVIDIA")) {
    if (prober.shows("PROBE_NV_WGMMA", 1024, 128)) return {MatrixEngine::nv_wgmma, 128};
    if (prober.shows("PROBE_NV_MMA")) return {MatrixEngine::nv_mma, 32};
  }
  if (facts.kind == DeviceKind::gpu && (has(facts.vendor, "AMD") || has(facts.vendor, "Advanced Micro"))) {
    if (prober.multiplies("AMD_MFMA", 0, 64, {"FRAG_F16", "FRAG_BF16", "FRAG_I8", "FRAG_F32"}))
      return {MatrixEngine::amd_mfma, 64};
    if (prober.multiplies("AMD_WMMA", 0, 32, {"FRAG_F16", "FRAG_BF16", "FRAG_I8"}))
      return {MatrixEngine::amd_wmma, 32};
  }
  if (facts.kind == DeviceKind::gpu && has(facts.extensions, "cl_intel_subgroup_matrix_multiply_accumulate"))
    for (const int width : {8, 16})
      if (prober.multiplies("INTEL_DPAS", width, static_cast<size_t>(width),
                            {"FRAG_F16", "FRAG_BF16", "FRAG_I8"}))
        return {MatrixEngine::intel_dpas, width};
  return {MatrixEngine::none, 0};
}

DeviceProbes run_probes(const Device& device) {
  DeviceProbes result;
  const DeviceFacts& facts = device.facts();
  const bool nvidia = facts.vendor.find("NVIDIA") != std::string::npos;
  try {
    const Prober prober(device.cl()());
    result.works = prober.run("PROBE_PLAIN") == 1;
    if (!result.works) {
      result.failure = "a plain kernel gave wrong numbers";
      return result;
    }
    // A CPU's compiler prints what it refuses to stderr, so there an extension that is not listed is not
    // tried. Elsewhere the list says too little to go by.
    const auto worth_trying = [&](const char* extension) {
      return facts.kind != DeviceKind::cpu || facts.extensions.find(extension) != std::string::npos;
    };
    result.fp16 = worth_trying("cl_khr_fp16") && prober.shows("PROBE_FP16");
    result.fp64 = prober.shows("PROBE_FP64");
    result.bf16_instruction = nvidia && prober.shows("PROBE_BF16");
    result.static_local_memory = probe_local_memory(prober, facts.local_memory, nvidia);
    if (worth_trying("subgroups"))
      result.sub_group_width = prober.width(nvidia ? "PROBE_NV_SHUFFLE" : "PROBE_SUB_GROUP");
    std::tie(result.matrix, result.matrix_lanes) = probe_matrix(prober, facts);
  } catch (const Error& error) {
    result.failure = error.what();
  }
  return result;
}

std::string to_text(const DeviceProbes& p) {
  return cat(p.works, ' ', p.fp16, ' ', p.fp64, ' ', p.bf16_instruction, ' ', p.sub_group_width, ' ',
             p.static_local_memory, ' ', static_cast<int>(p.matrix), ' ', p.matrix_lanes);
}

bool from_text(const std::string& text, DeviceProbes& p) {
  int works = 0, fp16 = 0, fp64 = 0, bf16 = 0, width = 0, matrix = 0, lanes = 0;
  unsigned long long local = 0;
  if (std::sscanf(text.c_str(), "%d %d %d %d %d %llu %d %d", &works, &fp16, &fp64, &bf16, &width, &local,
                  &matrix, &lanes) != 8)
    return false;
  p.works = works != 0;
  p.fp16 = fp16 != 0;
  p.fp64 = fp64 != 0;
  p.bf16_instruction = bf16 != 0;
  p.sub_group_width = width;
  p.static_local_memory = local;
  p.matrix = static_cast<MatrixEngine>(matrix);
  p.matrix_lanes = lanes;
  return true;
}

DriverLimits limits_of(cl_device_id id, const DeviceFacts& facts) {
  DriverLimits result;
  try {
    BinaryCache& disk = BinaryCache::user();
    const std::string key = cat(kLimitsVersion, '\n', identity_of(facts), '\n', kernel_source("probe"));
    int loops = 0, exceeds = 0, measures = 0, waits = 0;
    if (const auto text = disk.load(key);
        text && std::sscanf(text->c_str(), "%d %d %d %d", &loops, &exceeds, &measures, &waits) == 4) {
      result.long_loops = loops != 0;
      result.exceeds_kernel_groups = exceeds != 0;
      result.measures_time = measures != 0;
      result.waits_for_flushed = waits != 0;
    } else {
      result = Prober(id).limits();
      const std::string found = cat(result.long_loops, ' ', result.exceeds_kernel_groups, ' ',
                                    result.measures_time, ' ', result.waits_for_flushed);
      if (const Log log; log.level() >= 1) log.line(cat("probed limits of='", facts.name, "' ", found));
      disk.store(key, found);
    }
  } catch (const std::exception&) {  // a device that does not work: probe_device() says so
  }
  cl_device_fp_config arithmetic = CL_FP_FMA;
  clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof arithmetic, &arithmetic, nullptr);
  result.fuses_multiply_add = (arithmetic & CL_FP_FMA) != 0;
  return result;
}

struct KnownLimits {
  std::mutex mutex;
  std::map<cl_device_id, DriverLimits> of;

  static KnownLimits& get() {
    static KnownLimits& known = *new KnownLimits;  // threads may ask while the process ends
    return known;
  }
};

}  // namespace

const DriverLimits& driver_limits(cl_device_id id, const DeviceFacts& facts) {
  KnownLimits& known = KnownLimits::get();
  std::lock_guard<std::mutex> lock(known.mutex);
  const auto found = known.of.find(id);
  return found != known.of.end() ? found->second : known.of.emplace(id, limits_of(id, facts)).first->second;
}

std::string identity_of(const DeviceFacts& f) {
  return cat(f.platform, " | ", f.vendor, " | ", f.name, " | ", f.version, " | ", f.driver, " | ",
             f.compute_units);
}

DeviceProbes probe_device(const Device& device) {
  DeviceProbes result;
  try {
    BinaryCache& disk = BinaryCache::user();
    const std::string key = cat(kKeyVersion, '\n', device.identity(), '\n', kernel_source("probe"));
    if (const auto text = disk.load(key); text && from_text(*text, result)) return result;
    result = run_probes(device);
    if (const Log log; log.level() >= 1)
      log.line(cat("probed device='", device.name(), "' ", to_text(result)));
    if (result.works) disk.store(key, to_text(result));  // a failure may pass: ask again next time
  } catch (const std::exception& error) {  // a kernel file that DLPRIM_KERNEL_DIR does not hold, say
    result = {};
    result.failure = error.what();
  }
  return result;
}

}  // namespace dlprim::detail
