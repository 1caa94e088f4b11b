// What transformer layers of torch.nn call in inference instead of the operators that they are made of. Rows
// without their padding are nested tensors, which torch.nn.TransformerEncoder makes and no kernel here takes:
// a layer computes with the padding, and leaves it out again.
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/TensorOperators.h>

#include "structured.hpp"

namespace ocl {

namespace {

/// Of torch.nn's masks, true or not 0 where a key is not looked at: what broadcasts to [B, H, Lq, Lk], true
/// where it is.
at::Tensor kept_keys(const at::Tensor& mask, std::optional<int64_t> type) {
  const at::Tensor kept = mask.to(at::kBool).logical_not();
  if (type == 1) return kept.unsqueeze(1).unsqueeze(1);  // [B, Lk]
  TORCH_CHECK(type == 0 || type == 2, "attention: a mask of no known kind");
  return kept;  // [Lq, Lk], or whole
}

/// The output, and the weights if they are wanted.
std::tuple<at::Tensor, at::Tensor> multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t width, int64_t heads,
    const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& out_weight,
    const at::Tensor& out_bias, const std::optional<at::Tensor>& mask, bool need_weights, bool average,
    std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3 && heads > 0 && width % heads == 0 &&
                  query.size(2) == width,
              "attention of ", heads, " heads and width ", width, ": the query has sizes ", query.sizes());
  std::vector<at::Tensor> parts;
  if (key.is_same(query) && value.is_same(query)) {
    parts = at::linear(query, weight, bias).chunk(3, -1);
  } else {
    const std::array<const at::Tensor*, 3> inputs{&query, &key, &value};
    for (int64_t i = 0; i < 3; i++)
      parts.push_back(at::linear(*inputs[static_cast<size_t>(i)], weight.narrow(0, i * width, width),
                                 bias.narrow(0, i * width, width)));
  }
  for (at::Tensor& part : parts) part = part.unflatten(-1, {heads, width / heads}).transpose(1, 2);
  std::optional<at::Tensor> kept;
  if (mask && mask->defined()) kept = kept_keys(*mask, mask_type);
  at::Tensor output, weights;
  if (need_weights) {
    const at::Tensor scores =
        at::matmul(parts[0] / std::sqrt(static_cast<double>(width / heads)), parts[1].transpose(-1, -2));
    weights =
        at::softmax(kept ? at::where(*kept, scores, -std::numeric_limits<double>::infinity()) : scores, -1);
    output = at::matmul(weights, parts[2]);
    if (average) weights = weights.mean(1);
  } else {
    output = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], kept);
  }
  return {at::linear(output.transpose(1, 2).flatten(2), out_weight, out_bias), weights};
}

at::Tensor padded(const at::Tensor& nested, double value, at::OptionalSymIntArrayRef size) {
  if (!size) return at::native::NestedTensor_to_padded_tensor_generic(nested, value);
  return at::native::NestedTensor_to_padded_tensor_generic(nested, value, C10_AS_INTARRAYREF_SLOW(*size));
}

/// Of a nested tensor [B, L of each, D].
at::Tensor nested_encoder_layer(const at::Tensor& src, int64_t width, int64_t heads,
                                const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                                bool norm_first, double eps, const at::Tensor& norm_weight_1,
                                const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                                const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                                const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                                const at::Tensor& ffn_bias_2, const std::optional<at::Tensor>& mask,
                                std::optional<int64_t>) {
  TORCH_CHECK(!mask || !mask->defined(),
              "a layer of a transformer takes a mask or a nested tensor, not both");
  const at::Tensor sizes = at::native::get_nested_sizes(src);  // on the CPU, [B, 2]
  const at::Tensor dense = padded(src, 0, std::nullopt), lengths = sizes.select(1, 0).contiguous();
  const at::Tensor padding =
      at::arange(dense.size(1), lengths.options()).unsqueeze(0).ge(lengths.unsqueeze(1)).to(dense.device());
  const at::Tensor result = at::_transformer_encoder_layer_fwd(
      dense, width, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
      norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
      ffn_bias_2, padding, 1);
  return at::native::nested_from_padded_generic(result, sizes);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(_native_multi_head_attention, multi_head_attention)
  OCL_NATIVE(_transformer_encoder_layer_fwd, transformer_encoder_layer_forward)
  OCL_NATIVE(_nested_tensor_from_mask_left_aligned, NestedTensor_nested_tensor_from_mask_left_aligned)
  OCL_NATIVE(_nested_tensor_from_mask, NestedTensor_nested_tensor_from_mask)
  m.impl("_nested_from_padded",
         TORCH_FN(at::native::nested_from_padded_generic));  // its sizes are on the CPU
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("to_padded_tensor", TORCH_FN(padded));
  m.impl("_transformer_encoder_layer_fwd", TORCH_FN(nested_encoder_layer));
}

}  // namespace

}  // namespace ocl
