// The gradients of attention as a composition that autograd differentiates once more: PyTorch has no
// derivative of the fused operator's backward pass. It is computed so only where a graph of the gradients is
// asked for.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable_backward_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "attention.hpp"

namespace ocl {

namespace {

using Backward = at::_ops::_scaled_dot_product_fused_attention_overrideable_backward;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// The factors of the weights in the forward pass, [B, Hk, G, Lq, Lk].
at::Tensor dropout_mask(const Problem& p, dlprim::RandomState state) {
  const at::NoGradGuard no_grad;
  const at::Tensor mask = at::zeros({p.batch, p.heads, p.group, p.queries, p.keys}, p.scores.dtype(p.type));
  const std::vector<Part> parts = parts_of(p);
  const Room room(p, parts, p.type);
  for (const Part& part : parts) {
    const at::Tensor ones = room.of(part).fill_(1);
    drop(p, part, state, view(ones));
    part.of_bias(mask).copy_(ones);
  }
  return mask.to(p.scores.dtype());
}

Gradients composed(const Problem& p, const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                   const at::Tensor& value, const at::Tensor& bias, std::array<bool, 4> wanted,
                   const at::Tensor& dropped) {
  const auto wide = [&](const at::Tensor& t) { return t.to(p.scores.dtype()); };
  const auto of_queries = [&](const at::Tensor& t) { return wide(t).unflatten(1, {p.heads, p.group}); };
  const at::Tensor q = of_queries(query), k = wide(key).unsqueeze(2), v = wide(value).unsqueeze(2),
                   dy = of_queries(grad);
  at::Tensor s = at::matmul(q, k.transpose(-1, -2)) * p.scale;
  if (bias.defined()) s = s + wide(p.of_scores(bias));
  if (p.causal) {
    const at::Tensor seen = at::ones({p.queries, p.keys}, p.scores.dtype(at::kBool)).tril();
    s = s.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  }
  const at::Tensor none = s.detach().eq(-std::numeric_limits<double>::infinity()).all(-1, true);
  const at::Tensor w = at::softmax(s.masked_fill(none, 0), -1).masked_fill(none, 0);
  const auto drop = [&](const at::Tensor& t) { return dropped.defined() ? t * dropped : t; };
  const at::Tensor dw = drop(at::matmul(dy, v.transpose(-1, -2)));
  const at::Tensor ds = w * (dw - (dw * w).sum(-1, true));
  Gradients result;
  if (wanted[0]) std::get<0>(result) = (at::matmul(ds, k) * p.scale).flatten(1, 2).to(query.scalar_type());
  if (wanted[1])
    std::get<1>(result) = (at::matmul(ds.transpose(-1, -2), q) * p.scale).sum(2).to(key.scalar_type());
  if (wanted[2])
    std::get<2>(result) = at::matmul(drop(w).transpose(-1, -2), dy).sum(2).to(value.scalar_type());
  if (wanted[3] && bias.defined())
    std::get<3>(result) = ds.flatten(1, 2).sum_to_size(bias.sizes()).to(bias.scalar_type());
  return result;
}

Gradients backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                   const at::Tensor& value, const at::Tensor& bias, std::array<bool, 4> wanted,
                   const at::Tensor& out, const at::Tensor& sums, const at::Tensor& queries_from,
                   const at::Tensor& keys_from, c10::SymInt most_queries, c10::SymInt most_keys,
                   double dropout, bool causal, const at::Tensor& seed, const at::Tensor& offset,
                   std::optional<double> scale) {
  const auto differentiable = [](const at::Tensor& t) { return t.defined() && t.requires_grad(); };
  const bool twice = at::GradMode::is_enabled() && grad.defined() &&
                     (differentiable(grad) || differentiable(query) || differentiable(key) ||
                      differentiable(value) || differentiable(bias));
  if (!twice) {
    const at::AutoDispatchBelowAutograd below;
    return Backward::call(grad, query, key, value, bias, wanted, out, sums, queries_from, keys_from,
                          std::move(most_queries), std::move(most_keys), dropout, causal, seed, offset,
                          scale);
  }
  const Problem p(query, key, value, causal, dropout, scale);
  at::Tensor mask;
  if (dropout > 0)
    mask = dropout_mask(
        p, {static_cast<uint64_t>(seed.item<int64_t>()), static_cast<uint64_t>(offset.item<int64_t>())});
  return composed(p, grad, query, key, value, bias, wanted, mask);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(backward));
}

}  // namespace

}  // namespace ocl
