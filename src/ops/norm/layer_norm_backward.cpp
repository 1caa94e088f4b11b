// Layer and RMS normalisation, backward: checks, the plan with its list of engines, calls.
#include <dlprim/layer_norm.hpp>

#include "ops/norm/layer_norm_backward_impl.hpp"

namespace dlprim::detail {

template <>
inline constexpr int kFields<LayerNormBackwardDesc> = 8;

extern const LayerNormBackwardEngine kLayerNormBackwardRows, kLayerNormBackwardCpu,
    kLayerNormBackwardGenerated;

}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct LayerNormBackward::Impl {
  std::shared_ptr<const LayerNormBackwardImpl> engine;
  NormGradients gradients;
};

namespace {

LayerNormGradients check(const LayerNormBackwardDesc& d) {
  LayerNormGradients p{{d.dy, d.x, d.weight, d.dx, d.dweight, d.dbias, !d.rms}};
  p.normalized = normalized_shape(d.x.shape, d.axes);
  check_gradients(p, p.normalized);
  p.statistics = statistics_desc(statistics_shape(d.x.shape, d.axes), p.real());
  p.axes = d.axes;
  p.rows = element_count(p.statistics.shape);
  p.length = element_count(p.normalized);
  return p;
}

constexpr EngineList<LayerNormGradients, LayerNormBackwardImpl> kEngines = {
    &kLayerNormBackwardRows, &kLayerNormBackwardCpu, &kLayerNormBackwardGenerated};

}  // namespace

LayerNormBackward::LayerNormBackward(const Context& context, const LayerNormBackwardDesc& desc,
                                     const Options& options)
    : Plan(nullptr) {
  const LayerNormGradients p = check(desc);
  PlanInfo made;
  const char* op = desc.rms ? "rms_norm_backward" : "layer_norm_backward";
  std::shared_ptr<const LayerNormBackwardImpl> engine =
      choose_engine(op, kEngines, context, p, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " dy=", brief(desc.dy), " x=", brief(desc.x), " ",
                  optional_text(p), " axes=", desc.axes);
  made.flops = 12 * static_cast<double>(element_count(desc.x.shape));
  made.bytes = traffic({desc.dy, desc.x}) + (desc.dx ? traffic({*desc.dx}) : 0);
  info_ = std::make_shared<const PlanInfo>(std::move(made));
  impl_ = std::make_shared<const Impl>(Impl{std::move(engine), p});
}

void LayerNormBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& dx,
                            const Tensor& dweight, const Tensor& dbias, const Tensor& workspace) const {
  require_stream(*info_, stream);
  NormGradientTensors t{dy, x, weight, mean, inv_std, dx, dweight, dbias, workspace};
  require_gradients(stream, impl_->gradients, t);
  t.workspace = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->engine->run(stream, t);
}

namespace {

void backward(const Stream& stream, const NormGradientTensors& t, int axes, bool rms,
              const Options& options) {
  require_defined({{"dy", t.dy}, {"x", t.x}, {"inv_std", t.inv_std}});
  const LayerNormBackwardDesc desc{
      t.dy, t.x, described(t.weight), described(t.dx), described(t.dweight), described(t.dbias), axes, rms};
  cached_plan<LayerNormBackward>(stream, "layer_norm_backward", desc, options, t.workspace)
      ->run(stream, t.dy, t.x, t.weight, t.mean, t.inv_std, t.dx, t.dweight, t.dbias, t.workspace);
}

}  // namespace

void layer_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& inv_std, int axes, const Tensor& dx,
                         const Tensor& dweight, const Tensor& dbias, const Options& options,
                         const Tensor& workspace) {
  backward(stream, {dy, x, weight, mean, inv_std, dx, dweight, dbias, workspace}, axes, false, options);
}

void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       const Tensor& inv_std, int axes, const Tensor& dx, const Tensor& dweight,
                       const Options& options, const Tensor& workspace) {
  backward(stream, {dy, x, weight, {}, inv_std, dx, dweight, {}, workspace}, axes, true, options);
}

}  // namespace dlprim
