// Copies between a few planes and the elements in which they alternate: a form of copy(), not an
// operator. Pixel shuffles are such, and images of two to eight channels that change their layout.
#pragma once

#include <dlprim/tensor.hpp>

#include "core/gen/loop_nest.hpp"
#include "core/launch.hpp"

namespace dlprim::detail {

class Interleave {
 public:
  /// Whether y = x is such a copy: one dtype, 2 to 8 planes, places of a plane up to 4 elements apart.
  static bool suits(const TensorDesc& x, const TensorDesc& y);
  /// Of tensors that it suits. `cpu` chooses the form; both run on every device. `wide`: offsets of 64 bits
  /// even where 32 do.
  Interleave(const Context& context, const TensorDesc& x, const TensorDesc& y, bool cpu, bool wide = false);
  void run(const Stream& stream, const Tensor& x, const Tensor& y) const;

 private:
  Kernel kernel_;
  int64_t places_ = 1, chunk_ = 0;            ///< of a row; blocks of a CPU's work-group, 0: the GPUs' form
  int64_t row_ = 1, count_ = 1, blocks_ = 1;  ///< blocks in a row, in all, of a GPU's work-item
  int64_t step_ = 1;                          ///< between places of a plane
  int64_t steps_[2] = {0, 0};                 ///< between planes, along the inner dimension and the outer one
  std::vector<LoopDim> outer_;                ///< innermost first; strides[0] is in the planes
};

}  // namespace dlprim::detail
