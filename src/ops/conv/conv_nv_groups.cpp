#include "ops/conv/conv_nv_groups.hpp"

#include <vector>

#include <dlprim/pointwise.hpp>

#include "core/constants.hpp"
#include "ops/conv/conv_inner.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kBlockBytes = 128;
constexpr int kMostTogether = 16;  ///< so many times as much is multiplied

bool is_filter(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_filter;
}

/// How many groups become one; 1 if none do.
int together(const ConvProblem& p) {
  if (p.groups == 1 || p.group_c() <= 1 || p.group_k() <= 1) return 1;
  const int channels = p.direction == ConvDirection::backward_data ? p.group_k() : p.group_c();
  const auto block = static_cast<int>(kBlockBytes / static_cast<int64_t>(size_of(p.dtype)));
  for (int count = 1; count <= kMostTogether && count <= p.groups; count++) {
    const bool whole = is_filter(p) ? count * channels >= block : count * channels % block == 0;
    if (p.groups % count == 0 && (whole || count == p.groups)) return count;
  }
  return 1;
}

/// w and the diagonal of the new w, element by element: [new group, group in it, filter, channel, taps...].
struct Diagonal {
  Diagonal(const ConvProblem& p, const ConvProblem& merged) {
    const int64_t count = p.groups / merged.groups, k = p.group_k();
    const Spatial& taps = p.w_space;
    shape = {merged.groups, count, k, p.group_c(), taps[0], taps[1], taps[2]};
    const auto strides = [&](const ConvStrides& w, int64_t between) {
      return Strides{count * k * w[0], k * w[0] + between, w[0], w[1], w[2], w[3], w[4]};
    };
    of_w = strides(p.w, 0);
    of_merged = strides(merged.w, p.group_c());
  }
  Shape shape;
  Strides of_w, of_merged;
};

class Groups : public ConvImpl {
 public:
  Groups(const Context& context, const ConvProblem& p, const EngineOptions& options, MakeConv make)
      : p_(p), merged_(*conv_nv_groups(p, options)), diagonal_(p_, merged_) {
    const DType dtype = is_filter(p) ? p.result_dtype : p.dtype;
    if (!kept()) w_at_ = parts_.add(static_cast<size_t>(merged_.w_extent) * size_of(dtype));
    inner_.emplace(context, merged_, options, make, parts_);
    const TensorDesc given(diagonal_.shape, diagonal_.of_w, dtype, p.w_aligned),
        merged(diagonal_.shape, diagonal_.of_merged, dtype, true);
    copied_.emplace(context, std::vector<TensorDesc>{is_filter(p) ? merged : given},
                    std::vector<TensorDesc>{is_filter(p) ? given : merged}, 0, "y0 = x0");
    if (kept()) {
      PlanKey form("conv_nv_groups");
      form.add(given).add(merged).add(merged_.w_extent);
      constants_ = Constants(context, form);
    }
    if (!is_filter(p))
      zeros_.emplace(context, std::vector<TensorDesc>{},
                     std::vector<TensorDesc>{{Shape{merged_.w_extent}, dtype}}, 0, "y0 = 0");
  }

  size_t workspace_size() const override { return parts_.size(); }
  void forget_constants() const override {
    constants_.forget();
    inner_->forget_constants();
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Shape size{merged_.w_extent};
    const Tensor given = t.w.as_strided(diagonal_.shape, diagonal_.of_w);
    const auto diagonal = [&](const Tensor& w) { return w.as_strided(diagonal_.shape, diagonal_.of_merged); };
    if (is_filter(p_)) {
      const Tensor w = workspace_part(workspace, w_at_, size, p_.result_dtype);
      inner_->run(stream, {t.x, whole(w), t.y, t.with}, workspace);
      copied_->run(stream, {diagonal(w)}, {given}, {});
      return;
    }
    const Tensor room = kept() ? Tensor() : workspace_part(workspace, w_at_, size, p_.dtype);
    const Tensor w = constants_.filled(stream, t.w, room, size, p_.dtype, [&](const Tensor& to) {
      zeros_->run(stream, {}, {to}, {});
      copied_->run(stream, {given}, {diagonal(to)}, {});
    });
    inner_->run(stream, {t.x, whole(w), t.y, t.with}, workspace);
  }

 private:
  bool kept() const { return p_.constant_w && !is_filter(p_); }
  Tensor whole(const Tensor& w) const {
    const Spatial& taps = p_.w_space;
    const ConvStrides& s = merged_.w;
    return w.as_strided({p_.k, merged_.group_c(), taps[0], taps[1], taps[2]}, {s[0], s[1], s[2], s[3], s[4]});
  }

  const ConvProblem p_, merged_;
  const Diagonal diagonal_;
  WorkspaceParts parts_;
  std::optional<ConvInner> inner_;
  std::optional<Pointwise> copied_, zeros_;
  size_t w_at_ = 0;
  Constants constants_;
};

}  // namespace

std::optional<ConvProblem> conv_nv_groups(const ConvProblem& p, const Options&) {
  const int count = together(p);
  if (count == 1) return {};
  ConvProblem merged = p;
  merged.groups = p.groups / count;
  const int64_t channels = merged.group_c(), row = channels * p.w_space[2], plane = row * p.w_space[1];
  merged.w = {plane * p.w_space[0], 1, plane, row, channels};
  merged.w_extent = merged.w[0] * p.k;
  merged.w_aligned = true, merged.w_row_major = false;
  return merged;
}

std::unique_ptr<const ConvImpl> make_conv_nv_groups(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options, MakeConv make) {
  return std::make_unique<Groups>(context, problem, options, make);
}

}  // namespace dlprim::detail
