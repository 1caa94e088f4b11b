// Resampling along axes, for interpolate and pad: an element of the result is a sum of weighted elements of
// the source whose places, along each axis on its own, stand in a table. The backward direction is the same
// with the tables transposed, so it gathers, and takes exactly the elements that the forward direction took.
#pragma once

#include <memory>
#include <vector>

#include "core/composed.hpp"
#include "ops/resample/resample_roles.hpp"

namespace dlprim::detail {

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
