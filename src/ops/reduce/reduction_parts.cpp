// The scalars of reductions by name, and the checks of their results.
#include "ops/reduce/reduction_parts.hpp"

namespace dlprim::detail {

ExpressionNames reduction_names(const ReductionFunction& f) {
  ExpressionNames names;
  for (size_t i = 0; i < f.parameters.size(); i++) names.add(f.parameters[i].name, cat('s', i));
  names.add("n", cat('s', f.parameters.size()));
  return names;
}

int scalar_count(const ReductionFunction& f) {
  return static_cast<int>(f.parameters.size()) + 1;
}

Reduction reduction_in_kernel(const Reduction& r, const ExpressionNames& names) {
  Reduction result = r;
  for (std::string Reduction::*text :
       {&Reduction::init, &Reduction::accumulate, &Reduction::combine, &Reduction::finish})
    result.*text = names.in_kernel(r.*text);
  return result;
}

std::vector<Scalar> reduction_scalars(const ReductionFunction& f, const std::vector<Scalar>& given,
                                      int64_t n) {
  std::vector<Scalar> values = parameters_of(f.name, f.parameters, given);
  values.push_back(n);
  return values;
}

namespace {

bool is_whole(DType dtype) {
  return !is_floating(dtype) && dtype != DType::boolean;
}

}  // namespace

void require_result(const ReductionFunction& f, size_t i, const TensorDesc& x, const TensorDesc& y) {
  const char* name = kReductionResults[i];
  using Result = ReductionFunction::Result;
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

PlanInfo reduction_info(const std::string& function, const TensorDesc& x, const TensorDesc& y,
                        const std::vector<TensorDesc>& tensors, size_t workspace) {
  PlanInfo info;
  info.text = cat("f=", function, " x=", brief(x), " y=", brief(y));
  info.flops = static_cast<double>(element_count(x.shape));
  info.bytes = traffic(tensors);
  info.workspace = workspace;
  return info;
}

}  // namespace dlprim::detail
