// Attention: softmax(scale q k^T + bias) v and its gradients, by products of matrices over parts of the
// scores. The backward pass computes the weights again from the scores, by softmax as the forward pass does:
// exp(score - logsumexp) would be as coarse as the scores, and those of masks are -1e9 or finfo.min.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <dlprim/dropout.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/softmax.hpp>

#include "attention.hpp"
#include "compute.hpp"
#include "hooks.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using dlprim::RandomState;
using dlprim::Tensor;

/// c = alpha a b + beta c
void multiply(Device& on, const Tensor& a, const Tensor& b, double alpha, double beta, const Tensor& c) {
  run_plan<dlprim::Gemm>(
      on, Key::of(a, b, c, Tensor(), alpha, beta),
      [&] {
        return dlprim::Gemm(on.context, dlprim::GemmDesc{a, b, c, alpha, beta});
      },
      [&](const dlprim::Gemm& plan, const dlprim::Stream& stream) { plan.run(stream, a, b, {}, c); });
}

/// The numbers 0, 1, ... to compare places of rows and columns with.
Tensor places_of(const Problem& p) {
  if (!p.causal) return {};
  const Tensor places = view(at::empty({std::max(p.queries, p.keys)}, p.scores.dtype(at::kInt)));
  run_plan<dlprim::Arange>(
      p.on, Key::of(places), [&] { return dlprim::Arange(p.on.context, {places}); },
      [&](const dlprim::Arange& plan, const dlprim::Stream& stream) { plan.run(stream, 0, 1, places); });
  return places;
}

/// s = scale q k^T + bias, and -infinity where keys come behind the query.
void make_scores(const Problem& p, const Part& part, const Tensor& q, const Tensor& k, const at::Tensor& bias,
                 const Tensor& places, const Tensor& s) {
  multiply(p.on, part.of_rows(q), part.of_keys(k).transpose(-1, -2), p.scale, 0, s);
  if (bias.defined()) compute(p.on, "y0 = x0 + x1", {s, view(part.of_bias(bias))}, {s});
  if (!p.causal || part.row >= part.keys) return;
  const Tensor behind = s.slice(4, part.row, part.keys);
  compute(p.on, "y0 = x1 > x2 ? -INFINITY : x0",
          {behind, places.slice(0, part.row, part.keys),
           places.slice(0, part.row, part.row + part.rows).reshape({part.rows, 1})},
          {behind});
}

}  // namespace

void drop(const Problem& p, const Part& part, RandomState state, const Tensor& x) {
  if (p.dropout == 0) return;
  state.offset += static_cast<uint64_t>(part.before);
  run_plan<dlprim::Dropout>(
      p.on, Key::of(x),
      [&] {
        return dlprim::Dropout(p.on.context, {x, x});
      },
      [&](const dlprim::Dropout& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, p.dropout, state, x);
      });
}

namespace {

void log_sum_exp(Device& on, const Tensor& x, const Tensor& y) {
  run_plan<dlprim::LogSumExp>(
      on, Key::of(x, y),
      [&] {
        return dlprim::LogSumExp(on.context, {x, y, -1});
      },
      [&](const dlprim::LogSumExp& plan, const dlprim::Stream& stream) { plan.run(stream, x, y); });
}

/// w = softmax(s); 0 in rows whose scores are all -infinity if `all` is given, which is one true.
void weigh(Device& on, const Tensor& s, const Tensor& all, const Tensor& w) {
  run_plan<dlprim::Softmax>(
      on, Key::of(s, all, w),
      [&] {
        return dlprim::Softmax(on.context, {s, w, -1, false, description(all)});
      },
      [&](const dlprim::Softmax& plan, const dlprim::Stream& stream) { plan.run(stream, s, all, w); });
}

/// y = sum(a b) along the last dimension
void sum_products(Device& on, const Tensor& a, const Tensor& b, const Tensor& y) {
  run_plan<dlprim::Reduce>(
      on, Key::of(a, b, y),
      [&] {
        return dlprim::Reduce(on.context, {a, b}, {y}, 0, dlprim::sum_of("x0 * x1"));
      },
      [&](const dlprim::Reduce& plan, const dlprim::Stream& stream) {
        plan.run(stream, {a, b}, {y}, {});
      });
}

/// Tells softmax that rows may have no key at all; undefined where they cannot.
Tensor one_true(const Problem& p, bool biased) {
  if (!biased) return {};
  return view(at::ones({1, 1, 1, 1, 1}, p.scores.dtype(at::kBool)));
}

/// A tensor of these sizes whose dimensions are in memory in the order of `like`'s, as PyTorch's meta
/// function of this operator has it.
at::Tensor ordered_as(const at::Tensor& like, at::IntArrayRef sizes) {
  if (like.sizes() == sizes) return at::empty_like(like);
  std::array<int64_t, 4> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return like.stride(a) > like.stride(b); });
  std::array<int64_t, 4> strides;
  int64_t stride = 1;
  for (size_t i = 4; i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = stride;
    stride *= sizes[static_cast<size_t>(order[i])];
  }
  return at::empty_strided(sizes, strides, like.options());
}

