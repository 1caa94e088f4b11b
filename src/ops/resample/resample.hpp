// Resampling along axes, for interpolate and pad: an element of the result is a sum of weighted elements of
// the source whose places, along each axis on its own, stand in a table. The backward direction is the same
// with the tables transposed, so it gathers, and takes exactly the elements that the forward direction took.
#pragma once

#include <utility>
#include <vector>

#include "core/composed.hpp"

namespace dlprim::detail {

/// What the places along one axis of the result are made of: place o of source[first[o]] to source[first[o +
/// 1]], in that order.
struct AxisTaps {
  int64_t source_size = 0;
  std::vector<int32_t> first{0};
  std::vector<int32_t> source;
  std::vector<double> weight;  ///< beside `source`; empty: all are 1

  int64_t size() const { return static_cast<int64_t>(first.size()) - 1; }
  /// Ends the place whose taps were put behind `source`.
  void end_place() { first.push_back(static_cast<int32_t>(source.size())); }
  /// Most taps of a place.
  int64_t width() const;
  /// Whether a place has fewer taps than others.
  bool ragged() const;
};

/// The gradient's taps: for each element of the source the places that it went to, ascending.
AxisTaps transposed(const AxisTaps& taps);

/// One axis of tensors and what happens along it.
struct MappedAxis {
  int axis = 0;
  AxisTaps taps;
};

struct ResamplePass;

/// x to y, of one rank; along axes that are not mapped the sizes are the same.
struct ResampleProblem {
  TensorDesc x, y;
  std::vector<MappedAxis> axes;
};

/// Sums are taken in f32, or f64 if x or y is. A place without taps becomes the fill value if no place has
/// more than one tap, else 0.
class Resample : public EngineImpl {
 public:
  Resample(const Context& context, ResampleProblem problem, bool cpu);
  size_t workspace_size() const override { return workspace_; }
  void run(const Stream& stream, const Tensor& x, const Tensor& y, double fill,
           const Tensor& workspace) const;

 private:
  struct Step {
    std::shared_ptr<const ResamplePass> pass;
    TensorDesc result;
    size_t result_at = 0, scratch_at = 0;
  };
  std::vector<Step> steps_;
  size_t workspace_ = 0;
};

/// One of the engines `direct`, a work-item for each place, and `cpu`, rows. Fills `info`'s engine and
/// workspace.
std::shared_ptr<const Resample> choose_resample(const char* op, const Context& context,
                                                const ResampleProblem& problem, const Options& options,
                                                PlanInfo& info);

/// A plan's run: checks the tensors, and enqueues.
void run_resample(const PlanInfo& info, const Resample& resample, const Stream& stream, const Named& x,
                  const TensorDesc& x_desc, const Named& y, const TensorDesc& y_desc, double fill,
                  const Tensor& workspace);

}  // namespace dlprim::detail
