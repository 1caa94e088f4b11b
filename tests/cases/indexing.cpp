// The references of indexing.hpp.
#include "cases/indexing.hpp"

#include <algorithm>
#include <cmath>

namespace dlprim::test {

Tensor index_tensor(const Shape& shape, const std::vector<int64_t>& values, DType dtype) {
  const Tensor x(context(), shape, dtype);
  if (dtype == DType::i64)
    write(stream(), x, values);
  else
    write(stream(), x, std::vector<int32_t>(values.begin(), values.end()));
  return x;
}

std::vector<int64_t> random_indices(int64_t count, int64_t size, Rng& rng, int outside) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; i++) {
    const bool beyond = rng.integer(0, 999) < outside;
    result.push_back(beyond ? (rng.integer(0, 1) ? size + rng.integer(0, 3) : -size - rng.integer(1, 3))
                            : rng.integer(-size, size - 1));
  }
  return result;
}

std::vector<int64_t> coordinates(const Shape& shape, int64_t i) {
  std::vector<int64_t> result(static_cast<size_t>(shape.size()));
  for (int d = shape.size(); d-- > 0; i /= shape[d]) result[static_cast<size_t>(d)] = i % shape[d];
  return result;
}

int64_t element_at(const Shape& shape, const std::vector<int64_t>& at) {
  int64_t result = 0;
  for (int d = 0; d < shape.size(); d++) {
    int64_t c = at[static_cast<size_t>(d)];
    if (c < 0) c += shape[d];
    if (c < 0 || c >= shape[d]) return -1;
    result = result * shape[d] + c;
  }
  return result;
}

std::vector<int64_t> scatter_places(const Shape& shape, const std::vector<int64_t>& index,
                                    const Shape& index_shape, int axis) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < index.size(); i++) {
    std::vector<int64_t> at = coordinates(index_shape, static_cast<int64_t>(i));
    at[static_cast<size_t>(axis)] = index[i];
    places.push_back(element_at(shape, at));
  }
  return places;
}

Values gather_reference(const Values& x, const Shape& shape, const std::vector<int64_t>& index,
                        const Shape& index_shape, int axis) {
  Values y;
  for (int64_t place : scatter_places(shape, index, index_shape, axis))
    y.push_back(place < 0 ? 0 : x[static_cast<size_t>(place)]);
  return y;
}

double fold_reference(ScatterReduce reduce, bool include_self, double old, const Values& values,
                      bool integers) {
  if (values.empty()) return old;
  if (reduce == ScatterReduce::none) return values.back();
  Values all = values;
  if (include_self) all.insert(all.begin(), old);
  double result = all[0];
  for (size_t i = 1; i < all.size(); i++) {
    const double v = all[i];
    const bool nan = std::isnan(result) || std::isnan(v);
    switch (reduce) {
      case ScatterReduce::prod:
        result *= v;
        break;
      case ScatterReduce::min:
        result = nan ? NAN : std::min(result, v);
        break;
      case ScatterReduce::max:
        result = nan ? NAN : std::max(result, v);
        break;
      default:
        result += v;
    }
  }
  if (reduce == ScatterReduce::mean) result /= static_cast<double>(all.size());
  return integers ? std::floor(result) : result;
}

Values scatter_reference(const Values& y, const std::vector<int64_t>& places, const Values& src,
                         const ScatterParams& params, bool integers) {
  std::vector<Values> met(y.size());
  for (size_t i = 0; i < places.size(); i++)
    if (places[i] >= 0) met[static_cast<size_t>(places[i])].push_back(src[i]);
  Values result;
  for (size_t i = 0; i < y.size(); i++)
    result.push_back(fold_reference(params.reduce, params.include_self, y[i], met[i], integers));
  return result;
}

}  // namespace dlprim::test
