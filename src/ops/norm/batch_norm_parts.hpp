// What both directions of batch normalisation share: tensors of channels, and checks.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include <dlprim/activation.hpp>

#include "core/composed.hpp"

namespace dlprim::detail {

/// A [C] tensor.
TensorDesc channel_desc(const TensorDesc& x, const TensorDesc& y, bool aligned);
/// The same as [1, C, 1, ...], which broadcasts to the activations.
TensorDesc across_desc(const TensorDesc& x, const TensorDesc& channel);
/// A channel's tensor as [1, C, 1, ...].
Tensor across(const TensorDesc& x, const Tensor& channel);
/// Whether all that are defined start on 16-byte boundaries.
bool all_aligned(std::initializer_list<const Tensor*> tensors);
int64_t values_per_channel(const Shape& shape);

void check_activations(const char* x_name, const TensorDesc& x, const char* y_name, const TensorDesc& y,
                       Activation f);
void check_channels(const Stream& stream, const TensorDesc& channel, std::initializer_list<Named> channels);
std::optional<TensorDesc> if_wanted(bool wanted, const TensorDesc& desc);
/// `params`: what else the plan's text says.
PlanInfo batch_norm_info(const TensorDesc& x, const TensorDesc& y, const std::optional<TensorDesc>& residual,
                         Activation activation, const std::string& params);

}  // namespace dlprim::detail
