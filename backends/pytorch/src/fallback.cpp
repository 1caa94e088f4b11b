// Operators that have no kernel here run on the CPU. That is counted, and loud or an error if asked for:
// OCL_FALLBACK=warn (once for each operator), error, or silent; else warn.
#include "fallback.hpp"

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "complex.hpp"
#include "devices.hpp"

namespace ocl {

namespace {

std::mutex mutex;
std::unordered_map<std::string, int64_t>& counts() {
  static auto* const map = new std::unordered_map<std::string, int64_t>;
  return *map;
}

FallbackMode parse_mode(std::string_view text) {
  if (text == "warn") return FallbackMode::warn;
  if (text == "error") return FallbackMode::error;
  if (text == "silent") return FallbackMode::silent;
  TORCH_CHECK_VALUE(false, "OCL_FALLBACK is '", text, "', not warn, error or silent");
}

/// Set by set_fallback_mode, else the environment's; -1: not asked yet.
std::atomic<int> mode_now{-1};

FallbackMode mode() {
  if (mode_now < 0) {
    const char* text = std::getenv("OCL_FALLBACK");
    mode_now = static_cast<int>(text && *text ? parse_mode(text) : FallbackMode::warn);
  }
  return static_cast<FallbackMode>(mode_now.load());
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_devices(op, c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - op.schema().arguments().size()));
  if (run_complex(op, stack)) return;
  const FallbackMode now = mode();
  const std::string name = c10::toString(op.operator_name());
  int64_t before;
  {
    const std::lock_guard lock(mutex);
    before = counts()[name]++;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      now != FallbackMode::error, name,
      " has no kernel on ocl for these arguments, and OCL_FALLBACK=error forbids the CPU");
  if (now == FallbackMode::warn && before == 0)
    TORCH_WARN(
        name,
        " has no kernel on ocl for these arguments and runs on the CPU; OCL_FALLBACK=silent hides this,"
        " torch.ocl.fallbacks() counts");
  // A view by way of the CPU would be a copy: that is an error.
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

std::vector<std::pair<std::string, int64_t>> fallbacks() {
  const std::lock_guard lock(mutex);
  return {counts().begin(), counts().end()};
}

void reset_fallbacks() {
  const std::lock_guard lock(mutex);
  counts().clear();
}

std::string exchange_fallback_mode(const std::string& text) {
  static constexpr const char* kNames[] = {"warn", "error", "silent"};
  const FallbackMode before = mode();
  mode_now = static_cast<int>(parse_mode(text));
  return kNames[static_cast<int>(before)];
}

namespace {

using torch::CppFunction;

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(CppFunction::makeFromBoxedFunction<&fallback>());
}
TORCH_LIBRARY_IMPL(_, AutogradPrivateUse1, m) {
  m.fallback(CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(CppFunction::makeFallthrough());
}

// Copies look at these marks themselves. To resolve them first, as is usual, would copy, and so never end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", CppFunction::makeFallthrough());
}

}  // namespace

}  // namespace ocl
