// Tensors of channels and checks of batch normalisation.
#include "ops/norm/batch_norm_parts.hpp"

#include <algorithm>

#include "ops/pointwise/activation_impl.hpp"

namespace dlprim::detail {

TensorDesc channel_desc(const TensorDesc& x, const TensorDesc& y, bool aligned) {
  const bool wide = x.dtype == DType::f64 || y.dtype == DType::f64;
  return {{x.shape[1]}, {1}, wide ? DType::f64 : DType::f32, aligned};
}

TensorDesc across_desc(const TensorDesc& x, const TensorDesc& channel) {
  const int rank = x.shape.size();
  TensorDesc result{Dims::filled(rank, 1), Dims::filled(rank, 1), channel.dtype, channel.aligned};
  result.shape[1] = x.shape[1];
  return result;
}

Tensor across(const TensorDesc& x, const Tensor& channel) {
  const TensorDesc wide = across_desc(x, TensorDesc(channel));
  return channel.as_strided(wide.shape, wide.strides);
}

void check_activations(const char* x_name, const TensorDesc& x, const char* y_name, const TensorDesc& y,
                       Activation f) {
  require_floating(x_name, x, true);
  require_floating(y_name, y, true);
  require(x.shape.size() >= 2, x_name, "rank ", x.shape.size(), " must be 2 or more, [N, C, ...]");
  require_shape(y_name, y, x.shape);
  require_activation("activation", f);
}

void check_channels(const Stream& stream, const TensorDesc& channel, std::initializer_list<Named> channels) {
  for (const Named& t : channels) require_tensor(t.name, t.tensor, stream.context(), channel);
}

std::optional<TensorDesc> if_wanted(bool wanted, const TensorDesc& desc) {
  return wanted ? std::make_optional(desc) : std::nullopt;
}

int64_t values_per_channel(const Shape& shape) {
  int64_t count = 1;
  for (int i = 0; i < shape.size(); i++) count *= i == 1 ? 1 : shape[i];
  return count;
}

PlanInfo batch_norm_info(const TensorDesc& x, const TensorDesc& y, const std::optional<TensorDesc>& residual,
                         Activation activation, const std::string& params) {
  PlanInfo info;
  info.text = cat("x=", brief(x), " y=", brief(y), " residual=", residual.has_value(),
                  " activation=", name_of(activation), params);
  info.flops = 8 * static_cast<double>(element_count(x.shape));
  info.bytes = traffic({x, y}) + (residual ? traffic({*residual}) : 0);
  return info;
}

bool all_aligned(std::initializer_list<const Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor* t) { return !t->defined() || TensorDesc(*t).aligned; });
}

}  // namespace dlprim::detail