at::Tensor number(uint64_t value) {
  return at::scalar_tensor(static_cast<int64_t>(value), at::TensorOptions().dtype(at::kLong));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor,
           at::Tensor>
attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
          double dropout, bool causal, bool, std::optional<double> scale) {
  TORCH_CHECK(dropout >= 0 && dropout <= 1, "attention: the probability to drop is ", dropout);
  const bool biased = mask && mask->defined();
  TORCH_CHECK(!(biased && causal), "attention: either there is a mask or is_causal is set, not both");
  const Problem p(query, key, value, causal, dropout, scale);
  const at::Tensor out = ordered_as(query, {query.size(0), query.size(1), p.queries, value.size(3)});
  const at::Tensor sums = at::empty({query.size(0), query.size(1), p.queries}, p.scores.dtype(at::kFloat));
  RandomState state;
  if (dropout > 0)
    state = at::get_generator_or_default<Generator>(std::nullopt, default_generator(p.on.index))
                ->take(p.numbers());
  const auto result = [&] {
    return std::tuple(out, sums, at::Tensor(), at::Tensor(), c10::SymInt(p.queries), c10::SymInt(p.keys),
                      number(state.seed), number(state.offset), at::Tensor());
  };
  if (out.numel() == 0 || p.keys == 0) {
    sums.fill_(-std::numeric_limits<double>::infinity());
    out.zero_();
    return result();
  }
  const at::Tensor qs = query.contiguous(), ks = key.contiguous(), vs = value.contiguous(),
                   ys = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const Tensor q = p.of_queries(qs), k = p.of_keys(ks), v = p.of_keys(vs), y = p.of_queries(ys),
               lse = p.of_queries(sums.unsqueeze(-1)), places = places_of(p), all = one_true(p, biased);
  const at::Tensor bias = biased ? p.of_scores(*mask) : at::Tensor();
  const std::vector<Part> parts = parts_of(p);
  const Room scores(p, parts, p.scores.dtype().toScalarType()), weights(p, parts, p.type);
  for (const Part& part : parts) {
    const Tensor s = view(scores.of(part)), w = view(weights.of(part)), sum = part.of_rows(lse);
    make_scores(p, part, q, k, bias, places, s);
    log_sum_exp(p.on, s, sum);
    weigh(p.on, s, all, w);
    drop(p, part, state, w);
    multiply(p.on, w, part.of_keys(v), 1, 0, part.of_rows(y));
  }
  if (!ys.is_same(out)) out.copy_(ys);
  return result();
}

