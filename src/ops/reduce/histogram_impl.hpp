// Counting as its engines see it.
#pragma once

#include <optional>

#include <dlprim/histogram.hpp>
#include <dlprim/pointwise.hpp>

#include "core/defines.hpp"
#include "core/engine.hpp"
#include "ops/lib/row_major.hpp"

namespace dlprim::detail {

/// What is counted: fewer than 2^31 elements, fewer than 2^31 bins.
struct HistogramProblem {
  TensorDesc x;
  std::optional<TensorDesc> weights;
  TensorDesc y;
  bool ranged = false;  ///< bins are parts of a range
  HistogramRange range = {};

  int count() const { return static_cast<int>(element_count(x.shape)); }
  int bins() const { return static_cast<int>(y.shape[0]); }
  /// The range is of whole numbers, and bins are found by whole numbers' arithmetic.
  bool whole() const { return ranged && !is_floating(x.dtype); }
  /// The range is the data's.
  bool from_data() const { return ranged && range.low == range.high; }
  /// What is added up; `wide`: in f64 where there are weights, whatever they are.
  DType accumulator(bool wide) const;
};

struct HistogramTensors {
  const Tensor &x, &weights, &y;
};

struct HistogramImpl : EngineImpl {
  virtual void run(const Stream& stream, const HistogramTensors& t, const Tensor& workspace) const = 0;
  size_t workspace_size() const override { return layout.size(); }

  WorkspaceParts layout;
};

/// Both ends of x.
struct EndsDesc {
  TensorDesc x;
  DType dtype = DType::f32;  ///< floating: NaN if an element is one; i64: of whole numbers below 2^63
  bool from_zero = false;    ///< i64: the least number is not above 0, the largest not below it
};
class Ends {
 public:
  Ends(const Context& context, const EndsDesc& desc, const Options& options);
  size_t workspace_size() const { return layout_.size(); }
  /// [2], in the workspace.
  Tensor run(const Stream& stream, const Tensor& x, const Tensor& workspace) const;

 private:
  DType dtype_;
  WorkspaceParts layout_;
  std::optional<Reduce> reduce_;
  size_t scratch_at_ = 0;
};

/// The macros of histogram.cl and histogram_exact.cl that the problem says.
Defines histogram_defines(const HistogramProblem& problem, DType accumulator);

using HistogramEngine = Engine<HistogramProblem, HistogramImpl>;
extern const HistogramEngine kHistogramParts, kHistogramAtomics, kHistogramExact, kHistogramSorted;

}  // namespace dlprim::detail
