// A convolution that another one was turned into: its implementation, whose workspace is a part of that
// one's.
#pragma once

#include <memory>

#include "core/composed.hpp"
#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

class ConvInner {
 public:
  /// Within what `workspace` leaves of the limit.
  ConvInner(const Context& context, const ConvProblem& problem, const EngineOptions& options, MakeConv make,
            WorkspaceParts& workspace) {
    EngineOptions rest = options;
    rest.workspace_limit = workspace.rest(options).workspace_limit;
    impl_ = make(context, problem, rest);
    at_ = workspace.add(impl_->workspace_size());
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const {
    impl_->run(stream, t,
               workspace_part(workspace, at_, {static_cast<int64_t>(impl_->workspace_size())}, DType::u8));
  }
  void forget_constants() const { impl_->forget_constants(); }

 private:
  std::unique_ptr<const ConvImpl> impl_;
  size_t at_ = 0;
};

}  // namespace dlprim::detail
