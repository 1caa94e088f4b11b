// Rearranging between channels and space: pixel shuffle and unshuffle (Shi et al., 2016), channel shuffle
// (Zhang et al., 2018). Each is one copy through views; the gradient of each is another of them.
//
// Any strides and dtypes, converted as copy() does. y shares no memory with x. Constructors throw
// ValidationError and BuildError.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// x: [..., C r r, H, W], y: [..., C, H r, W r], r the `factor`; of rank 3 to 6.
struct PixelShuffleDesc {
  TensorDesc x, y;
  int64_t factor = 2;
};

/// y[..., c, h * r + i, w * r + j] = x[..., (c * r + i) * r + j, h, w]. Its gradient is PixelUnshuffle of dy.
class DLPRIM_API PixelShuffle : public Plan {
 public:
  /// Its engine is `copy`.
  explicit PixelShuffle(const Context& context, const PixelShuffleDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// x: [..., C, H r, W r], y: [..., C r r, H, W]; of rank 3 to 6.
struct PixelUnshuffleDesc {
  TensorDesc x, y;
  int64_t factor = 2;
};

/// The inverse. Its gradient is PixelShuffle of dy.
class DLPRIM_API PixelUnshuffle : public Plan {
 public:
  /// Its engine is `copy`.
  explicit PixelUnshuffle(const Context& context, const PixelUnshuffleDesc& desc,
                          const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  using Impl = PixelShuffle::Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// x, y: [N, C, ...], one shape, of rank 3 to 7.
struct ChannelShuffleDesc {
  TensorDesc x, y;
  int64_t groups = 1;
};

/// y[n, c * groups + g, ...] = x[n, g * (C / groups) + c, ...]. Its gradient is ChannelShuffle of dy with C /
/// groups groups.
class DLPRIM_API ChannelShuffle : public Plan {
 public:
  /// Its engine is `copy`.
  explicit ChannelShuffle(const Context& context, const ChannelShuffleDesc& desc,
                          const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  using Impl = PixelShuffle::Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void pixel_shuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y,
                              const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void pixel_unshuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y,
                                const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void channel_shuffle(const Stream& stream, const Tensor& x, int64_t groups, const Tensor& y,
                                const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
