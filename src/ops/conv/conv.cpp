// Convolution's public face: plans and calls.
#include <dlprim/conv.hpp>

#include "ops/conv/conv_runner.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ConvParams> = 8;
template <>
inline constexpr int kFields<ConvDesc> = 12;
template <>
inline constexpr int kFields<ConvBackwardDataDesc> = 4;
template <>
inline constexpr int kFields<ConvBackwardFilterDesc> = 7;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

Conv::Conv(const Context& context, const ConvDesc& desc, const Options& options)
    : Plan(nullptr),
      runner_(std::make_shared<ConvRunner>("conv", ConvDirection::forward, context, desc, options)) {
  info_ = runner_->info();
}

void Conv::run(const Stream& stream, const Tensor& x, const Tensor& w, const ConvExtras& with,
               const Tensor& y, const Tensor& workspace) const {
  runner_->run(stream, x, w, y, with, workspace);
}

void Conv::forget_constants() const {
  runner_->forget_constants();
}

ConvBackwardData::ConvBackwardData(const Context& context, const ConvBackwardDataDesc& desc,
                                   const Options& options)
    : Plan(nullptr),
      runner_(std::make_shared<ConvRunner>("conv_backward_data", ConvDirection::backward_data, context,
                                           sides_of(desc), options)) {
  info_ = runner_->info();
}

void ConvBackwardData::run(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Tensor& workspace) const {
  runner_->run(stream, dx, w, dy, {}, workspace);
}

ConvBackwardFilter::ConvBackwardFilter(const Context& context, const ConvBackwardFilterDesc& desc,
                                       const Options& options)
    : Plan(nullptr),
      runner_(std::make_shared<ConvRunner>("conv_backward_filter", ConvDirection::backward_filter, context,
                                           sides_of(desc), options, desc.write)) {
  info_ = runner_->info();
}

void ConvBackwardFilter::run(const Stream& stream, const Tensor& x, const Tensor& dy, const ConvExtras& with,
                             const Tensor& dw, const Tensor& workspace) const {
  runner_->run(stream, x, dw, dy, with, workspace);
}

void conv(const Stream& stream, const Tensor& x, const Tensor& w, const ConvExtras& with,
          const ConvParams& params, const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"w", w}, {"y", y}});
  ConvDesc desc{x, w, y, params};
  desc.bias = with.bias.defined(), desc.scale = with.scale.defined();
  desc.residual = with.residual.defined(), desc.preactivation = with.preactivation.defined();
  desc.statistics = with.mean.defined() || with.variance.defined();
  desc.prologue = with.input_scale.defined() || with.input_shift.defined();
  cached_plan<Conv>(stream, "conv", desc, options, workspace)->run(stream, x, w, with, y, workspace);
}

void conv_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w, const ConvParams& params,
                        const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"w", w}, {"dx", dx}});
  const ConvBackwardDataDesc desc{dy, w, dx, params};
  cached_plan<ConvBackwardData>(stream, "conv_backward_data", desc, options, workspace)
      ->run(stream, dy, w, dx, workspace);
}

void conv_backward_filter(const Stream& stream, const Tensor& x, const Tensor& dy, const ConvParams& params,
                          const Tensor& dw, const Options& options, const Tensor& workspace) {
  conv_backward_filter(stream, x, dy, params, dw, Write::replace, options, workspace);
}

void conv_backward_filter(const Stream& stream, const Tensor& x, const Tensor& dy, const ConvParams& params,
                          const Tensor& dw, Write write, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"dy", dy}, {"dw", dw}});
  const ConvBackwardFilterDesc desc{x, dy, dw, params, write};
  cached_plan<ConvBackwardFilter>(stream, "conv_backward_filter", desc, options, workspace)
      ->run(stream, x, dy, {}, dw, workspace);
}

}  // namespace dlprim
