// One launch of resample.cl or resample_cpu.cl: up to three axes mapped. Tables are made once, on the host,
// and live in a buffer of the pass.
#pragma once

#include <optional>
#include <vector>

#include "core/composed.hpp"
#include "ops/lib/int64.hpp"
#include "ops/resample/resample_roles.hpp"

namespace dlprim::detail {

#include "kernels/resample/resample.h"

/// What sums are taken in: f32, or f64 if x or y is; i16 if x is.
DType resample_real(const TensorDesc& x, const TensorDesc& y);

struct ResamplePass {
  /// Of i16 if elements of dtype `words` are moved as they are.
  ResamplePass(const Context& context, const TensorDesc& x, const TensorDesc& y,
               const std::vector<MappedAxis>& axes, bool cpu, std::optional<DType> words);
  void run(const Stream& stream, const Tensor& x, const Tensor& y, double fill, const Tensor& scratch) const;

  size_t scratch = 0;  ///< bytes
  DType real = DType::f32;

 private:
  void prepare_gpu(const ResampleRoles& roles);
  void prepare_cpu(const ResampleRoles& roles);

  Kernel kernel_;
  cl::Buffer table_, weights_, levels_;
  ResampleAxes axes_{};
  ResampleRows rows_{};  ///< of the CPU
  bool cpu_ = false;
  int vector_ = 1, planes_ = 1, count_ = 1;
  size_t global_[2] = {0, 0}, local_[2] = {1, 1};
};

}  // namespace dlprim::detail
