// Profiles: the records that the log is made of, kept and given to whoever asks for them.
#include <dlprim/profile.hpp>

#include <cmath>
#include <utility>

#include "core/check.hpp"
#include "core/device_probe.hpp"
#include "core/state.hpp"

namespace dlprim {

using detail::cl_check;
using detail::require;

namespace {

uint64_t nanoseconds(const cl::Event& event, cl_profiling_info what) {
  cl_ulong value = 0;
  cl_check(clGetEventProfilingInfo(event(), what, sizeof value, &value, nullptr), "clGetEventProfilingInfo");
  return value;
}

}  // namespace

Profile::Profile(const Stream& stream) : stream_(stream) {
  detail::StreamState& state = stream.state();
  require(state.measures, "stream", "has a queue that measures no time: see profiling_stream()");
  require(!state.profiled, "stream", "has a profile already");
  stream.finish();  // what came before is not of this profile
  state.profiled = true;
}

Profile::~Profile() {
  detail::StreamState& state = stream_.state();
  state.profiled = false;
  if (!state.logs) state.records.clear();
}

std::vector<OperatorTime> Profile::take() {
  detail::StreamState& state = stream_.state();
  stream_.finish();
  for (const detail::OperatorRecord& record : state.records)
    for (const auto& kernel : record.kernels) state.ended(kernel.second);
  cl_check(std::exchange(state.failure, CL_SUCCESS), "a command on the device");
  const bool told = detail::driver_limits(state.context.device()).measures_time;
  std::vector<OperatorTime> operators;
  for (const detail::OperatorRecord& record : state.records) {
    OperatorTime& time = operators.emplace_back();
    time.text = record.text, time.flops = record.flops, time.bytes = record.bytes;
    for (const auto& [name, event] : record.kernels) {
      if (!told) {  // unknown, not 0
        time.kernels.push_back({name, NAN, NAN});
        continue;
      }
      const uint64_t start = nanoseconds(event, CL_PROFILING_COMMAND_START),
                     end = nanoseconds(event, CL_PROFILING_COMMAND_END);
      if (origin_ == 0) origin_ = start;
      time.kernels.push_back(
          {name, static_cast<double>(start - origin_) * 1e-3, static_cast<double>(end - origin_) * 1e-3});
    }
  }
  state.report_all();
  return operators;
}

}  // namespace dlprim
