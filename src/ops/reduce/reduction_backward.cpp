// Gradients of reductions by name: a generated reduction for what the gradient needs to know of x, and a
// pointwise kernel, or zeros and a number in each group.
#include <optional>

#include "ops/reduce/reduction_parts.hpp"
#include "ops/reduce/reduction_put.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ReductionBackwardDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

using Function = ReductionFunction;
using Optional = std::optional<TensorDesc>;

constexpr const char* kGradients[] = {"dy[0]", "dy[1]"};

}  // namespace

struct ReductionBackward::Impl {
  /// A kernel reads some of the tensors, which are numbered: dy, x, results, statistics.
  using Reads = std::vector<size_t>;

  Impl(const ReductionBackwardDesc& description, const Function& function)
      : desc(description), f(function), shape(description.dy[0].shape) {}

  ReductionBackwardDesc desc;
  const Function& f;
  int64_t n = 1;
  Shape shape;              ///< of dy
  DType real = DType::f32;  ///< of statistics
  Reads statistics_reads, gradient_reads;
  std::optional<Reduce> statistics;
  std::optional<Pointwise> gradient;  ///< the zeros, where the function selects
  std::optional<ReductionPut> put;
  std::vector<size_t> statistics_at;
  size_t scratch_at = 0;
};

namespace {

using Backward = ReductionBackward::Impl;

struct Word {
  std::string name;
  Optional desc;
  std::string argument;
};

/// All that a gradient may be computed from, in the order of Impl's numbers.
std::vector<Word> words_of(const Backward& impl) {
  const ReductionBackwardDesc& d = impl.desc;
  std::vector<Word> words;
  for (size_t i = 0; i < d.dy.size(); i++)
    words.push_back({i == 0 ? "dy" : "d" + impl.f.results[i], d.dy[i], kGradients[i]});
  words.push_back({"x", d.x, "x"});
  for (size_t i = 0; i < impl.f.results.size(); i++)
    words.push_back(
        {impl.f.results[i], i < d.results.size() ? d.results[i] : Optional(), kReductionResults[i]});
  for (const std::string& name : impl.f.statistics)
    words.push_back({name, TensorDesc(impl.shape, impl.real), name});
  return words;
}

/// The words of `expression` as inputs of a kernel, named so.
std::vector<TensorDesc> inputs_for(const Backward& impl, const std::string& expression,
                                   Backward::Reads& reads, ExpressionNames& names) {
  std::vector<TensorDesc> inputs;
  const std::vector<Word> words = words_of(impl);
  for (size_t i = 0; i < words.size(); i++) {
    if (!uses(expression, words[i].name)) continue;
    require(words[i].desc.has_value(), words[i].argument.c_str(), "is needed for the gradient of ",
            impl.f.name);
    names.add(words[i].name, cat('x', inputs.size()));
    inputs.push_back(*words[i].desc);
    reads.push_back(i);
  }
  return inputs;
}

const Function& check(const ReductionBackwardDesc& desc) {
  const Function& f = reduction_function(desc.function);
  require(f.has_gradient(), "function", f.name, " has no gradient");
  const size_t gradients = f.selects ? 1 : f.results.size();
  require(desc.dy.size() == gradients, "dy", f.name, " has ", gradients, ", not ", desc.dy.size());
  require(desc.results.empty() || desc.results.size() == f.results.size(), "results", f.name, " has ",
          f.results.size(), ", not ", desc.results.size());
  require_floating("dx", desc.dx, true);
  require_writable("dx", desc.dx);
  for (size_t i = 0; i < desc.dy.size(); i++) {
    require_floating(kGradients[i], desc.dy[i], true);
    require_shape(kGradients[i], desc.dy[i], desc.dy[0].shape);
  }
  if (desc.x) {
    require_floating("x", *desc.x, true);
    require_shape("x", *desc.x, desc.dx.shape);
  }
  for (size_t i = 0; i < desc.results.size(); i++)
    if (desc.results[i]) {
      require_strides(kReductionResults[i], *desc.results[i]);
      require_shape(kReductionResults[i], *desc.results[i], desc.dy[0].shape);
      if (f.results[i] == "index")
        require_result(f, i, desc.dx, *desc.results[i]);
      else
        require_floating(kReductionResults[i], *desc.results[i], true);
    }
  return f;
}

/// All descriptions that there are.
std::vector<TensorDesc> described(const ReductionBackwardDesc& desc) {
  std::vector<TensorDesc> all = desc.dy;
  all.push_back(desc.dx);
  if (desc.x) all.push_back(*desc.x);
  for (const Optional& y : desc.results)
    if (y) all.push_back(*y);
  return all;
}

}  // namespace

