// The engine of layer normalisation backward for every strides, by generated kernels: sums of each row, then
// dx; sums of columns.
#include <algorithm>

#include "ops/norm/layer_norm_backward_impl.hpp"

namespace dlprim::detail {

extern const LayerNormBackwardEngine kLayerNormBackwardGenerated;

namespace {

struct Generated : LayerNormBackwardImpl {
  std::optional<Reduce> sums;
  std::optional<Pointwise> finish;
  std::optional<LayerNormColumns> columns;
  TensorDesc row;
  bool center = true, weight = false;
  double share = 0;
  size_t level_at = 0, slope_at = 0, scratch_at = 0, size = 0;

  size_t workspace_size() const override { return size; }
  void run(const Stream& stream, const NormGradientTensors& t) const override {
    if (columns) columns->run(stream, t, 0, scratch_at, row.dtype);  // before dx, which may take dy's place
    if (!finish || t.dx.numel() == 0) return;
    const Tensor level = center ? workspace_part(t.workspace, level_at, row.shape, row.dtype) : Tensor();
    const Tensor slope = workspace_part(t.workspace, slope_at, row.shape, row.dtype);
    std::vector<Tensor> inputs = {t.dy, t.x, t.inv_std}, outputs = {slope};
    if (center) inputs.push_back(t.mean), outputs.push_back(level);
    if (weight) inputs.push_back(t.weight);
    sums->run(stream, inputs, outputs, {share}, workspace_scratch(t.workspace, scratch_at, *sums));
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    finish->run(stream, inputs, {t.dx}, {});
  }
};

std::unique_ptr<const LayerNormBackwardImpl> make_generated(const Context& context,
                                                            const LayerNormGradients& p,
                                                            const EngineOptions& options) {
  auto impl = std::make_unique<Generated>();
  impl->row = p.statistics;
  impl->center = p.center;
  impl->weight = p.weight.has_value();
  impl->share = 1 / static_cast<double>(std::max<int64_t>(p.length, 1));
  WorkspaceParts parts;
  if (p.dx) {
    const auto bytes = static_cast<size_t>(traffic({p.statistics}));
    impl->slope_at = parts.add(bytes), impl->level_at = parts.add(p.center ? bytes : 0);
  }
  const Options rest = parts.rest(options);
  size_t scratch = 0;
  if (p.columns()) {
    impl->columns.emplace(context, p, rest);
    scratch = impl->columns->workspace_size();
  }
  if (p.dx) {
    NamedInputs in;
    std::string g = in.add(p.dy), normal = in.add(p.x);
    const std::string inv_std = in.add(p.statistics);
    if (p.center) normal = cat("(", normal, " - ", in.add(p.statistics), ")");
    normal = cat("(", normal, " * ", inv_std, ")");
    if (p.weight) g = cat("(", g, " * ", in.add(*p.weight), ")");
    Reduction sums;
    sums.accumulators = p.center ? 2 : 1;
    sums.init = "a0 = 0", sums.combine = "a0 += b0", sums.finish = "y0 = s0 * a0";
    sums.accumulate = cat("a0 += ", g, " * ", normal);
    std::vector<TensorDesc> outputs = {TensorDesc(p.statistics.shape, p.real())};
    if (p.center) {
      sums.init += "; a1 = 0", sums.combine += "; a1 += b1", sums.finish += "; y1 = s0 * a1";
      sums.accumulate += cat("; a1 += ", g);
      outputs.push_back(outputs[0]);
    }
    impl->sums.emplace(context, in.descs, outputs, 1, sums, rest);
    scratch = std::max(scratch, impl->sums->workspace_size());
    const std::string slope = in.add(outputs[0]), level = p.center ? " - " + in.add(outputs[0]) : "";
    impl->finish.emplace(context, in.descs, std::vector<TensorDesc>{*p.dx}, 0,
                         cat("y0 = ", inv_std, " * (", g, level, " - ", normal, " * ", slope, ")"));
  }
  impl->scratch_at = parts.add(scratch);
  impl->size = parts.size();
  return impl;
}

}  // namespace

const LayerNormBackwardEngine kLayerNormBackwardGenerated = {"generated", nullptr, make_generated};

}  // namespace dlprim::detail
