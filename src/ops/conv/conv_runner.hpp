// What surrounds convolution's engines: the checks of a run's tensors, and the steps that no engine takes
// itself: a prologue, which writes the x that it stands for into the workspace; the statistics, which read y
// again; and adding to what dw was, whose gradient goes into the workspace first.
#pragma once

#include <memory>
#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

class ConvRunner {
 public:
  /// Throws what the constructors of plans throw.
  ConvRunner(const char* op, ConvDirection direction, const Context& context, const ConvDesc& desc,
             const Options& options, Write write = Write::replace);

  const std::shared_ptr<const PlanInfo>& info() const { return info_; }
  /// Tensors in the description's terms; in the backward directions gradients.
  void run(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& y, const ConvExtras& with,
           const Tensor& workspace) const;
  void forget_constants() const { impl_->forget_constants(); }

 private:
  void check(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& y, const ConvExtras& with,
             const Tensor& workspace) const;
  void plan_prologue(const Context& context, const Options& options);
  void plan_statistics(const Context& context, const Options& options);
  void plan_addition(const Context& context, const Options& options);
  Tensor prepared_x(const Stream& stream, const Tensor& x, const ConvExtras& with,
                    const Tensor& workspace) const;

  const ConvDirection direction_;  ///< as asked for; the engine's may be another
  const ConvDesc desc_;
  TensorDesc x_;  ///< as the engine reads it
  TensorDesc w_;  ///< as the engine has it
  std::shared_ptr<const PlanInfo> info_;
  std::shared_ptr<const ConvImpl> impl_;
  std::optional<Pointwise> prologue_;
  std::optional<Reduce> statistics_;
  std::optional<Pointwise> addition_;
  WorkspaceParts parts_;
  size_t x_at_ = 0, w_at_ = 0, statistics_at_ = 0, impl_at_ = 0;
};

}  // namespace dlprim::detail
