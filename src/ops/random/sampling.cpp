// Permutations and multinomial samples: sampling.cl's kernels one after the other.
#include <dlprim/sampling.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/random/random_fill.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<RandomPermutationDesc> = 1;
template <>
inline constexpr int kFields<MultinomialDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

constexpr int64_t kMostRanked = 1024;
/// More samples than this are sorted out, at some 2 log^2(C) passes; fewer cost a pass each.
constexpr int64_t kMostPicked = 32;

void require_indices(const char* name, const TensorDesc& y) {
  require(y.dtype == DType::i32 || y.dtype == DType::i64, name, "dtype ", name_of(y.dtype),
          " must be i32 or i64");
  require_writable(name, y);
}

int group_of(const Context& context) {
  return context.device().kind() == DeviceKind::cpu ? 1 : 256;
}

Kernel kernel_of(const Context& context, const char* name, DType w, DType y) {
  Defines defines;
  define_type(defines, "W", w);
  define_type(defines, "Y", y);
  defines.set("LOCAL", group_of(context));
  return context.state().programs.kernel("sampling", name, defines);
}

void run_items(Launch& launch, int64_t items) {
  launch.run({items_in_groups(items, 64)}, {64});
}

}  // namespace

struct RandomPermutation::Impl {
  Kernel first, second;  ///< without a second one, the first is all
  int count = 0;
};

RandomPermutation::RandomPermutation(const Context& context, const RandomPermutationDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  require_rank("y", desc.y, 1);
  require_indices("y", desc.y);
  Impl impl;
  impl.count = to_int("y", desc.y.shape[0]);
  const bool ranked = impl.count <= kMostRanked;
  PlanInfo info;
  info.text = cat("y=", brief(desc.y));
  info.bytes = traffic({desc.y});
  if (ranked) info.workspace = static_cast<size_t>(impl.count) * sizeof(uint64_t);
  info_ = single_engine("random_permutation", "direct", "", context, options, std::move(info));
  const auto kernel = [&](const char* name) { return kernel_of(context, name, DType::f32, desc.y.dtype); };
  impl.first = kernel(ranked ? "rank_keys" : "permute_by_key");
  if (ranked) impl.second = kernel("permute_by_rank");
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

void RandomPermutation::run(const Stream& stream, const RandomState& state, const Tensor& y,
                            const Tensor& workspace) const {
  const int n = impl_->count;
  require_stream(*info_, stream);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"workspace", workspace}}, {{"y", y}});
  check_state(state, n);
  const Tensor space = workspace_for(*info_, stream, workspace);
  if (n == 0) return;
  const int64_t step = y.strides()[0];
  const OperatorScope scope(stream, *info_);
  Launch first(stream, impl_->first);
  if (n <= kMostRanked) {
    const Tensor keys = workspace_part(space, 0, {n}, DType::i64);
    first.arg(keys).arg(n).arg(state);
    run_items(first, n);
    Launch second(stream, impl_->second);
    second.arg(keys).arg(n).arg(y).arg(step);
    return run_items(second, n);
  }
  int bits = 0;
  while (int64_t{1} << bits < n) bits++;
  first.arg(y).arg(step).arg(static_cast<uint32_t>(n)).arg(bits / 2).arg(bits - bits / 2);
  first.arg(state);
  run_items(first, ceil_div(n, 8));
}

void random_permutation(const Stream& stream, const RandomState& state, const Tensor& y,
                        const Options& options, const Tensor& workspace) {
  require_defined({{"y", y}});
  const RandomPermutationDesc desc{y};
  cached_plan<RandomPermutation>(stream, "random_permutation", desc, options, workspace)
      ->run(stream, state, y, workspace);
}

struct Multinomial::Impl {
  Kernel first, second, third;
  int64_t rows = 1, columns = 1, samples = 1, width = 1;
  bool sorts = false;
};

namespace {

/// [N, ...] for both ranks.
TensorDesc as_rows(TensorDesc desc) {
  if (desc.shape.size() == 2) return desc;
  return TensorDesc({1, desc.shape[0]}, {0, desc.strides[0]}, desc.dtype, desc.aligned);
}

void check(const Context& context, const MultinomialDesc& d) {
  require_floating("w", d.w, true);
  require_real(context, d.w.dtype);
  const int rank = static_cast<int>(d.w.shape.size());
  require(rank == 1 || rank == 2, "w", "rank ", rank, " must be 1 or 2");
  require_rank("y", d.y, rank);
  require_indices("y", d.y);
  const TensorDesc w = as_rows(d.w), y = as_rows(d.y);
  require(w.shape[0] == y.shape[0], "y", y.shape[0], " rows, w has ", w.shape[0]);
  require(w.shape[1] >= 1, "w", "has no columns");
  to_int("w", w.shape[1]);
  to_int("y", y.shape[1]);
  require(d.replacement || y.shape[1] <= w.shape[1], "y", y.shape[1],
          " samples without replacement, there are ", w.shape[1], " columns");
}

}  // namespace

