// Grid sampling as its engines see it.
#pragma once

#include <dlprim/grid_sample.hpp>

#include "core/engine.hpp"
#include "core/launch.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/resample/grid_sample.h"

enum class GridSampleDirection : uint8_t { forward, backward_input, backward_grid };

struct GridSampleProblem {
  GridSampleDesc desc;  ///< backward: of dx in place of x where that is wanted, of dy in place of y
  GridSampleDirection direction = GridSampleDirection::forward;
  TensorDesc dgrid{};  ///< where it is wanted

  bool volume() const { return desc.x.shape.size() == 5; }
  int taps() const {
    return desc.params.mode == GridSampleMode::nearest    ? 1
           : desc.params.mode == GridSampleMode::bilinear ? 2
                                                          : 4;
  }
  int64_t combinations() const { return volume() ? taps() * taps() * taps() : taps() * taps(); }
  DType real() const {
    const bool f64 =
        desc.x.dtype == DType::f64 || desc.grid.dtype == DType::f64 || desc.y.dtype == DType::f64;
    return f64 ? DType::f64 : DType::f32;
  }
  int64_t batch() const { return desc.x.shape[0]; }
  int64_t channels() const { return desc.x.shape[1]; }
  /// Elements of a channel.
  int64_t pixels() const { return plane(desc.x); }
  int64_t places() const { return plane(desc.y); }

 private:
  static int64_t plane(const TensorDesc& t) {
    int64_t product = 1;
    for (int i = 2; i < t.shape.size(); i++) product *= t.shape[i];
    return product;
  }
};

/// Binds TENSOR of grid_sample_parts.cl; a grid's coordinates are its channels.
void bind_samples(Launch& launch, const Tensor& t, bool grid = false);
/// The macros of grid_sample_parts.cl but STRIP and INNER.
Defines grid_sample_defines(const GridSampleProblem& problem);
/// Channels are neighbours in x and y.
bool channels_together(const GridSampleProblem& problem);

struct GridSampleImpl : EngineImpl {
  virtual void forward(const Stream&, const Tensor&, const Tensor&, const Tensor&) const {}
  virtual void backward_grid(const Stream&, const Tensor& /*dy*/, const Tensor& /*x*/, const Tensor& /*grid*/,
                             const Tensor& /*dgrid*/) const {}
  virtual void backward_input(const Stream&, const Tensor& /*dy*/, const Tensor& /*grid*/,
                              const Tensor& /*dx*/, const Tensor& /*workspace*/) const {}

  explicit GridSampleImpl(const GridSampleProblem& problem);

  SampleSizes sizes;
};

/// Sampling and the gradient of the grid: a work-item for each place that walks through channels, for GPUs
/// and CPUs, which go through the gradient of x by it as well; and for GPUs and channels that are neighbours
/// a few work-items for each place.
std::unique_ptr<const GridSampleImpl> make_grid_sampler(const Context& context,
                                                        const GridSampleProblem& problem, bool cpu);
/// The gradient of x by lists.
std::unique_ptr<const GridSampleImpl> make_grid_lists(const Context& context,
                                                      const GridSampleProblem& problem);

}  // namespace dlprim::detail
