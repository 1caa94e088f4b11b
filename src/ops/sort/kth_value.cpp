// Engines of k-th values and medians: `rows`, for CPUs (kth_value_cpu.cl), and `select` (kth_value.cl). A
// third one is in sort_bitonic.cpp.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kKthRows, kKthSelect;

namespace {

Defines kth_defines(const SortProblem& p) {
  return sort_defines(p).set("MEDIAN", static_cast<int>(p.median));
}

struct Rows : SortImpl {
  Rows(const Context& context, const SortProblem& problem) : SortImpl(problem) {
    block = rows_of_group(context, p);
    count = ceil_div(p.at.rows, block);
    kernel = context.state().programs.kernel("kth_value_cpu", "kth_rows", kth_defines(p));
  }
  /// Of keys, which have 32 or 64 bits.
  DType key() const { return p.key_bits() == 64 ? DType::i64 : DType::i32; }
  size_t workspace_size() const override {
    return static_cast<size_t>(count) * static_cast<size_t>(p.n) * size_of(key());
  }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    Launch launch(stream, kernel);
    p.at.bind_all(launch, {&t.x, &t.y, &t.indices});
    launch.arg(p.at.rows).arg(p.n).arg(p.rank).arg(static_cast<int>(block));
    launch.arg(workspace_part(ws, 0, {count * p.n}, key())).run({static_cast<size_t>(count)}, {1});
  }

  Kernel kernel;
  int64_t block = 1, count = 0;
};

struct Select : SortImpl {
  Select(const Context& context, const SortProblem& problem, const EngineOptions& options)
      : SortImpl(problem) {
    const DeviceFacts& facts = context.device().facts();
    constexpr int kLong = 16384;  // elements of a row from which on parts are worth their launches
    const int rows = std::max(1, p.at.rows);
    int in_parts = p.n >= kLong && rows < 2 * facts.compute_units;
    options.request.take("select", {{"group", &group}, {"parts", &in_parts}});
    while (group > facts.max_work_group) group /= 2;
    lanes = p.n <= 2048 ? std::min(32, group) : group;
    Defines defines = kth_defines(p);
    defines.set("GROUP", group).set("LANES", lanes);
    const auto kernel = [&](const char* name) {
      return context.state().programs.kernel("kth_value", name, defines);
    };
    if (!in_parts) {
      all = kernel("kth_rows");
      return;
    }
    search.emplace(context, p, "kth_value", defines, group);
    states_at = space.add(static_cast<size_t>(rows) * 16);
    counts_at = space.add(static_cast<size_t>(rows) * DigitSearch::kDigits * 4);
    start = kernel("kth_start");
    if (counts_nans()) nans = kernel("kth_nans");
    rank = kernel("kth_rank");
    find = kernel("kth_find");
    store = kernel("kth_store");
  }
  size_t workspace_size() const override { return space.size(); }
  bool counts_nans() const { return p.median != Median::none && is_floating(p.dtype); }

  void bind_rows(Launch& launch, const SortTensors& t) const {
    p.at.bind_all(launch, {&t.x, &t.y, &t.indices});
    launch.arg(p.at.rows);
  }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    const auto items = static_cast<size_t>(group), rows = static_cast<size_t>(p.at.rows);
    if (!search) {
      Launch launch(stream, all);
      bind_rows(launch, t);
      launch.arg(p.n).arg(p.rank);
      launch.run({static_cast<size_t>(ceil_div(p.at.rows, group / lanes)) * items}, {items});
      return;
    }
    const Tensor states = workspace_part(ws, states_at, {p.at.rows * int64_t{2}}, DType::i64);
    const Tensor counts = workspace_part(ws, counts_at, {p.at.rows * DigitSearch::kDigits}, DType::i32);
    Launch(stream, start).arg(states).arg(counts).run({rows * items}, {items});
    if (counts_nans()) search->over_parts(stream, nans, p, t.x, states, counts, 0);
    Launch(stream, rank).arg(states).arg(p.at.rows).arg(p.n).arg(p.rank).run({rows}, {1});
    search->run(stream, p, t.x, states, counts);
    search->over_parts(stream, find, p, t.x, states, counts, 0);
    Launch last(stream, store);
    last.arg(states);
    bind_rows(last, t);
    last.run({rows}, {1});
  }

  int group = 256, lanes = 32;
  std::optional<DigitSearch> search;
  WorkspaceParts space;
  size_t states_at = 0, counts_at = 0;
  Kernel all, start, nans, rank, find, store;
};

std::unique_ptr<const SortImpl> make_rows(const Context& context, const SortProblem& p,
                                          const EngineOptions&) {
  return std::make_unique<Rows>(context, p);
}

std::unique_ptr<const SortImpl> make_select(const Context& context, const SortProblem& p,
                                            const EngineOptions& options) {
  return std::make_unique<Select>(context, p, options);
}

}  // namespace

const SortEngine kKthRows = {"rows", nullptr, make_rows, avoid_unless_cpu};
const SortEngine kKthSelect = {"select", nullptr, make_select};

}  // namespace dlprim::detail