Multinomial::Multinomial(const Context& context, const MultinomialDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(context, desc);
  const TensorDesc w = as_rows(desc.w), y = as_rows(desc.y);
  Impl impl;
  impl.rows = w.shape[0];
  impl.columns = impl.width = w.shape[1];
  impl.samples = y.shape[1];
  impl.sorts = !desc.replacement && impl.samples > kMostPicked;
  if (impl.sorts)
    for (impl.width = 1; impl.width < impl.columns;) impl.width *= 2;
  const auto kernel = [&](const char* name) { return kernel_of(context, name, desc.w.dtype, desc.y.dtype); };
  impl.first = kernel(desc.replacement ? "running_sums" : "race_keys");
  impl.second = kernel(desc.replacement ? "draw_by_sums" : impl.sorts ? "take_sorted" : "pick_largest");
  if (impl.sorts) impl.third = kernel("sort_step");
  PlanInfo info;
  info.text = cat("w=", brief(desc.w), " y=", brief(desc.y), " replacement=", desc.replacement ? 1 : 0);
  info.bytes = traffic({desc.w, desc.y});
  info.workspace = static_cast<size_t>(impl.rows * impl.width) * sizeof(uint64_t);
  info_ = single_engine("multinomial", "direct", workspace_refusal(info.workspace, options), context, options,
                        std::move(info));
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

void Multinomial::run(const Stream& stream, const Tensor& w, const RandomState& state, const Tensor& y,
                      const Tensor& workspace) const {
  const Impl& p = *impl_;
  require_stream(*info_, stream);
  require_tensor("w", w, stream.context(), desc_.w);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"w", w}});
  check_state(state, desc_.replacement ? y.numel() : w.numel());
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor keys = workspace_part(space, 0, {p.rows * p.width}, DType::i64);
  const OperatorScope scope(stream, *info_);
  const Strides ws = as_rows(w).strides, ys = as_rows(y).strides;
  const int columns = static_cast<int>(p.columns), samples = static_cast<int>(p.samples);
  const auto group = static_cast<size_t>(group_of(stream.context()));
  const size_t all_rows = static_cast<size_t>(p.rows) * group;
  Launch first(stream, p.first), second(stream, p.second);
  first.arg(w).arg(ws[0]).arg(ws[1]).arg(columns);
  if (desc_.replacement) {
    int bits = 62;  // so many that the sum of a row stays below 2^62
    while (int64_t{1} << (62 - bits) < p.columns) bits--;
    first.arg(bits).arg(keys).run({all_rows}, {group});
    second.arg(keys).arg(columns).arg(y).arg(ys[0]).arg(ys[1]).arg(samples).arg(y.numel());
    second.arg(state);
    return run_items(second, y.numel());
  }
  first.arg(p.width).arg(keys.numel()).arg(keys).arg(state);
  run_items(first, keys.numel());
  if (!p.sorts) {
    second.arg(keys).arg(static_cast<int>(p.width)).arg(y).arg(ys[0]).arg(ys[1]).arg(samples);
    return second.run({all_rows}, {group});
  }
  for (int64_t run = 2; run <= p.width; run *= 2)
    for (int64_t distance = run / 2; distance > 0; distance /= 2) {
      Launch step(stream, p.third);
      step.arg(keys).arg(keys.numel() / 2).arg(run).arg(distance).arg(p.width);
      run_items(step, keys.numel() / 2);
    }
  second.arg(keys).arg(p.width).arg(y).arg(ys[0]).arg(ys[1]).arg(samples).arg(y.numel());
  run_items(second, y.numel());
}

void multinomial(const Stream& stream, const Tensor& w, bool replacement, const RandomState& state,
                 const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"w", w}, {"y", y}});
  const MultinomialDesc desc{w, y, replacement};
  cached_plan<Multinomial>(stream, "multinomial", desc, options, workspace)
      ->run(stream, w, state, y, workspace);
}

}  // namespace dlprim
