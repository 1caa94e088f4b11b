// Reductions by name: a generated reduction; backward another for what the gradient needs to know of x, and a
// pointwise kernel, or zeros and a number in each group.
#include <dlprim/reduction.hpp>

#include <algorithm>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/lib/expression_names.hpp"
#include "ops/reduce/reduction_put.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ReductionDesc> = 3;
template <>
inline constexpr int kFields<ReductionBackwardDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

using Function = ReductionFunction;
using Result = Function::Result;
using Optional = std::optional<TensorDesc>;

/// No function has more results.
constexpr const char *kResults[] = {"results[0]", "results[1]"}, *kGradients[] = {"dy[0]", "dy[1]"};

/// The list's parameters and n are the kernel's scalars.
ExpressionNames names_of_scalars(const Function& f) {
  ExpressionNames names;
  for (size_t i = 0; i < f.parameters.size(); i++) names.add(f.parameters[i].name, cat('s', i));
  names.add("n", cat('s', f.parameters.size()));
  return names;
}

int scalar_count(const Function& f) {
  return static_cast<int>(f.parameters.size()) + 1;
}

Reduction in_kernel(const Reduction& r, const ExpressionNames& names) {
  Reduction result = r;
  for (std::string Reduction::*text :
       {&Reduction::init, &Reduction::accumulate, &Reduction::combine, &Reduction::finish})
    result.*text = names.in_kernel(r.*text);
  return result;
}

std::vector<Scalar> scalars_of(const Function& f, const std::vector<Scalar>& given, int64_t n) {
  std::vector<Scalar> values = parameters_of(f.name, f.parameters, given);
  values.push_back(n);
  return values;
}

bool is_whole(DType dtype) {
  return !is_floating(dtype) && dtype != DType::boolean;
}

void require_result(const Function& f, size_t i, const TensorDesc& x, const TensorDesc& y) {
  const char* name = kResults[i];
  const Result kind = i == 0 ? f.result : f.results[i] == "index" ? Result::count : f.result;
  const bool wider = is_floating(x.dtype) && (y.dtype == DType::f32 || y.dtype == DType::f64) &&
                     size_of(y.dtype) > size_of(x.dtype);
  switch (kind) {
    case Result::number:
      require(is_floating(y.dtype) || (!f.floating && !is_floating(x.dtype) && is_whole(y.dtype)), name,
              "dtype ", name_of(y.dtype), ": ", f.name, " of ", name_of(x.dtype), " is floating",
              f.floating || is_floating(x.dtype) ? "" : " or an integer");
      return;
    case Result::extreme:
      require(y.dtype == x.dtype || wider, name, "dtype ", name_of(y.dtype), " must be ", name_of(x.dtype),
              is_floating(x.dtype) ? " or a wider floating one" : "");
      return;
    case Result::truth:
      return;
    case Result::count:
      require(y.dtype == DType::i32 || y.dtype == DType::i64, name, "dtype ", name_of(y.dtype),
              " must be i32 or i64");
  }
}

/// How many elements are reduced to one. `y` is the shape of `name`, to which x is reduced.
int64_t reduced_count(const char* name, const Shape& y, const Shape& x) {
  require(y.size() <= x.size(), name, "shape ", y, " has more dimensions than x's ", x);
  int64_t n = 1;
  for (int d = 0; d < x.size(); d++) {
    const int at = d - (x.size() - y.size());
    const bool kept = at >= 0 && y[at] == x[d];
    require(kept || at < 0 || y[at] == 1, name, "shape ", y, " is not what x's ", x, " is reduced to");
    if (!kept) n *= x[d];
  }
  return n;
}

const Function& check(const ReductionDesc& desc) {
  const Function& f = reduction_function(desc.function);
  require(desc.results.size() == f.results.size(), "results", f.name, " has ", f.results.size(), ", not ",
          desc.results.size());
  require_strides("x", desc.x);
  const bool extreme = f.result == Result::extreme;
  if (extreme && f.floating) require_floating("x", desc.x, true);
  for (size_t i = 0; i < desc.results.size(); i++) {
    require_writable(kResults[i], desc.results[i]);
    require_shape(kResults[i], desc.results[i], desc.results[0].shape);
    require_result(f, i, desc.x, desc.results[i]);
  }
  const int64_t n = reduced_count(kResults[0], desc.results[0].shape, desc.x.shape);
  require(n > 0 || !(extreme || f.reduction.indexed), "x", "shape ", desc.x.shape, " leaves ", f.name,
          " nothing to choose from");
  for (const TensorDesc& y : desc.results)
    require(n <= INT32_MAX || y.dtype != DType::i32 || f.result == Result::number, "results",
            "dtype i32 is too narrow for ", n, " elements");
  return f;
}

PlanInfo info_of(const std::string& function, const TensorDesc& x, const TensorDesc& y,
                 const std::vector<TensorDesc>& tensors, size_t workspace) {
  PlanInfo info;
  info.text = cat("f=", function, " x=", brief(x), " y=", brief(y));
  info.flops = static_cast<double>(element_count(x.shape));
  info.bytes = traffic(tensors);
  info.workspace = workspace;
  return info;
}

}  // namespace

