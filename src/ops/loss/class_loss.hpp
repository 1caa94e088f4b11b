// What losses of classes share: checks, the kernels' view of tensors with one element a row, the weights that
// means divide by.
#pragma once

#include <optional>

#include <dlprim/class_loss.hpp>
#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/lib/rows.hpp"

namespace dlprim::detail {

constexpr int kClassAxis = 1;

/// What is known of a checked description; of a backward one, whose gradients stand for x and the loss.
struct ClassLoss {
  ClassLossDesc desc;
  bool probabilities = false;
  DType real = DType::f32;

  /// `x` and `loss` are what the tensors are called.
  ClassLoss(const char* x, const char* loss, const ClassLossDesc& desc, bool takes_probabilities);

  int64_t classes() const { return desc.x.shape[kClassAxis]; }
  int64_t rows() const { return element_count(row_shape(desc.x.shape, kClassAxis)); }
  bool reduced() const { return desc.params.reduction != LossReduction::none; }
  bool mean() const { return desc.params.reduction == LossReduction::mean; }
  /// A mean divides by the sum of rows' weights, not by a number known before.
  bool weighed() const { return mean() && !probabilities; }
  /// One number for each row, [N, 1, ...] row-major.
  TensorDesc per_row() const { return {row_shape(desc.x.shape, kClassAxis), real}; }
  /// Of a kernel's tensors: as large as x, or with size 1 along the class axis.
  TensorDesc target() const { return probabilities ? desc.target : with_class_axis(desc.target); }
  TensorDesc weight() const;
  /// The loss or dloss: one for each row, or one for all.
  TensorDesc loss() const { return reduced() ? broadcast(desc.loss) : with_class_axis(desc.loss); }
  TensorDesc total() const { return broadcast(TensorDesc({1}, real)); }

  /// Macros of class_loss.cl and REAL.
  Defines defines() const;
  /// Runs a kernel of nll_loss.cl over all rows.
  void pick(const Stream& stream, const RowNest& nest, const Kernel& kernel,
            const std::vector<Tensor>& tensors) const;
  /// Searches labels for what is no class, where the context checks indices; `op` is what the error names.
  void search_labels(const Stream& stream, const char* op, const Tensor& target) const;
  /// All tensors of a forward run.
  void require_forward(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
                       const Tensor& loss, const Tensor& workspace) const;
  PlanInfo info(size_t workspace, double bytes) const;

  static TensorDesc with_class_axis(const TensorDesc& desc);

 private:
  TensorDesc broadcast(const TensorDesc& one) const;
};

/// Rows' terms and weights in the workspace become the loss.
class ClassLossSum {
 public:
  ClassLossSum(const Context& context, const ClassLoss& problem, WorkspaceParts& parts,
               const Options& options);
  Tensor terms(const Tensor& space) const { return workspace_part(space, terms_at_, shape_, real_); }
  Tensor weights(const Tensor& space) const {
    return weighed_ ? workspace_part(space, weights_at_, shape_, real_) : Tensor();
  }
  void run(const Stream& stream, const Tensor& loss, const Tensor& space) const;

 private:
  Shape shape_;
  DType real_;
  bool weighed_;
  size_t terms_at_ = 0, weights_at_ = 0, scratch_at_ = 0;
  std::optional<Reduce> sum_;
};

/// The sum of rows' weights, that the gradient of a mean is divided by.
class ClassWeightSum {
 public:
  ClassWeightSum(const Context& context, const ClassLoss& problem, WorkspaceParts& parts,
                 const Options& options);
  /// [1], in the workspace.
  Tensor run(const Stream& stream, const Tensor& target, const Tensor& weight, const Tensor& space) const;

 private:
  ClassLoss problem_;
  RowNest nest_;
  Kernel pick_;
  size_t weights_at_ = 0, total_at_ = 0, scratch_at_ = 0;
  std::optional<Reduce> sum_;
};

template <>
inline constexpr int kFields<ClassLossParams> = 3;
template <>
inline constexpr int kFields<ClassLossDesc> = 5;

}  // namespace dlprim::detail
