#include "cases/pool.hpp"

#include <cmath>
#include <limits>

namespace dlprim::test {
namespace {

/// The taps of a window along one axis that lie in x, and how many lie in x with its padding.
struct Line {
  std::vector<int64_t> taps;
  int64_t padded = 0, whole = 0;
  Line(const PoolParams& p, int axis, int64_t size, int64_t count, int64_t window) {
    if (!p.output.empty()) {
      for (int64_t i = 0; i < size;
           i++)  // those that share a point with [window / count, (window + 1) / count)
        if ((i + 1) * count > window * size && i * count < (window + 1) * size) taps.push_back(i);
      padded = whole = static_cast<int64_t>(taps.size());
      return;
    }
    const auto number = [&](const Dims& list, int64_t otherwise) {
      return list.empty() ? otherwise : list[list.size() == 1 ? 0 : axis];
    };
    const int64_t stride = number(p.stride, p.kernel[axis]), dilation = number(p.dilation, 1);
    const int64_t begin = number(p.pad_begin, 0), end = number(p.pad_end, begin);
    whole = p.kernel[axis];
    for (int64_t t = 0; t < whole; t++) {
      const int64_t i = window * stride - begin + t * dilation;
      padded += i < size + end ? 1 : 0;
      if (i >= 0 && i < size) taps.push_back(i);
    }
  }
};

/// Calls f(index into y, places in x, elements that count, elements of a whole window) for every window; a
/// place is the plane's offset and the place in the plane.
template <class F>
void for_windows(const Shape& x, const PoolParams& p, const F& f) {
  const Shape y = pool_output_shape(x, p);
  const int spatial = p.output.empty() ? p.kernel.size() : p.output.size(), leading = x.size() - spatial;
  int64_t planes = 1, sizes[3] = {1, 1, 1}, counts[3] = {1, 1, 1};
  for (int i = 0; i < leading; i++) planes *= x[i];
  for (int i = 0; i < spatial; i++)
    sizes[3 - spatial + i] = x[leading + i], counts[3 - spatial + i] = y[leading + i];
  const auto line = [&](int axis, int64_t window) {
    PoolParams one;
    one.kernel = {1};
    const int i = axis - (3 - spatial);
    return i < 0 ? Line(one, 0, 1, 1, 0) : Line(p, i, sizes[axis], counts[axis], window);
  };
  size_t index = 0;
  for (int64_t plane = 0; plane < planes; plane++)
    for (int64_t o = 0; o < counts[0]; o++)
      for (int64_t q = 0; q < counts[1]; q++)
        for (int64_t r = 0; r < counts[2]; r++) {
          const Line d = line(0, o), h = line(1, q), w = line(2, r);
          std::vector<int64_t> places;
          for (int64_t a : d.taps)
            for (int64_t b : h.taps)
              for (int64_t c : w.taps) places.push_back((a * sizes[1] + b) * sizes[2] + c);
          const int64_t padded = d.padded * h.padded * w.padded, whole = d.whole * h.whole * w.whole;
          const bool include = p.count_include_pad || p.mode == PoolMode::lp;
          const double counted = static_cast<double>(include ? padded : static_cast<int64_t>(places.size()));
          f(index++, plane * sizes[0] * sizes[1] * sizes[2], places, std::max(counted, 1.0),
            static_cast<double>(whole));
        }
}

double average_divisor(const PoolParams& p, double counted) {
  return p.divisor != 0 ? static_cast<double>(p.divisor) : counted;
}

}  // namespace

Pooled pool_reference(const Values& x, const Shape& shape, const PoolParams& p) {
  const auto count = static_cast<size_t>(element_count(pool_output_shape(shape, p)));
  Pooled result{Values(count), std::vector<int64_t>(count)};
  for_windows(shape, p,
              [&](size_t i, int64_t plane, const std::vector<int64_t>& places, double counted, double whole) {
                double sum = 0, powers = 0, best = -std::numeric_limits<double>::infinity();
                int64_t where = places.empty() ? -1 : places[0];
                for (int64_t place : places) {
                  const double v = x[static_cast<size_t>(plane + place)];
                  sum += v;
                  powers += std::pow(v, p.norm);
                  if (v > best || std::isnan(v)) best = v, where = place;
                }
                result.y[i] = p.mode == PoolMode::max       ? best
                              : p.mode == PoolMode::average ? sum / average_divisor(p, counted)
                                                            : std::pow(powers / counted * whole, 1 / p.norm);
                result.indices[i] = where;
              });
  return result;
}

Values pool_backward_reference(const Values& dy, const Values& x, const Shape& shape, const PoolParams& p) {
  Values dx(x.size(), 0.0);
  const Pooled forward = pool_reference(x, shape, p);
  for_windows(shape, p,
              [&](size_t i, int64_t plane, const std::vector<int64_t>& places, double counted, double whole) {
                for (int64_t place : places) {
                  const auto at = static_cast<size_t>(plane + place);
                  if (p.mode == PoolMode::max)
                    dx[at] += place == forward.indices[i] ? dy[i] : 0;
                  else if (p.mode == PoolMode::average)
                    dx[at] += dy[i] / average_divisor(p, counted);
                  else if (forward.y[i] != 0)
                    dx[at] += dy[i] * whole / counted * std::pow(x[at], p.norm - 1) *
                              std::pow(forward.y[i], 1 - p.norm);
                }
              });
  return dx;
}

}  // namespace dlprim::test
