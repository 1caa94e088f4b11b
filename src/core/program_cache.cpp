#include "core/program_cache.hpp"

#include <dlprim/compiling.hpp>
#include <dlprim/rehearsal.hpp>

#include <algorithm>
#include <array>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "core/check.hpp"
#include "core/compile.hpp"
#include "core/device_probe.hpp"
#include "core/kernel_source.hpp"
#include "core/program_binary.hpp"
#include "core/rehearsed.hpp"

namespace dlprim {
namespace detail {
namespace {

constexpr const char* kKeyVersion = "program 1";
constexpr size_t kMostForms = 8192;
/// After this time without a program to compile processes end: they hold memory of the device.
constexpr std::chrono::seconds kPatience{10};

std::atomic<uint64_t> pending_programs{0}, done_programs{0};

/// The process that compiles for a thread of the pool, and ends with it.
BuildProcess& own_process() {
  thread_local BuildProcess process;
  return process;
}

}  // namespace
}  // namespace detail

CompileProgress compile_progress() noexcept {
  return {detail::done_programs, detail::pending_programs};
}

namespace detail {

const std::string& Kernel::name() const {
  return shared_->name;
}
int64_t Kernel::max_work_group() const {
  return shared_ ? shared_->max_work_group : std::numeric_limits<int64_t>::max();
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

ProgramCache::ProgramCache(cl::Context context, const Device& device, const ProgramLimits& limits,
                           BinaryCache& disk, Log log, std::optional<int> processes)
    : context_(std::move(context)),
      device_(device),
      disk_(disk),
      log_(std::move(log)),
      limits_(limits),
      processes_(keeps() ? build_processes(processes, device.facts()) : 0),
      background_(processes_,
                  processes_ > 0 ? BuildPool::Prepare([this] {
                    return own_process().prepare(device_.facts().platform, cat(device_.facts().device_index));
                  })
                                 : BuildPool::Prepare(),
                  processes_ > 0 ? kPatience : std::chrono::seconds(0)) {}

bool ProgramCache::keeps() const {
  return disk_.keeps() && (disk_.chosen() || !device_.facts().keeps_programs);
}

ProgramStats ProgramCache::held() const {
  ProgramStats stats = stats_;
  for (const auto& [key, entry] : programs_)
    if (const auto program = entry.program.lock()) {
      stats.held++;
      stats.held_bytes += program->bytes;
    }
  return stats;
}

ProgramStats ProgramCache::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return held();
}

bool ProgramCache::crowded() const {
  const ProgramStats now = stats();
  return now.held > limits_.count || now.held_bytes > limits_.bytes;
}

Kernel ProgramCache::kernel(const std::string& file, const std::string& kernel, const Defines& defines) {
  return generated(file, kernel_source(file), kernel, defines);
}

namespace {

std::shared_ptr<Kernel::Shared> make_kernel(std::shared_ptr<const Program> program, const std::string& name,
                                            const Device& on) {
  const cl_device_id device = on.cl()();
  auto shared = std::make_shared<Kernel::Shared>();
  shared->program = std::move(program);
  shared->name = name;
  cl::Kernel first = shared->borrow();
  cl_uint arguments = 0;
  cl_check(clGetKernelInfo(first(), CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, nullptr),
           "clGetKernelInfo");
  size_t most = 0;
  cl_check(clGetKernelWorkGroupInfo(first(), device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr),
           "clGetKernelWorkGroupInfo");
  if (driver_limits(on).exceeds_kernel_groups)
    most = std::max(most, static_cast<size_t>(on.facts().max_work_group));
  // Some drivers report a power of two, less than what the kernel itself requires and gets.
  std::array<size_t, 3> required{};
  cl_check(clGetKernelWorkGroupInfo(first(), device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required,
                                    required.data(), nullptr),
           "clGetKernelWorkGroupInfo");
  shared->max_work_group = static_cast<int64_t>(std::max(most, required[0] * required[1] * required[2]));
  shared->arguments = arguments;
  shared->give_back(std::move(first));
  return shared;
}

}  // namespace

Kernel ProgramCache::generated(const std::string& name, const std::string& source, const std::string& kernel,
                               const Defines& defines) {
  return kernel_of(name, source, kernel, defines, "");
}

Kernel ProgramCache::generated(const std::string& name, const std::string& form,
                               const std::function<std::string()>& make_source, const std::string& kernel) {
  // Texts from that folder may change at any time.
  const bool fixed = std::getenv("DLPRIM_KERNEL_DIR") == nullptr;
  if (fixed)
    if (Kernel known = find_form(form); known.handle()) return known;
  return kernel_of(name, make_source(), kernel, {}, fixed ? form : "");
}

Kernel ProgramCache::find_form(const std::string& form) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = forms_.find(form);
  if (found == forms_.end()) return Kernel();
  Kernel kernel(found->second.kernel.lock());
  Entry* entry = found->second.entry;
  if (!kernel.handle() || !entry->built.valid()) return Kernel();
  ages_.splice(ages_.begin(), ages_, entry->age);
  stats_.reused++;
  return kernel;
}

Kernel ProgramCache::kernel_of(const std::string& name, const std::string& source, const std::string& kernel,
                               const Defines& defines, const std::string& form) {
  if (Rehearsal::active() && NoPrograms::active()) return Kernel();
  Defines all = defines;
  if (device_.probes().bf16_instruction) all.set("BF16_INSTRUCTION", 1);
  if (device_.kind() == DeviceKind::cpu) all.set("CPU", 1);
  const DriverLimits& limits = driver_limits(device_);
  if (!limits.fuses_multiply_add) all.set("SLOW_FMA", 1);
  if (!limits.long_loops) all.set("COPIES_STRUCTS", 1);  // see there
  if (device_.facts().lacks_intrinsics) all.set("LACKS_INTRINSICS", 1);
  if (device_.facts().fails_on_calls_of_choices) all.set("FAILS_ON_CALLS_OF_CHOICES", 1);
  if (const char* check = std::getenv("DLPRIM_CHECK_ACCESS"); check && std::string(check) == "1")
    all.set("CHECK_ACCESS", 1);  // see access.cl
  std::string options = all.options();
  if (device_.facts().rounds_quotients && source.find(kRoundedQuotients) != std::string::npos)
    options += " -cl-fp32-correctly-rounded-divide-sqrt";
  const std::string key = options + '\n' + source;
  if (Rehearsal::active()) {
    if (!device_.facts().builds_in_one_thread) prefetch(key, name, source, options);
    return Kernel();
  }
  const std::shared_ptr<const Program> built = program(key, name, source, options);
  std::lock_guard<std::mutex> lock(mutex_);
  Entry* entry = find(key);
  const bool kept =
      entry && entry->built.valid() && entry->program.lock() == built;  // it may have gone meanwhile
  if (!kept) return Kernel(make_kernel(built, kernel, device_));
  auto found = entry->kernels.find(kernel);
  if (found == entry->kernels.end())
    found = entry->kernels.emplace(kernel, make_kernel(built, kernel, device_)).first;
  if (!form.empty()) {
    if (forms_.size() >= kMostForms) forms_.clear();
    forms_[form] = {found->second.handle(), entry};
  }
  return found->second;
}

ProgramCache::Entry* ProgramCache::find(const std::string& key) {
  auto it = programs_.find(key);
  return it == programs_.end() ? nullptr : &it->second;
}

ProgramCache::Entry& ProgramCache::insert(const std::string& key, Built built) {
  const auto it = programs_.try_emplace(key).first;
  it->second.built = std::move(built);
  ages_.push_front(&it->first);
  it->second.age = ages_.begin();
  return it->second;
}

void ProgramCache::erase(const std::string& key) {
  auto it = programs_.find(key);
  ages_.erase(it->second.age);
  programs_.erase(it);
}

void ProgramCache::trim() {
  size_t count = ages_.size();
  uint64_t bytes = 0;
  for (const std::string* key : ages_)
    if (const auto program = programs_.find(*key)->second.program.lock()) bytes += program->bytes;
  for (auto age = ages_.end(); age != ages_.begin() && (count > limits_.count || bytes > limits_.bytes);) {
    Entry& entry = programs_.find(**--age)->second;
    const auto program = entry.program.lock();
    if (!program || age == ages_.begin())
      continue;  // one that is being built; and the newest stays, however large
    bytes -= program->bytes;
    count--;
    entry.built = {};
    entry.kernels.clear();
    age = ages_.erase(age);
  }
  for (auto it = programs_.begin(); it != programs_.end();) {
    const Entry& entry = it->second;
    it = !entry.built.valid() && entry.program.expired() ? programs_.erase(it) : std::next(it);
  }
}

ProgramCache::Claim ProgramCache::claim(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  Entry* entry = find(key);
  if (entry && entry->built.valid()) {
    ages_.splice(ages_.begin(), ages_, entry->age);
    return {entry->built, nullptr, entry->job};
  }
  auto promise = std::make_shared<std::promise<Outcome>>();
  if (auto held = entry ? entry->program.lock() : nullptr) {
    promise->set_value({std::move(held), {}});
    Built built = insert(key, promise->get_future().share()).built;
    trim();
    return {std::move(built), nullptr, {}};
  }
  if (entry) programs_.erase(key);
  Built built = insert(key, promise->get_future().share()).built;
  pending_programs++;
  return {std::move(built), std::move(promise), {}};
}

void ProgramCache::disclaim(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  pending_programs--;
  erase(key);
}

void ProgramCache::fulfil(std::promise<Outcome>& promise, const std::string& key, const std::string& name,
                          const std::string& source, const std::string& options, BuildProcess* process) {
  try {
    const std::shared_ptr<const Program> made = make(name, source, options, process);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      pending_programs--;
      done_programs++;
      find(key)->program = made;
      trim();
    }
    promise.set_value({made, {}});
  } catch (const BuildError& error) {
    disclaim(key);
    promise.set_value({nullptr, error.log()});
  } catch (...) {
    disclaim(key);
    promise.set_exception(std::current_exception());
  }
}

