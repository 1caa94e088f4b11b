// Counting elements: by their value, or by the part of a range in which they lie. The same input gives the
// same bits, weighted too. Tensors of one run share no memory.
#pragma once

#include <cstdint>
#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct HistogramImpl;
}

/// x: integers or bool, any shape and strides, fewer than 2^31 elements. y: [bins], any dtype but bool; of
/// weights, which have x's shape, floating as these are, in any mix.
struct BincountDesc {
  TensorDesc x;
  std::optional<TensorDesc> weights;
  TensorDesc y;
};

/// y[b]: how many elements are b, or the sum of their weights; those outside of [0, bins) do not count.
///
/// Sums are made in f64 where weights or y are f64 and, if the device has it, by engine `parts`; else in f32.
class DLPRIM_API Bincount : public Plan {
 public:
  /// Engines, of which each runs on every device: parts, bins for each work-group, first on CPUs; atomics,
  /// without weights; of weights exact, where sums in f32 are exact and rounded once, for up to 2^20 bins,
  /// and sorted. Throws ValidationError, BuildError.
  explicit Bincount(const Context& context, const BincountDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& weights, const Tensor& y,
           const Tensor& workspace = {}) const;

 private:
  BincountDesc desc_;
  std::shared_ptr<const detail::HistogramImpl> impl_;
};

/// From low to high, both included; where they are equal, from the least to the largest element, and one
/// farther at both ends if these are equal too.
struct HistogramRange {
  double low = 0, high = 0;
};

/// x: any dtype but u64, any shape and strides, fewer than 2^31 elements. y: [bins], any dtype but bool. For
/// whole x the range is two whole numbers.
struct HistcDesc {
  TensorDesc x, y;
  HistogramRange range{};
};

/// The range is cut into as many equal parts as there are bins: torch.histc. NaNs and what lies outside are
/// not counted. A whole x belongs to bin (x - low) bins / (high - low), rounded down, exactly; high to the
/// last one. A range from data that holds NaNs or infinities leaves nothing to count, where PyTorch
/// throws.
class DLPRIM_API Histc : public Plan {
 public:
  /// Engines: parts, atomics. Throws ValidationError (low above high, NaN), BuildError.
  explicit Histc(const Context& context, const HistcDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

 private:
  HistcDesc desc_;
  std::shared_ptr<const detail::HistogramImpl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it. Undefined weights are none.
DLPRIM_API void bincount(const Stream& stream, const Tensor& x, const Tensor& weights, const Tensor& y,
                         const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void histc(const Stream& stream, const Tensor& x, const HistogramRange& range, const Tensor& y,
                      const Options& options = {}, const Tensor& workspace = {});

/// As torch.bincount: a new i64 tensor with a bin for each number up to the largest, and not fewer than
/// `minlength`; of weights one of f64 if they are that, else of f32. Waits for the device, and has no plan.
/// Throws ValidationError for negative elements too.
DLPRIM_API Tensor bincount(const Stream& stream, const Tensor& x, const Tensor& weights, int64_t minlength,
                           const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
