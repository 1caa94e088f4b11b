// How many parts a sum is computed in, and what adds them up.
#include "ops/conv/conv_parts.hpp"

#include <algorithm>

namespace dlprim::detail {
namespace {

// Work-groups for each compute unit, so that late ones leave few units idle.
constexpr int64_t kGroupsPerUnit = 4;
// So few parts are added up by one expression: on an H200 512 x 512 x 3 x 3 results of 1, 4 and 8 parts in 5,
// 12 and 23 us, by a reduction in 10, 17 and 23; where the result lies in another order, in 13, 17 and 29
// against 36, 39 and 43.
constexpr int kMostTerms = 4;

/// The list with `first` in front.
Dims with_one(const Dims& list, int64_t first) {
  Dims result{first};
  for (int64_t value : list) result.push_back(value);
  return result;
}

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
  dw_ = TensorDesc({p.k, p.group_c(), p.w_space[0], p.w_space[1], p.w_space[2]},
                   {p.w[0], p.w[1], p.w[2], p.w[3], p.w[4]}, p.result_dtype, p.w_aligned);
  Shape shape{parts};
  for (int64_t size : dw_.shape) shape.push_back(size);
  parts_ = TensorDesc(shape, p.dtype == DType::f64 ? DType::f64 : DType::f32);
  if (form.channels_last) {
    int64_t step = dw_.shape[1];
    parts_.strides[2] = 1;
    for (int i = 5; i >= 3; i--) parts_.strides[i] = step, step *= shape[i];
  }
  parts_at_ = workspace.add(static_cast<size_t>(element_count(shape)) * size_of(parts_.dtype));
  if (parts <= kMostTerms) {
    // One kernel for all counts, so that another size of image compiles nothing: behind the last part come
    // others again, not added.
    std::string value = "y0 = x0";
    for (int i = 1; i < kMostTerms; i++) value += cat(" + (s", i - 1, " != 0 ? x", i, " : 0)");
    terms_.emplace(context, std::vector<TensorDesc>(kMostTerms, one_part()), std::vector<TensorDesc>{dw_},
                   kMostTerms - 1, value);
    return;
  }
  TensorDesc target = dw_;
  target.shape = with_one(dw_.shape, 1), target.strides = with_one(dw_.strides, 0);
  sum_.emplace(context, std::vector<TensorDesc>{parts_}, std::vector<TensorDesc>{target}, 0, sum_of("x0"));
  scratch_at_ = workspace.add(sum_->workspace_size());
}

TensorDesc ConvPartSums::one_part() const {
  TensorDesc part{{}, {}, parts_.dtype, false};
  for (int i = 1; i < 6; i++)
    part.shape.push_back(parts_.shape[i]), part.strides.push_back(parts_.strides[i]);
  return part;
}

Tensor ConvPartSums::partial(const Tensor& workspace) const {
  if (!terms_ && !sum_) return {};
  return workspace_part(workspace, parts_at_, parts_.shape, parts_.dtype)
      .as_strided(parts_.shape, parts_.strides);
}

void ConvPartSums::add_up(const Stream& stream, const Tensor& workspace, const Tensor& dw) const {
  const Tensor parts = partial(workspace);
  if (terms_) {
    const TensorDesc part = one_part();
    std::vector<Tensor> terms;
    std::vector<Scalar> added;
    for (int64_t i = 0; i < kMostTerms; i++) {
      const bool there = i < parts_.shape[0];
      terms.push_back(parts.as_strided(part.shape, part.strides, there ? i * parts_.strides[0] : 0));
      if (i > 0) added.push_back(there ? 1 : 0);
    }
    terms_->run(stream, terms, {dw}, added);
  } else if (sum_) {
    sum_->run(stream, {parts}, {dw.as_strided(with_one(dw_.shape, 1), with_one(dw_.strides, 0))}, {},
              workspace_scratch(workspace, scratch_at_, *sum_));
  }
}

}  // namespace dlprim::detail
