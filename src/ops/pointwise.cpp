// Pointwise expressions: validation, the GPU and the CPU engine, the call.
#include <dlprim/pointwise.hpp>

#include <algorithm>
#include <cmath>

#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/pointwise.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"

namespace dlprim {

using namespace detail;

struct Pointwise::Impl : EngineImpl {
  Kernel kernel;
  GeneratedArguments arguments;
  int64_t count = 0;
  int64_t chunk = 0;  ///< elements a work-item (CPU); 0: the kernel has no such argument (GPU)
  size_t groups = 0, local = 1;
};

namespace {

struct Problem {
  std::vector<TensorDesc> inputs, outputs;
  LoopNest nest;
  PointwiseForm form;
};

constexpr int kLocal = 256;
constexpr int64_t kChunk = 8192;    // elements that are worth a CPU work-group
constexpr int kGroupsPerUnit = 16;  // CPU work-groups a compute unit, so that uneven ones balance

/// Four elements an access: everything that moves in runs of four does so at aligned places.
bool can_vectorize(const Problem& p) {
  const std::vector<LoopDim>& dims = p.nest.kept;
  if (dims.back().size % 4 != 0) return false;
  for (size_t t = 0; t < p.form.operands.size(); t++) {
    if (p.form.operands[t].kept != InnerStride::one) continue;
    const TensorDesc& desc = t < p.inputs.size() ? p.inputs[t] : p.outputs[t - p.inputs.size()];
    if (!desc.aligned || size_of(desc.dtype) > 4) return false;
    for (size_t d = 0; d + 1 < dims.size(); d++)
      if (dims[d].strides[t] % 4 != 0) return false;
  }
  return true;
}

std::unique_ptr<Pointwise::Impl> make_impl(const Context& context, const Problem& p,
                                           const std::string& source) {
  auto impl = std::make_unique<Pointwise::Impl>();
  impl->kernel = context.state().programs.generated("pointwise", source, "pointwise");
  impl->arguments = GeneratedArguments(p.inputs, p.outputs, p.form.scalars, p.form.real, p.nest);
  impl->count = p.nest.kept_count;
  return impl;
}

std::string refuse_gpu(const Context& context, const Problem&, const Options&) {
  const int most = context.device().facts().max_work_group;
  return most < kLocal ? cat("groups of ", kLocal, " exceed the device's ", most) : "";
}

std::unique_ptr<const Pointwise::Impl> make_gpu(const Context& context, const Problem& p, const Options&) {
  PointwiseForm form = p.form;
  form.local = kLocal;
  form.vector = can_vectorize(p) ? 4 : 1;
  form.unroll = form.vector == 4 ? 2 : 4;
  auto impl = make_impl(context, p, pointwise_source(form));
  impl->local = kLocal;
  impl->groups =
      static_cast<size_t>(ceil_div(p.nest.kept_count, int64_t{kLocal} * form.vector * form.unroll));
  return impl;
}

std::string refuse_cpu(const Context& context, const Problem&, const Options&) {
  const DeviceKind kind = context.device().kind();
  return kind != DeviceKind::cpu ? cat("the device is a ", name_of(kind), ", not a CPU") : "";
}

std::unique_ptr<const Pointwise::Impl> make_cpu(const Context& context, const Problem& p, const Options&) {
  auto impl = make_impl(context, p, pointwise_cpu_source(p.form));
  const int64_t most = int64_t{context.device().facts().compute_units} * kGroupsPerUnit;
  const int64_t groups = std::clamp<int64_t>(p.nest.kept_count / kChunk, 1, std::max<int64_t>(most, 1));
  impl->chunk = ceil_div(p.nest.kept_count, groups);
  impl->groups = impl->chunk ? static_cast<size_t>(ceil_div(p.nest.kept_count, impl->chunk)) : 0;
  return impl;
}

const std::vector<Engine<Problem, Pointwise::Impl>>& engines() {
  static const std::vector<Engine<Problem, Pointwise::Impl>> list = {{"cpu", refuse_cpu, make_cpu},
                                                                     {"gpu", refuse_gpu, make_gpu}};
  return list;
}

/// An output may be an input, element for element; other overlaps would read what was already overwritten.
void require_elementwise_alias(const Tensor& y, size_t i, const Tensor& x, size_t j) {
  if (!ranges_overlap(y, x)) return;
  require(y.offset() == x.offset() && y.shape() == x.shape() && y.strides() == x.strides() &&
              size_of(y.dtype()) == size_of(x.dtype()),
          ArgName("outputs", i), "overlaps inputs[", j, "] without being the same elements");
}

}  // namespace

Pointwise::Pointwise(const Context& context, const std::vector<TensorDesc>& inputs,
                     const std::vector<TensorDesc>& outputs, int scalars, const std::string& body,
                     const Options& options)
    : Plan(nullptr) {
  Problem p{inputs, outputs, make_loop_nest(inputs, outputs, false), {}};
  if (p.nest.kept.empty())
    p.nest.kept.push_back({1, std::vector<int64_t>(inputs.size() + outputs.size(), 1)});
  p.form.operands = make_operands(inputs, outputs, p.nest);
  p.form.scalars = scalars;
  p.form.body = body;
  p.form.real = real_type(inputs, outputs);
  p.form.rank = p.nest.kept.size();
  p.form.wide = p.nest.wide;
  auto info = std::make_shared<PlanInfo>();
  info->text = cat("op=pointwise count=", p.nest.kept_count, " body='", body, "'");
  info->bytes = traffic_of(inputs, outputs);
  require_real(context, p.form.real);
  for (size_t i = 0; i < outputs.size(); i++) require_writable(ArgName("outputs", i), outputs[i]);
  impl_ = choose_engine("pointwise", engines(), context, p, options, *info);
  info_ = info;
}

void Pointwise::run(const Stream& stream, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& outputs, const std::vector<double>& scalars) const {
  require_stream(*info_, stream);
  impl_->arguments.check(stream, inputs, outputs, scalars);
  for (size_t i = 0; i < outputs.size(); i++)
    for (size_t j = 0; j < inputs.size(); j++) require_elementwise_alias(outputs[i], i, inputs[j], j);
  if (impl_->count == 0) return;
  OperatorScope scope(stream, info_->text, 0, info_->bytes);
  Launch launch(stream, impl_->kernel);
  impl_->arguments.bind(launch, &inputs, outputs, scalars);
  impl_->arguments.bind_index(launch, impl_->count);
  if (impl_->chunk) impl_->arguments.bind_index(launch, impl_->chunk);
  launch.run({impl_->groups * impl_->local}, {impl_->local});
}

void pointwise(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               const std::vector<double>& scalars, const std::string& body) {
  PlanKey key("pointwise");
  const auto [xs, ys] = describe_tensors(inputs, outputs, key);
  key.add(scalars.size()).add(body);
  const auto plan = stream.context().state().plans.get<Pointwise>(key, [&, &xs = xs, &ys = ys] {
    return Pointwise(stream.context(), xs, ys, static_cast<int>(scalars.size()), body);
  });
  plan->run(stream, inputs, outputs, scalars);
}

}  // namespace dlprim
