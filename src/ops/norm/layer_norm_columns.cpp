// Sums of columns of layer normalisation backward, by a generated reduction.
#include "ops/norm/layer_norm_backward_impl.hpp"

namespace dlprim::detail {

LayerNormColumns::LayerNormColumns(const Context& context, const LayerNormGradients& p,
                                   const Options& options) {
  NamedInputs in;
  const std::string dy = in.add(p.dy);
  std::vector<std::string> terms;
  if (p.dweight) {
    x_ = true, center_ = p.center;
    const std::string x = in.add(p.x), inv_std = in.add(p.statistics);
    const std::string apart = center_ ? cat("(", x, " - ", in.add(p.statistics), ")") : x;
    terms.push_back(cat(dy, " * (", apart, " * ", inv_std, ")"));
  }
  if (p.dbias) terms.push_back(dy);
  make(context, p, in.descs, terms, options);
}

LayerNormColumns::LayerNormColumns(const Context& context, const LayerNormGradients& p, int64_t parts,
                                   const Options& options)
    : parts_(parts) {
  if (parts > 1) part_.push_back(parts);
  for (int64_t size : p.normalized) part_.push_back(size);
  const int kinds = (p.dweight ? 1 : 0) + (p.dbias ? 1 : 0);
  std::vector<TensorDesc> inputs(static_cast<size_t>(kinds), TensorDesc(part_, p.real()));
  for (TensorDesc& part : inputs) part.aligned = false;
  std::vector<std::string> terms = {"x0", "x1"};
  terms.resize(inputs.size());
  make(context, p, inputs, terms, options);
}

void LayerNormColumns::run(const Stream& stream, const NormGradientTensors& t, size_t sums_at,
                           size_t scratch_at, DType real) const {
  std::vector<Tensor> inputs, outputs;
  for (const Tensor* w : {&t.dweight, &t.dbias})
    if (w->defined()) outputs.push_back(*w);
  if (outputs[0].numel() == 0) return;
  if (parts_ > 0) {
    const size_t bytes = static_cast<size_t>(element_count(part_)) * size_of(real);
    for (size_t i = 0; i < outputs.size(); i++)
      inputs.push_back(workspace_part(t.workspace, sums_at + i * bytes, part_, real));
  } else {
    inputs = {t.dy};
    if (x_) inputs.insert(inputs.end(), {t.x, t.inv_std});
    if (center_) inputs.push_back(t.mean);
  }
  reduce_->run(stream, inputs, outputs, {}, workspace_scratch(t.workspace, scratch_at, *reduce_));
}

void LayerNormColumns::make(const Context& context, const LayerNormGradients& p,
                            const std::vector<TensorDesc>& inputs, const std::vector<std::string>& terms,
                            const Options& options) {
  std::vector<TensorDesc> outputs;
  for (const auto* w : {&p.dweight, &p.dbias})
    if (*w) outputs.push_back(**w);
  Reduction sums;
  sums.accumulators = static_cast<int>(terms.size());
  for (size_t i = 0; i < terms.size(); i++) {
    sums.init += cat("a", i, " = 0; ");
    sums.accumulate += cat("a", i, " += ", terms[i], "; ");
    sums.combine += cat("a", i, " += b", i, "; ");
    sums.finish += cat("y", i, " = a", i, "; ");
  }
  reduce_.emplace(context, inputs, outputs, 0, sums, options);
}

}  // namespace dlprim::detail
