// The sizes of a call of attention, and the parts that its scores are made in: of no part do they take more
// than kPartBytes, so that long sequences need no memory that grows with the square of their length.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include <ATen/Functions.h>
#include <dlprim/random.hpp>

#include "tensor.hpp"

namespace ocl {

inline constexpr int64_t kPartBytes = int64_t{64} << 20;
inline constexpr int64_t kPartRows = 512;

/// Tensors of it have five dimensions: batch, heads of keys, heads of queries for each of them, rows,
/// columns.
struct Problem {
  Problem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal_, double dropout_,
          std::optional<double> scale_)
      : on(home_of(q)),
        batch(q.size(0)),
        heads(k.size(1)),
        group(q.size(1) / k.size(1)),
        queries(q.size(2)),
        keys(k.size(2)),
        causal(causal_),
        dropout(dropout_),
        scale(scale_.value_or(1 / std::sqrt(static_cast<double>(q.size(3))))),
        type(q.scalar_type()),
        scores(q.options().dtype(type == at::kDouble ? at::kDouble : at::kFloat)) {
    TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(0) == k.size(0) &&
                    k.size(0) == v.size(0) && k.size(1) == v.size(1) && q.size(1) % k.size(1) == 0 &&
                    q.size(3) == k.size(3) && k.size(2) == v.size(2),
                "attention: queries of sizes ", q.sizes(), ", keys of ", k.sizes(), " and values of ",
                v.sizes(), " do not fit");
  }

  Device& on;
  const int64_t batch, heads, group, queries, keys;
  const bool causal;
  const double dropout, scale;
  const at::ScalarType type;
  const at::TensorOptions scores;

  /// [B, Hq, L, D] without gaps.
  dlprim::Tensor of_queries(const at::Tensor& t) const {
    return view(t).reshape({batch, heads, group, t.size(2), t.size(3)});
  }
  /// [B, Hk, L, D] without gaps, the same for each head of queries, or as it is.
  dlprim::Tensor of_keys(const at::Tensor& t, bool for_each = true) const {
    const dlprim::Tensor one = view(t).reshape({batch, heads, 1, t.size(2), t.size(3)});
    return for_each ? one.expand({batch, heads, group, t.size(2), t.size(3)}) : one;
  }
  /// What broadcasts to [B, Hq, Lq, Lk], with sizes of 1 where it does.
  at::Tensor of_scores(const at::Tensor& bias) const {
    at::Tensor b = bias;
    while (b.dim() < 4) b = b.unsqueeze(0);
    return b.size(1) == 1 ? b.unsqueeze(2) : b.unflatten(1, {heads, group});
  }
  int64_t numbers() const { return batch * heads * group * queries * keys; }
};

/// Some batches, or some heads of one, some rows, and the keys that these see.
struct Part {
  int64_t batch, batches, head, heads, row, rows, keys;
  int64_t before;  ///< elements of the parts in front of it

  dlprim::Shape shape(const Problem& p) const { return {batches, heads, p.group, rows, keys}; }
  int64_t numel(const Problem& p) const { return batches * heads * p.group * rows * keys; }
  dlprim::Tensor in_heads(const dlprim::Tensor& t) const {
    return t.slice(0, batch, batch + batches).slice(1, head, head + heads);
  }
  dlprim::Tensor of_rows(const dlprim::Tensor& t) const { return in_heads(t).slice(3, row, row + rows); }
  dlprim::Tensor of_keys(const dlprim::Tensor& t) const { return in_heads(t).slice(3, 0, keys); }
  /// Of a bias, or its gradient: dimensions of size 1 stay.
  at::Tensor of_bias(const at::Tensor& t) const {
    const std::array<std::pair<int64_t, int64_t>, 5> ranges{
        {{batch, batches}, {head, heads}, {0, t.size(2)}, {row, rows}, {0, keys}}};
    at::Tensor part = t;
    for (size_t i = 0; i < ranges.size(); i++)
      if (const auto dim = static_cast<int64_t>(i); t.size(dim) != 1)
        part = part.narrow(dim, ranges[i].first, ranges[i].second);
    return part;
  }
};

/// The same parts each time: random numbers are counted along them.
inline std::vector<Part> parts_of(const Problem& p) {
  const int64_t most = kPartBytes / static_cast<int64_t>(p.scores.dtype().itemsize()) / p.keys;  // rows
  const int64_t rows = std::clamp<int64_t>(most / p.group, 1, std::min(p.queries, kPartRows));
  const int64_t heads = std::clamp<int64_t>(most / (p.group * rows), 1, p.heads);
  const int64_t batches =
      heads < p.heads ? 1 : std::clamp<int64_t>(most / (p.group * rows * heads), 1, p.batch);
  std::vector<Part> parts;
  int64_t before = 0;
  for (int64_t b = 0; b < p.batch; b += batches)
    for (int64_t h = 0; h < p.heads; h += heads)
      for (int64_t r = 0; r < p.queries; r += rows) {
        const int64_t end = std::min(r + rows, p.queries);
        parts.push_back({b, std::min(batches, p.batch - b), h, std::min(heads, p.heads - h), r, end - r,
                         p.causal ? std::min(end, p.keys) : p.keys, before});
        before += parts.back().numel(p);
      }
  return parts;
}

/// Dropout of a part's weights or of their gradients, in place.
void drop(const Problem& p, const Part& part, dlprim::RandomState state, const dlprim::Tensor& x);

/// Memory for a matrix of each part in turn.
class Room {
 public:
  Room(const Problem& p, const std::vector<Part>& parts, at::ScalarType type) : problem_(p) {
    int64_t most = 0;
    for (const Part& part : parts) most = std::max(most, part.numel(p));
    memory_ = at::empty({most}, p.scores.dtype(type));
  }
  at::Tensor of(const Part& part) const {
    return memory_.narrow(0, 0, part.numel(problem_))
        .view({part.batches, part.heads, problem_.group, part.rows, part.keys});
  }

 private:
  const Problem& problem_;
  at::Tensor memory_;
};

}  // namespace ocl
