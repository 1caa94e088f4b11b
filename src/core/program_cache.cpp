#include "core/program_cache.hpp"

#include <dlprim/compiling.hpp>
#include <dlprim/rehearsal.hpp>

#include <algorithm>
#include <array>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <utility>

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
constexpr const char* kMark = "program that the driver keeps 1";
constexpr size_t kMostForms = 8192;
/// After this time without a program to compile processes end: they hold memory of the device.
constexpr std::chrono::seconds kPatience{10};

using Clock = std::chrono::steady_clock;

std::atomic<uint64_t> pending_programs{0}, done_programs{0};

/// Whom to tell of long waits, and when.
struct LongCompiling {
  std::mutex mutex;
  Clock::duration waited{}, patience{};
  void (*tell)(const CompileProgress&) = nullptr;

  static LongCompiling& get() {
    static LongCompiling& known = *new LongCompiling;  // threads may wait while the process ends
    return known;
  }
  void add(Clock::duration time) {
    std::unique_lock<std::mutex> lock(mutex);
    waited += time;
    const auto due = waited >= patience ? std::exchange(tell, nullptr) : nullptr;
    lock.unlock();
    if (due) due(compile_progress());
  }
};

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

void on_long_compiling(std::chrono::milliseconds patience, void (*tell)(const CompileProgress&)) noexcept {
  detail::LongCompiling& known = detail::LongCompiling::get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  known.waited = {};
  known.patience = patience;
  known.tell = tell;
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
      driver_keeps_(device.facts().keeps_programs && !disk.chosen()),
      processes_(disk.keeps() ? build_processes(processes, device.facts()) : 0),
      background_(processes_,
                  processes_ > 0 ? BuildPool::Prepare([this] {
                    return own_process().prepare(device_.facts().platform, cat(device_.facts().device_index));
                  })
                                 : BuildPool::Prepare(),
                  processes_ > 0 ? kPatience : std::chrono::seconds(0)),
      loading_(0) {}

bool ProgramCache::driver_has(const std::string& disk_key) const {
  return driver_keeps_ && processes_ > 0 && disk_.load(disk_key).has_value();
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
  const ProgramText text{name, options, options + '\n' + source};
  if (Rehearsal::active()) return rehearsed(text, kernel);
  const std::shared_ptr<const Program> built = program(text);
  std::lock_guard<std::mutex> lock(mutex_);
  Entry* entry = find(text.key);
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

Kernel ProgramCache::rehearsed(const ProgramText& text, const std::string& kernel) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const Entry* entry = find(text.key);
    if (entry && !entry->program.expired()) return Kernel();
  }
  if (device_.facts().builds_in_one_thread || driver_has(disk_key(text))) return Kernel();
  if (driver_keeps_ && processes_ > 0)
    return Kernel(std::make_shared<const RehearsedKernel>(RehearsedKernel{text, kernel}));
  if (const auto promise = claim(text.key).promise) submit(promise, text, "");
  return Kernel();
}

void ProgramCache::prefetch(const RehearsedKernel& kernel, const std::string& launch) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (launches_.size() >= kMostForms) launches_.clear();
    if (!launches_.insert(std::hash<std::string>()(launch + kernel.program.key)).second) return;
  }
  if (const auto promise = claim(kernel.program.key).promise) return submit(promise, kernel.program, launch);
  BuildPool::Job job;
  job.length = kernel.program.key.size();
  job.run = [this, text = kernel.program, launch] { own_process().build(request_for(text, launch)); };
  job.run_here = job.drop = [] {};
  try {
    background_.add(std::move(job));
  } catch (const std::system_error&) {  // there is no thread to be had: it is made when it is launched
  }
}

BuildRequest ProgramCache::request_for(const ProgramText& text, const std::string& launch) const {
  const DeviceFacts& facts = device_.facts();
  return {facts.platform, cat(facts.device_index),          text.name,          text.source(), text.options,
          launch,         keeps() ? disk_.directory() : "", cat(disk_.limit()), disk_key(text)};
}

std::string ProgramCache::disk_key(const ProgramText& text) const {
  return cat(driver_keeps_ ? kMark : kKeyVersion, '\n', device_.identity(), '\n', text.key);
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

void ProgramCache::fulfil(std::promise<Outcome>& promise, const ProgramText& text, const std::string& launch,
                          BuildProcess* process) {
  try {
    const std::shared_ptr<const Program> made = make(text, launch, process);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      pending_programs--;
      done_programs++;
      find(text.key)->program = made;
      trim();
    }
    promise.set_value({made, {}});
  } catch (const BuildError& error) {
    disclaim(text.key);
    promise.set_value({nullptr, error.log()});
  } catch (...) {
    disclaim(text.key);
    promise.set_exception(std::current_exception());
  }
}

