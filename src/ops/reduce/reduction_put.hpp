// Putting one number into each group of reduced elements, where an index says: the gradient of a maximum.
#pragma once

#include <vector>

#include <dlprim/tensor.hpp>

#include "core/composed.hpp"

namespace dlprim::detail {

class ReductionPut {
 public:
  ReductionPut(const Context& context, const TensorDesc& dy, const TensorDesc& index, const TensorDesc& dx);
  void run(const Stream& stream, const Tensor& dy, const Tensor& index, const Tensor& dx) const;

 private:
  struct Axis {
    int64_t size, dy, index,
        dx;  ///< strides; of a reduced axis `index` is what a step along it adds to indices
  };
  std::vector<Axis> kept_, reduced_;
  int64_t kept_count_ = 1, reduced_count_ = 1;
  Kernel kernel_;
};

}  // namespace dlprim::detail