/// Gradients of a call. Those of keys, values and bias, to which several parts add, are summed up in the
/// scores' dtype.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, std::array<bool, 4> wanted, const at::Tensor& out, const at::Tensor& sums,
    const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, double dropout, bool causal,
    const at::Tensor& seed, const at::Tensor& offset, std::optional<double> scale) {
  if (!grad.defined()) return {};
  const Problem p(query, key, value, causal, dropout, scale);
  const bool biased = attn_bias.defined();
  wanted[3] = wanted[3] && biased;
  const auto like = [&](bool there, const at::Tensor& t, bool summed) {
    if (!there) return at::Tensor();
    return summed ? at::zeros(t.sizes(), p.scores) : at::empty(t.sizes(), t.options());
  };
  const at::Tensor dq = like(wanted[0], query, false), dk = like(wanted[1], key, true),
                   dv = like(wanted[2], value, true), dbias = like(wanted[3], attn_bias, true);
  const auto result = [&] {
    const auto of = [](const at::Tensor& d, const at::Tensor& t) {
      if (!d.defined()) return d;
      const at::Tensor like = at::empty_like(t);
      return like.dtype() == d.dtype() && like.strides() == d.strides() ? d : like.copy_(d);
    };
    return std::tuple(of(dq, query), of(dk, key), of(dv, value), of(dbias, attn_bias));
  };
  if (out.numel() == 0 || p.keys == 0) {
    if (wanted[0]) dq.zero_();
    return result();
  }
  RandomState state;
  if (dropout > 0)
    state = {static_cast<uint64_t>(seed.item<int64_t>()), static_cast<uint64_t>(offset.item<int64_t>())};
  const at::Tensor qs = query.contiguous(), ks = key.contiguous(), vs = value.contiguous(),
                   dys = grad.contiguous(), ys = out.contiguous(), dots = at::empty(sums.sizes(), p.scores);
  const Tensor q = p.of_queries(qs), k = p.of_keys(ks), v = p.of_keys(vs), dy = p.of_queries(dys),
               dot = p.of_queries(dots.unsqueeze(-1)), places = places_of(p), all = one_true(p, biased);
  sum_products(p.on, dy, p.of_queries(ys), dot);
  const at::Tensor bias = biased ? p.of_scores(attn_bias) : at::Tensor(),
                   bias_sum = dbias.defined() ? p.of_scores(dbias) : at::Tensor();
  const std::vector<Part> parts = parts_of(p);
  const at::ScalarType wide = p.scores.dtype().toScalarType();
  const Room scores(p, parts, wide), slopes(p, parts, wide), weights(p, parts, p.type),
      gradients(p, parts, p.type);
  for (const Part& part : parts) {
    const at::Tensor part_gradients = gradients.of(part);
    const Tensor s = view(scores.of(part)), dw = view(slopes.of(part)), w = view(weights.of(part)),
                 ds = view(part_gradients), part_dy = part.of_rows(dy), part_q = part.of_rows(q);
    make_scores(p, part, q, k, bias, places, s);
    multiply(p.on, part_dy, part.of_keys(v).transpose(-1, -2), 1, 0, dw);
    drop(p, part, state, dw);
    weigh(p.on, s, all, s);
    compute(p.on, "y0 = x0; y1 = x0 * (x1 - x2)", {s, dw, part.of_rows(dot)}, {w, ds});
    drop(p, part, state, w);
    if (wanted[0]) multiply(p.on, ds, part.of_keys(k), p.scale, 0, part.of_rows(p.of_queries(dq)));
    for (int64_t g = 0; g < p.group; g++) {
      const auto of_head = [g](const Tensor& t) { return t.slice(2, g, g + 1); };
      const auto transposed = [&](const Tensor& t) { return of_head(t).transpose(-1, -2); };
      if (wanted[1])
        multiply(p.on, transposed(ds), of_head(part_q), p.scale, 1, part.of_keys(p.of_keys(dk, false)));
      if (wanted[2])
        multiply(p.on, transposed(w), of_head(part_dy), 1, 1, part.of_keys(p.of_keys(dv, false)));
    }
    if (wanted[3]) {
      const at::Tensor sum = part.of_bias(bias_sum);
      std::vector<int64_t> stretched;
      for (int64_t i = 0; i < 5; i++)
        if (sum.size(i) != part_gradients.size(i)) stretched.push_back(i);
      sum.add_(stretched.empty() ? part_gradients : part_gradients.sum(stretched, true, wide));
    }
  }
  return result();
}

/// What scaled_dot_product_attention takes of its own operators.
int64_t choice(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
               double, bool, std::optional<double>, bool grouped) {
  const auto plain = [&](const at::Tensor& t) {
    return !t.is_nested() && t.dim() == 4 && t.is_floating_point() && t.device() == q.device() &&
           t.scalar_type() == q.scalar_type() && t.numel() != 0 && serves(t);
  };
  const auto fit = [&] {
    return q.size(0) == k.size(0) && k.size(0) == v.size(0) && k.size(1) == v.size(1) &&
           q.size(3) == k.size(3) && k.size(2) == v.size(2) &&
           (q.size(1) == k.size(1) || k.size(1) == 1 || (grouped && q.size(1) % k.size(1) == 0));
  };
  const auto mask_fits = [&] {
    return !mask || !mask->defined() ||
           (mask->dim() <= 4 && serves(*mask) &&
            at::is_expandable_to(mask->sizes(), {q.size(0), q.size(1), q.size(2), k.size(2)}));
  };
  const bool own = at::globalContext().userEnabledOverrideableSDP() && plain(q) && plain(k) && plain(v) &&
                   fit() && mask_fits();
  return static_cast<int64_t>(own ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(_scaled_dot_product_fused_attention_overrideable, attention)
  OCL_FUNCTION(_scaled_dot_product_fused_attention_overrideable_backward, attention_backward)
}

}  // namespace

}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ocl::choice)

}  // namespace at::native
