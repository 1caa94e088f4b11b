// Contexts, made or wrapped.
#include <dlprim/context.hpp>

#include <algorithm>

#include "core/check.hpp"
#include "core/state.hpp"

namespace dlprim {
namespace detail {

bool ContextState::give_back_one() {
  return pieces.drop_oldest() || constants->drop_oldest() || plans.clear();
}

void ContextState::give_back_all() {
  while (give_back_one()) {
  }
  allocator.empty_cache();
}

}  // namespace detail

namespace {

cl::Context make_context(const Device& device) {
  const cl_device_id id = device.cl()();
  cl_platform_id platform = nullptr;
  detail::cl_check(clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr),
                   "clGetDeviceInfo");
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(platform), 0};
  cl_int code = CL_SUCCESS;
  cl::Context context(clCreateContext(properties, 1, &id, nullptr, nullptr, &code));
  detail::cl_check(code, "clCreateContext");
  return context;
}

}  // namespace

Context::Context(const Device& device, const ContextConfig& config)
    : Context(make_context(device), device, config) {}

Context::Context(const cl::Context& context, const Device& device, const ContextConfig& config) {
  detail::require(context() != nullptr, "context", "is null");
  size_t bytes = 0;
  detail::cl_check(clGetContextInfo(context(), CL_CONTEXT_DEVICES, 0, nullptr, &bytes), "clGetContextInfo");
  std::vector<cl_device_id> devices(bytes / sizeof(cl_device_id));
  detail::cl_check(clGetContextInfo(context(), CL_CONTEXT_DEVICES, bytes, devices.data(), nullptr),
                   "clGetContextInfo");
  detail::require(std::find(devices.begin(), devices.end(), device.cl()()) != devices.end(), "device",
                  device.name(), " is not a device of this OpenCL context");
  detail::require(!config.allocate == !config.free, config.allocate ? "config.free" : "config.allocate",
                  "is empty, but the other of the two is not");
  state_ = std::make_shared<detail::ContextState>(device, context, config);
}

const Device& Context::device() const noexcept {
  return state_->device;
}
const cl::Context& Context::cl() const noexcept {
  return state_->context;
}
MemoryStats Context::memory_stats() const {
  return state_->allocator.stats();
}
void Context::empty_cache() const {
  state_->give_back_all();
}
void Context::set_memory_limit(uint64_t bytes) const {
  state_->allocator.set_limit(bytes);
}
void Context::check_indices(bool on) const {
  state_->checks_indices = on;
}
bool Context::checks_indices() const noexcept {
  return state_->checks_indices.load(std::memory_order_relaxed);
}
ProgramStats Context::program_stats() const {
  return state_->programs.stats();
}

}  // namespace dlprim
