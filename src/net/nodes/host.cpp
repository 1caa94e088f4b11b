#include "net/nodes/host.hpp"

#include <cmath>
#include <cstring>

namespace dlprim::detail {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

/// For each element of `shape`, row by row, its place at these steps.
template <class F>
void for_places(const Shape& shape, int64_t offset, const std::vector<int64_t>& strides, F f) {
  const int64_t count = element_count(shape);
  std::vector<int64_t> index(at(shape.size()), 0);
  int64_t place = offset;
  for (int64_t n = 0; n < count; n++) {
    f(place);
    for (int axis = shape.size(); axis-- > 0;) {
      place += strides[at(axis)];
      if (++index[at(axis)] < shape[axis]) break;
      place -= strides[at(axis)] * shape[axis];
      index[at(axis)] = 0;
    }
  }
}

/// Steps of a row-major tensor along the axes of what it broadcasts to.
std::vector<int64_t> broadcast_strides(const Shape& from, const Shape& to) {
  const Strides own = contiguous_strides(from);
  std::vector<int64_t> strides(at(to.size()), 0);
  for (int i = 0; i < from.size(); i++)
    if (from[i] != 1) strides[at(i + to.size() - from.size())] = own[i];
  return strides;
}

using Whole = int64_t (*)(int64_t, int64_t);
using Real = double (*)(double, double);

// Unsigned, as these wrap around.
int64_t wrapped(uint64_t v) {
  return static_cast<int64_t>(v);
}
int64_t trunc_quotient(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? wrapped(0 - static_cast<uint64_t>(a)) : a / b;
}
int64_t trunc_rest(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
int64_t floor_rest(int64_t a, int64_t b) {
  const int64_t rest = trunc_rest(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
int64_t floor_quotient(int64_t a, int64_t b) {
  return trunc_quotient(a, b) - (trunc_rest(a, b) != 0 && (a < 0) != (b < 0));
}

struct HostFunction {
  const char* name;
  Whole whole;
  Real real;
};
constexpr HostFunction kFunctions[] = {
    {"add", [](int64_t a, int64_t b) { return wrapped(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); },
     [](double a, double b) { return a + b; }},
    {"sub", [](int64_t a, int64_t b) { return wrapped(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); },
     [](double a, double b) { return a - b; }},
    {"mul", [](int64_t a, int64_t b) { return wrapped(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); },
     [](double a, double b) { return a * b; }},
    {"div", nullptr, [](double a, double b) { return a / b; }},
    {"trunc_divide", trunc_quotient, nullptr},
    {"floor_divide", floor_quotient, nullptr},
    {"fmod", trunc_rest, nullptr},
    {"remainder", floor_rest, nullptr},
    {"maximum", [](int64_t a, int64_t b) { return a > b ? a : b; },
     [](double a, double b) { return a > b || a != a ? a : b; }},
    {"minimum", [](int64_t a, int64_t b) { return a < b ? a : b; },
     [](double a, double b) { return a < b || a != a ? a : b; }},
    {"neg", [](int64_t a, int64_t) { return wrapped(0 - static_cast<uint64_t>(a)); },
     [](double a, double) { return -a; }},
    {"abs", [](int64_t a, int64_t) { return a < 0 ? wrapped(0 - static_cast<uint64_t>(a)) : a; },
     [](double a, double) { return std::fabs(a); }},
    {"floor", nullptr, [](double a, double) { return std::floor(a); }},
    {"ceil", nullptr, [](double a, double) { return std::ceil(a); }},
    {"round", nullptr, [](double a, double) { return std::nearbyint(a); }},
    {"sqrt", nullptr, [](double a, double) { return std::sqrt(a); }},
    {"equal", [](int64_t a, int64_t b) -> int64_t { return a == b; },
     [](double a, double b) -> double { return a == b; }},
    {"not_equal", [](int64_t a, int64_t b) -> int64_t { return a != b; },
     [](double a, double b) -> double { return a != b; }},
    {"less", [](int64_t a, int64_t b) -> int64_t { return a < b; },
     [](double a, double b) -> double { return a < b; }},
    {"less_equal", [](int64_t a, int64_t b) -> int64_t { return a <= b; },
     [](double a, double b) -> double { return a <= b; }},
    {"greater", [](int64_t a, int64_t b) -> int64_t { return a > b; },
     [](double a, double b) -> double { return a > b; }},
    {"greater_equal", [](int64_t a, int64_t b) -> int64_t { return a >= b; },
     [](double a, double b) -> double { return a >= b; }},
    {"logical_and", [](int64_t a, int64_t b) -> int64_t { return a && b; },
     [](double a, double b) -> double { return a != 0 && b != 0; }},
    {"logical_or", [](int64_t a, int64_t b) -> int64_t { return a || b; },
     [](double a, double b) -> double { return a != 0 || b != 0; }},
    {"logical_not", [](int64_t a, int64_t) -> int64_t { return !a; },
     [](double a, double) -> double { return a == 0; }},
};

/// An input's elements as it broadcasts to the output.
template <class E>
std::vector<E> stretched(const std::vector<E>& elements, const Shape& from, const Shape& to) {
  std::vector<E> out;
  for_places(to, 0, broadcast_strides(from, to), [&](int64_t place) { out.push_back(elements[at(place)]); });
  return out;
}

template <class E, class F>
void apply(NodeStep& step, const std::vector<std::vector<E>>& inputs, F f) {
  std::vector<E> y(inputs[0].size());
  for (size_t i = 0; i < y.size(); i++) y[i] = f(inputs[0][i], inputs.size() > 1 ? inputs[1][i] : E());
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape, y));
}

template <class E, class Read>
std::vector<std::vector<E>> stretched_inputs(NodeStep& step, Read read) {
  std::vector<std::vector<E>> inputs;
  for (int k = 0; k < step.input_count(); k++)
    inputs.push_back(stretched<E>(read(step.host(k)), step.shape(k), step.out(0).shape));
  return inputs;
}

bool where_on_host(NodeStep& step) {
  const auto x = stretched_inputs<int64_t>(step, integers_of);
  std::vector<int64_t> y(x[0].size());
  for (size_t i = 0; i < y.size(); i++) y[i] = x[0][i] != 0 ? x[1][i] : x[2][i];
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape, y));
  return true;
}

