// Streams and events, and what a stream reports of its operators.
#include <dlprim/profile.hpp>
#include <dlprim/rehearsal.hpp>
#include <dlprim/stream.hpp>

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/device_probe.hpp"
#include "core/engine.hpp"
#include "core/live_queues.hpp"
#include "core/log.hpp"
#include "core/observer.hpp"
#include "core/state.hpp"

namespace dlprim {

using detail::cl_check;
using detail::require;

namespace {

cl::CommandQueue make_queue(const Context& context, bool measures) {
  const cl_command_queue_properties properties = measures ? CL_QUEUE_PROFILING_ENABLE : 0;
  cl_int code = CL_SUCCESS;
  cl::CommandQueue queue(clCreateCommandQueue(context.cl()(), context.device().cl()(), properties, &code));
  cl_check(code, "clCreateCommandQueue");
  return queue;
}

template <class T>
T queue_info(const cl::CommandQueue& queue, cl_command_queue_info what) {
  T value{};
  cl_check(clGetCommandQueueInfo(queue(), what, sizeof value, &value, nullptr), "clGetCommandQueueInfo");
  return value;
}

constexpr const char* kCommand = "a command on the device";

/// Device time in seconds; 0 where the driver does not know.
double device_seconds(const cl::Event& event) {
  cl_ulong start = 0, end = 0;
  if (clGetEventProfilingInfo(event(), CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr) !=
          CL_SUCCESS ||
      clGetEventProfilingInfo(event(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) != CL_SUCCESS)
    return 0;
  return static_cast<double>(end - start) * 1e-9;
}

bool tells_times(const detail::StreamState& state) {
  return state.measures && detail::driver_limits(state.context.device()).measures_time;
}

void report_record(const detail::Log& log, const detail::OperatorRecord& record, bool measured) {
  double seconds = 0;
  for (const auto& [name, event] : record.kernels) {
    const double time = measured ? device_seconds(event) : 0;
    seconds += time;
    if (log.level() >= 2)
      log.line(measured ? detail::cat("kernel name=", name, " us=", time * 1e6) : "kernel name=" + name);
  }
  std::string text = detail::cat(record.text, " kernels=", record.kernels.size());
  if (measured) text += detail::cat(" us=", seconds * 1e6);
  if (seconds > 0 && record.flops > 0) text += detail::cat(" gflops=", record.flops / seconds * 1e-9);
  if (seconds > 0 && record.bytes > 0) text += detail::cat(" gbytes=", record.bytes / seconds * 1e-9);
  log.line(text);
}

}  // namespace

void Event::wait() const {
  if (event_() == nullptr) return;
  const cl_event event = event_();
  const cl_int code = clWaitForEvents(1, &event);
  cl_check(code, "clWaitForEvents");
  detail::first_commands_done();
}

bool Event::done() const {
  if (event_() == nullptr) return true;
  cl_int status = CL_QUEUED;
  cl_check(clGetEventInfo(event_(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
           "clGetEventInfo");
  cl_check(std::min(status, CL_SUCCESS), kCommand);
  return status == CL_COMPLETE;
}

Stream::Stream(const Context& context)
    : Stream(context, make_queue(context, context.state().log.level() >= 1)) {
  state_->owns_queue = true;
}

Stream profiling_stream(const Context& context) {
  Stream stream(context, make_queue(context, true));
  stream.state().owns_queue = true;
  return stream;
}

Stream::Stream(const Context& context, const cl::CommandQueue& queue) {
  require(queue() != nullptr, "queue", "is null");
  require(queue_info<cl_context>(queue, CL_QUEUE_CONTEXT) == context.cl()(), "queue",
          "belongs to another OpenCL context");
  require(queue_info<cl_device_id>(queue, CL_QUEUE_DEVICE) == context.device().cl()(), "queue",
          "belongs to another device than ", context.device().name());
  const auto properties = queue_info<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES);
  require(!(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE), "queue", "executes out of order");
  const bool measures = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
  state_ = std::make_shared<detail::StreamState>(context, queue, context.state().log.level() >= 1, measures);
  detail::finish_at_the_end(state_->queue);
}

const Context& Stream::context() const noexcept {
  return state_->context;
}
const cl::CommandQueue& Stream::cl() const noexcept {
  return state_->queue->queue;
}

void Stream::finish() const {
  cl_check(state_->queue->finish(), "clFinish");
  state_->release_staging();
  state_->report(true);
  cl_check(std::exchange(state_->failure, CL_SUCCESS), kCommand);
  state_->index_checks.throw_bad(*this);
}

Event Stream::record() const {
  cl_event event = nullptr;
  cl_check(clEnqueueMarkerWithWaitList(cl()(), 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  const Event result{cl::Event(event)};
  // So that whoever waits for it is not kept waiting for this stream's host.
  cl_check(clFlush(cl()()), "clFlush");
  return result;
}

void Stream::wait(const Event& event) const {
  if (event.cl()() == nullptr) return;
  const cl_event handle = event.cl()();
  cl_check(clEnqueueBarrierWithWaitList(cl()(), 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
}

namespace detail {

cl_int QueueState::finish() noexcept {
  const uint64_t before = submitted.load();
  if (!waits_for_flushed) {  // it does for the last of what it was not handed
    cl_event last = nullptr;
    if (const cl_int code = clEnqueueMarkerWithWaitList(queue(), 0, nullptr, &last); code != CL_SUCCESS)
      return code;
    clReleaseEvent(last);
  }
  if (const cl_int code = clFinish(queue()); code != CL_SUCCESS) return code;
  done(before);
  return CL_SUCCESS;
}

void QueueState::done(uint64_t before) noexcept {
  drained = before;
  first_commands_done();
}

StreamState::~StreamState() {
  try {
    // A queue that nobody holds any more would be at work still when the process ends.
    const bool at_work = owns_queue && queue->submitted != queue->drained;
    if (at_work || !staging.empty() || !records.empty()) queue->finish();
    report_all();
  } catch (...) {  // a destructor has nobody to tell; finish() is where errors show
  }
}

bool StreamState::ended(const cl::Event& command) {
  if (command() == nullptr) return true;  // it never got to the queue
  cl_int status = CL_COMPLETE;
  clGetEventInfo(command(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  if (failure == CL_SUCCESS) failure = std::min(status, CL_SUCCESS);
  return status <= CL_COMPLETE;
}

void StreamState::report(bool everything) {
  if (!logs || profiled) return;
  size_t reported = 0;
  for (; reported < records.size() - static_cast<size_t>(open_operators > 0); reported++) {
    const auto& kernels = records[reported].kernels;
    bool over = true;
    for (const auto& [name, event] : kernels) over &= ended(event);
    if (!over && !everything) break;
    report_record(context.state().log, records[reported], tells_times(*this));
  }
  records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(reported));
}

void StreamState::report_all() {
  if (logs)
    for (const OperatorRecord& record : records)
      report_record(context.state().log, record, tells_times(*this));
  records.clear();
}

void StreamState::release_staging() {
  staging.erase(
      std::remove_if(staging.begin(), staging.end(), [this](const Staging& s) { return ended(s.done); }),
      staging.end());
}

OperatorScope::OperatorScope(const Stream& stream, const std::string& text, double flops, double bytes) {
  StreamState& state = stream.state();
  if ((!state.notes() && !operator_observer) || Rehearsal::active()) return;
  state_ = &state;
  if (state.open_operators++ > 0) return;
  if (operator_observer) operator_observer->begins(state, text);
  if (state.notes()) state.records.push_back({text, flops, bytes, {}});
}

OperatorScope::OperatorScope(const Stream& stream, const PlanInfo& info)
    : OperatorScope(stream,
                    stream.state().notes() || operator_observer
                        ? cat(info.text, " workspace=", info.workspace)
                        : std::string(),
                    info.flops, info.bytes) {}

OperatorScope::~OperatorScope() {
  if (!state_ || --state_->open_operators > 0) return;
  if (operator_observer) operator_observer->ends(*state_);
  constexpr size_t kKept = 64;  // records held back before the finished ones are reported
  if (state_->records.size() < kKept) return;
  try {
    state_->report(false);
  } catch (...) {  // no memory for the lines
  }
}

}  // namespace detail
}  // namespace dlprim