ReductionBackward::ReductionBackward(const Context& context, const ReductionBackwardDesc& desc,
                                     const Options& options)
    : Plan(nullptr) {
  const Function& f = check(desc);
  auto impl = std::make_shared<Impl>(desc, f);
  impl->n = reduced_count(kGradients[0], impl->shape, desc.dx.shape);
  const std::vector<TensorDesc> all = described(desc);
  for (const TensorDesc& t : all)
    if (t.dtype == DType::f64) impl->real = DType::f64;

  WorkspaceParts parts;
  if (f.selects) {
    const Optional index = desc.results.size() > 1 ? desc.results[1] : Optional();
    require(index.has_value(), kReductionResults[1], "is needed for the gradient of ", f.name);
    impl->gradient.emplace(context, std::vector<TensorDesc>{}, std::vector<TensorDesc>{desc.dx}, 0, "y0 = 0");
    impl->put.emplace(context, desc.dy[0], *index, desc.dx);
  } else {
    if (!f.statistics.empty()) {
      ExpressionNames names = reduction_names(f);
      const std::vector<TensorDesc> inputs =
          inputs_for(*impl, f.statistics_reduction.accumulate, impl->statistics_reads, names);
      for (size_t i = 0; i < f.statistics.size(); i++) names.add(f.statistics[i], cat('y', i));
      const TensorDesc statistic(impl->shape, impl->real);
      for (size_t i = 0; i < f.statistics.size(); i++)
        impl->statistics_at.push_back(
            parts.add(static_cast<size_t>(element_count(impl->shape)) * size_of(impl->real)));
      impl->statistics.emplace(context, inputs, std::vector<TensorDesc>(f.statistics.size(), statistic),
                               scalar_count(f), reduction_in_kernel(f.statistics_reduction, names),
                               parts.rest(options));
      impl->scratch_at = parts.add(impl->statistics->workspace_size());
    }
    ExpressionNames names = reduction_names(f);
    const std::vector<TensorDesc> inputs = inputs_for(*impl, f.gradient, impl->gradient_reads, names);
    impl->gradient.emplace(context, inputs, std::vector<TensorDesc>{desc.dx}, scalar_count(f),
                           "y0 = " + names.in_kernel(f.gradient));
  }
  info_ = single_engine("reduction_backward", "generated", "", context, options,
                        reduction_info(desc.function, desc.dx, desc.dy[0], all, parts.size()));
  impl_ = std::move(impl);
}

void ReductionBackward::run(const Stream& stream, const std::vector<Tensor>& dy, const Tensor& x,
                            const std::vector<Tensor>& results, const std::vector<Scalar>& parameters,
                            const Tensor& dx, const Tensor& workspace) const {
  const Impl& impl = *impl_;
  const ReductionBackwardDesc& d = impl.desc;
  require_stream(*info_, stream);
  require(dy.size() == d.dy.size(), "dy", impl.f.name, " has ", d.dy.size(), ", not ", dy.size());
  require(results.size() >= d.results.size(), "results", "the plan has ", d.results.size(), ", not ",
          results.size());
  require_tensor("dx", dx, stream.context(), d.dx);
  std::vector<Tensor> tensors = dy;
  for (size_t i = 0; i < dy.size(); i++) {
    require_tensor(kGradients[i], dy[i], stream.context(), d.dy[i]);
    require_no_overlap("dx", dx, kGradients[i], dy[i]);
  }
  if (d.x) {
    require_tensor("x", x, stream.context(), *d.x);
    require_same_or_apart({"dx", dx}, {"x", x});
  }
  tensors.push_back(x);
  for (size_t i = 0; i < impl.f.results.size(); i++) {
    tensors.push_back(i < d.results.size() && d.results[i] ? results[i] : Tensor());
    if (!tensors.back().defined()) continue;
    require_tensor(kReductionResults[i], results[i], stream.context(), *d.results[i]);
    require_no_overlap("dx", dx, kReductionResults[i], results[i]);
  }
  for (const Tensor& t : tensors) require_apart({{"workspace", workspace}}, {{"a tensor", t}, {"dx", dx}});
  const std::vector<Scalar> scalars = reduction_scalars(impl.f, parameters, impl.n);
  if (dx.numel() == 0) return;

  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  if (impl.put) {
    impl.gradient->run(stream, {}, {dx}, {});
    impl.put->run(stream, dy[0], results[1], dx);
    return;
  }
  std::vector<Tensor> statistics;
  for (size_t at : impl.statistics_at) statistics.push_back(workspace_part(space, at, impl.shape, impl.real));
  tensors.insert(tensors.end(), statistics.begin(), statistics.end());
  const auto chosen = [&](const Impl::Reads& reads) {
    std::vector<Tensor> result;
    for (size_t i : reads) result.push_back(tensors[i]);
    return result;
  };
  if (impl.statistics)
    impl.statistics->run(stream, chosen(impl.statistics_reads), statistics, scalars,
                         workspace_scratch(space, impl.scratch_at, *impl.statistics));
  impl.gradient->run(stream, chosen(impl.gradient_reads), {dx}, scalars);
}

void reduction_backward(const Stream& stream, std::string_view function, const std::vector<Tensor>& dy,
                        const Tensor& x, const std::vector<Tensor>& results,
                        const std::vector<Scalar>& parameters, const Tensor& dx, const Options& options,
                        const Tensor& workspace) {
  require_defined({{"dx", dx}});
  ReductionBackwardDesc desc{std::string(function), {}, std::nullopt, {}, dx};
  for (size_t i = 0; i < dy.size(); i++) {
    require(dy[i].defined(), ArgName("dy", i), "is not defined");
    desc.dy.emplace_back(dy[i]);
  }
  desc.x = described(x);
  for (const Tensor& y : results) desc.results.push_back(described(y));
  cached_plan<ReductionBackward>(stream, "reduction_backward", desc, options, workspace)
      ->run(stream, dy, x, results, parameters, dx, workspace);
}

}  // namespace dlprim
