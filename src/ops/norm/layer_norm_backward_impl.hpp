// Layer normalisation backward as its engines see it, and the sums of columns that all of them need.
#pragma once

#include "ops/norm/layer_norm_impl.hpp"
#include "ops/norm/norm_checks.hpp"

namespace dlprim::detail {

struct LayerNormGradients : NormGradients {
  Shape normalized = {};
  int axes = 0;
  int64_t rows = 0, length = 0;
  bool columns() const { return dweight || dbias; }
};

struct LayerNormBackwardImpl : EngineImpl {
  virtual void run(const Stream& stream, const NormGradientTensors& t) const = 0;
};
using LayerNormBackwardEngine = Engine<LayerNormGradients, LayerNormBackwardImpl>;

/// dweight and dbias out of what a kernel added up, or out of dy and x.
class LayerNormColumns {
 public:
  LayerNormColumns() = default;
  /// Of the tensors.
  LayerNormColumns(const Context& context, const LayerNormGradients& p, const Options& options);
  /// Of [kind][part][length] in the workspace.
  LayerNormColumns(const Context& context, const LayerNormGradients& p, int64_t parts,
                   const Options& options);

  size_t workspace_size() const { return reduce_ ? reduce_->workspace_size() : 0; }
  void run(const Stream& stream, const NormGradientTensors& t, size_t sums_at, size_t scratch_at,
           DType real) const;

 private:
  void make(const Context& context, const LayerNormGradients& p, const std::vector<TensorDesc>& inputs,
            const std::vector<std::string>& terms, const Options& options);

  std::optional<Reduce> reduce_;
  bool x_ = false, center_ = false;
  int64_t parts_ = 0;
  Shape part_;
};

}  // namespace dlprim::detail
