// The way to the CPU for what has no kernel on the device, and its counts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace ocl {

enum class FallbackMode : int { warn, error, silent };

/// Counts the operator, and runs it on the CPU or throws.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// How often each operator ran on the CPU, or was refused.
std::vector<std::pair<std::string, int64_t>> fallbacks();
void reset_fallbacks();
/// "warn", "error" or "silent"; returns the one before.
std::string exchange_fallback_mode(const std::string& text);

}  // namespace ocl