std::shared_ptr<const Program> ProgramCache::program(const std::string& key, const std::string& name,
                                                     const std::string& source, const std::string& options) {
  for (;;) {
    const Claim claimed = claim(key);
    if (claimed.promise) fulfil(*claimed.promise, key, name, source, options);
    if (claimed.job) background_.run_here(*claimed.job);
    const Outcome& outcome = claimed.built.get();
    if (outcome.dropped) continue;
    if (!outcome.program) throw BuildError(name, options, outcome.log);
    if (!claimed.promise) {
      std::lock_guard<std::mutex> lock(mutex_);
      stats_.reused++;
    }
    return outcome.program;
  }
}

void ProgramCache::prefetch(const std::string& key, const std::string& name, const std::string& source,
                            const std::string& options) {
  const auto promise = claim(key).promise;
  if (!promise) return;
  const auto build = std::make_shared<std::function<void(BuildProcess*)>>(
      [=](BuildProcess* process) { fulfil(*promise, key, name, source, options, process); });
  BuildPool::Job job;
  job.length = source.size();  // long texts take longest
  job.run = [this, build] { (*build)(processes_ > 0 ? &own_process() : nullptr); };
  job.run_here = [build] { (*build)(nullptr); };
  job.drop = [=] {
    disclaim(key);
    promise->set_value({nullptr, {}, true});
  };
  try {
    const BuildPool::Ticket ticket = background_.add(std::move(job));
    std::lock_guard<std::mutex> lock(mutex_);
    if (Entry* entry = find(key)) entry->job = ticket;
  } catch (const std::system_error&) {  // there is no thread to be had
    (*build)(nullptr);
  }
}

