// Device: one OpenCL device and the facts about it. Facts never change while the process runs.
// Capabilities are believed only after a tiny kernel compiled, ran and gave the right small integers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dlprim/error.hpp>
#include <dlprim/export.hpp>
#include <dlprim/opencl.hpp>

namespace dlprim {

enum class DeviceKind : uint8_t { gpu, accelerator, cpu, other };

/// Matrix hardware that kernels can reach from OpenCL C.
enum class MatrixEngine : uint8_t { none, nv_mma, nv_wgmma, amd_wmma, amd_mfma, intel_dpas, arm };

/// The best way for work-items to share what several of them read.
enum class Sharing : uint8_t {
  local_memory,  ///< through local memory, with barriers; also where nothing is known
  sub_group,     ///< registers of a sub-group; local memory and barriers cost more
  cache,         ///< by reading it at the same time; local memory is no faster, and barriers cost
};

DLPRIM_API const char* name_of(DeviceKind kind) noexcept;
DLPRIM_API const char* name_of(Sharing sharing) noexcept;
DLPRIM_API const char* name_of(MatrixEngine engine) noexcept;

/// What the driver says of a device. Sizes are in bytes.
struct DeviceFacts {
  std::string platform;  ///< platform name
  std::string name;      ///< device name
  std::string vendor;    ///< vendor name, as the driver writes it
  std::string driver;    ///< driver version
  std::string version;   ///< device's OpenCL version
  std::string extensions;
  /// What devices have in common that kernels run on alike: "sm_90", "gfx1100", of CPUs the widest vectors,
  /// "avx512", "avx2"; empty if the driver does not tell.
  std::string architecture;
  DeviceKind kind = DeviceKind::other;
  int compute_units = 0;
  int max_work_group = 0;
  int max_work_item_sizes[3] = {0, 0, 0};
  int float_vector_width = 1;  ///< native width in floats: 8 on AVX2, 16 on AVX-512, usually 1 on GPUs
  int address_bits = 0;
  uint64_t global_memory = 0;
  uint64_t max_allocation = 0;
  uint64_t local_memory = 0;  ///< what the driver admits to; see DeviceProbes::static_local_memory
  Sharing sharing = Sharing::local_memory;
  /// The driver keeps compiled programs on disk itself, and compiles them once more for who wants their
  /// binaries.
  bool keeps_programs = false;
  /// The driver compiles one program at a time in a process, however many threads ask: NVIDIA's, PoCL.
  bool compiles_one_at_a_time = false;
  /// Two builds at once in a context end the process, so nothing is built in the background: Oclgrind.
  bool builds_in_one_thread = false;
  /// A vectorised loop in which a function's argument is a choice may end the compiler: Intel's for CPUs.
  bool fails_on_calls_of_choices = false;
  /// Quotients and roots of f32 are rounded correctly if the compiler is asked for that; else they may be
  /// some last bits off.
  bool rounds_quotients = false;
  /// The compiler's own arithmetic functions, as __builtin_fmaf, are not there: Oclgrind.
  bool lacks_intrinsics = false;
  std::vector<int> sub_group_widths;  ///< those that a kernel may demand; empty: it must take what comes
  int index = -1;                     ///< position in Device::list(); -1 for a device that is not there
  int platform_index = -1;
  int device_index = -1;  ///< position inside its platform
};

/// What tiny test kernels found.
struct DeviceProbes {
  bool works = false;                ///< a plain kernel builds and gives the right integers
  bool fp16 = false;                 ///< half arithmetic
  bool fp64 = false;                 ///< double arithmetic
  bool bf16_instruction = false;     ///< an instruction rounds two floats to bf16
  int sub_group_width = 0;           ///< work-items that exchange registers directly; 0: none
  uint64_t static_local_memory = 0;  ///< bytes of a __local array that a kernel may declare
  MatrixEngine matrix = MatrixEngine::none;
  int matrix_lanes = 0;  ///< work-items that share a matrix instruction; 0: there is none
  std::string failure;   ///< why `works` is false
};

/// A platform of the system's OpenCL loader that could not be asked for its devices.
struct BrokenPlatform {
  int index = 0;
  std::string name;
  std::string error;
};

class DLPRIM_API Device {
 public:
  /// Every device of every platform that answers, in the loader's order, which is asked once in a process.
  /// A platform that fails is skipped, and put into `broken` if that is given.
  static std::vector<Device> list(std::vector<BrokenPlatform>* broken = nullptr);

  /// The device that `selector` names: "gpu", "cpu" or "accelerator" (the first that works), an index into
  /// list(), "platform:device" (two indices), or else part of its or its platform's name; letters in any
  /// case. Empty: the first working GPU, then accelerator, then CPU. Throws ValidationError with what exists
  /// when nothing or more than one fits; of several equal devices the first is taken.
  static Device find(std::string_view selector = {});

  /// Around a device that the user owns.
  explicit Device(const cl::Device& device);

  const DeviceFacts& facts() const noexcept;
  const std::string& name() const noexcept { return facts().name; }
  DeviceKind kind() const noexcept { return facts().kind; }
  const cl::Device& cl() const noexcept;

  /// Runs the probes on first use, or reads their verdict from the disk cache of an earlier process with the
  /// same driver. Never throws: a device whose probes cannot run has works == false.
  const DeviceProbes& probes() const;

  /// A text that names hardware, driver and platform: the same text, the same compiled binaries.
  std::string identity() const;

  friend bool operator==(const Device& a, const Device& b) noexcept;
  friend bool operator!=(const Device& a, const Device& b) noexcept { return !(a == b); }

 private:
  struct State;
  struct Listing;
  explicit Device(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace dlprim