struct ReductionForward::Impl {
  ReductionDesc desc;
  const Function& f;
  int64_t n;
  Reduce kernel;
};

ReductionForward::ReductionForward(const Context& context, const ReductionDesc& desc, const Options& options)
    : Plan(nullptr) {
  const Function& f = check(desc);
  ExpressionNames names = names_of_scalars(f);
  names.add("x", "x0");
  Reduction r = in_kernel(f.reduction, names);
  // Only here: "index" is a result in the end, and what it counts with before.
  for (size_t i = 0; i < f.results.size(); i++) names.add(f.results[i], cat('y', i));
  r.finish = names.in_kernel(f.reduction.finish);
  auto impl = std::make_shared<Impl>(
      Impl{desc, f, reduced_count(kResults[0], desc.results[0].shape, desc.x.shape),
           Reduce(context, {desc.x}, desc.results, scalar_count(f), r, same_limit(options))});
  std::vector<TensorDesc> all = desc.results;
  all.push_back(desc.x);
  info_ = single_engine("reduction", "generated", "", context, options,
                        info_of(desc.function, desc.x, desc.results[0], all, impl->kernel.workspace_size()));
  impl_ = std::move(impl);
}

void ReductionForward::run(const Stream& stream, const Tensor& x, const std::vector<Scalar>& parameters,
                           const std::vector<Tensor>& results, const Tensor& workspace) const {
  const Impl& impl = *impl_;
  require_stream(*info_, stream);
  require(results.size() == impl.f.results.size(), "results", impl.f.name, " has ", impl.f.results.size(),
          ", not ", results.size());
  require_tensor("x", x, stream.context(), impl.desc.x);
  for (size_t i = 0; i < results.size(); i++) {
    require_tensor(kResults[i], results[i], stream.context(), impl.desc.results[i]);
    require_no_overlap(kResults[i], results[i], "x", x);
  }
  const std::vector<Scalar> scalars = scalars_of(impl.f, parameters, impl.n);
  const OperatorScope scope(stream, *info_);
  impl.kernel.run(stream, {x}, results, scalars, workspace);
}

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
    words.push_back({impl.f.results[i], i < d.results.size() ? d.results[i] : Optional(), kResults[i]});
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
      require_strides(kResults[i], *desc.results[i]);
      require_shape(kResults[i], *desc.results[i], desc.dy[0].shape);
      if (f.results[i] == "index")
        require_result(f, i, desc.dx, *desc.results[i]);
      else
        require_floating(kResults[i], *desc.results[i], true);
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
    require(index.has_value(), kResults[1], "is needed for the gradient of ", f.name);
    impl->gradient.emplace(context, std::vector<TensorDesc>{}, std::vector<TensorDesc>{desc.dx}, 0, "y0 = 0");
    impl->put.emplace(context, desc.dy[0], *index, desc.dx);
  } else {
    if (!f.statistics.empty()) {
      ExpressionNames names = names_of_scalars(f);
      const std::vector<TensorDesc> inputs =
          inputs_for(*impl, f.statistics_reduction.accumulate, impl->statistics_reads, names);
      for (size_t i = 0; i < f.statistics.size(); i++) names.add(f.statistics[i], cat('y', i));
      const TensorDesc statistic(impl->shape, impl->real);
      for (size_t i = 0; i < f.statistics.size(); i++)
        impl->statistics_at.push_back(
            parts.add(static_cast<size_t>(element_count(impl->shape)) * size_of(impl->real)));
      impl->statistics.emplace(context, inputs, std::vector<TensorDesc>(f.statistics.size(), statistic),
                               scalar_count(f), in_kernel(f.statistics_reduction, names),
                               parts.rest(options));
      impl->scratch_at = parts.add(impl->statistics->workspace_size());
    }
    ExpressionNames names = names_of_scalars(f);
    const std::vector<TensorDesc> inputs = inputs_for(*impl, f.gradient, impl->gradient_reads, names);
    impl->gradient.emplace(context, inputs, std::vector<TensorDesc>{desc.dx}, scalar_count(f),
                           "y0 = " + names.in_kernel(f.gradient));
  }
  info_ = single_engine("reduction_backward", "generated", "", context, options,
                        info_of(desc.function, desc.dx, desc.dy[0], all, parts.size()));
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
    require_tensor(kResults[i], results[i], stream.context(), *d.results[i]);
    require_no_overlap("dx", dx, kResults[i], results[i]);
  }
  for (const Tensor& t : tensors) require_apart({{"workspace", workspace}}, {{"a tensor", t}, {"dx", dx}});
  const std::vector<Scalar> scalars = scalars_of(impl.f, parameters, impl.n);
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

void reduction(const Stream& stream, std::string_view function, const Tensor& x,
               const std::vector<Scalar>& parameters, const std::vector<Tensor>& results,
               const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}});
  ReductionDesc desc{std::string(function), x, {}};
  for (size_t i = 0; i < results.size(); i++) {
    require(results[i].defined(), ArgName("results", i), "is not defined");
    desc.results.emplace_back(results[i]);
  }
  cached_plan<ReductionForward>(stream, "reduction", desc, options, workspace)
      ->run(stream, x, parameters, results, workspace);
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
