// Top-k engine `select`: the k-th key by its digits, then all before it: top_k_select.cl. They are sorted in
// local memory.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kTopKSelect;

namespace {

constexpr int kDigits = 256;

struct Select : SortImpl {
  Select(const Context& context, const SortProblem& problem, const Options& options)
      : SortImpl(problem), sorter(context, problem, problem.k, true) {
    const DeviceFacts& facts = context.device().facts();
    const EngineRequest request(options);
    if (request.names("select")) request.take({{"group", &group}});
    while (group > facts.max_work_group) group /= 2;
    constexpr int64_t kLeast = 16;  // elements of a work-item
    const int64_t rows = std::max(1, p.at.rows);
    const int64_t most = std::max<int64_t>(1, p.n / (kLeast * group));
    const int64_t wanted = std::clamp<int64_t>(ceil_div(8LL * facts.compute_units, rows), 1, most);
    part = static_cast<int>(ceil_div(p.n, wanted));
    parts = static_cast<int>(ceil_div(p.n, part));
    states_at = space.add(static_cast<size_t>(rows) * 16);
    counts_at = space.add(static_cast<size_t>(rows * std::max(kDigits, 2 * parts)) * 4);
    words_at = space.add(static_cast<size_t>(rows * p.k * p.word_bytes()));
    const auto kernel = [&](const char* name) {
      Defines defines = sort_defines(p);
      return context.state().programs.kernel("top_k_select", name, defines.set("GROUP", group));
    };
    start = kernel("select_start");
    count = kernel("select_count");
    pick = kernel("select_pick");
    tally = kernel("select_tally");
    collect = kernel("select_collect");
  }
  size_t workspace_size() const override { return space.size(); }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    const int64_t rows = p.at.rows;
    const Tensor states = workspace_part(ws, states_at, {rows * 2}, DType::i64);
    const Tensor counts = workspace_part(ws, counts_at, {rows * std::max(kDigits, 2 * parts)}, DType::i32);
    const Tensor words = workspace_part(ws, words_at, {rows * p.k * p.word_bytes() / 8}, DType::i64);
    const auto items = static_cast<size_t>(group), row_groups = static_cast<size_t>(rows) * items;
    const auto over_parts = [&](const Kernel& kernel, int shift, const Tensor* to) {
      Launch launch(stream, kernel);
      p.at.bind(launch, 0, t.x);
      p.bind_sizes(launch);
      launch.arg(states).arg(counts).arg(p.n).arg(part).arg(p.k).arg(shift);
      if (to) launch.arg(*to);
      launch.run({static_cast<size_t>(parts) * items, static_cast<size_t>(rows)}, {items, 1});
    };
    Launch(stream, start).arg(states).arg(counts).arg(p.k).run({row_groups}, {items});
    for (int shift = p.key_bits() - 8; shift >= 0; shift -= 8) {
      over_parts(count, shift, nullptr);
      Launch(stream, pick).arg(states).arg(counts).arg(shift).run({row_groups}, {items});
    }
    over_parts(tally, 0, nullptr);
    over_parts(collect, 0, &words);
    sorter.run(stream, p, t, words);
  }

  BitonicSorter sorter;
  int group = 256, part = 0, parts = 0;
  WorkspaceParts space;
  size_t states_at = 0, counts_at = 0, words_at = 0;
  Kernel start, count, pick, tally, collect;
};

std::string refuse(const Context& context, const SortProblem& p, const Options&) {
  const int longest = BitonicSorter::longest(context, p.word_bytes());
  if (p.k > longest) return cat("k of ", p.k, " is more than ", longest);
  if (p.k == 0) return "k is 0";
  return {};
}

std::unique_ptr<const SortImpl> make(const Context& context, const SortProblem& p, const Options& options) {
  return std::make_unique<Select>(context, p, options);
}

}  // namespace

const SortEngine kTopKSelect = {"select", refuse, make};

}  // namespace dlprim::detail
