// Layer and RMS normalisation, forward: the row kernels, and an engine of generated kernels for every
// strides.
#include <dlprim/layer_norm.hpp>
#include <dlprim/pointwise.hpp>

#include "ops/norm/layer_norm_impl.hpp"
#include "ops/norm/norm_checks.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<LayerNormDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace detail {

Shape normalized_shape(const Shape& x, int axes) {
  require(axes >= 1 && axes <= x.size(), "axes", axes, " must lie in [1, ", x.size(), "], the rank of x");
  Shape shape;
  for (int i = x.size() - axes; i < x.size(); i++) shape.push_back(x[i]);
  return shape;
}

Shape statistics_shape(Shape x, int axes) {
  for (int i = x.size() - axes; i < x.size(); i++) x[i] = 1;
  return x;
}

}  // namespace detail

struct LayerNorm::Impl {
  NormPlan plan;
};

namespace {

/// A reduction and a pointwise step.
struct Generated : NormImpl {
  Reduce statistics;
  Pointwise normalize;
  NormProblem p;
  TensorDesc row;
  size_t mean_at = 0, inv_std_at = 0, scratch_at = 0, size = 0;

  Generated(Reduce s, Pointwise n) : statistics(std::move(s)), normalize(std::move(n)) {}
  size_t workspace_size() const override { return size; }

  void run(const Stream& stream, const NormTensors& t) const override {
    const auto wanted_or = [&](const Tensor& given, size_t at) {
      return p.statistics ? given : workspace_part(t.workspace, at, row.shape, row.dtype);
    };
    const Tensor inv_std = wanted_or(t.inv_std, inv_std_at);
    std::vector<Tensor> outputs = {inv_std}, inputs = {t.x, inv_std};
    if (p.center) {
      outputs.push_back(wanted_or(t.mean, mean_at));
      inputs.push_back(outputs.back());
    }
    if (element_count(row.shape) == 0) return;
    statistics.run(stream, {t.x}, outputs, scalars(), workspace_scratch(t.workspace, scratch_at, statistics));
    if (p.weight) inputs.push_back(t.weight);
    if (p.bias) inputs.push_back(t.bias);
    normalize.run(stream, inputs, {t.y}, {});
  }

  std::vector<Scalar> scalars() const {
    if (p.center) return {p.epsilon};
    return {p.epsilon, 1 / static_cast<double>(p.length)};
  }
};

std::unique_ptr<const NormImpl> make_generated(const Context& context, const NormProblem& p,
                                               const EngineOptions& options) {
  TensorDesc row(p.x.shape, p.real());
  row.shape = statistics_shape(p.x.shape, p.axes);
  row.strides = contiguous_strides(row.shape);
  if (p.statistics) row.aligned = false;  // the caller's may be views
  WorkspaceParts parts;
  const size_t bytes = p.statistics ? 0 : static_cast<size_t>(traffic({row}));
  const size_t mean_at = parts.add(p.center ? bytes : 0), inv_std_at = parts.add(bytes);

  std::vector<TensorDesc> outputs = {row}, inputs = {p.x, row};
  std::string body = "y0 = x0 * x1";
  if (p.center) {
    outputs.push_back(row);
    inputs.push_back(row);
    body = "y0 = (x0 - x2) * x1";
  }
  if (p.weight) {
    body += cat(" * x", inputs.size());
    inputs.push_back(*p.weight);
  }
  if (p.bias) {
    body += cat(" + x", inputs.size());
    inputs.push_back(*p.bias);
  }
  const Reduction reduction = p.center ? moments_of("x0", "y0 = 1 / sqrt(squares / count + s0); y1 = mean")
                                       : sum_of("x0 * x0", "y0 = 1 / sqrt(a0 * s1 + s0)");
  auto impl = std::make_unique<Generated>(
      Reduce(context, {p.x}, outputs, p.center ? 1 : 2, reduction, parts.rest(options)),
      Pointwise(context, inputs, {p.y}, 0, body));
  impl->p = p;
  impl->row = row;
  impl->mean_at = mean_at;
  impl->inv_std_at = inv_std_at;
  impl->scratch_at = parts.add(impl->statistics.workspace_size());
  impl->size = parts.size();
  return impl;
}

NormProblem check(const LayerNormDesc& d) {
  NormProblem p;
  p.x = d.x, p.y = d.y, p.weight = d.weight, p.bias = d.bias;
  p.epsilon = d.epsilon;
  const Shape normalized = normalized_shape(d.x.shape, d.axes);
  check_norm(p, normalized);
  p.center = !d.rms;
  p.statistics = d.statistics;
  p.axes = d.axes;
  p.length = element_count(normalized);
  p.rows = element_count(statistics_shape(d.x.shape, d.axes));
  const int split = d.x.shape.size() - d.axes;
  const auto x_row = row_distance(d.x, split), y_row = row_distance(d.y, split);
  if (!x_row || !y_row) p.no_rows = cat(x_row ? "y" : "x", " is not made of rows at equal distances");
  p.x_row = x_row.value_or(0), p.y_row = y_row.value_or(0);
  return p;
}

constexpr NormEngine kGenerated = {"generated", nullptr, make_generated};
constexpr EngineList<NormProblem, NormImpl> kEngines = {&kNormRows, &kNormCpu, &kGenerated};

}  // namespace

LayerNorm::LayerNorm(const Context& context, const LayerNormDesc& desc, const Options& options)
    : Plan(nullptr) {
  const NormProblem p = check(desc);
  auto engine = norm_plan(desc.rms ? "rms_norm" : "layer_norm", kEngines, context, p, options,
                          cat(" axes=", desc.axes, " statistics=", desc.statistics), info_);
  const Shape statistics = statistics_shape(desc.x.shape, desc.axes);
  impl_ = std::make_shared<const Impl>(Impl{{std::move(engine), p, statistics_desc(statistics, p.real())}});
}

void LayerNorm::run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                    const Tensor& workspace) const {
  impl_->plan.run(*info_, stream, {x, weight, bias, y, mean, inv_std, {}, workspace});
}

namespace {

void forward(const Stream& stream, const NormTensors& t, LayerNormDesc desc, const Options& options) {
  require_defined({{"x", t.x}, {"y", t.y}});
  desc.x = t.x, desc.y = t.y;
  desc.weight = described(t.weight), desc.bias = described(t.bias);
  desc.statistics = t.inv_std.defined();
  cached_plan<LayerNorm>(stream, "layer_norm", desc, options, t.workspace)
      ->run(stream, t.x, t.weight, t.bias, t.y, t.mean, t.inv_std, t.workspace);
}

}  // namespace

void layer_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias, int axes,
                double epsilon, const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                const Options& options, const Tensor& workspace) {
  require(mean.defined() == inv_std.defined(), mean.defined() ? "inv_std" : "mean",
          "is not defined, though the other statistic is");
  forward(stream, {x, weight, bias, y, mean, inv_std, {}, workspace},
          {{}, {}, {}, {}, axes, epsilon, false, false}, options);
}

void rms_norm(const Stream& stream, const Tensor& x, const Tensor& weight, int axes, double epsilon,
              const Tensor& y, const Tensor& inv_std, const Options& options, const Tensor& workspace) {
  forward(stream, {x, weight, {}, y, {}, inv_std, {}, workspace},
          {{}, {}, {}, {}, axes, epsilon, true, false}, options);
}

}  // namespace dlprim
