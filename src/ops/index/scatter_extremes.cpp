// Writing by index, engine `extremes`: the least or largest of each place by atomic maxima of integers in a
// workspace of the table's places, whose result no order changes.
#include "ops/index/indexing_write.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kGroup = 256;

struct Extremes : WritePlan {
  Extremes(const Context& context, const WriteProblem& problem)
      : nest(problem.nest), loops(loops_by_index(nest)), keys(nest, loops), skip(problem.skip) {
    const Defines defines =
        write_defines(problem, loops).set("LEAST", problem.params.reduce == ScatterReduce::min);
    ProgramCache& programs = context.state().programs;
    clear = programs.kernel("scatter_winners", "scatter_unclaimed", {});
    images = programs.kernel("scatter_extremes", "scatter_images", defines);
    extremes = programs.kernel("scatter_extremes", "scatter_extremes", defines);
  }
  size_t workspace_size() const override { return static_cast<size_t>(keys.largest + 1) * 4; }

  void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices, const Tensor& table,
           const Tensor& workspace) const override {
    const int64_t places = keys.largest + 1;
    const auto count = static_cast<uint32_t>(places);
    const Tensor found = workspace_part(workspace, 0, {places}, DType::i32);
    const size_t group = kGroup;
    Launch(stream, clear).arg(found).arg(count).run({items_in_groups(places, kGroup)}, {group});
    Launch finds(stream, images);
    finds.arg(dense).arg(found);
    bind_nest(finds, nest, indices, loops.p, loops.w);
    finds.arg(skip);
    for (int64_t value : {loops.walked, keys.unit}) bind_offset(finds, nest.wide, value);
    finds.run({items_in_groups(loops.walked, kGroup)}, {group});
    Launch writes(stream, extremes);
    writes.arg(found).arg(table).arg(count);
    bind_offset(writes, nest.wide, keys.unit);
    writes.run({items_in_groups(places, kGroup)}, {group});
  }

  IndexNest nest;
  WriteLoops loops;
  WriteKeys keys;
  int64_t skip;
  Kernel clear, images, extremes;
};

std::string refuse(const Context&, const WriteProblem& problem, const EngineOptions&) {
  const ScatterParams& params = problem.params;
  if (params.reduce != ScatterReduce::min && params.reduce != ScatterReduce::max)
    return "it finds minima and maxima only";
  if (size_of(problem.accumulator) != 4) return cat(name_of(problem.accumulator), " has more than 32 bits");
  // Of i32 one number is also what says that nothing came: folded with the old value it changes nothing.
  if (!params.include_self && problem.dense.dtype == DType::i32) return "i32 has no number for nothing";
  const WriteLoops loops = loops_by_index(problem.nest);
  if (loops.columns > 1) return cat("an index says where ", loops.columns, " columns go, not one");
  return refuse_atomics(problem);
}

}  // namespace

const WriteEngine kWriteExtremes{
    "extremes", refuse,
    [](const Context& context, const WriteProblem& problem, const EngineOptions&) {
      return std::unique_ptr<const WritePlan>(std::make_unique<const Extremes>(context, problem));
    },
    avoid_atomics};

}  // namespace dlprim::detail
