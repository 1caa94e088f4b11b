// Arithmetic of shapes and strides.
#include <dlprim/dims.hpp>

#include <algorithm>

namespace dlprim {

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  bool overflow = false, empty = false;
  for (int64_t size : shape) {
    if (size < 0) throw ValidationError("shape", "negative size in " + to_string(shape));
    empty |= size == 0;
    // Zeros are left out, so that the strides of an empty tensor fit as well.
    overflow |= __builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count);
  }
  // Bytes must fit in 63 bits as well, whatever the dtype.
  if (overflow || count > INT64_MAX / 8)
    throw ValidationError("shape", "too many elements in " + to_string(shape));
  return empty ? 0 : count;
}

Strides contiguous_strides(const Shape& shape) {
  element_count(shape);
  Strides strides = Dims::filled(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; i--)
    strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.size(), b.size());
  Shape result = Dims::filled(rank, 1);
  for (int i = 0; i < rank; i++) {
    const int ia = i - (rank - a.size()), ib = i - (rank - b.size());
    const int64_t na = ia >= 0 ? a[ia] : 1, nb = ib >= 0 ? b[ib] : 1;
    if (na != nb && na != 1 && nb != 1)
      throw ValidationError("shape", to_string(a) + " and " + to_string(b) + " do not broadcast: " +
                                         std::to_string(na) + " against " + std::to_string(nb));
    result[i] = na == 1 ? nb : na;
  }
  return result;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.size(); i++) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

}  // namespace dlprim
