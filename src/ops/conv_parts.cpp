// How many parts a sum is computed in, and what adds them up.
#include "ops/conv_parts.hpp"

#include <algorithm>

namespace dlprim::detail {
namespace {

// Work-groups for each compute unit, so that late ones leave few units idle.
constexpr int64_t kGroupsPerUnit = 4;

}  // namespace

ConvParts conv_parts_for(int64_t k, int64_t block, int64_t tiles, const Device& device, int64_t results,
                         int64_t room) {
  const int64_t blocks = std::max<int64_t>(1, ceil_div(k, block));
  const int64_t wanted = kGroupsPerUnit * std::max(1, device.facts().compute_units);
  int64_t count = tiles >= wanted ? 1 : ceil_div(wanted, std::max<int64_t>(1, tiles));
  count = std::min({count, blocks, std::max<int64_t>(1, room / std::max<int64_t>(1, results))});
  const int64_t steps = ceil_div(blocks, count) * block;
  // Parts of equal length may need fewer of them.
  return {static_cast<int>(std::max<int64_t>(1, ceil_div(k, steps))), static_cast<int>(steps)};
}

ConvPartSums::ConvPartSums(const Context& context, const ConvProblem& p, int parts, WorkspaceParts& workspace,
                           ConvPartsForm form) {
  if (parts <= 1 && !form.always) return;
  const Shape dw{p.k, p.group_c(), p.w_space[0], p.w_space[1], p.w_space[2]};
  Shape shape{parts};
  for (int64_t size : dw) shape.push_back(size);
  parts_ = TensorDesc(shape, p.dtype == DType::f64 ? DType::f64 : DType::f32);
  if (form.channels_last) {
    int64_t step = dw[1];
    parts_.strides[2] = 1;
    for (int i = 5; i >= 3; i--) parts_.strides[i] = step, step *= shape[i];
  }
  parts_at_ = workspace.add(static_cast<size_t>(element_count(shape)) * size_of(parts_.dtype));
  Shape one{1};
  Strides strides{0};
  for (int i = 0; i < 5; i++) one.push_back(dw[i]), strides.push_back(p.w[static_cast<size_t>(i)]);
  const TensorDesc target{one, strides, p.result_dtype, p.w_aligned};
  sum_.emplace(context, std::vector<TensorDesc>{parts_}, std::vector<TensorDesc>{target}, 0, sum_of("x0"));
  scratch_at_ = workspace.add(sum_->workspace_size());
}

Tensor ConvPartSums::partial(const Tensor& workspace) const {
  if (!sum_) return {};
  return workspace_part(workspace, parts_at_, parts_.shape, parts_.dtype)
      .as_strided(parts_.shape, parts_.strides);
}

void ConvPartSums::add_up(const Stream& stream, const Tensor& workspace, const Tensor& dw) const {
  if (!sum_) return;
  Shape shape{1};
  Strides strides{0};
  for (int i = 0; i < 5; i++) shape.push_back(dw.shape()[i]), strides.push_back(dw.strides()[i]);
  sum_->run(stream, {partial(workspace)}, {dw.as_strided(shape, strides)}, {},
            workspace_scratch(workspace, scratch_at_, *sum_));
}

}  // namespace dlprim::detail
