// What engines ask of a pooling problem.
#include <algorithm>
#include <limits>

#include "ops/lib/axis_list.hpp"
#include "ops/pool/pool_impl.hpp"

namespace dlprim::detail {

namespace {

PoolAxis sliding_axis(const PoolParams& p, int i, int64_t size, int64_t out) {
  PoolAxis axis;
  axis.size = size;
  axis.out = out;
  axis.kernel = p.kernel[i];
  axis.stride = number_along(p.stride, i, p.kernel[i]);
  axis.dilation = number_along(p.dilation, i, 1);
  axis.pad = number_along(p.pad_begin, i, 0);
  axis.limit = size + number_along(p.pad_end, i, axis.pad);
  return axis;
}

}  // namespace

std::vector<TensorDesc> PoolProblem::tensors() const {
  std::vector<TensorDesc> result = {x, y};
  for (const auto& t : {indices, saved_x, saved_y})
    if (t) result.push_back(*t);
  return result;
}

bool PoolProblem::uniform() const {
  if (mode == PoolMode::max || divisor != 0) return true;
  if (adaptive) return false;
  return std::all_of(axes.begin(), axes.end(), [&](const PoolAxis& a) {
    const int64_t end = (a.out - 1) * a.stride + a.reach();  // from the padding's start
    return include_pad ? end <= a.limit + a.pad : a.pad == 0 && end <= a.size;
  });
}

bool PoolProblem::global() const {
  return !adaptive && std::all_of(axes.begin(), axes.end(), [](const PoolAxis& a) {
    return a.pad == 0 && a.out == 1 && a.dilation == 1 && a.kernel == a.size;
  });
}

bool PoolProblem::channels_last() const {
  if (x.shape[1] <= 1) return false;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 2; i < 5; i++)
    if (x.shape[i] > 1) least = std::min(least, x.strides[i]);
  return x.strides[1] < least;
}

TensorDesc with_all_axes(const TensorDesc& desc, int spatial) {
  const int rank = desc.shape.size(), batch = rank - spatial - 1;
  TensorDesc result({}, {}, desc.dtype, desc.aligned);
  const auto add = [&](int from, int count) {
    for (int i = from; i < from + count; i++) {
      result.shape.push_back(desc.shape[i]);
      result.strides.push_back(desc.strides[i]);
    }
  };
  const auto add_ones = [&](int count) {
    for (int i = 0; i < count; i++) {
      result.shape.push_back(1);
      result.strides.push_back(1);
    }
  };
  add_ones(1 - batch);
  add(0, batch + 1);
  add_ones(3 - spatial);
  add(rank - spatial, spatial);
  return result;
}

PoolProblem pool_problem(const PoolParams& params, const TensorDesc& x, const TensorDesc& y) {
  PoolProblem result;
  result.mode = params.mode;
  result.divisor = params.divisor;
  result.include_pad = params.mode == PoolMode::lp || params.count_include_pad;
  result.norm = params.norm;
  result.adaptive = !params.output.empty();
  const int spatial = result.adaptive ? params.output.size() : params.kernel.size();
  result.x = with_all_axes(x, spatial);
  result.y = with_all_axes(y, spatial);
  PoolAxis* axes = result.axes.data() + (3 - spatial);
  bool divides = true;
  for (int i = 0; i < spatial; i++) {
    const int64_t size = result.x.shape[5 - spatial + i], out = result.y.shape[5 - spatial + i];
    divides &= size % out == 0;
    if (!result.adaptive) {
      axes[i] = sliding_axis(params, i, size, out);
    } else {
      axes[i].size = axes[i].limit = size;
      axes[i].out = out;
      axes[i].kernel = axes[i].stride = ceil_div(size, out);
    }
  }
  if (divides) result.adaptive = false;
  return result;
}

}  // namespace dlprim::detail
