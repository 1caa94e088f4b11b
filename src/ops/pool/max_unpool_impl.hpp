// Max unpooling as its engines see it.
#pragma once

#include <array>

#include <dlprim/max_unpool.hpp>

#include "core/defines.hpp"
#include "core/engine.hpp"
#include "core/launch.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim {

namespace detail {

#include "kernels/pool/max_unpool.h"

/// A tensor as [N, C, D, H, W].
struct UnpoolTensor {
  std::array<int64_t, 5> size{1, 1, 1, 1, 1}, stride{};

  UnpoolTensor(const TensorDesc& t, int spatial) {
    const int rank = t.shape.size(), channel = rank - spatial - 1;
    const auto put = [&](int at, int axis) {
      size[static_cast<size_t>(at)] = t.shape[axis];
      stride[static_cast<size_t>(at)] = t.strides[axis];
    };
    if (channel == 1) put(0, 0);
    put(1, channel);
    for (int i = 1; i <= spatial; i++) put(5 - i, rank - i);
  }
  int64_t plane() const { return size[2] * size[3] * size[4]; }
  /// Whether the elements of a plane lie at the multiples of W's stride.
  bool flat() const {
    return (size[3] == 1 || stride[3] == size[4] * stride[4]) &&
           (size[2] == 1 || stride[2] == size[3] * size[4] * stride[4]);
  }
};

struct UnpoolProblem {
  MaxUnpoolDesc desc;  ///< backward: of dx, indices and dy
  bool backward = false;

  UnpoolTensor x() const { return {desc.x, desc.spatial}; }
  UnpoolTensor indices() const { return {desc.indices, desc.spatial}; }
  UnpoolTensor y() const { return {desc.y, desc.spatial}; }
};

}  // namespace detail

struct MaxUnpool::Impl : detail::EngineImpl {
  explicit Impl(const detail::UnpoolProblem& p);
  detail::Kernel kernel(const Context& context, const char* name) const;
  void bind(detail::Launch& launch, const Tensor& t) const;
  detail::UnpoolSizes sizes() const;
  /// Forward: x, indices, y. Backward: dx, indices, dy.
  virtual void run(const Stream& stream, const Tensor& x, const Tensor& indices, const Tensor& y,
                   const Tensor& workspace) const = 0;

  detail::UnpoolProblem problem;
  detail::UnpoolTensor x, y;
  bool last = false;
  detail::Defines defines;  ///< of max_unpool.cl
};

namespace detail {

using UnpoolEngine = Engine<UnpoolProblem, MaxUnpool::Impl>;
/// Forward on GPUs, with owners in local memory: of dense planes; of channels that are neighbours.
extern const UnpoolEngine kUnpoolPlanes, kUnpoolTiles;

}  // namespace detail

}  // namespace dlprim
