// What f32 arithmetic may be replaced by: the switches of torch.backends.ocl. They are part of a plan's key.
#pragma once

#include <atomic>

#include <dlprim/plan.hpp>

namespace ocl {

inline std::atomic<bool> matmul_tf32{false}, conv_tf32{false};

inline dlprim::MathMode math_of(const std::atomic<bool>& tf32) noexcept {
  return tf32.load(std::memory_order_relaxed) ? dlprim::MathMode::tf32 : dlprim::MathMode::standard;
}

inline dlprim::Options with(dlprim::MathMode math) {
  dlprim::Options options;
  options.math = math;
  return options;
}

}  // namespace ocl
