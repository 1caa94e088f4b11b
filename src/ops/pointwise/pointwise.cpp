// Pointwise expressions: validation, the GPU and the CPU engine, the call.
#include <dlprim/pointwise.hpp>

#include <algorithm>
#include <cmath>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/engines.hpp"
#include "core/gen/expression_check.hpp"
#include "core/gen/pointwise.hpp"

namespace dlprim {

using namespace detail;

struct Pointwise::Impl : EngineImpl {
  Kernel kernel;
  GeneratedArguments arguments;
  int64_t count = 0;
  int64_t chunk = 0;  ///< elements a work-item (CPU); 0: the kernel has no such argument (GPU)
  size_t groups = 0, local = 1;
  std::string form_text;  ///< GPU: the kernel's form, for the log and for tests
};

namespace {

using Problem = GeneratedProblem<PointwiseForm>;

constexpr int64_t kChunk = 8192;    // elements that are worth a CPU work-group
constexpr int kGroupsPerUnit = 16;  // CPU work-groups a compute unit, so that uneven ones balance

std::unique_ptr<Pointwise::Impl> make_impl(const Context& context, const Problem& p,
                                           const PointwiseForm& form,
                                           std::string (*source)(const PointwiseForm&)) {
  auto impl = std::make_unique<Pointwise::Impl>();
  const PlanKey key = PlanKey(source == pointwise_source ? "pointwise" : "pointwise_cpu").add(form);
  impl->kernel = compiled_expression(context.state().programs, "pointwise", key.bytes(),
                                     [&] { return source(form); }, "pointwise", {{"body", form.body}});
  impl->arguments = GeneratedArguments(p.inputs, p.outputs, p.form.scalars, p.form.real, p.nest);
  impl->count = p.nest.kept_count;
  return impl;
}

std::unique_ptr<const Pointwise::Impl> make_gpu(const Context& context, const Problem& p,
                                                const EngineOptions&) {
  PointwiseForm form = p.form;
  form.local = kGpuGroup;
  form.vector = vector_width(p.form.operands, p.tensors(), p.nest, false);
  form.unroll = form.vector > 1 ? 2 : 4;
  auto impl = make_impl(context, p, form, pointwise_source);
  impl->local = kGpuGroup;
  impl->form_text = cat(" vector=", form.vector);
  impl->groups =
      static_cast<size_t>(ceil_div(p.nest.kept_count, int64_t{kGpuGroup} * form.vector * form.unroll));
  return impl;
}

std::unique_ptr<const Pointwise::Impl> make_cpu(const Context& context, const Problem& p,
                                                const EngineOptions&) {
  auto impl = make_impl(context, p, p.form, pointwise_cpu_source);
  const int64_t most = int64_t{context.device().facts().compute_units} * kGroupsPerUnit;
  const int64_t groups = std::clamp<int64_t>(p.nest.kept_count / kChunk, 1, std::max<int64_t>(most, 1));
  impl->chunk = ceil_div(p.nest.kept_count, groups);
  impl->groups = impl->chunk ? static_cast<size_t>(ceil_div(p.nest.kept_count, impl->chunk)) : 0;
  return impl;
}

constexpr auto kGpu = generated_gpu<Problem, Pointwise::Impl>(make_gpu);
constexpr auto kCpu = generated_cpu<Problem, Pointwise::Impl>(make_cpu);
constexpr EngineList<Problem, Pointwise::Impl> kEngines = {&kGpu, &kCpu};

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
  require_real(context, p.form.real);
  for (size_t i = 0; i < outputs.size(); i++) require_writable(ArgName("outputs", i), outputs[i]);
  check_expression("body", body,
                   {{'x', 0, inputs.size(), "input"},
                    {'y', 0, outputs.size(), "output"},
                    {'s', 0, static_cast<size_t>(std::max(scalars, 0)), "scalar"}},
                   true);
  auto info = std::make_shared<PlanInfo>();
  impl_ = choose_engine("pointwise", kEngines, context, p, options, *info);
  info->text = cat("op=pointwise engine=", info->engine, generated_text(inputs, outputs, "body", body),
                   impl_->form_text);
  info->bytes = traffic(inputs) + traffic(outputs);
  info_ = info;
}

void Pointwise::run(const Stream& stream, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& outputs, const std::vector<Scalar>& scalars,
                    const Tensor& workspace) const {
  require_stream(*info_, stream);
  impl_->arguments.check(stream, inputs, outputs, scalars);
  for (size_t i = 0; i < outputs.size(); i++)
    for (size_t j = 0; j < inputs.size(); j++) require_elementwise_alias(outputs[i], i, inputs[j], j);
  for (const auto* tensors : {&inputs, &outputs})
    for (size_t i = 0; i < tensors->size(); i++)
      require_no_overlap("workspace", workspace, ArgName(tensors == &inputs ? "inputs" : "outputs", i),
                         (*tensors)[i]);
  workspace_for(*info_, stream, workspace);
  if (impl_->count == 0) return;
  OperatorScope scope(stream, *info_);
  Launch launch(stream, impl_->kernel);
  impl_->arguments.bind(launch, inputs, outputs, scalars);
  impl_->arguments.bind_index(launch, impl_->count);
  if (impl_->chunk) impl_->arguments.bind_index(launch, impl_->chunk);
  launch.run({impl_->groups * impl_->local}, {impl_->local});
}

void pointwise(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               const std::vector<Scalar>& scalars, const std::string& body, const Options& options,
               const Tensor& workspace) {
  PlanKey key("pointwise");
  const auto [xs, ys] = describe_tensors(inputs, outputs, key);
  key.add(scalars.size()).add(body);
  const auto make = [&, &xs = xs, &ys = ys](const Options& within) {
    return Pointwise(stream.context(), xs, ys, static_cast<int>(scalars.size()), body, within);
  };
  plan_under<Pointwise>(stream, key, make, options, workspace)
      ->run(stream, inputs, outputs, scalars, workspace);
}

}  // namespace dlprim
