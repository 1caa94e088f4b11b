// Top-k engine `filter`, for CPUs: top_k_cpu.cl.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kTopKFilter;

namespace {

struct Filter : SortImpl {
  Filter(const Context& context, const SortProblem& problem) : SortImpl(problem) {
    // Rows that are too few for all cores are cut into pieces, which have to be worth a second run.
    const int64_t units = context.device().facts().compute_units;
    const int64_t least = std::max<int64_t>(8192, 4 * static_cast<int64_t>(p.k));
    pieces = std::clamp<int64_t>(ceil_div(2 * units, std::max(1, p.at.rows)), 1,
                                 std::max<int64_t>(1, p.n / least));
    room = round_up(2 * static_cast<int64_t>(p.k) + 32, 16);
    const int64_t rows = p.at.rows;
    space_at = parts.add(static_cast<size_t>(rows * pieces * 2 * room * p.word_bytes()));
    if (pieces > 1) words_at = parts.add(static_cast<size_t>(rows * pieces * p.k * p.word_bytes()));
    for (const bool second : {false, true}) {
      if (second && pieces == 1) break;
      Defines defines = sort_defines(p);
      defines.set("FROM_WORDS", second).set("TO_WORDS", !second && pieces > 1).set("SORTED", p.sorted);
      kernels[second ? 1 : 0] = context.state().programs.kernel("top_k_cpu", "top_k", defines);
    }
  }
  size_t workspace_size() const override { return parts.size(); }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    const int64_t rows = p.at.rows, word = p.word_bytes() / 8;
    const Tensor space = workspace_part(ws, space_at, {rows * pieces * 2 * room * word}, DType::i64);
    const Tensor words =
        pieces > 1 ? workspace_part(ws, words_at, {rows * pieces * p.k * word}, DType::i64) : space;
    run_kernel(stream, kernels[0], t, p.n, pieces, space, words);
    if (pieces > 1) run_kernel(stream, kernels[1], t, static_cast<int>(pieces) * p.k, 1, space, words);
  }

  void run_kernel(const Stream& stream, const Kernel& kernel, const SortTensors& t, int n, int64_t count,
                  const Tensor& space, const Tensor& words) const {
    Launch launch(stream, kernel);
    p.bind_all(launch, t);
    launch.arg(n).arg(p.k).arg(static_cast<int>(n / count)).arg(space).arg(static_cast<int>(room)).arg(words);
    launch.run({static_cast<size_t>(count), static_cast<size_t>(p.at.rows)}, {1, 1});
  }

  int64_t pieces = 1, room = 0;
  WorkspaceParts parts;
  size_t space_at = 0, words_at = 0;
  Kernel kernels[2];
};

std::string refuse(const Context&, const SortProblem& p, const EngineOptions&) {
  if (p.k > 1 << 20) return cat("k of ", p.k, " is more than ", 1 << 20);
  return {};
}

std::unique_ptr<const SortImpl> make(const Context& context, const SortProblem& p, const EngineOptions&) {
  return std::make_unique<Filter>(context, p);
}

}  // namespace

const SortEngine kTopKFilter = {"filter", refuse, make, avoid_unless_cpu};

}  // namespace dlprim::detail