std::shared_ptr<const Program> ProgramCache::program(const ProgramText& text) {
  const auto start = Clock::now();
  for (;;) {
    const Claim claimed = claim(text.key);
    // While another process compiles, this one's driver can make kernels of what is there.
    if (claimed.promise && driver_keeps_ && background_.idle())
      submit(claimed.promise, text, "");
    else if (claimed.promise)
      fulfil(*claimed.promise, text, "", nullptr);
    if (claimed.job) claimed.job->pool->run_here(claimed.job->ticket);
    const Outcome& outcome = claimed.built.get();
    if (outcome.dropped) continue;
    LongCompiling::get().add(Clock::now() - start);
    if (!outcome.program) throw BuildError(text.name, text.options, outcome.log);
    if (!claimed.promise) {
      std::lock_guard<std::mutex> lock(mutex_);
      stats_.reused++;
    }
    return outcome.program;
  }
}

void ProgramCache::submit(const std::shared_ptr<std::promise<Outcome>>& promise, const ProgramText& text,
                          const std::string& launch) {
  const auto build = std::make_shared<std::function<void(BuildProcess*)>>(
      [=](BuildProcess* process) { fulfil(*promise, text, launch, process); });
  const bool loads = processes_ > 0 && keeps() && disk_.has(disk_key(text)),
             process = processes_ > 0 && !loads;
  BuildPool& pool = loads ? loading_ : background_;
  BuildPool::Job job;
  job.length = text.key.size();  // long texts take longest
  job.run = [build, process] { (*build)(process ? &own_process() : nullptr); };
  job.run_here = [build] { (*build)(nullptr); };
  job.drop = [this, promise, key = text.key] {
    disclaim(key);
    promise->set_value({nullptr, {}, true});
  };
  try {
    const BuildPool::Ticket ticket = pool.add(std::move(job));
    std::lock_guard<std::mutex> lock(mutex_);
    if (Entry* entry = find(text.key)) entry->job = Job{&pool, ticket};
  } catch (const std::system_error&) {  // there is no thread to be had
    (*build)(nullptr);
  }
}

std::shared_ptr<const Program> ProgramCache::make(const ProgramText& text, const std::string& launch,
                                                  BuildProcess* process) {
  const auto start = Clock::now();
  const std::string key = disk_key(text);
  const std::string& options = text.options;
  auto result = std::make_shared<Program>();
  result->name = text.name;
  result->bytes = 2 * text.key.size();  // our key, and the driver's copy of the text
  const auto load = [&] {
    if (const auto binary = disk_.load(key)) {
      result->program = program_from_binary(context_, device_.cl()(), *binary, options);
      result->bytes += binary->size();
    }
    return result->program() != nullptr;
  };
  const bool loaded = keeps() && load(), driver_has_it = driver_has(key);
  bool elsewhere = false;
  if (!loaded && !driver_has_it && process) {
    const std::string failure = process->build(request_for(text, launch));
    elsewhere = failure.empty() && (driver_keeps_ || load());
    if (!elsewhere && log_.level() >= 1)
      log_.line(cat("not built elsewhere program=", text.name, ": ",
                    failure.empty() ? "its binary is not in the folder, or does not load" : failure));
  }
  if (!result->program()) {
    if (!process && processes_ > 0 && !driver_has_it && !warmed_.exchange(true))
      background_.warm();  // others will follow
    result->program = compile_program(context_, device_.cl()(), text.name, text.source(), options);
    const std::string binary = keeps() ? program_binary(result->program) : "";
    const bool to_be_marked = driver_keeps_ && processes_ > 0 && !driver_has_it;
    if (!binary.empty() || to_be_marked) disk_.store(key, binary);
    result->bytes += binary.size();
  }
  if (log_.level() >= 1) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const char* how = loaded ? "load" : elsewhere ? "build elsewhere" : "build";
    log_.line(cat(how, " program=", text.name, " seconds=", seconds, " options='", options, "'"));
    // Compilers end even an empty log with a line end.
    const std::string remarks =
        loaded || log_.level() < 2 ? "" : program_log(result->program, device_.cl()());
    if (remarks.find_first_not_of(" \n") != std::string::npos)
      log_.line(cat("remarks on ", text.name, ":\n", remarks));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  (loaded ? stats_.from_disk : stats_.built)++;
  return result;
}

}  // namespace detail
}  // namespace dlprim
