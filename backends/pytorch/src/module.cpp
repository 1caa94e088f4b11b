// What torch.ocl is made of, as torch.ops.ocl: so the library needs no Python.
#include <torch/library.h>

#include "fallback.hpp"
#include "hooks.hpp"
#include "math.hpp"
#include "memory.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

int64_t count() {
  return device_count();
}
bool bad_fork() {
  return in_bad_fork();
}
int64_t current() {
  return current_device();
}
int64_t exchange(int64_t index) {
  return exchange_device(static_cast<c10::DeviceIndex>(index));
}
void init() {
  device(-1);
}
bool made(int64_t index) {
  return is_made(static_cast<c10::DeviceIndex>(index));
}

/// PyTorch's own does nothing before it has made a tensor on the device itself: but there may be work of
/// others, and tensors around their memory.
void synchronize(int64_t index) {
  device(static_cast<c10::DeviceIndex>(index)).finish();
}

std::vector<std::string> device_texts(int64_t index) {
  const dlprim::DeviceFacts& facts = device_facts(static_cast<c10::DeviceIndex>(index)).facts();
  return {facts.name, facts.platform, facts.vendor, facts.driver, facts.version, dlprim::name_of(facts.kind)};
}

std::vector<int64_t> device_numbers(int64_t index) {
  const dlprim::Device& device = device_facts(static_cast<c10::DeviceIndex>(index));
  return {static_cast<int64_t>(device.facts().global_memory),
          static_cast<int64_t>(device.facts().max_allocation),
          device.facts().compute_units,
          device.probes().fp64,
          device.probes().fp16,
          device.facts().index};
}

void set_memory_limit(int64_t index, int64_t bytes) {
  device(static_cast<c10::DeviceIndex>(index)).context.set_memory_limit(static_cast<uint64_t>(bytes));
}

/// Compiled from source, loaded from disk, found in memory.
std::vector<int64_t> program_counts(int64_t index) {
  const dlprim::ProgramStats stats = device(static_cast<c10::DeviceIndex>(index)).context.program_stats();
  return {static_cast<int64_t>(stats.built), static_cast<int64_t>(stats.from_disk),
          static_cast<int64_t>(stats.reused)};
}

std::tuple<std::vector<std::string>, std::vector<int64_t>> fallback_counts() {
  std::tuple<std::vector<std::string>, std::vector<int64_t>> result;
  for (const auto& [name, times] : fallbacks()) {
    std::get<0>(result).push_back(name);
    std::get<1>(result).push_back(times);
  }
  return result;
}

void manual_seed(int64_t index, int64_t seed) {
  at::Generator generator = default_generator(static_cast<c10::DeviceIndex>(index));
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(seed));
}
int64_t initial_seed(int64_t index) {
  return static_cast<int64_t>(default_generator(static_cast<c10::DeviceIndex>(index)).current_seed());
}
at::Tensor get_rng_state(int64_t index) {
  return default_generator(static_cast<c10::DeviceIndex>(index)).get_state();
}
void set_rng_state(int64_t index, const at::Tensor& state) {
  at::Generator generator = default_generator(static_cast<c10::DeviceIndex>(index));
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

at::Generator generator_of(int64_t index) {
  return default_generator(static_cast<c10::DeviceIndex>(index));
}

std::string fallback_mode(std::string mode) {
  return exchange_fallback_mode(mode);
}

bool matmul_allows_tf32() {
  return matmul_tf32;
}
bool conv_allows_tf32() {
  return conv_tf32;
}
void allow_matmul_tf32(bool allow) {
  matmul_tf32 = allow;
}
void allow_conv_tf32(bool allow) {
  conv_tf32 = allow;
}

TORCH_LIBRARY(ocl, m) {
  m.def("device_count", TORCH_FN(count));
  m.def("in_bad_fork", TORCH_FN(bad_fork));
  m.def("current_device", TORCH_FN(current));
  m.def("exchange_device", TORCH_FN(exchange));
  m.def("init", TORCH_FN(init));
  m.def("is_made", TORCH_FN(made));
  m.def("synchronize", TORCH_FN(synchronize));
  m.def("device_texts", TORCH_FN(device_texts));
  m.def("device_numbers", TORCH_FN(device_numbers));
  m.def("set_memory_limit", TORCH_FN(set_memory_limit));
  m.def("check_indices", TORCH_FN(check_indices));
  m.def("program_counts", TORCH_FN(program_counts));
  m.def("manual_seed", TORCH_FN(manual_seed));
  m.def("initial_seed", TORCH_FN(initial_seed));
  m.def("get_rng_state", TORCH_FN(get_rng_state));
  m.def("set_rng_state", TORCH_FN(set_rng_state));
  m.def("default_generator", TORCH_FN(generator_of));
  m.def("fallback_counts", TORCH_FN(fallback_counts));
  m.def("reset_fallbacks", TORCH_FN(reset_fallbacks));
  m.def("fallback_mode", TORCH_FN(fallback_mode));
  m.def("matmul_allows_tf32", TORCH_FN(matmul_allows_tf32));
  m.def("conv_allows_tf32", TORCH_FN(conv_allows_tf32));
  m.def("allow_matmul_tf32", TORCH_FN(allow_matmul_tf32));
  m.def("allow_conv_tf32", TORCH_FN(allow_conv_tf32));
}

}  // namespace

}  // namespace ocl