std::shared_ptr<const Program> ProgramCache::make(const std::string& name, const std::string& source,
                                                  const std::string& options, BuildProcess* process) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const std::string key = cat(kKeyVersion, '\n', device_.identity(), '\n', options, '\n', source);
  auto result = std::make_shared<Program>();
  result->name = name;
  result->bytes = 2 * (options.size() + source.size());  // our key, and the driver's copy of the text
  const auto load = [&] {
    if (const auto binary = disk_.load(key)) {
      result->program = program_from_binary(context_, device_.cl()(), *binary, options);
      result->bytes += binary->size();
    }
    return result->program() != nullptr;
  };
  const bool loaded = load();
  bool elsewhere = false;
  if (!loaded && process) {
    const DeviceFacts& facts = device_.facts();
    const std::string failure = process->build({facts.platform, cat(facts.device_index), name, source,
                                                options, disk_.directory(), cat(disk_.limit()), key});
    elsewhere = failure.empty() && load();
    if (!elsewhere && log_.level() >= 1)
      log_.line(cat("not built elsewhere program=", name, ": ",
                    failure.empty() ? "its binary is not in the folder, or does not load" : failure));
  }
  if (!loaded && !elsewhere) {
    if (!process && processes_ > 0 && !warmed_.exchange(true)) background_.warm();  // others will follow
    result->program = compile_program(context_, device_.cl()(), name, source, options);
    const std::string binary = keeps() ? program_binary(result->program) : "";
    if (!binary.empty()) disk_.store(key, binary);
    result->bytes += binary.size();
  }
  if (log_.level() >= 1) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const char* how = loaded ? "load" : elsewhere ? "build elsewhere" : "build";
    log_.line(cat(how, " program=", name, " seconds=", seconds, " options='", options, "'"));
    // Compilers end even an empty log with a line end.
    const std::string remarks =
        loaded || log_.level() < 2 ? "" : program_log(result->program, device_.cl()());
    if (remarks.find_first_not_of(" \n") != std::string::npos)
      log_.line(cat("remarks on ", name, ":\n", remarks));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  (loaded ? stats_.from_disk : stats_.built)++;
  return result;
}

}  // namespace detail
}  // namespace dlprim
