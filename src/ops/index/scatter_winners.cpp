// Writing by index, engine `winners`: without a fold the last element of each place is found by its number,
// in any order, and written; nothing is sorted.
#include <algorithm>

#include "core/gen/expression.hpp"
#include "ops/index/indexing_write.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kGroup = 256, kUnroll = 4;  ///< GROUP and U of scatter_winners.cl

struct Winners : WritePlan {
  Winners(const Context& context, const WriteProblem& problem) : nest(problem.nest), skip(problem.skip) {
    const DType dtype = problem.table.dtype;
    const bool words = dtype == problem.dense.dtype;
    const auto size = static_cast<int64_t>(size_of(dtype));
    const int64_t word = words ? take_words(nest, problem.table, problem.dense) : 1;
    loops = loops_by_index(nest);
    const WriteKeys keys(nest, loops);
    unit = keys.unit;
    places = keys.largest + 1;
    const LoopDim &p = loops.p.back(), &w = loops.w.back();
    walk_inner = loops.columns == 1 || (w.size > 1 && std::abs(w.strides[1]) < std::abs(p.strides[1]));
    while (across < (walk_inner ? loops.walked : loops.columns) && across < kGroup) across *= 2;
    const int64_t down = kGroup / across;
    blocks = walk_inner ? ceil_div(loops.walked, across * kUnroll) : ceil_div(loops.columns, across);
    groups = blocks * (walk_inner ? ceil_div(loops.columns, down) : ceil_div(loops.walked, down * kUnroll));

    Defines defines = nest_defines(nest, loops.p.size(), loops.w.size());
    defines.set("DTYPE", name_of(dtype)).set("T", storage_type(dtype));
    defines.set("S_DTYPE", name_of(problem.dense.dtype)).set("S", storage_type(problem.dense.dtype));
    defines.set("ACC", storage_type(problem.accumulator)).set("WORDS", words).set("WALK_INNER", walk_inner);
    defines.set("ELEMENT", word_type(size)).set("WORD", word_type(size * word));
    ProgramCache& programs = context.state().programs;
    unclaimed = programs.kernel("scatter_winners", "scatter_unclaimed", defines);
    claim = programs.kernel("scatter_winners", "scatter_claim", defines);
    settle = programs.kernel("scatter_winners", "scatter_settle", defines);
  }
  size_t workspace_size() const override { return static_cast<size_t>(places) * 4; }

  void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices, const Tensor& table,
           const Tensor& workspace) const override {
    const Tensor winners = workspace_part(workspace, 0, {places}, DType::i32);
    Launch(stream, unclaimed)
        .arg(winners)
        .arg(static_cast<uint32_t>(places))
        .run({items_in_groups(places, kGroup)}, {static_cast<size_t>(kGroup)});
    Launch claims(stream, claim);
    claims.arg(winners);
    bind_nest(claims, nest, indices, loops.p, loops.w);
    claims.arg(skip);
    for (int64_t value : {loops.walked, unit}) bind_offset(claims, nest.wide, value);
    claims.run({items_in_groups(loops.walked, kGroup)}, {static_cast<size_t>(kGroup)});
    Launch writes(stream, settle);
    writes.arg(dense).arg(table).arg(winners);
    bind_nest(writes, nest, indices, loops.p, loops.w);
    writes.arg(skip);
    for (int64_t value : {loops.walked, loops.columns, unit}) bind_offset(writes, nest.wide, value);
    writes.arg(static_cast<int>(across)).arg(static_cast<int>(blocks));
    writes.run({static_cast<size_t>(groups * kGroup)}, {static_cast<size_t>(kGroup)});
  }

  IndexNest nest;  ///< of words, where rows allow
  WriteLoops loops;
  int64_t skip, unit = 1, places = 1;
  bool walk_inner = false;
  int64_t across = 1, blocks = 1, groups = 1;  ///< see scatter_settle
  Kernel unclaimed, claim, settle;
};

std::string refuse(const Context&, const WriteProblem& problem, const EngineOptions&) {
  if (problem.params.reduce != ScatterReduce::none) return "there is a reduction";
  return refuse_atomics(problem);
}

}  // namespace

std::string refuse_atomics(const WriteProblem& problem) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  const WriteLoops loops = loops_by_index(problem.nest);
  const int64_t places = WriteKeys(problem.nest, loops).largest + 1;
  if (places > kMost) return cat(places, " places in the table are more than 2^31 - 1");
  if (loops.walked > kMost) return cat(loops.walked, " elements to number are more than 2^31 - 1");
  return {};
}

std::string avoid_atomics(const Context& context, const WriteProblem& problem, const EngineOptions&) {
  const WriteLoops loops = loops_by_index(problem.nest);
  const int64_t places = WriteKeys(problem.nest, loops).largest + 1;
  if (context.device().kind() == DeviceKind::cpu) return "atomic operations cost a CPU more than walking";
  const int64_t met = loops_by_table(problem.nest).walked;
  if (met <= kFewWalked) return cat(met, " elements that may meet are few");
  if (places / kPlacesPerElement > loops.walked * loops.columns)
    return cat(loops.walked * loops.columns, " elements are few for ", places, " places");
  return {};
}

const WriteEngine kWriteWinners{
    "winners", refuse,
    [](const Context& context, const WriteProblem& problem, const EngineOptions&) {
      return std::unique_ptr<const WritePlan>(std::make_unique<const Winners>(context, problem));
    },
    avoid_atomics};

}  // namespace dlprim::detail
