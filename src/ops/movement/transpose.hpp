// Copies between tensors whose neighbours lie along different dimensions: a form of copy(), not an operator.
#pragma once

#include <dlprim/tensor.hpp>

#include "core/gen/loop_nest.hpp"
#include "core/launch.hpp"

namespace dlprim::detail {

class Transpose {
 public:
  /// Whether y = x is such a copy, and worth tiles: one dtype, and at least 8 elements either way.
  static bool suits(const TensorDesc& x, const TensorDesc& y);
  /// Of tensors that it suits. `cpu` chooses the form; both run on every device.
  Transpose(const Context& context, const TensorDesc& x, const TensorDesc& y, bool cpu);
  void run(const Stream& stream, const Tensor& x, const Tensor& y) const;

 private:
  Kernel kernel_;
  LoopDim a_, b_;
  std::vector<LoopDim> outer_;
  bool wide_ = false, cpu_ = false;
  int64_t tile_ = 64, batches_ = 1;
};

}  // namespace dlprim::detail
