// Writing by index, deterministically: the problem, and the choice among its engines. `columns` walks what
// may meet one after the other, one work-item for each column that nothing else writes; `local` does the same
// for columns whose places it holds in local memory; `winners` finds the last element of each place where
// nothing is folded, `extremes` the least or largest; `sorted` brings together what meets by sorting, and
// folds it in parts.
#include "ops/index/indexing_write.hpp"

#include <algorithm>
#include <numeric>

#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"

namespace dlprim::detail {
namespace {

const char* operation_of(ScatterReduce reduce) {
  switch (reduce) {
    case ScatterReduce::none:
      return "last";
    case ScatterReduce::sum:
      return "sum";
    case ScatterReduce::prod:
      return "prod";
    case ScatterReduce::mean:
      return "mean";
    case ScatterReduce::min:
      return "smallest";  // min and max are macros of some compilers
    case ScatterReduce::max:
      return "largest";
  }
  throw ValidationError("reduce", cat("number ", static_cast<int>(reduce), " does not exist"));
}

/// What a fold starts from, as an expression in C.
std::string identity_of(ScatterReduce reduce, DType dtype) {
  if (reduce == ScatterReduce::prod) return "1";
  if (reduce != ScatterReduce::min && reduce != ScatterReduce::max) return "0";
  const bool min = reduce == ScatterReduce::min;
  switch (dtype) {
    case DType::i8:
      return min ? "CHAR_MAX" : "CHAR_MIN";
    case DType::u8:
      return min ? "UCHAR_MAX" : "0";
    case DType::i16:
      return min ? "SHRT_MAX" : "SHRT_MIN";
    case DType::i32:
      return min ? "INT_MAX" : "INT_MIN";
    case DType::i64:
      return min ? "LONG_MAX" : "LONG_MIN";
    case DType::u16:
      return min ? "USHRT_MAX" : "0";
    case DType::u32:
      return min ? "UINT_MAX" : "0";
    case DType::u64:
      return min ? "ULONG_MAX" : "0";
    case DType::boolean:
      return min ? "1" : "0";
    default:
      return min ? "INFINITY" : "(-INFINITY)";
  }
}

int64_t size_of_dims(const std::vector<LoopDim>& dims) {
  int64_t count = 1;
  for (const LoopDim& dim : dims) count *= dim.size;
  return count;
}

WriteLoops divided(const IndexNest& nest, bool by_index) {
  WriteLoops loops;
  for (const LoopDim& dim : nest.dims)
    (dim.strides[0] == 0 || (by_index && is_indexed_along(dim)) ? loops.w : loops.p).push_back(dim);
  const LoopDim one{1, std::vector<int64_t>(2 + nest.indices(), 0)};
  if (loops.p.empty()) loops.p.push_back(one);
  if (loops.w.empty()) loops.w.push_back(one);
  loops.columns = size_of_dims(loops.p);
  loops.walked = size_of_dims(loops.w);
  return loops;
}

DType accumulator_of(DType table, DType dense) {
  if (table == DType::f64 || dense == DType::f64) return DType::f64;
  if (is_floating(table) || is_floating(dense)) return DType::f32;
  if (table == DType::u64 || dense == DType::u64) return DType::u64;
  const auto is_wide = [](DType dtype) { return dtype == DType::i64 || dtype == DType::u32; };
  return is_wide(table) || is_wide(dense) ? DType::i64 : DType::i32;
}

constexpr EngineList<WriteProblem, WritePlan> kEngines = {&kWriteLocal, &kWriteWinners, &kWriteExtremes,
                                                          &kWriteColumns, &kWriteSorted};

}  // namespace

bool is_indexed_along(const LoopDim& dim) {
  return std::any_of(dim.strides.begin() + 2, dim.strides.end(), [](int64_t stride) { return stride != 0; });
}

WriteLoops loops_by_table(const IndexNest& nest) {
  return divided(nest, false);
}
WriteLoops loops_by_index(const IndexNest& nest) {
  return divided(nest, true);
}

WriteKeys::WriteKeys(const IndexNest& nest, const WriteLoops& loops) {
  int64_t reach = 0;
  unit = 0;
  for (const LoopDim& dim : loops.w) {
    reach += (dim.size - 1) * dim.strides[0];
    if (dim.size > 1) unit = std::gcd(unit, dim.strides[0]);
  }
  for (size_t k = 0; k < nest.indices(); k++) {
    reach += std::max<int64_t>(nest.sizes[k] - 1, 0) * nest.steps[k];
    if (nest.sizes[k] > 1) unit = std::gcd(unit, nest.steps[k]);
  }
  unit = std::max<int64_t>(unit, 1);
  largest = reach / unit;
}

Defines write_defines(const WriteProblem& problem, const WriteLoops& loops) {
  const ScatterParams& params = problem.params;
  const bool folds = params.reduce != ScatterReduce::none;
  Defines defines = nest_defines(problem.nest, loops.p.size(), loops.w.size());
  defines.set("OPERATION", operation_of(params.reduce)).set("ACC", storage_type(problem.accumulator));
  defines.set("DTYPE", name_of(problem.table.dtype)).set("T", storage_type(problem.table.dtype));
  defines.set("S_DTYPE", name_of(problem.dense.dtype)).set("S", storage_type(problem.dense.dtype));
  defines.set("IDENTITY", identity_of(params.reduce, problem.table.dtype));
  defines.set("FLOATING", is_floating(problem.accumulator));
  defines.set("MEAN", params.reduce == ScatterReduce::mean);
  defines.set("RESETS", folds && !params.include_self).set("INCLUDE_SELF", folds && params.include_self);
  return defines;
}

IndexWrite::IndexWrite(const char* op, const Context& context, WriteProblem problem, const Options& options,
                       PlanInfo& info) {
  problem.accumulator = accumulator_of(problem.table.dtype, problem.dense.dtype);
  require_real(context, problem.accumulator);
  empty_ = problem.nest.count == 0 || element_count(problem.table.shape) == 0;
  impl_ = choose_engine(op, kEngines, context, problem, options, info);
  info.text = cat("op=", op, " engine=", info.engine, " ", info.text);
}

void IndexWrite::run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices,
                     const Tensor& table, const Tensor& workspace) const {
  if (!empty_) impl_->run(stream, dense, indices, table, workspace);
}

WriteStart::WriteStart(const Context& context, const std::optional<TensorDesc>& x, const TensorDesc& y)
    : x_(x) {
  if (!x) {
    zeros_.emplace(context, FillDesc{y});
    return;
  }
  require_dtype("x", *x, y.dtype);
  require_shape("x", *x, y.shape);
  copy_.emplace(context, CopyDesc{*x, y});
}

void WriteStart::check(const Stream& stream, const Tensor& x, const Tensor& y) const {
  require_optional("x", x, stream.context(), x_);
  if (x_) require_same_or_apart({"y", y}, {"x", x});
}

void WriteStart::run(const Stream& stream, const Tensor& x, const Tensor& y) const {
  if (zeros_)
    zeros_->run(stream, 0, y);
  else if (!same_elements(x, y) || x.buffer()() != y.buffer()())
    copy_->run(stream, x, y);
}

}  // namespace dlprim::detail
