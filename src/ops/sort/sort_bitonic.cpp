// Engine `bitonic` of sort, top-k, k-th values and medians: short rows, in local memory.
#include <algorithm>

#include "core/composed.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kSortBitonic, kKthBitonic;

namespace {

/// One word in eight is left free: AT of sort_bitonic.cl.
int64_t local_bytes(int64_t words, int64_t word_bytes) {
  return (words + words / 8) * word_bytes;
}

/// Keys of 16 bits and their index fit in one word of 32.
bool halves(const SortProblem& p) {
  return p.key_bits() <= 16;
}

}  // namespace

int BitonicSorter::longest(const Context& context, int64_t word_bytes) {
  constexpr int kLongest = 4096;
  const DeviceFacts& facts = context.device().facts();
  int longest = kLongest;
  while (longest > 8 && (longest / 8 > facts.max_work_group ||
                         local_bytes(longest, word_bytes) > static_cast<int64_t>(facts.local_memory)))
    longest /= 2;
  return longest;
}

BitonicSorter::BitonicSorter(const Context& context, const SortProblem& p, int n, bool from_words) : n_(n) {
  int log_row = 3;
  while ((1 << log_row) < n) log_row++;
  const int64_t row = int64_t{1} << log_row;
  const DeviceFacts& facts = context.device().facts();
  const AxisSteps& steps = p.at.steps[0];
  const bool across = steps.rows[static_cast<size_t>(p.at.dims - 1)] == 1 && steps.axis != 1 && !from_words;
  // Many rows side by side for whole lines of memory.
  const int64_t word_bytes = halves(p) && !from_words ? 4 : p.word_bytes();
  int64_t most = across ? 256 : 64;
  while (most > facts.max_work_group ||
         local_bytes(8 * most, word_bytes) > static_cast<int64_t>(facts.local_memory))
    most /= 2;
  group_ = std::max(row / 8, most);
  rows_each_ = group_ * 8 / row;
  Defines defines = sort_defines(p, halves(p) && !from_words);
  defines.set("LOG_ROW", log_row).set("GROUP", group_).set("FROM_WORDS", from_words).set("ACROSS", across);
  defines.set("ONE", p.one).set("MEDIAN", static_cast<int>(p.median));
  kernel_ = context.state().programs.kernel("sort_bitonic", "sort_bitonic", defines);
}

void BitonicSorter::run(const Stream& stream, const SortProblem& p, const SortTensors& tensors,
                        const Tensor& words) const {
  Launch launch(stream, kernel_);
  p.bind_all(launch, tensors);
  launch.arg(p.at.rows).arg(n_).arg(p.one ? p.rank : p.k).arg(words);
  launch.run({static_cast<size_t>(ceil_div(p.at.rows, rows_each_) * group_)}, {static_cast<size_t>(group_)});
}

namespace {

struct Bitonic : SortImpl {
  Bitonic(const Context& context, const SortProblem& problem)
      : SortImpl(problem), sorter(context, problem, problem.n, false) {}
  void run(const Stream& stream, const SortTensors& tensors, const Tensor&) const override {
    sorter.run(stream, p, tensors, {});
  }
  BitonicSorter sorter;
};

std::string refuse(const Context& context, const SortProblem& p, const EngineOptions&) {
  const int longest = BitonicSorter::longest(context, halves(p) ? 4 : p.word_bytes());
  if (p.n > longest) return cat("rows of ", p.n, " are longer than ", longest);
  return {};
}

/// Sorting all for one element is worth it where rows are short.
std::string avoid_kth(const Context& context, const SortProblem& p, const EngineOptions&) {
  constexpr int kLongest = 128;
  return p.n > kLongest ? cat("rows of ", p.n, " are longer than ", kLongest) : for_gpus(context.device());
}

std::unique_ptr<const SortImpl> make(const Context& context, const SortProblem& p, const EngineOptions&) {
  return std::make_unique<Bitonic>(context, p);
}

}  // namespace

const SortEngine kSortBitonic = {"bitonic", refuse, make, avoid_on_cpus};
const SortEngine kKthBitonic = {"bitonic", refuse, make, avoid_kth};

}  // namespace dlprim::detail
