#include "core/program_cache.hpp"

#include <algorithm>
#include <array>

#include <chrono>

#include "core/binary_cache.hpp"
#include "core/check.hpp"
#include "core/device_ptx.hpp"
#include "core/kernel_source.hpp"
#include "core/log.hpp"
#include "core/program_binary.hpp"

namespace dlprim::detail {
namespace {

constexpr const char* kKeyVersion = "program 1";

}  // namespace

const std::string& Kernel::name() const {
  return shared_->name;
}
size_t Kernel::max_work_group() const {
  return shared_->max_work_group;
}

cl::Kernel Kernel::Shared::borrow() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!idle.empty()) {
      cl::Kernel kernel = std::move(idle.back());
      idle.pop_back();
      return kernel;
    }
  }
  cl_int code = CL_SUCCESS;
  cl::Kernel kernel(clCreateKernel(program->program(), name.c_str(), &code));
  cl_check(code, ("clCreateKernel(" + name + ")").c_str());
  return kernel;
}

void Kernel::Shared::give_back(cl::Kernel kernel) noexcept {
  try {
    std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(kernel));
  } catch (...) {  // without memory for the list the kernel is simply released
  }
}

ProgramCache::ProgramCache(cl::Context context, const Device& device)
    : context_(std::move(context)), device_(device) {}

ProgramStats ProgramCache::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

Kernel ProgramCache::kernel(const std::string& file, const std::string& kernel, const Defines& defines) {
  return generated(file, kernel_source(file), kernel, defines);
}

Kernel ProgramCache::generated(const std::string& name, const std::string& source, const std::string& kernel,
                               const Defines& defines) {
  Defines all = defines;
  if (device_.probes().bf16_instruction) all.set("BF16_INSTRUCTION", 1);
  if (device_.kind() == DeviceKind::cpu) all.set("CPU", 1);
  const std::shared_ptr<const Program> built = program(name, source, all.options());
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = kernels_.find({built.get(), kernel});
  if (it != kernels_.end()) return it->second;

  auto shared = std::make_shared<Kernel::Shared>();
  shared->program = built;
  shared->name = kernel;
  cl::Kernel first = shared->borrow();
  cl_uint arguments = 0;
  cl_check(clGetKernelInfo(first(), CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, nullptr),
           "clGetKernelInfo");
  cl_check(clGetKernelWorkGroupInfo(first(), device_.cl()(), CL_KERNEL_WORK_GROUP_SIZE,
                                    sizeof shared->max_work_group, &shared->max_work_group, nullptr),
           "clGetKernelWorkGroupInfo");
  // Some drivers report a power of two, less than what the kernel itself requires and gets.
  std::array<size_t, 3> required{};
  cl_check(clGetKernelWorkGroupInfo(first(), device_.cl()(), CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                    sizeof required, required.data(), nullptr),
           "clGetKernelWorkGroupInfo");
  shared->max_work_group = std::max(shared->max_work_group, required[0] * required[1] * required[2]);
  shared->arguments = arguments;
  shared->give_back(std::move(first));
  return kernels_.emplace(std::pair(built.get(), kernel), Kernel(shared)).first->second;
}

std::shared_ptr<const Program> ProgramCache::program(const std::string& name, const std::string& source,
                                                     const std::string& options) {
  const std::string key = options + '\n' + source;
  std::promise<Outcome> promise;
  Built built;
  bool mine = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = programs_.find(key);
    mine = it == programs_.end();
    if (mine) it = programs_.emplace(key, promise.get_future().share()).first;
    built = it->second;
    if (!mine) stats_.reused++;
  }
  if (mine) {
    const auto forget = [&] {  // those who wait get the error; who asks later tries again
      std::lock_guard<std::mutex> lock(mutex_);
      programs_.erase(key);
    };
    try {
      promise.set_value({make(name, source, options), {}});
    } catch (const BuildError& error) {
      forget();
      promise.set_value({nullptr, error.log()});
    } catch (...) {
      forget();
      promise.set_exception(std::current_exception());
    }
  }
  const Outcome& outcome = built.get();
  if (!outcome.program) throw BuildError(name, options, outcome.log);
  return outcome.program;
}

std::shared_ptr<const Program> ProgramCache::make(const std::string& name, const std::string& source,
                                                  const std::string& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  BinaryCache& disk = BinaryCache::user();
  const std::string key = cat(kKeyVersion, '\n', device_.identity(), '\n', options, '\n', source);
  auto result = std::make_shared<Program>();
  result->name = name;
  if (const auto binary = disk.load(key))
    result->program = program_from_binary(context_, device_.cl()(), *binary, options);
  const bool loaded = result->program() != nullptr;
  if (!loaded) {
    result->program = build(name, source, options);
    // PoCL compiles a kernel a second time for its binary.
    const std::string binary = disk.keeps() ? program_binary(result->program) : "";
    if (!binary.empty()) disk.store(key, binary);
  }
  if (log_level() >= 1) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    log_line(
        cat(loaded ? "load" : "build", " program=", name, " seconds=", seconds, " options='", options, "'"));
    // Compilers end even an empty log with a line end.
    const std::string remarks = loaded || log_level() < 2 ? "" : program_log(result->program, device_.cl()());
    if (remarks.find_first_not_of(" \n") != std::string::npos)
      log_line(cat("remarks on ", name, ":\n", remarks));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  (loaded ? stats_.from_disk : stats_.built)++;
  return result;
}

cl::Program ProgramCache::build(const std::string& name, const std::string& source,
                                const std::string& options) const {
  const char* text = source.c_str();
  const size_t size = source.size();
  const cl_device_id device = device_.cl()();
  cl_int code = CL_SUCCESS;
  cl::Program program(clCreateProgramWithSource(context_(), 1, &text, &size, &code));
  cl_check(code, "clCreateProgramWithSource");
  code = clBuildProgram(program(), 1, &device, options.c_str(), nullptr, nullptr);
  if (code == CL_BUILD_PROGRAM_FAILURE || code == CL_INVALID_BUILD_OPTIONS)
    throw BuildError(name, options, program_log(program, device));
  cl_check(code, "clBuildProgram");
  const bool covered = has_covered_ptx(source) && has_covered_ptx(program_binary(program));
  return covered ? uncover_ptx(context_, device, program, name) : program;
}

}  // namespace dlprim::detail
