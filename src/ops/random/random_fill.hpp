// The launch of random.cl, which random numbers and dropout share, and the checks of their arguments.
#pragma once

#include <cstdint>

#include <dlprim/random.hpp>

#include "core/gen/expression.hpp"
#include "core/launch.hpp"

namespace dlprim::detail {

/// random.cl's numbers.
struct Draw {
  /// A range's ends, a mean and a deviation; or in `a` the factor of -log(u), or dropout's.
  float a = 0, b = 0;
  float top = 0;           ///< the largest result
  uint64_t threshold = 0;  ///< words below it give 1; of integers: how many there are
  int64_t low = 0;         ///< the smallest integer
};

/// Fills a row-major tensor.
class RandomFill {
 public:
  /// `cpu`: the form with vectors, of few work-items.
  RandomFill(const Context& context, const TensorDesc& y, const Defines& defines, bool cpu);
  static bool prefers_cpu(const Context& context);
  /// `x` is dropout's input, else null.
  void run(const Stream& stream, const Tensor* x, const Tensor& y, const Draw& draw,
           const RandomState& state) const;

 private:
  Kernel kernel_;
  int64_t count_ = 0;
  bool cpu_ = false;
};

/// The words of `count` elements exist. Throws ValidationError.
void check_state(const RandomState& state, int64_t count);
/// The words below the threshold are p of all. Throws ValidationError unless 0 <= p <= 1.
uint64_t probability_threshold(const char* argument, double p);

}  // namespace dlprim::detail
