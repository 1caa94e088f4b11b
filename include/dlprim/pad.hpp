// Padding and cropping along any axes, forward and backward.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
class Resample;
}

enum class PadMode : uint8_t {
  constant,
  reflect,    ///< mirrored without the border: c b | a b c | b a
  replicate,  ///< the border over and over: a a | a b c | c c
  circular    ///< from the other end: b c | a b c | a b
};

/// For each axis of x how many elements come in front and behind; negative numbers take elements away. As
/// PyTorch's functional.pad: reflect takes less than the axis' size, circular no more than what is left of it
/// after cropping, and where an axis is cropped at one end and reflected or replicated at the other, that is
/// done with the whole axis.
struct PadParams {
  Dims begin, end;
  PadMode mode = PadMode::constant;
};

/// Sizes of x plus what is put around them. Throws ValidationError.
DLPRIM_API Shape pad_output_shape(const Shape& x, const PadParams& params);

/// x, y: rank 1 to 8, any strides, floating dtypes in any mix.
struct PadDesc {
  TensorDesc x, y;
  PadParams params;
};

class DLPRIM_API Pad : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, too much padding), BuildError.
  explicit Pad(const Context& context, const PadDesc& desc, const Options& options = {});
  /// `value` goes around x if the mode is constant. y shares no memory with x.
  void run(const Stream& stream, const Tensor& x, double value, const Tensor& y,
           const Tensor& workspace = {}) const;

 private:
  PadDesc desc_;
  std::shared_ptr<const detail::Resample> impl_;
};

/// dx, dy: as x and y are forward.
struct PadBackwardDesc {
  TensorDesc dy, dx;
  PadParams params;
};

/// dx from dy: the sum over the places that an element went to, ascending; 0 for those that were cropped.
class DLPRIM_API PadBackward : public Plan {
 public:
  /// Throws as Pad.
  explicit PadBackward(const Context& context, const PadBackwardDesc& desc, const Options& options = {});
  /// dx is written whole and shares no memory with dy.
  void run(const Stream& stream, const Tensor& dy, const Tensor& dx, const Tensor& workspace = {}) const;

 private:
  PadBackwardDesc desc_;
  std::shared_ptr<const detail::Resample> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void pad(const Stream& stream, const Tensor& x, const PadParams& params, double value,
                    const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void pad_backward(const Stream& stream, const Tensor& dy, const PadParams& params,
                             const Tensor& dx, const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
