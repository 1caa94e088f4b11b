// Sorting engines for long rows, by eight bits of their keys after the other: `radix`, and `pieces` for CPUs,
// where each work-group has one work-item and a long piece of a row.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kSortRadix, kSortPieces;

namespace {

constexpr int kDigits = 256;

struct Radix : SortImpl {
  Radix(const Context& context, const SortProblem& problem, const EngineOptions& options, bool pieces)
      : SortImpl(problem), cpu(pieces) {
    const DeviceFacts& facts = context.device().facts();
    int each = 1;
    if (cpu) {
      // Pieces for all cores, even if others keep one of them busy; but counting digits costs too.
      constexpr int64_t kLeast = 16384;
      const int64_t pieces = ceil_div(4 * facts.compute_units, std::max(1, p.at.rows));
      tile = static_cast<int>(std::max(kLeast, ceil_div(p.n, pieces)));
    } else {
      int items = 256;
      constexpr int64_t kOthers = 12 << 10;  // bytes of local memory besides the words
      each =
          word_bytes() <= 8 && 256 * 17 * word_bytes() + kOthers <= static_cast<int64_t>(facts.local_memory)
              ? 16
              : 8;
      options.request.take("radix", {{"group", &items}, {"each", &each}});
      while (items > facts.max_work_group) items /= 2;
      group = static_cast<size_t>(items);
      tile = static_cast<int>(group) * each;
    }
    tiles = static_cast<int>(ceil_div(p.n, tile));
    const int64_t words = 8 * words_size();
    if (passes() > 1) words_at[0] = parts.add(static_cast<size_t>(words));
    if (passes() > 2) words_at[1] = parts.add(static_cast<size_t>(words));
    counts_at = parts.add(static_cast<size_t>(p.at.rows) * kDigits * static_cast<size_t>(tiles) * 4);
    if (!cpu) totals_at = parts.add(static_cast<size_t>(p.at.rows) * kDigits * 4);
    make_kernels(context, each);
  }

  /// Elements are sorted without their places.
  bool alone() const { return !cpu && !p.indices; }
  int64_t word_bytes() const { return alone() ? p.key_bits() / 8 : p.word_bytes(); }
  /// Of a tensor of i64.
  int64_t words_size() const { return ceil_div(static_cast<int64_t>(p.at.rows) * p.n * word_bytes(), 8); }
  int passes() const { return p.key_bits() / 8; }
  size_t workspace_size() const override { return parts.size(); }

  void make_kernels(const Context& context, int each) {
    ProgramCache& programs = context.state().programs;
    const char* file = cpu ? "sort_radix_cpu" : "sort_radix";
    const auto kernel = [&](const char* name, bool first, bool last) {
      Defines defines = sort_defines(p);
      defines.set("FIRST", first).set("LAST", last);
      if (!cpu) defines.set("GROUP", static_cast<int>(group)).set("EACH", each).set("KEYS_ALONE", alone());
      return programs.kernel(file, name, defines);
    };
    // A program for the first pass, one for the last and one for those between, as many as there are.
    scan = kernel("radix_scan", true, passes() == 1);
    for (int pass = 0; pass < passes(); pass++) {
      const bool first = pass == 0, last = pass == passes() - 1;
      count.push_back(kernel("radix_count", first, last));
      move.push_back(kernel("radix_move", first, last));
    }
  }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    const Shape size{words_size()};
    const Tensor words[2] = {passes() > 1 ? workspace_part(ws, words_at[0], size, DType::i64) : Tensor(),
                             passes() > 2 ? workspace_part(ws, words_at[1], size, DType::i64) : Tensor()};
    const int64_t counters = static_cast<int64_t>(p.at.rows) * kDigits;
    const Tensor counts = workspace_part(ws, counts_at, {counters * tiles}, DType::i32);
    const Tensor totals = cpu ? Tensor() : workspace_part(ws, totals_at, {counters}, DType::i32);
    for (int pass = 0; pass < passes(); pass++) {
      const bool last = pass == passes() - 1;
      run_pass(stream, pass, t, pass == 0 ? Tensor() : words[(pass - 1) % 2], counts, totals,
               last ? Tensor() : words[pass % 2]);
    }
  }

  /// What both of a pass' larger kernels begin with.
  void bind(Launch& launch, int pass, const Tensor& x, const Tensor& from, const Tensor& counts) const {
    p.at.bind(launch, 0, x);
    p.bind_sizes(launch);
    launch.arg(from).arg(counts).arg(p.n).arg(tiles).arg(8 * pass);
    if (cpu) launch.arg(tile);
  }

  void run_pass(const Stream& stream, int pass, const SortTensors& t, const Tensor& from,
                const Tensor& counts, const Tensor& totals, const Tensor& to) const {
    const auto at = static_cast<size_t>(pass);
    const size_t columns = static_cast<size_t>(tiles) * group, rows = static_cast<size_t>(p.at.rows);
    {
      Launch launch(stream, count[at]);
      bind(launch, pass, t.x, from, counts);
      launch.run({columns, rows}, {group, 1});
    }
    if (cpu) {
      Launch(stream, scan).arg(counts).arg(tiles).run({rows}, {1});
    } else {
      int lanes = 1;
      while (lanes < tiles && lanes < static_cast<int>(group)) lanes *= 2;
      Launch launch(stream, scan);
      launch.arg(counts).arg(totals).arg(tiles).arg(lanes);
      launch.run({rows * kDigits * static_cast<size_t>(lanes)}, {group});
    }
    Launch launch(stream, move[at]);
    bind(launch, pass, t.x, from, counts);
    if (!cpu) launch.arg(totals);
    launch.arg(to);
    p.at.bind(launch, 1, t.y);
    p.at.bind(launch, 2, t.indices);
    launch.arg(p.k).run({columns, rows}, {group, 1});
  }

  const bool cpu;
  size_t group = 1;
  int tile = 0, tiles = 0;
  WorkspaceParts parts;
  size_t words_at[2] = {0, 0}, counts_at = 0, totals_at = 0;
  Kernel scan;
  std::vector<Kernel> count, move;  ///< of each pass
};

std::unique_ptr<const SortImpl> make_radix(const Context& context, const SortProblem& p,
                                           const EngineOptions& options) {
  return std::make_unique<Radix>(context, p, options, false);
}

std::unique_ptr<const SortImpl> make_pieces(const Context& context, const SortProblem& p,
                                            const EngineOptions& options) {
  return std::make_unique<Radix>(context, p, options, true);
}

}  // namespace

const SortEngine kSortRadix = {"radix", nullptr, make_radix, avoid_on_cpus};
const SortEngine kSortPieces = {"pieces", nullptr, make_pieces, avoid_unless_cpu};

}  // namespace dlprim::detail
