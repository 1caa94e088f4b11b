// The largest elements, distinct elements, boxes that do not overlap.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <dlprim/copy.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/sort.hpp>
#include <dlprim/unique.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/tables.hpp"

namespace dlprim::detail {
namespace {

/// Inputs: x, k (one number). Outputs: the k largest elements along "axis", or smallest without `largest`,
/// and their places, i64. sorted: in that order. Of equal elements those in front come first.
void infer_top_k(NodeStep& step) {
  const int axis = step.axis("axis", -1, step.rank(0));
  require(element_count(step.shape(1)) == 1, "k", "is ", step.shape(1), ", must be one number");
  const int64_t k = step.integers(1)[0];
  require(k >= 0 && k <= step.shape(0)[axis], "k", "is ", k, " of ", step.shape(0)[axis], " elements");
  Shape shape = step.shape(0);
  shape[axis] = k;
  step.output(0, step.dtype(0), shape);
  step.output(1, DType::i64, shape);
}
void run_top_k(NodeStep& step) {
  if (element_count(step.out(0).shape) == 0) {
    for (int k = 0; k < step.output_count(); k++) step.y(k);
    return;
  }
  const TopKParams params{step.axis("axis", -1, step.rank(0)), step.flag("largest", true),
                          step.flag("sorted", true)};
  const Tensor none;
  top_k(step.stream, step.x(0), params, step.wanted(0) ? step.y(0) : none, step.wanted(1) ? step.y(1) : none,
        step.options);
}

/// What `unique` gives: of each distinct element its first place, of each element its distinct one, how many.
struct Distinct {
  std::vector<int64_t> first, inverse, counts;
};

/// By rows of numbers, first to last. NaN is above all numbers and equal to nothing.
template <class T>
Distinct distinct_rows(const std::vector<T>& x, int64_t rows, bool sorted) {
  const auto size = rows == 0 ? 0 : static_cast<std::ptrdiff_t>(x.size()) / rows;
  const auto row = [&](int64_t i) { return x.begin() + i * size; };
  const auto less = [](T a, T b) { return a < b || (a == a && b != b); };
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(row(a), row(a) + size, row(b), row(b) + size, less);
  });
  Distinct d;
  d.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); i++) {
    if (i == 0 || !std::equal(row(order[i]), row(order[i]) + size, row(order[i - 1]))) {
      d.first.push_back(order[i]);
      d.counts.push_back(0);
    }
    d.counts.back()++;
    d.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(d.first.size()) - 1;
  }
  if (sorted) return d;
  std::vector<size_t> by_place(d.first.size()), rank(d.first.size());
  std::iota(by_place.begin(), by_place.end(), size_t{0});
  std::sort(by_place.begin(), by_place.end(), [&](size_t a, size_t b) { return d.first[a] < d.first[b]; });
  Distinct placed;
  for (size_t i = 0; i < by_place.size(); i++) {
    placed.first.push_back(d.first[by_place[i]]);
    placed.counts.push_back(d.counts[by_place[i]]);
    rank[by_place[i]] = i;
  }
  for (int64_t i : d.inverse) placed.inverse.push_back(static_cast<int64_t>(rank[static_cast<size_t>(i)]));
  return placed;
}

HostTensor list_of_places(const std::vector<int64_t>& elements) {
  return host_tensor(DType::i64, {static_cast<int64_t>(elements.size())}, elements);
}

/// The distinct elements in order, nothing else: on the device.
void run_unique_sorted(NodeStep& step) {
  step.set(0, unique(step.stream, step.x(0), false, false, step.options).y);
}

/// Outputs: the distinct elements of x, or its slices along "axis" if there is one; the first place of each;
/// for each element or slice its place in output 0; how many each stands for; i64. sorted: in ascending
/// order, else as they first come. Places are found on the host.
void run_unique(NodeStep& step) {
  const bool whole = !step.has("axis"), sorted = step.flag("sorted", true);
  const bool alone = !step.wanted(1) && !step.wanted(2) && !step.wanted(3);
  if (whole && sorted && alone && element_count(step.shape(0)) != 0) return run_unique_sorted(step);
  Tensor x = whole ? step.dense(0).reshape({element_count(step.shape(0))}) : step.x(0);
  const int axis = whole ? 0 : step.axis("axis", 0, step.rank(0));
  Dims order{axis};
  for (int i = 0; i < x.rank(); i++)
    if (i != axis) order.push_back(i);
  const Tensor rows = x.permute(order);
  const HostTensor host = to_host(step.stream, rows);
  const Distinct d = is_floating(x.dtype()) ? distinct_rows(numbers_of(host), x.size(axis), sorted)
                                            : distinct_rows(integers_of(host), x.size(axis), sorted);
  Shape shape = x.shape();
  shape[axis] = static_cast<int64_t>(d.first.size());
  step.output(0, x.dtype(), shape);
  if (step.wanted(0) && step.y().numel() != 0) {
    index_select(step.stream, x, table(step, {shape[axis]}, d.first), axis, step.y(), step.options);
  }
  step.set_host(1, list_of_places(d.first));
  step.set_host(2, list_of_places(d.inverse));
  step.set_host(3, list_of_places(d.counts));
}

