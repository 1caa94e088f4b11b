// Top-k engine `select`: the k-th key by its digits, then all before it: top_k_select.cl. They are sorted in
// local memory.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kTopKSelect;

namespace {

struct Select : SortImpl {
  Select(const Context& context, const SortProblem& problem, const EngineOptions& options)
      : SortImpl(problem), sorter(context, problem, problem.k, true) {
    int group = 256;
    options.request.take("select", {{"group", &group}});
    while (group > context.device().facts().max_work_group) group /= 2;
    const Defines defines = sort_defines(p).set("GROUP", group);
    search.emplace(context, p, "top_k_select", defines, group);
    const int64_t rows = std::max(1, p.at.rows);
    counts_of_row = std::max<int64_t>(DigitSearch::kDigits, 2 * search->parts);
    states_at = space.add(static_cast<size_t>(rows) * 16);
    counts_at = space.add(static_cast<size_t>(rows * counts_of_row) * 4);
    words_at = space.add(static_cast<size_t>(rows * p.k * p.word_bytes()));
    const auto kernel = [&](const char* name) {
      return context.state().programs.kernel("top_k_select", name, defines);
    };
    start = kernel("select_start");
    tally = kernel("select_tally");
    collect = kernel("select_collect");
  }
  size_t workspace_size() const override { return space.size(); }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    const int64_t rows = p.at.rows;
    const Tensor states = workspace_part(ws, states_at, {rows * 2}, DType::i64);
    const Tensor counts = workspace_part(ws, counts_at, {rows * counts_of_row}, DType::i32);
    const Tensor words = workspace_part(ws, words_at, {rows * p.k * p.word_bytes() / 8}, DType::i64);
    const size_t items = search->group;
    Launch(stream, start).arg(states).arg(counts).arg(p.k).run({static_cast<size_t>(rows) * items}, {items});
    search->run(stream, p, t.x, states, counts);
    search->over_parts(stream, tally, p, t.x, states, counts, 0);
    search->over_parts(stream, collect, p, t.x, states, counts, 0, &words);
    sorter.run(stream, p, t, words);
  }

  BitonicSorter sorter;
  std::optional<DigitSearch> search;
  WorkspaceParts space;
  int64_t counts_of_row = 0;
  size_t states_at = 0, counts_at = 0, words_at = 0;
  Kernel start, tally, collect;
};

std::string refuse(const Context& context, const SortProblem& p, const EngineOptions&) {
  const int longest = BitonicSorter::longest(context, p.word_bytes());
  if (p.k > longest) return cat("k of ", p.k, " is more than ", longest);
  if (p.k == 0) return "k is 0";
  return {};
}

std::unique_ptr<const SortImpl> make(const Context& context, const SortProblem& p,
                                     const EngineOptions& options) {
  return std::make_unique<Select>(context, p, options);
}

}  // namespace

DigitSearch::DigitSearch(const Context& context, const SortProblem& p, const char* source,
                         const Defines& defines, int items)
    : group(static_cast<size_t>(items)),
      count(context.state().programs.kernel(source, "select_count", defines)),
      pick(context.state().programs.kernel(source, "select_pick", defines)) {
  constexpr int64_t kLeast = 16;  // elements of a work-item
  const int64_t most = std::max<int64_t>(1, p.n / (kLeast * items));
  const int64_t groups = 8LL * context.device().facts().compute_units;
  const int64_t wanted = std::clamp<int64_t>(ceil_div(groups, std::max(1, p.at.rows)), 1, most);
  part = static_cast<int>(ceil_div(p.n, wanted));
  parts = static_cast<int>(ceil_div(p.n, part));
}

void DigitSearch::over_parts(const Stream& stream, const Kernel& kernel, const SortProblem& p,
                             const Tensor& x, const Tensor& states, const Tensor& counts, int shift,
                             const Tensor* to) const {
  Launch launch(stream, kernel);
  p.at.bind(launch, 0, x);
  p.bind_sizes(launch);
  launch.arg(states).arg(counts).arg(p.n).arg(part).arg(p.k).arg(shift);
  if (to) launch.arg(*to);
  launch.run({static_cast<size_t>(parts) * group, static_cast<size_t>(p.at.rows)}, {group, 1});
}

void DigitSearch::run(const Stream& stream, const SortProblem& p, const Tensor& x, const Tensor& states,
                      const Tensor& counts) const {
  for (int shift = p.key_bits() - 8; shift >= 0; shift -= 8) {
    over_parts(stream, count, p, x, states, counts, shift);
    Launch(stream, pick)
        .arg(states)
        .arg(counts)
        .arg(shift)
        .run({static_cast<size_t>(p.at.rows) * group}, {group});
  }
}

const SortEngine kTopKSelect = {"select", refuse, make, avoid_on_cpus};

}  // namespace dlprim::detail
