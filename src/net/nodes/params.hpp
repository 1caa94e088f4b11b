// What a node's attributes say to operators, for the kinds of both directions.
#pragma once

#include <dlprim/activation.hpp>
#include <dlprim/class_loss.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/pool.hpp>

#include "net/nodes/node.hpp"

namespace dlprim::detail {

/// The attribute "activation".
Activation activation_of(const NodeStep& step);

/// Attributes: those of ConvParams (groups 0: as many as w's channels make); "same"; "output_shape". x and w:
/// the forward direction's shapes.
ConvParams conv_params(const NodeStep& step, const Shape& x, const Shape& w);

/// x, or a copy of it with y's strides.
Tensor lying_as(const NodeStep& step, const Tensor& x, const Tensor& y);

/// Attributes: those of PoolParams; "same". x: the forward direction's shape.
PoolParams pool_params(const NodeStep& step, const Shape& x);

/// How indices of maxima are numbered that are not those in a plane. Attributes: flat, column_major. x: the
/// forward direction's shape.
struct IndexNumbering {
  Tensor first;               ///< the index of each plane's first element, i64 [N, C, 1, ...]
  std::vector<Scalar> sizes;  ///< of the first and the last axis of a plane
  bool turned = false;        ///< the last axis is counted slowest
};
IndexNumbering index_numbering(const NodeStep& step, const Shape& x);

/// Attributes: reduction, ignore_index.
ClassLossParams class_loss_params(const NodeStep& step);

}  // namespace dlprim::detail
