// Sorting engines for CPUs: `lanes`, short rows side by side in vectors; `rows`, a row after the other.
#include "core/composed.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kSortLanes, kSortRows;

namespace {

constexpr int kLongestInLanes = 128;

struct Cpu : SortImpl {
  Cpu(const Context& context, const SortProblem& problem, bool in_lanes) : SortImpl(problem) {
    block = rows_of_group(context, p);
    if (in_lanes) block = round_up(block, p.key_bits() <= 16 ? 16 : 8);
    if (!in_lanes) bytes = ceil_div(p.at.rows, block) * 2 * p.n * p.word_bytes();
    Defines defines = sort_defines(p, in_lanes && p.key_bits() <= 16);
    defines.set("IN_LANES", in_lanes);  // no compiler's time for the other kernel
    kernel = context.state().programs.kernel("sort_cpu", in_lanes ? "sort_lanes" : "sort_rows", defines);
  }
  size_t workspace_size() const override { return static_cast<size_t>(bytes); }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    Launch launch(stream, kernel);
    p.bind_all(launch, t);
    launch.arg(p.at.rows).arg(p.n).arg(p.k).arg(static_cast<int>(block));
    if (bytes > 0) launch.arg(workspace_part(ws, 0, {bytes / 8}, DType::i64));
    launch.run({static_cast<size_t>(ceil_div(p.at.rows, block))}, {1});
  }

  Kernel kernel;
  int64_t block = 1, bytes = 0;
};

std::string refuse_lanes(const Context&, const SortProblem& p, const EngineOptions&) {
  if (p.key_bits() == 64) return cat("elements of ", name_of(p.dtype), " have 64 bits");
  if (p.n > kLongestInLanes) return cat("rows of ", p.n, " are longer than ", kLongestInLanes);
  return {};
}

/// A row is sorted by one core.
std::string avoid_rows(const Context& context, const SortProblem& p, const EngineOptions&) {
  constexpr int kLong = 1 << 16;
  const int units = context.device().facts().compute_units;
  if (p.n >= kLong && p.at.rows < 2 * units)
    return cat(p.at.rows, " rows of ", p.n, " are too few for ", units, " compute units");
  return for_cpus(context.device());
}

std::unique_ptr<const SortImpl> make_lanes(const Context& context, const SortProblem& p,
                                           const EngineOptions&) {
  return std::make_unique<Cpu>(context, p, true);
}

std::unique_ptr<const SortImpl> make_rows(const Context& context, const SortProblem& p,
                                          const EngineOptions&) {
  return std::make_unique<Cpu>(context, p, false);
}

}  // namespace

const SortEngine kSortLanes = {"lanes", refuse_lanes, make_lanes, avoid_unless_cpu};
const SortEngine kSortRows = {"rows", nullptr, make_rows, avoid_rows};

}  // namespace dlprim::detail
