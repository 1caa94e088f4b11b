#include "ops/resample/resample_roles.hpp"

#include <algorithm>
#include <iterator>

namespace dlprim::detail {
namespace {

bool by_steps(const LoopAxis& a, const LoopAxis& b) {
  return a.y_stride > b.y_stride;
}

}  // namespace

ResampleRoles::ResampleRoles(const TensorDesc& x, const TensorDesc& y, const std::vector<MappedAxis>& axes,
                             int64_t lanes) {
  std::vector<LoopAxis> along;
  for (int i = 0; i < y.shape.size(); i++) {
    LoopAxis axis{y.shape[i], x.shape[i], x.strides[i], y.strides[i], identity_taps(1)};
    const auto found =
        std::find_if(axes.begin(), axes.end(), [&](const MappedAxis& mapped) { return mapped.axis == i; });
    if (found != axes.end()) {
      axis.taps = found->taps;
      along.push_back(axis);
    } else if (axis.size > 1 && axis.y_stride == 1) {
      inner = axis;
    } else if (axis.size != 1) {
      planes.push_back(axis);
    }
  }
  std::stable_sort(planes.begin(), planes.end(), by_steps);
  merge_planes();
  widen_inner();
  const auto places = [&] {
    int64_t product = inner.size;
    for (const LoopAxis& axis : along) product *= axis.size;
    return product;
  };
  // Few places: neighbours from another axis fill the lanes.
  while (along.size() < kMappedAxes && !planes.empty() && places() < lanes && planes.back().size < 65536) {
    planes.back().taps = identity_taps(planes.back().size);
    along.push_back(planes.back());
    planes.pop_back();
  }
  std::stable_sort(along.begin(), along.end(), by_steps);
  std::copy(along.rbegin(), along.rend(), std::make_reverse_iterator(mapped + kMappedAxes));
  if (planes.empty()) planes.emplace_back();
}

void ResampleRoles::merge_planes() {
  std::vector<LoopAxis> merged;
  for (const LoopAxis& axis : planes) {
    if (!merged.empty() && merged.back().x_stride == axis.size * axis.x_stride &&
        merged.back().y_stride == axis.size * axis.y_stride) {
      const int64_t size = merged.back().size * axis.size;
      merged.back() = axis;
      merged.back().size = merged.back().x_size = size;
    } else {
      merged.push_back(axis);
    }
  }
  planes = merged;
}

/// Takes planes in whose elements lie behind each other; not all of them: a row of the CPU form is one
/// work-group's.
void ResampleRoles::widen_inner() {
  constexpr int64_t kEnough = 4096;
  while (inner.size > 1 && inner.size < kEnough && !planes.empty() && planes.back().y_stride == inner.size &&
         planes.back().x_stride == inner.size * inner.x_stride) {
    inner.size = inner.x_size = inner.size * planes.back().size;
    planes.pop_back();
  }
}

}  // namespace dlprim::detail