struct Box {
  double x0, x1, y0, y1;
};

/// `center`: x and y of the middle, width, height; else y and x of two corners, in any order.
Box box_of(const double* b, bool center) {
  if (center) return {b[0] - b[2] / 2, b[0] + b[2] / 2, b[1] - b[3] / 2, b[1] + b[3] / 2};
  return {std::min(b[1], b[3]), std::max(b[1], b[3]), std::min(b[0], b[2]), std::max(b[0], b[2])};
}

/// What two boxes share of what they cover together, as f32: thresholds are of that dtype, and a quotient
/// that equals one must do so here.
float overlap(const Box& a, const Box& b) {
  const double width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0),
               height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const double area_a = (a.x1 - a.x0) * (a.y1 - a.y0), area_b = (b.x1 - b.x0) * (b.y1 - b.y0);
  if (width <= 0 || height <= 0 || area_a <= 0 || area_b <= 0) return 0;
  return static_cast<float>(width * height / (area_a + area_b - width * height));
}

struct Suppression {
  int64_t most = 0;
  float overlap = 0;
  double score = -std::numeric_limits<double>::infinity();
  bool has_score = false;
};

/// Of boxes from the highest score on those that no earlier one overlaps too much.
std::vector<int64_t> kept_boxes(const std::vector<Box>& boxes, const double* scores,
                                const Suppression& params) {
  std::vector<int64_t> order, kept;
  for (size_t i = 0; i < boxes.size(); i++)
    if (!params.has_score || scores[i] > params.score) order.push_back(static_cast<int64_t>(i));
  const auto score = [&](int64_t i) { return std::isnan(scores[i]) ? -HUGE_VAL : scores[i]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
  for (int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= params.most) break;
    const Box& box = boxes[static_cast<size_t>(i)];
    if (std::none_of(kept.begin(), kept.end(),
                     [&](int64_t k) { return overlap(box, boxes[static_cast<size_t>(k)]) > params.overlap; }))
      kept.push_back(i);
  }
  return kept;
}

/// Inputs: boxes: [N, B, 4], scores: [N, C, B], the most boxes of a class (0), the overlap from which on a
/// box goes (0), the score that it must pass (none). center: see box_of(). y: [kept, 3], i64: batch, class
/// and box. On the host.
void run_non_max_suppression(NodeStep& step) {
  const Shape &b = step.shape(0), &s = step.shape(1);
  require(b.size() == 3 && s.size() == 3 && b[2] == 4 && b[0] == s[0] && b[1] == s[2], "inputs", "boxes are ",
          b, ", scores ", s);
  for (int k = 2; k < 5; k++)
    require(!step.has(k) || element_count(step.shape(k)) == 1, "inputs", "input ", k, " must be one number");
  Suppression params;
  if (step.has(2)) params.most = step.integers(2)[0];
  if (step.has(3)) params.overlap = static_cast<float>(step.numbers(3)[0]);
  params.has_score = step.has(4);
  if (step.has(4)) params.score = step.numbers(4)[0];
  const std::vector<double> numbers = step.numbers(0), scores = step.numbers(1);
  std::vector<int64_t> y;
  for (int64_t n = 0; n < b[0]; n++) {
    std::vector<Box> boxes;
    for (int64_t i = 0; i < b[1]; i++)
      boxes.push_back(box_of(numbers.data() + (n * b[1] + i) * 4, step.flag("center")));
    for (int64_t c = 0; c < s[1]; c++)
      for (int64_t i : kept_boxes(boxes, scores.data() + (n * s[1] + c) * b[1], params))
        y.insert(y.end(), {n, c, i});
  }
  step.set_host(0, host_tensor(DType::i64, {static_cast<int64_t>(y.size()) / 3, 3}, y));
}

constexpr NodeKind kKinds[] = {
    {"top_k", 2, 2, infer_top_k, run_top_k},
    {"unique", 1, 1, nullptr, run_unique},
    {"non_max_suppression", 2, 5, nullptr, run_non_max_suppression},
};

}  // namespace

KindList sort_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
