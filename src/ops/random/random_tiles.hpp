// The launch of random_tiles.cl, which random numbers and dropout share: memory in which the innermost
// dimension is not the last one, as of images with channels last.
#pragma once

#include <string>
#include <vector>

#include "core/gen/loop_nest.hpp"
#include "ops/random/random_fill.hpp"

namespace dlprim::detail {

class RandomTiles {
 public:
  /// `x` is dropout's input, else null.
  static std::string refuse(const TensorDesc* x, const TensorDesc& y);
  /// Of tensors that are not refused. `wide`: offsets of 64 bits even where 32 do.
  RandomTiles(const Context& context, const TensorDesc* x, const TensorDesc& y, const Defines& defines,
              bool wide = false);
  void run(const Stream& stream, const Tensor* x, const Tensor& y, const Draw& draw,
           const RandomState& state) const;

 private:
  Kernel kernel_;
  LoopDim lanes_, run_;         ///< side by side in memory; in the order of the words
  std::vector<LoopDim> outer_;  ///< innermost first; strides: words, x's, y's
  int64_t count_ = 0, lane_words_ = 1, chunks_ = 1;
};

}  // namespace dlprim::detail
