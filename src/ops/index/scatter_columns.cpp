// Writing by index, engine `columns`: a work-item, on CPUs a work-group, has columns of the table that
// nothing else writes, and walks in order what may meet there.
#include "ops/index/indexing_write.hpp"

namespace dlprim::detail {
namespace {

/// Rounding at every step costs accuracy, and a mean has to count.
bool folds_in_place(DType dtype, ScatterReduce reduce) {
  if (reduce == ScatterReduce::mean) return false;
  const bool rounds = reduce == ScatterReduce::sum || reduce == ScatterReduce::prod;
  return !rounds || (dtype != DType::f16 && dtype != DType::bf16);
}

struct Columns : WritePlan {
  Columns(const Context& context, const WriteProblem& problem)
      : nest(problem.nest), loops(loops_by_table(problem.nest)), skip(problem.skip) {
    const LoopDim& inner = loops.p.back();
    const bool cpu = context.device().kind() == DeviceKind::cpu, rows = !is_indexed_along(inner);
    const int64_t table_step = inner.strides[0], step = inner.strides[1];
    Defines defines = write_defines(problem, loops);
    defines.set("ROWS", rows && cpu).set("UNIT", table_step == 1 && step == 1);
    const LoopDim& walked = loops.w.back();
    defines.set("WALK_INNER", !cpu || (!rows && walked.size > 1 && walked.strides[1] < step));
    defines.set("INNER", cat("p", loops.p.size() - 1));
    kernel = context.state().programs.kernel("scatter_columns", "scatter_columns", defines);
    local = cpu ? 1 : 64;
    // Of narrow rows several are one group's, since each group walks all indices.
    chunk = cpu ? cpu_chunk(context, loops.columns, rows ? 64 : 16) : 1;
  }

  void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices, const Tensor& table,
           const Tensor& /*workspace*/) const override {
    Launch launch(stream, kernel);
    launch.arg(dense).arg(table);
    bind_nest(launch, nest, indices, loops.p, loops.w);
    launch.arg(skip);
    for (int64_t value : {loops.walked, loops.columns, chunk}) bind_offset(launch, nest.wide, value);
    launch.run({items_in_groups(ceil_div(loops.columns, chunk), static_cast<int64_t>(local))}, {local});
  }

  IndexNest nest;
  WriteLoops loops;
  int64_t skip, chunk = 1;  ///< chunk: columns of a work-item
  size_t local = 1;
  Kernel kernel;
};

std::string refuse(const Context&, const WriteProblem& problem, const EngineOptions&) {
  if (problem.params.reduce == ScatterReduce::mean) return "a mean needs counts";
  if (!folds_in_place(problem.table.dtype, problem.params.reduce))
    return cat("sums in ", name_of(problem.table.dtype), " would lose bits");
  return {};
}

std::string avoid(const Context& context, const WriteProblem& problem, const EngineOptions&) {
  if (context.device().kind() == DeviceKind::cpu) return {};
  const WriteLoops loops = loops_by_table(problem.nest);
  if (loops.columns >= kManyColumns || loops.walked <= kFewWalked || !refuse_sorting(problem).empty())
    return {};
  return cat(loops.columns, " columns are few: sorting is faster");
}

}  // namespace

const WriteEngine kWriteColumns{
    "columns", refuse,
    [](const Context& context, const WriteProblem& problem, const EngineOptions&) {
      return std::unique_ptr<const WritePlan>(std::make_unique<const Columns>(context, problem));
    },
    avoid};

}  // namespace dlprim::detail
