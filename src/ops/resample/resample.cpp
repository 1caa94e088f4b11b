#include "ops/resample/resample.hpp"

#include <algorithm>
#include <numeric>

#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "ops/resample/resample_pass.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kProduct = 36;  // taps of an element above which axes are taken one by one

/// Whether elements of 16 bits come to their places unchanged.
bool moves_words(const ResampleProblem& p) {
  const auto chooses = [](const MappedAxis& axis) {
    return axis.taps.width() <= 1 && axis.taps.weight.empty();
  };
  return p.x.dtype == p.y.dtype && size_of(p.x.dtype) == 2 &&
         std::all_of(p.axes.begin(), p.axes.end(), chooses);
}

/// `shape` without gaps, its axes in the order of `like`'s steps.
TensorDesc dense(const Shape& shape, const Strides& like, DType dtype) {
  std::vector<int> order(static_cast<size_t>(shape.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return like[a] > like[b]; });
  Strides strides = shape;
  int64_t step = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = step;
    step *= std::max<int64_t>(shape[*axis], 1);
  }
  return {shape, strides, dtype, true};
}

/// The axes that each pass maps.
std::vector<std::vector<MappedAxis>> split(std::vector<MappedAxis> axes, bool cpu) {
  int64_t product = 1;
  for (const MappedAxis& axis : axes) product *= std::max<int64_t>(axis.taps.width(), 1);
  // The axis first that leaves least to be done.
  const auto growth = [](const MappedAxis& axis) {
    return static_cast<double>(axis.taps.size()) /
           static_cast<double>(std::max<int64_t>(axis.taps.source_size, 1));
  };
  const bool one_by_one = !cpu && product > kProduct;
  if (one_by_one || axes.size() > kMappedAxes)
    std::stable_sort(axes.begin(), axes.end(),
                     [&](const MappedAxis& a, const MappedAxis& b) { return growth(a) < growth(b); });
  std::vector<std::vector<MappedAxis>> passes(1);
  for (MappedAxis& axis : axes) {
    if (passes.back().size() == (one_by_one ? 1 : kMappedAxes)) passes.emplace_back();
    passes.back().push_back(std::move(axis));
  }
  return passes;
}

}  // namespace

Resample::Resample(const Context& context, ResampleProblem problem, bool cpu) {
  std::optional<DType> words;
  // A CPU would convert each element there and back.
  if (cpu && moves_words(problem)) {
    words = problem.x.dtype;
    problem.x.dtype = problem.y.dtype = DType::i16;
  }
  const DType real = resample_real(problem.x, problem.y);
  const auto passes = split(problem.axes, cpu);
  WorkspaceParts parts;
  TensorDesc source = problem.x;
  for (size_t i = 0; i < passes.size(); i++) {
    const bool last = i + 1 == passes.size();
    Step step;
    step.result = problem.y;
    if (!last) {
      Shape shape = source.shape;
      for (const MappedAxis& axis : passes[i]) shape[axis.axis] = axis.taps.size();
      step.result = dense(shape, problem.y.strides, real);
      step.result_at = parts.add(static_cast<size_t>(element_count(shape)) * size_of(real));
    }
    step.pass = std::make_shared<const ResamplePass>(context, source, step.result, passes[i], cpu, words);
    step.scratch_at = parts.add(step.pass->scratch);
    source = step.result;
    steps_.push_back(std::move(step));
  }
  workspace_ = parts.size();
}

void Resample::run(const Stream& stream, const Tensor& x, const Tensor& y, double fill,
                   const Tensor& workspace) const {
  Tensor source = x;
  for (const Step& step : steps_) {
    const TensorDesc& of = step.result;
    Tensor result = y;
    if (&step != &steps_.back()) result = workspace_part(workspace, step.result_at, of.shape, of.dtype);
    if (result.defined()) {  // else it has no elements
      const ResamplePass& pass = *step.pass;
      const Tensor scratch = workspace_part(
          workspace, step.scratch_at, {static_cast<int64_t>(pass.scratch / size_of(pass.real))}, pass.real);
      pass.run(stream, source, result.as_strided(of.shape, of.strides), fill, scratch);
    }
    source = result;
  }
}

namespace {

// Each form runs on every device, and is the better one on its own kind.
template <bool cpu>
std::unique_ptr<const Resample> make(const Context& context, const ResampleProblem& p, const EngineOptions&) {
  return std::make_unique<const Resample>(context, p, cpu);
}

constexpr Engine<ResampleProblem, Resample> kDirect{"direct", nullptr, make<false>, avoid_on_cpus},
    kCpu{"cpu", nullptr, make<true>};
constexpr EngineList<ResampleProblem, Resample> kEngines = {&kDirect, &kCpu};

}  // namespace

std::shared_ptr<const Resample> choose_resample(const char* op, const Context& context,
                                                const ResampleProblem& problem, const Options& options,
                                                PlanInfo& info) {
  require_real(context, resample_real(problem.x, problem.y));
  return choose_engine(op, kEngines, context, problem, options, info);
}

void run_resample(const PlanInfo& info, const Resample& resample, const Stream& stream, const Named& x,
                  const TensorDesc& x_desc, const Named& y, const TensorDesc& y_desc, double fill,
                  const Tensor& workspace) {
  require_stream(info, stream);
  require_tensor(x.name, x.tensor, stream.context(), x_desc);
  require_tensor(y.name, y.tensor, stream.context(), y_desc);
  require_apart({y, {"workspace", workspace}}, {x});
  if (y.tensor.numel() == 0) return;
  const Tensor space = workspace_for(info, stream, workspace);
  const OperatorScope scope(stream, info);
  resample.run(stream, x.tensor, y.tensor, fill, space);
}

}  // namespace dlprim::detail