/// Whole numbers are computed as i64 here, which order in another way.
bool any_u64(const NodeStep& step) {
  for (int k = 0; k < step.input_count(); k++)
    if (step.dtype(k) == DType::u64) return true;
  return false;
}

}  // namespace

bool copy_on_host(NodeStep& step) {
  HostTensor y = step.host(0);
  y.shape = step.out(0).shape;
  step.set_host(0, std::move(y));
  return true;
}

bool cast_on_host(NodeStep& step) {
  const DType dtype = step.out(0).dtype;
  if (step.dtype(0) == DType::u64 && is_floating(dtype)) return false;  // integers() has i64
  if (is_floating(step.dtype(0)) && !is_floating(dtype) && dtype != DType::boolean) {
    std::vector<double> x = step.numbers(0);
    for (double& element : x)
      if (!(std::fabs(element) < 0x1p31)) return false;  // the device says what becomes of it
    step.set_host(0, host_tensor(DType::i64, step.out(0).shape, x));
    const std::vector<int64_t> whole = integers_of(*step.out(0).host);
    step.set_host(0, host_tensor(dtype, step.out(0).shape, whole));
  } else if (is_floating(step.dtype(0))) {
    step.set_host(0, host_tensor(dtype, step.out(0).shape, step.numbers(0)));
  } else {
    step.set_host(0, host_tensor(dtype, step.out(0).shape, step.integers(0)));
  }
  return true;
}

bool expand_on_host(NodeStep& step) {
  const Shape to = step.out(0).shape;
  if (element_count(to) > kMostOnHost) return false;
  view_on_host(step, 0, broadcast_strides(step.shape(0), to));
  return true;
}

bool concat_on_host(NodeStep& step) {
  if (step.rank(0) != 1) return false;
  HostTensor y{{}, step.out(0).dtype, step.out(0).shape, {}};
  for (int k = 0; k < step.input_count(); k++) {
    if (step.dtype(k) != y.dtype) return false;
    const HostTensor& x = step.host(k);
    y.data.insert(y.data.end(), x.data.begin(), x.data.end());
  }
  step.set_host(0, std::move(y));
  return true;
}

std::string elementwise_function_of(const NodeStep& step) {
  return step.text(step.has("whole") && !step.any_floating() ? "whole" : "function");
}

bool elementwise_on_host(NodeStep& step) {
  const std::string name = elementwise_function_of(step);
  if (step.has("parameters") || any_u64(step)) return false;
  if (name == "where" && !step.any_floating()) return where_on_host(step);
  for (const HostFunction& f : kFunctions) {
    if (name != f.name) continue;
    const bool floating = step.any_floating() || is_floating(step.out(0).dtype);
    if (floating ? f.real == nullptr : f.whole == nullptr) return false;
    if (floating)
      apply(step, stretched_inputs<double>(step, numbers_of), f.real);
    else
      apply(step, stretched_inputs<int64_t>(step, integers_of), f.whole);
    return true;
  }
  return false;
}

void view_on_host(NodeStep& step, int64_t offset, const std::vector<int64_t>& strides) {
  const HostTensor& x = step.host(0);
  const size_t size = size_of(x.dtype);
  HostTensor y{{}, x.dtype, step.out(0).shape, {}};
  for_places(y.shape, offset, strides, [&](int64_t place) {
    const auto* element = x.data.data() + at(place) * size;
    y.data.insert(y.data.end(), element, element + size);
  });
  step.set_host(0, std::move(y));
}

bool gather_on_host(NodeStep& step) {
  const int axis = step.axis("axis", 0, step.rank(0));
  if (step.rank(0) != 1 || axis != 0) return false;
  const HostTensor& x = step.host(0);
  const size_t size = size_of(x.dtype);
  const int64_t count = x.shape[0];
  HostTensor y{{}, x.dtype, step.out(0).shape, {}};
  for (int64_t index : step.integers(1)) {
    if (index < -count || index >= count) return false;
    const auto* element = x.data.data() + at(index < 0 ? index + count : index) * size;
    y.data.insert(y.data.end(), element, element + size);
  }
  step.set_host(0, std::move(y));
  return true;
}

}  // namespace dlprim::detail
