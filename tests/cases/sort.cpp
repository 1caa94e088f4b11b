#include "cases/sort.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlprim::test {

namespace {

/// Calls f(row's first element, first element of the row of k, distance of neighbours) for each row.
template <class F>
void for_rows(const Shape& shape, int axis, int64_t k, const F& f) {
  const AxisView view(shape, axis);
  for (int64_t o = 0; o < view.outer; o++)
    for (int64_t i = 0; i < view.inner; i++)
      f(o * view.size * view.inner + i, o * k * view.inner + i, view.inner);
}

}  // namespace

bool sorts_before(double a, double b) {
  return std::isnan(b) ? !std::isnan(a) : a < b;
}

std::vector<int64_t> sorted_places(const Values& x, const Shape& shape, int axis, bool descending,
                                   int64_t k) {
  const int64_t n = shape[axis];
  std::vector<int64_t> result(n == 0 ? 0 : x.size() / static_cast<size_t>(n) * static_cast<size_t>(k));
  for_rows(shape, axis, k, [&](int64_t from, int64_t to, int64_t step) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](int64_t e) { return x[static_cast<size_t>(from + e * step)]; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return descending ? sorts_before(at(b), at(a)) : sorts_before(at(a), at(b));
    });
    for (int64_t e = 0; e < k; e++)
      result[static_cast<size_t>(to + e * step)] = order[static_cast<size_t>(e)];
  });
  return result;
}

Values taken_at(const Values& x, const Shape& shape, int axis, const std::vector<int64_t>& places,
                int64_t k) {
  Values result(places.size());
  for_rows(shape, axis, k, [&](int64_t from, int64_t to, int64_t step) {
    for (int64_t e = 0; e < k; e++) {
      const auto at = static_cast<size_t>(to + e * step);
      result[at] = x[static_cast<size_t>(from + places[at] * step)];
    }
  });
  return result;
}

Values put_at(const Values& dy, const Shape& shape, int axis, const std::vector<int64_t>& places, int64_t k) {
  Values result(static_cast<size_t>(element_count(shape)), 0.0);
  for_rows(shape, axis, k, [&](int64_t to, int64_t from, int64_t step) {
    for (int64_t e = 0; e < k; e++) {
      const auto at = static_cast<size_t>(from + e * step);
      result[static_cast<size_t>(to + places[at] * step)] = dy[at];
    }
  });
  return result;
}

}  // namespace dlprim::test
