// Reductions by name: a generated reduction.
#include "ops/reduce/reduction_parts.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ReductionDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

using Function = ReductionFunction;

const Function& check(const ReductionDesc& desc) {
  const Function& f = reduction_function(desc.function);
  require(desc.results.size() == f.results.size(), "results", f.name, " has ", f.results.size(), ", not ",
          desc.results.size());
  require_strides("x", desc.x);
  const bool extreme = f.result == Function::Result::extreme;
  if (extreme && f.floating) require_floating("x", desc.x, true);
  for (size_t i = 0; i < desc.results.size(); i++) {
    require_writable(kReductionResults[i], desc.results[i]);
    require_shape(kReductionResults[i], desc.results[i], desc.results[0].shape);
    require_result(f, i, desc.x, desc.results[i]);
  }
  const int64_t n = reduced_count(kReductionResults[0], desc.results[0].shape, desc.x.shape);
  require(n > 0 || !(extreme || f.reduction.indexed), "x", "shape ", desc.x.shape, " leaves ", f.name,
          " nothing to choose from");
  for (const TensorDesc& y : desc.results)
    require(n <= INT32_MAX || y.dtype != DType::i32 || f.result == Function::Result::number, "results",
            "dtype i32 is too narrow for ", n, " elements");
  return f;
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
  ExpressionNames names = reduction_names(f);
  names.add("x", "x0");
  Reduction r = reduction_in_kernel(f.reduction, names);
  // Only here: "index" is a result in the end, and what it counts with before.
  for (size_t i = 0; i < f.results.size(); i++) names.add(f.results[i], cat('y', i));
  r.finish = names.in_kernel(f.reduction.finish);
  auto impl = std::make_shared<Impl>(
      Impl{desc, f, reduced_count(kReductionResults[0], desc.results[0].shape, desc.x.shape),
           Reduce(context, {desc.x}, desc.results, scalar_count(f), r, same_limit(options))});
  std::vector<TensorDesc> all = desc.results;
  all.push_back(desc.x);
  info_ = single_engine(
      "reduction", "generated", "", context, options,
      reduction_info(desc.function, desc.x, desc.results[0], all, impl->kernel.workspace_size()));
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
    require_tensor(kReductionResults[i], results[i], stream.context(), impl.desc.results[i]);
    require_no_overlap(kReductionResults[i], results[i], "x", x);
  }
  const std::vector<Scalar> scalars = reduction_scalars(impl.f, parameters, impl.n);
  const OperatorScope scope(stream, *info_);
  impl.kernel.run(stream, {x}, results, scalars, workspace);
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

}  // namespace dlprim
