// Device times for PyTorch's profilers. Both are measured by pairs of markers in the stream, which measures
// its times meanwhile: from when the device could begin an operator's work to when it was done. What the host
// needs between two launches of an operator, and to compile its kernels at first, counts too if the device
// waits for it.
//
// torch.autograd.profiler.profile(use_device="ocl") has markers around each operator, those inside others
// too: Stubs. torch.profiler.profile() has them around what an operator gives to a stream: Session.
#include "profile.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

#include <torch/csrc/profiler/stubs/base.h>

#include "device.hpp"

#ifdef OCL_HAS_KINETO
// As the header of PyTorch's registry and kineto's own demand.
#define USE_KINETO
#define FMT_HEADER_ONLY
#include <libkineto.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#endif

namespace ocl {

/// Work that one operator gave to a stream.
struct Note {
  Device& device;
  Queue& queue;
  c10::StreamId stream;
  uint64_t correlation;  ///< the operator, as the profiler counts them
  dlprim::Event begin, end;
};

namespace {

std::mutex mutex;
std::vector<Note> notes;

thread_local bool open = false;  ///< what a submission submits is part of it
thread_local std::vector<uint64_t> operators;

dlprim::Event marker(Queue& queue) {
  return queue.use([](const dlprim::Stream& s) { return s.record(); });
}

int64_t host_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Submission::begin(Device& device, Queue& queue) noexcept {
  if (open) return;
  try {
    note_ = new Note{
        device,        queue,          current_stream(device.index), operators.empty() ? 0 : operators.back(),
        marker(queue), dlprim::Event()};
    open = true;
  } catch (const std::exception&) {  // the operator itself will say what is wrong with the device
  }
}

void Submission::end() noexcept {
  const std::unique_ptr<Note> note(std::exchange(note_, nullptr));
  open = false;
  try {
    note->end = marker(note->queue);
    const std::lock_guard lock(mutex);
    if (profiling) notes.push_back(*note);
  } catch (const std::exception&) {  // as above
  }
}

namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* index, ProfilerVoidEventStub* event, int64_t* host) const override {
    Device& on = device(-1);
    if (index) *index = on.index;
    if (host) *host = host_nanoseconds();
    Queue& queue = on.queue(current_stream(on.index));
    queue.measure(true);  // from now on: nobody says when such a profiler ends
    *event = std::make_shared<dlprim::Event>(marker(queue));
  }
  /// Microseconds.
  float elapsed(const ProfilerVoidEventStub* from, const ProfilerVoidEventStub* to) const override {
    const auto time = [](const ProfilerVoidEventStub* event) {
      return time_of(*static_cast<const dlprim::Event*>(event->get()));
    };
    return static_cast<float>((static_cast<double>(time(to)) - static_cast<double>(time(from))) * 1e-3);
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> work) const override {
    for (int i = 0; i < device_count(); i++) work(i);
  }
  void synchronize() const override { device(-1).finish(); }
};

const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
  return true;
}();

#ifdef OCL_HAS_KINETO

/// What to add to a device's time for the host's, which the trace is in.
int64_t clock_offset(Device& device) {
  int64_t offset = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 5; i++) {  // the least that waiting itself took
    const auto time = static_cast<int64_t>(time_of(marker(device.queue(0))));
    offset = std::min(offset, host_nanoseconds() - time);
  }
  return offset;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  ~Session() override {
    if (status_ == libkineto::TraceStatus::RECORDING) stop();
    measure(false);
  }

  void start() override {
    {
      const std::lock_guard lock(mutex);
      notes.clear();
    }
    status_ = libkineto::TraceStatus::RECORDING;
    profiling = true;
    measure(true);
  }
  void stop() override {
    profiling = false;
    status_ = libkineto::TraceStatus::PROCESSING;
    const std::lock_guard lock(mutex);
    notes_ = std::exchange(notes, {});
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    const auto no_operator = [](int32_t) -> const libkineto::ITraceActivity* { return nullptr; };
    processTrace(logger, no_operator, 0, std::numeric_limits<int64_t>::max());
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback operator_of,
                    int64_t from, int64_t to) override {
    trace_ = std::make_unique<libkineto::CpuTraceBuffer>();
    trace_->span = libkineto::TraceSpan(from, to, "ocl");
    for (const Note& note : notes_) {
      try {
        add(note, operator_of(static_cast<int32_t>(note.correlation)));
      } catch (const std::exception& e) {  // it was given before all streams measured, or its device failed
        errors_.emplace_back(e.what());
      }
    }
    measure(false);
    trace_->gpuOpCount = static_cast<int>(trace_->activities.size());
    for (const auto& activity : trace_->activities) activity->log(logger);
  }
  std::vector<std::string> errors() override { return errors_; }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    if (notes_.empty()) return nullptr;
    const Device& on = notes_.front().device;
    return std::make_unique<libkineto::DeviceInfo>(
        libkineto::DeviceInfo{on.index, on.index, on.context.device().name(), "ocl"});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(trace_); }

  void pushCorrelationId(uint64_t id) override { operators.push_back(id); }
  void popCorrelationId() override {
    if (!operators.empty()) operators.pop_back();
  }

 private:
  void add(const Note& note, const libkineto::ITraceActivity* linked) {
    std::optional<int64_t>& offset = offsets_[static_cast<size_t>(note.device.index)];
    if (!offset) offset = clock_offset(note.device);
    const auto begin = static_cast<int64_t>(time_of(note.begin)),
               end = static_cast<int64_t>(time_of(note.end));
    trace_->emplace_activity(trace_->span, libkineto::ActivityType::CONCURRENT_KERNEL,
                             linked ? linked->name() : "work of no operator");
    libkineto::GenericTraceActivity& activity = *trace_->activities.back();
    activity.startTime = begin + *offset;
    activity.endTime = end + *offset;
    activity.id = static_cast<int32_t>(note.correlation);
    activity.device = note.device.index;
    activity.resource = static_cast<int32_t>(note.stream);
    activity.linked = linked;
  }

  /// All streams of the devices that are made; those that are made later ask themselves.
  void measure(bool times) noexcept {
    if (std::exchange(measures_, times) == times || in_bad_fork()) return;
    for (c10::DeviceIndex i = 0; i < kMaxDevices; i++) {
      try {
        if (is_made(i)) device(i).measure(times);
      } catch (const std::exception& e) {
        errors_.emplace_back(e.what());
      }
    }
  }

  std::vector<Note> notes_;
  std::array<std::optional<int64_t>, kMaxDevices> offsets_;
  std::unique_ptr<libkineto::CpuTraceBuffer> trace_;
  std::vector<std::string> errors_;
  bool measures_ = false;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<libkineto::ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<libkineto::ActivityType>& wanted, const libkineto::Config&) override {
    if (!wanted.count(libkineto::ActivityType::CONCURRENT_KERNEL)) return nullptr;  // the CPU alone
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<libkineto::ActivityType>& wanted,
      const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  const std::string name_ = "ocl";
  const std::set<libkineto::ActivityType> activities_{libkineto::ActivityType::CONCURRENT_KERNEL};
};

const bool registered_with_kineto = [] {
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
  return true;
}();

#endif

}  // namespace

}  // namespace ocl
