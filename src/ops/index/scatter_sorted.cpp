// Writing by index, engine `sorted`: elements are sorted by their place in the table, and what meets is
// folded in parts.
#include <algorithm>

#include "ops/index/indexing_write.hpp"
#include "ops/sort/sort_pairs.hpp"

namespace dlprim::detail {
namespace {

struct Sorted : WritePlan {
  Sorted(const Context& context, const WriteProblem& problem)
      : nest(problem.nest),
        loops(loops_by_index(problem.nest)),
        keys(problem.nest, loops),
        skip(problem.skip),
        accumulator(problem.accumulator),
        rows(loops.columns >= 64 ? 32 : 16),
        chunks(ceil_div(loops.walked, rows)),
        sort(context, loops.walked, bits_of(static_cast<uint64_t>(keys.largest) + 1)) {
    ProgramCache& programs = context.state().programs;
    const Defines defines = write_defines(problem, loops);
    make_keys = programs.kernel("scatter_sorted", "scatter_keys", defines);
    fold_chunks = programs.kernel("scatter_sorted", "scatter_chunks", defines);
    combine = programs.kernel("scatter_sorted", "scatter_combine", defines);
    const int64_t most = std::min<int64_t>(256, fold_chunks.max_work_group());
    size_t across = 1;
    while (static_cast<int64_t>(across) < loops.columns && static_cast<int64_t>(across) < most) across *= 2;
    local[0] = across;
    local[1] = static_cast<size_t>(std::max<int64_t>(1, most / static_cast<int64_t>(across)));
    const size_t bytes = static_cast<size_t>(loops.walked) * 4;
    for (size_t& at : pairs_at) at = layout.add(bytes);
    sort_at = layout.add(sort.workspace_size());
    parts_at = layout.add(static_cast<size_t>(2 * chunks * loops.columns) * size_of(accumulator));
  }
  size_t workspace_size() const override { return layout.size(); }

  void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices, const Tensor& table,
           const Tensor& workspace) const override {
    const auto pair = [&](size_t which) {
      return workspace_part(workspace, pairs_at[which], {loops.walked}, DType::i32);
    };
    const Tensor numbers = pair(0), values = pair(1), sorted_keys = pair(2), sorted_values = pair(3);
    const auto outside = static_cast<uint32_t>(keys.largest + 1);
    Launch first(stream, make_keys);
    first.arg(numbers).arg(values);
    bind_nest(first, nest, indices, loops.p, loops.w);
    first.arg(skip);
    for (int64_t value : {loops.walked, keys.unit}) bind_offset(first, nest.wide, value);
    first.arg(outside).run({items_in_groups(loops.walked, 64)}, {64});
    sort.run(stream, numbers, values, sorted_keys, sorted_values,
             workspace_part(workspace, sort_at, {static_cast<int64_t>(sort.workspace_size())}, DType::u8));

    const Tensor parts = workspace_part(workspace, parts_at, {2 * chunks * loops.columns}, accumulator);
    const size_t across = items_in_groups(loops.columns, static_cast<int64_t>(local[0])),
                 down = items_in_groups(chunks, static_cast<int64_t>(local[1]));
    for (const Kernel* kernel : {&fold_chunks, &combine}) {
      Launch launch(stream, *kernel);
      launch.arg(sorted_keys).arg(sorted_values).arg(dense).arg(table).arg(parts);
      bind_nest(launch, nest, indices, loops.p, loops.w);
      launch.arg(static_cast<int>(loops.walked));
      bind_offset(launch, nest.wide, loops.columns);
      launch.arg(static_cast<int>(rows)).arg(static_cast<int>(chunks));
      bind_offset(launch, nest.wide, keys.unit);
      launch.arg(outside);
      launch.run({across, down}, {local[0], local[1]});
    }
  }

  IndexNest nest;
  WriteLoops loops;
  WriteKeys keys;
  int64_t skip;
  DType accumulator;
  int64_t rows, chunks;  ///< rows: sorted ones that a work-item folds
  SortPairs sort;
  Kernel make_keys, fold_chunks, combine;
  size_t local[2] = {1, 1};
  WorkspaceParts layout;
  size_t pairs_at[4] = {}, sort_at = 0, parts_at = 0;  ///< pairs: keys, values, and both sorted
};

std::string refuse(const Context&, const WriteProblem& problem, const EngineOptions&) {
  return refuse_sorting(problem);
}

}  // namespace

std::string refuse_sorting(const WriteProblem& problem) {
  constexpr int64_t kMost = (int64_t{1} << 32) - 2;
  const WriteLoops loops = loops_by_index(problem.nest);
  const WriteKeys keys(problem.nest, loops);
  if (keys.largest > kMost) return cat(keys.largest, " places in the table are more than 2^32 - 2");
  if (extent_of(problem.dense) > kMost)
    return cat("elements reach ", extent_of(problem.dense), " far, more than 2^32 - 2");
  if (loops.walked >= int64_t{1} << 31) return cat(loops.walked, " elements to sort are more than 2^31 - 1");
  return {};
}

const WriteEngine kWriteSorted{
    "sorted", refuse, [](const Context& context, const WriteProblem& problem, const EngineOptions&) {
      return std::unique_ptr<const WritePlan>(std::make_unique<const Sorted>(context, problem));
    }};

}  // namespace dlprim::detail
