// Counts of short sequences of numbers, on the host.
#include <algorithm>
#include <map>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

/// A sequence that is looked for, and its column.
using Grams = std::map<std::vector<int64_t>, int64_t>;

/// The sequences of "pool" from min to max numbers. "starts" says where those of one number begin, of two,
/// ...
Grams grams_of(const NodeStep& step) {
  const std::vector<int64_t> pool = step.integers("pool"), columns = step.integers("columns");
  std::vector<int64_t> starts = step.integers("starts");
  starts.push_back(static_cast<int64_t>(pool.size()));
  Grams grams;
  size_t number = 0;
  for (size_t n = 1; n < starts.size(); n++) {
    const int64_t begin = starts[n - 1], end = starts[n], length = static_cast<int64_t>(n);
    require(begin >= 0 && begin <= end && end <= starts.back() && (end - begin) % length == 0, "starts",
            begin, " to ", end, " holds no sequences of ", length);
    for (int64_t at = begin; at < end; at += length, number++) {
      require(number < columns.size() && columns[number] >= 0, "columns", "there is none for sequence ",
              number);
      if (length < step.integer("min", 1) || length > step.integer("max", 1)) continue;
      const auto first = pool.begin() + at;
      require(grams.emplace(std::vector<int64_t>(first, first + length), columns[number]).second, "pool",
              "sequence ", number, " stands twice");
    }
  }
  require(number == columns.size(), "columns", columns.size(), " for ", number, " sequences");
  return grams;
}

/// Input: x: [C] or [N, C], whole numbers. pool, starts, min, max: see grams_of(); columns: of y, one for
/// each sequence of the pool; skips: a sequence's numbers may lie up to so many apart, evenly. y: [...,
/// columns], f32: how often each is found; presence: whether it is; times `weights` of columns, if there are
/// any.
void infer_count_ngrams(NodeStep& step) {
  const std::vector<int64_t> columns = step.integers("columns");
  require(step.rank(0) == 1 || step.rank(0) == 2, "x", step.shape(0), " must have rank 1 or 2");
  require(!columns.empty(), "columns", "there are none");
  require(step.integer("min", 1) >= 1 && step.integer("skips", 0) >= 0, "min", step.integer("min", 1),
          " must be 1 or more, skips, ", step.integer("skips", 0), ", 0 or more");
  constexpr int64_t kMost = int64_t{1} << 24;
  for (int64_t column : columns) require(column < kMost, "columns", column, " must be less than ", kMost);
  Shape shape = step.shape(0);
  shape[shape.size() - 1] = *std::max_element(columns.begin(), columns.end()) + 1;
  const auto weights = static_cast<int64_t>(step.numbers("weights").size());
  require(weights == 0 || weights == shape.back(), "weights", weights, " for ", shape.back(), " columns");
  step.output(0, DType::f32, shape);
}
void run_count_ngrams(NodeStep& step) {
  const Grams grams = grams_of(step);
  const std::vector<int64_t> x = step.integers(0);
  const std::vector<double> weights = step.numbers("weights");
  const int64_t size = step.shape(0).back(), columns = step.out(0).shape.back(),
                farthest = std::min(step.integer("skips", 0), size) + 1;
  std::vector<double> y(static_cast<size_t>(element_count(step.out(0).shape)));
  const int64_t rows = static_cast<int64_t>(y.size()) / columns;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t length = step.integer("min", 1); length <= std::min(step.integer("max", 1), size); length++)
      for (int64_t apart = 1; apart <= (length == 1 ? 1 : farthest); apart++)
        for (int64_t at = 0; at < size - (length - 1) * apart; at++) {
          std::vector<int64_t> gram;
          for (int64_t i = 0; i < length; i++)
            gram.push_back(x[static_cast<size_t>(row * size + at + i * apart)]);
          const auto found = grams.find(gram);
          if (found != grams.end()) y[static_cast<size_t>(row * columns + found->second)]++;
        }
  for (size_t i = 0; i < y.size(); i++) {
    if (step.flag("presence")) y[i] = std::min(y[i], 1.0);
    if (!weights.empty()) y[i] *= weights[i % weights.size()];
  }
  step.set_host(0, host_tensor(DType::f32, step.out(0).shape, y));
}

constexpr NodeKind kKinds[] = {
    {"count_ngrams", 1, 1, infer_count_ngrams, run_count_ngrams},
};

}  // namespace

KindList ngram_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
