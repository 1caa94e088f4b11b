// What both directions of group normalisation say of shapes, and their small tensors: numbers of each channel
// of each image.
#pragma once

#include <dlprim/group_norm.hpp>

#include "ops/norm/norm_rows.hpp"

namespace dlprim::detail {

/// The checked problem; instance normalisation is one with a group for each channel.
NormProblem group_norm_problem(const GroupNormDesc& desc);
/// The engine of generated kernels.
extern const NormEngine kNormGroups;
inline constexpr EngineList<NormProblem, NormImpl> kGroupNormEngines = {&kNormRows, &kNormCpu, &kNormGroups};

/// Throws ValidationError: rank, groups.
void require_groups(const TensorDesc& x, int64_t groups);
/// [N, C, 1, ...], row-major, of x's rank: broadcasts to x.
TensorDesc image_channels(const TensorDesc& x, DType dtype);
/// [C] as [1, C, 1, ...].
TensorDesc across_images(const TensorDesc& x, const TensorDesc& channels);
/// [N, groups] as [N, groups, 1], and [N, C] as [N, groups, C / groups], both row-major.
TensorDesc group_desc(const TensorDesc& x, int64_t groups, DType dtype);
TensorDesc channels_by_group(const TensorDesc& x, int64_t groups, DType dtype);
/// [C] as [groups, C / groups].
TensorDesc split_channels(const TensorDesc& channels, int64_t groups);

/// `tensor` in the shape and strides of `desc`.
inline Tensor viewed(const Tensor& tensor, const TensorDesc& desc) {
  return tensor.as_strided(desc.shape, desc.strides);
}

}  // namespace dlprim::detail
