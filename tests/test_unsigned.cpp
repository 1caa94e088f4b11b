// u16, u32 and u64 in every operator that takes them: numbers beyond 2^31 and 2^63, sums that wrap around,
// orders of what would be negative, and what is refused. Quotients, rests, powers and shifts are among
// test_elementwise's whole numbers.
#include <algorithm>
#include <limits>

#include <dlprim/elementwise.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/histogram.hpp>
#include <dlprim/masked.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/random.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/searchsorted.hpp>
#include <dlprim/sort.hpp>
#include <dlprim/unique.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr uint64_t kTop = uint64_t{1} << 63;
const std::vector<uint64_t> kLarge = {
    0,           1,         2,    255,      65535,    65536,        INT32_MAX,      0x80000000, UINT32_MAX,
    0x100000000, INT64_MAX, kTop, kTop + 1, kTop + 5, kTop * 3 / 2, UINT64_MAX - 1, UINT64_MAX, 12345};

template <class T>
Tensor tensor_of(const std::vector<T>& values, const Shape& shape = {}) {
  const Tensor x(context(), shape.size() ? shape : Shape{static_cast<int64_t>(values.size())},
                 dtype_for<T>());
  write(stream(), x, values);
  return x;
}

template <class To, class From>
std::vector<To> converted(const std::vector<From>& values) {
  std::vector<To> result;
  for (From v : values) result.push_back(static_cast<To>(v));
  return result;
}

/// One number of x as each of the types To, by one kernel, and by both engines: dense and with gaps.
template <class... To, class From>
void check_casts(const std::vector<From>& x, const std::vector<To>&... expected) {
  const Tensor from = tensor_of(x);
  for (const int64_t step : {1, 3})
    for (const char* name : engines()) {
      if (step > 1 && engines().size() > 1 && name == std::string("gpu")) continue;  // as the CPU's form
      const std::vector<Guarded> guards = {Guarded(from.shape(), {step}, dtype_for<To>())...};
      std::vector<Tensor> ys;
      std::string body;
      for (const Guarded& y : guards) {
        body += "y" + std::to_string(ys.size()) + " = x0; ";
        ys.push_back(y.tensor());
      }
      Pointwise(context(), {from}, described(ys), 0, body, engine(name)).run(stream(), {from}, ys, {});
      size_t at = 0;
      const auto check = [&](const auto& one) {
        using Type = typename std::decay_t<decltype(one)>::value_type;
        INFO(name_of(dtype_for<From>())
             << " to " << name_of(dtype_for<Type>()) << ", " << name << ", step " << step);
        CHECK(read<Type>(stream(), ys[at]) == one);
        CHECK(guards[at++].intact());
      };
      (check(expected), ...);
    }
}

template <class T>
std::vector<T> computed(const char* f, const std::vector<Tensor>& inputs,
                        const std::vector<Scalar>& parameters = {}) {
  const Guarded y(inputs.back().shape(), dtype_for<T>());
  elementwise(stream(), f, inputs, parameters, y.tensor());
  CHECK(y.intact());
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<unsigned char> bytes = host_bytes(y.tensor());
    return {bytes.begin(), bytes.end()};
  } else {
    return read<T>(stream(), y.tensor());
  }
}

template <class T>
struct Pairs {
  std::vector<T> a, b;
  Pairs() {
    const std::vector<T> all = converted<T>(kLarge);
    for (T x : all)
      for (T y : all) a.push_back(x), b.push_back(y);
  }
  template <class R, class F>
  std::vector<R> map(F f) const {
    std::vector<R> result;
    for (size_t i = 0; i < a.size(); i++) result.push_back(static_cast<R>(f(a[i], b[i])));
    return result;
  }
};

/// `whole`: all functions that have something to get wrong; without it those that tell the dtypes that are
/// computed in wider signed numbers from these.
template <class T>
void check_elementwise(bool whole) {
  INFO(name_of(dtype_for<T>()));
  const Pairs<T> pairs;
  const Tensor a = tensor_of(pairs.a), b = tensor_of(pairs.b);
  const auto two = [&](const char* name, auto f, const std::vector<Scalar>& parameters = {}) {
    INFO(name);
    CHECK(computed<T>(name, {a, b}, parameters) == pairs.template map<T>(f));
  };
  const auto one = [&](const char* name, auto f, const std::vector<Scalar>& parameters = {}) {
    INFO(name);
    CHECK(computed<T>(name, {b}, parameters) == pairs.template map<T>([&](T, T y) { return f(y); }));
  };
  const auto truth = [&](const char* name, auto f) {
    INFO(name);
    CHECK(computed<bool>(name, {a, b}) == pairs.template map<bool>(f));
  };
  two("sub", [](T x, T y) { return uint64_t{x} - y; });
  two("mul", [](T x, T y) { return uint64_t{x} * y; });
  one("neg", [](T x) { return 0 - uint64_t{x}; });
  one("bitwise_not", [](T x) { return ~x; });
  one("clip", [](T x) { return x; });
  one("clip", [](T x) { return std::min<T>(x, 77); }, {-5, 77});
  truth("less", [](T x, T y) { return x < y; });
  CHECK(computed<float>("div", {tensor_of<T>({3, std::numeric_limits<T>::max()}), tensor_of<T>({2, 1})}) ==
        std::vector<float>{1.5f, static_cast<float>(std::numeric_limits<T>::max())});
  if (!whole) return;
  two("add", [](T x, T y) { return uint64_t{x} + y; });
  two("add", [](T x, T y) { return uint64_t{x} - 3 * uint64_t{y}; }, {-3});
  two("maximum", [](T x, T y) { return std::max(x, y); });
  two("minimum", [](T x, T y) { return std::min(x, y); });
  two("bitwise_and", [](T x, T y) { return x & y; });
  two("bitwise_or", [](T x, T y) { return x | y; });
  two("bitwise_xor", [](T x, T y) { return x ^ y; });
  one("abs", [](T x) { return x; });
  one("sign", [](T x) { return x > 0; });
  one("square", [](T x) { return uint64_t{x} * x; });
  one("clip", [](T x) { return std::clamp<T>(x, 2, 40000); }, {2, 40000});
  one("clip", [](T x) { return std::max<T>(x, 300); }, {300, UINT64_MAX});
  one("clip", [](T x) { return std::clamp<T>(x, 300, static_cast<T>(kTop + 1)); }, {300, kTop + 1});
  truth("equal", [](T x, T y) { return x == y; });
  truth("less_equal", [](T x, T y) { return x <= y; });
  truth("greater", [](T x, T y) { return x > y; });
  truth("greater_equal", [](T x, T y) { return x >= y; });
  truth("logical_and", [](T x, T y) { return x && y; });
  const Tensor condition = cast(stream(), a, DType::boolean);
  CHECK(computed<T>("where", {condition, a, b}) == pairs.template map<T>([](T x, T y) { return x ? x : y; }));
  CHECK(computed<T>("addcmul", {a, b, b}, {2}) ==
        pairs.template map<T>([](T x, T y) { return x + 2 * uint64_t{y} * y; }));
}

template <class T>
T reduced(const char* f, const Tensor& x) {
  const Guarded y({1}, dtype_for<T>());
  reduction(stream(), f, x, {}, {y.tensor()});
  CHECK(y.intact());
  return read<T>(stream(), y.tensor())[0];
}

/// `count` numbers of all of T's bits, the least and the largest of them twice.
template <class T>
std::vector<T> random_numbers(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<T> x(count);
  for (T& v : x) v = static_cast<T>(rng.next());
  x[count / 3] = x[count / 2] = 3, x[count / 4] = x[count - 1] = std::numeric_limits<T>::max() - 1;
  for (T& v : x) v = std::clamp<T>(v, 3, std::numeric_limits<T>::max() - 1);
  return x;
}

/// `whole`: all that reductions by name have; without it sums and extremes.
template <class T>
void check_reductions(size_t count, bool whole) {
  INFO(name_of(dtype_for<T>()) << ' ' << count);
  constexpr T kHigh = std::numeric_limits<T>::max() - 1;
  const std::vector<T> x = random_numbers<T>(count, 5);
  const Tensor on_device = tensor_of(x);
  uint64_t sum = 0, product = 1;
  for (T v : x) sum += v, product *= v | 1;
  CHECK(reduced<uint64_t>("sum", on_device) == sum);
  CHECK(reduced<T>("amax", on_device) == kHigh);
  if (!whole) return;
  std::vector<T> odd = x;
  for (T& v : odd) v |= 1;
  CHECK(reduced<int64_t>("sum", on_device) == static_cast<int64_t>(sum));
  CHECK(reduced<T>("prod", tensor_of(odd)) == static_cast<T>(product));
  CHECK(reduced<T>("amin", on_device) == 3);
  const auto first = [&](T v) { return std::find(x.begin(), x.end(), v) - x.begin(); };
  CHECK(reduced<int64_t>("argmax", on_device) == first(kHigh));
  CHECK(reduced<int64_t>("argmin", on_device) == first(3));
  CHECK(reduced<int64_t>("count_nonzero", on_device) == static_cast<int64_t>(count));
  CHECK(reduced<uint16_t>("any", on_device) == 1);
  CHECK(reduced<uint16_t>("all", on_device) == 1);
  const Guarded most({1}, dtype_for<T>()), at({1}, DType::i64);
  reduction(stream(), "max", on_device, {}, {most.tensor(), at.tensor()});
  CHECK(read<T>(stream(), most.tensor())[0] == kHigh);
  CHECK(read<int64_t>(stream(), at.tensor())[0] == first(kHigh));
}

template <class T>
void check_order() {
  INFO(name_of(dtype_for<T>()));
  std::vector<T> x = converted<T>(kLarge), ascending = x;
  std::sort(ascending.begin(), ascending.end());
  const auto n = static_cast<int64_t>(x.size());
  const Tensor on_device = tensor_of(x);
  const Guarded y({n}, dtype_for<T>()), top({3}, dtype_for<T>()), kth({1}, dtype_for<T>());
  sort(stream(), on_device, {}, y.tensor());
  CHECK(read<T>(stream(), y.tensor()) == ascending);
  top_k(stream(), on_device, {}, top.tensor());
  CHECK(read<T>(stream(), top.tensor()) == std::vector<T>(ascending.rbegin(), ascending.rbegin() + 3));
  kth_value(stream(), on_device, 12, 0, kth.tensor());
  CHECK(read<T>(stream(), kth.tensor())[0] == ascending[11]);
  if (sizeof(T) < 8) return;
  std::vector<T> distinct = ascending;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  CHECK(read<T>(stream(), unique(stream(), on_device).y) == distinct);
  const Guarded places({n}, DType::i32);
  searchsorted(stream(), y.tensor(), on_device, false, places.tensor());
  std::vector<int32_t> expected;
  for (T v : x)
    expected.push_back(
        static_cast<int32_t>(std::lower_bound(ascending.begin(), ascending.end(), v) - ascending.begin()));
  CHECK(read<int32_t>(stream(), places.tensor()) == expected);
}

}  // namespace

TEST_CASE("unsigned: conversions keep the low bits, or round to nearest") {
  const auto to_integers = [](const auto& x) {
    check_casts(x, converted<uint16_t>(x), converted<uint32_t>(x), converted<uint64_t>(x),
                converted<int64_t>(x), converted<int32_t>(x), converted<int8_t>(x));
  };
  to_integers(kLarge);
  to_integers(converted<uint32_t>(kLarge));
  to_integers(std::vector<int32_t>{-1, INT32_MIN, 5, -65536});
  check_casts(kLarge, converted<float>(kLarge));
  check_casts(converted<uint32_t>(kLarge), converted<float>(converted<uint32_t>(kLarge)));
  if (has_doubles()) check_casts(kLarge, converted<double>(kLarge));
  // copy() knows what is true of 2^63, whose low bits are 0, and takes words where dtypes are the same.
  CHECK(host_values(cast(stream(), tensor_of<uint64_t>({kTop, 0}), DType::boolean)) ==
        std::vector<float>{1, 0});
  CHECK(read<uint64_t>(stream(), cast(stream(), tensor_of(kLarge), DType::u64)) == kLarge);
}

TEST_CASE("unsigned: several elements at a time keep all bits", "[small]") {
  std::vector<uint64_t> many;
  for (int i = 0; i < 4; i++) many.insert(many.end(), kLarge.begin(), kLarge.end());
  const auto words = converted<uint32_t>(many);
  check_casts(words, words, converted<float>(words), converted<uint16_t>(words));  // by 4
  const auto halves = converted<uint16_t>(many);
  check_casts(halves, halves, converted<int16_t>(halves), converted<uint8_t>(halves));  // by 8
  check_casts(halves, converted<float>(halves));
}

TEST_CASE("unsigned: floats lose what is behind the point") {
  using Floats = std::vector<float>;
  check_casts(Floats{0, 1.99f, 32768.5f, 65535}, std::vector<uint16_t>{0, 1, 32768, 65535});
  check_casts(Floats{0.99f, 2147483648.0f, 4294967040.0f}, std::vector<uint32_t>{0, 0x80000000, 4294967040});
  check_casts(Floats{1.5f, 0x1p63f, 0x1.fffffep63f}, std::vector<uint64_t>{1, kTop, 0xffffff0000000000});
  if (!has_doubles()) return;
  using Doubles = std::vector<double>;
  check_casts(Doubles{4294967295.75, 0.5}, std::vector<uint32_t>{UINT32_MAX, 0});
  check_casts(Doubles{0x1p63 + 4096, 0x1.fffffffffffffp63, 7.99},
              std::vector<uint64_t>{kTop + 4096, UINT64_MAX - 2047, 7});
}

TEST_CASE("unsigned: views, transfers and fills", "[small]") {
  const std::vector<uint64_t> x = {UINT64_MAX, 1, kTop, 3, 4, kTop + 7};
  const Tensor on_device = tensor_of(x, {2, 3});
  CHECK(read<uint64_t>(stream(), on_device.transpose(0, 1)) ==
        std::vector<uint64_t>{UINT64_MAX, 3, 1, 4, kTop, kTop + 7});
  CHECK(read<int64_t>(stream(), on_device.reinterpret(DType::i64))[2] == INT64_MIN);
  const Guarded y({5}, {3}, DType::u64);
  for (const Scalar& value : {Scalar(UINT64_MAX - 1), Scalar(-2), Scalar(0xfffffffffffffffe)}) {
    fill(stream(), value, y.tensor());
    CHECK(read<uint64_t>(stream(), y.tensor()) == std::vector<uint64_t>(5, UINT64_MAX - 1));
  }
  fill(stream(), 0x1.8p63, y.tensor());
  CHECK(read<uint64_t>(stream(), y.tensor())[4] == 3 * (kTop / 2));
  CHECK(y.intact());
  CHECK(refusal([&] { fill(stream(), 0x1p64, y.tensor()); }).find("value: 1.84467441e+19 for ") == 0);
  const Guarded narrow({4}, DType::u16), whole({4}, DType::i64);
  fill(stream(), 40000, narrow.tensor());
  CHECK(read<uint16_t>(stream(), narrow.tensor()) == std::vector<uint16_t>(4, 40000));
  CHECK(refusal([&] { fill(stream(), UINT64_MAX, whole.tensor()); }).find("value: 1.84467441e+19 for ") == 0);
  const Guarded filled({2, 3}, DType::u64), ramp({3}, DType::u64);
  masked_fill(stream(), on_device, cast(stream(), on_device, DType::boolean), kTop + 9, filled.tensor());
  CHECK(read<uint64_t>(stream(), filled.tensor()) == std::vector<uint64_t>(6, kTop + 9));
  arange(stream(), UINT64_MAX - 4, 2, ramp.tensor());
  CHECK(read<uint64_t>(stream(), ramp.tensor()) ==
        std::vector<uint64_t>{UINT64_MAX - 4, UINT64_MAX - 2, UINT64_MAX});
  CHECK(refusal([&] { linspace(stream(), 0, kTop, ramp.tensor()); }).find("end: 9.22337204e+18 for ") == 0);
}

TEST_CASE("unsigned: expressions, alone and beside other dtypes") {
  const Tensor a = tensor_of<uint64_t>({UINT64_MAX, kTop, 3}), b = tensor_of<int32_t>({-1, -2, 5}),
               w = tensor_of<uint32_t>({UINT32_MAX, 0x80000000, 1}), h = tensor_of<uint16_t>({65535, 2, 3});
  for (const char* name : engines()) {
    INFO(name);
    const auto run = [&](const std::vector<Tensor>& xs, DType dtype, const std::vector<Scalar>& scalars,
                         const char* body) {
      const Guarded y({3}, dtype);
      Pointwise(context(), described(xs), {y.tensor()}, static_cast<int>(scalars.size()), body, engine(name))
          .run(stream(), xs, {y.tensor()}, scalars);
      CHECK(y.intact());
      return host_bytes(y.tensor());
    };
    const auto bytes = [](const auto& values) { return host_bytes(tensor_of(values)); };
    CHECK(run({a}, DType::u64, {UINT64_MAX - 1}, "y0 = x0 > s0 ? s0 : x0 + s0") ==
          bytes(std::vector<uint64_t>{UINT64_MAX - 1, kTop - 2, 1}));
    // In C's way: beside u64 what is signed becomes unsigned, before it is compared too.
    CHECK(run({a, b}, DType::u64, {}, "y0 = x0 + x1") ==
          bytes(std::vector<uint64_t>{UINT64_MAX - 1, kTop - 2, 8}));
    CHECK(run({a, b}, DType::u64, {}, "y0 = x1 < x0 ? x1 : x0") ==
          bytes(std::vector<uint64_t>{UINT64_MAX, kTop, 3}));
    // u32 and i32 meet in 64 signed bits, u16 is int, and where no input is u64 a result is a signed number's
    // bits.
    CHECK(run({w, b}, DType::i64, {}, "y0 = x0 * x1") ==
          bytes(std::vector<int64_t>{-4294967295, -4294967296, 5}));
    CHECK(run({h, b}, DType::i32, {}, "y0 = x0 * x1") == bytes(std::vector<int32_t>{-65535, -4, 15}));
    CHECK(run({b}, DType::u64, {-1}, "real m = x0 * s0; y0 = m < 0 ? m : -m") ==
          bytes(std::vector<uint64_t>{UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 4}));
    CHECK(run({a}, DType::f32, {0.5}, "y0 = x0 * s0") == bytes(std::vector<float>{0x1p63f, 0x1p62f, 1.5f}));
  }
  const Tensor y(context(), {3}, DType::u64);
  CHECK(refusal([&] { pointwise(stream(), {b}, {y}, {UINT64_MAX}, "y0 = s0"); }) ==
        "scalars[0]: 1.84467441e+19 is no 64-bit integer, and every tensor is one");
}

TEST_CASE("unsigned: elementwise functions are those of C's unsigned numbers") {
  check_elementwise<uint16_t>(false);
  check_elementwise<uint32_t>(false);
  check_elementwise<uint64_t>(true);
}

TEST_CASE("unsigned: elementwise functions that depend on signs refuse u64 beside them", "[small]") {
  const Tensor a = tensor_of<uint64_t>({kTop, 3}), b = tensor_of<int16_t>({-1, 1}),
               narrow = tensor_of<uint32_t>({5, 2});
  for (const char* f : {"less", "equal", "maximum", "remainder", "trunc_divide", "bitwise_right_shift"}) {
    INFO(f);
    CHECK(refusal([&] {
            computed<uint64_t>(f, {a, b});
          }) ==
          std::string("inputs[1]: dtype i16 beside u64: no type holds both; cast one of them for ") + f);
  }
  CHECK(computed<uint64_t>("maximum", {a, narrow}) == std::vector<uint64_t>{kTop, 3});
  CHECK(computed<uint64_t>("add", {a, b}) == std::vector<uint64_t>{kTop - 1, 4});
  CHECK(computed<bool>("less", {narrow, b}) == std::vector<bool>{false, false});
  CHECK(computed<int32_t>("pow", {tensor_of<int32_t>({-3, 2}), tensor_of<uint64_t>({3, 5})}) ==
        std::vector<int32_t>{-27, 32});
  // A result's dtype changes nothing: the rest of -1 by 3 is 2.
  CHECK(computed<uint64_t>("remainder", {b, tensor_of<int32_t>({3, 3})}) == std::vector<uint64_t>{2, 1});
}

TEST_CASE("unsigned: reductions wrap around and order all bits") {
  check_reductions<uint16_t>(100, false);
  check_reductions<uint32_t>(100, false);
  check_reductions<uint64_t>(100, true);
  check_reductions<uint64_t>(100003, false);
  // Along columns, by both engines.
  const std::vector<uint64_t> x = random_numbers<uint64_t>(6 * 40, 7);
  const Tensor on_device = tensor_of(x, {6, 40});
  for (const char* name : engines()) {
    const Guarded sum({1, 40}, DType::u64), least({1, 40}, DType::u64);
    const auto run = [&](const Reduction& r, const Tensor& y) {
      Reduce(context(), {on_device}, {y}, 0, r, engine(name)).run(stream(), {on_device}, {y}, {});
      return read<uint64_t>(stream(), y);
    };
    std::vector<uint64_t> sums(40, 0), minima(40, UINT64_MAX);
    for (size_t i = 0; i < x.size(); i++)
      sums[i % 40] += x[i], minima[i % 40] = std::min(minima[i % 40], x[i]);
    CHECK(run(sum_of("x0"), sum.tensor()) == sums);
    CHECK(run(min_of("x0"), least.tensor()) == minima);
  }
  // Whose extremes are those of their type: nothing is found by being better than what a fold starts from.
  CHECK(reduced<int64_t>("argmax", tensor_of<uint64_t>({0, 0, 0})) == 0);
  CHECK(reduced<int64_t>("argmin", tensor_of<uint64_t>({UINT64_MAX, UINT64_MAX})) == 0);
  const Guarded mean({1});
  reduction(stream(), "mean", tensor_of<uint64_t>({kTop, kTop}), {}, {mean.tensor()});
  CHECK(host_values(mean.tensor())[0] == 0x1p63f);
}

TEST_CASE("unsigned: scans", "[small]") {
  const Tensor x = tensor_of<uint64_t>({5, kTop + 1, kTop, 7}),
               down = tensor_of<uint64_t>({kTop + 1, kTop, 5, 7});
  const Guarded y({4}, DType::u64), narrow({4}, DType::u16), wide({4}, DType::u64);
  cumsum(stream(), x, {0}, y.tensor());
  CHECK(read<uint64_t>(stream(), y.tensor()) == std::vector<uint64_t>{5, kTop + 6, 6, 13});
  cummax(stream(), x, {0}, y.tensor());
  CHECK(read<uint64_t>(stream(), y.tensor()) == std::vector<uint64_t>{5, kTop + 1, kTop + 1, kTop + 1});
  cummin(stream(), down, {0}, y.tensor());
  CHECK(read<uint64_t>(stream(), y.tensor()) == std::vector<uint64_t>{kTop + 1, kTop, 5, 5});
  const Tensor words = tensor_of<uint16_t>({65535, 2, 40000, 3});
  cumsum(stream(), words, {0}, narrow.tensor());
  CHECK(read<uint16_t>(stream(), narrow.tensor()) == std::vector<uint16_t>{65535, 1, 40001, 40004});
  cumsum(stream(), words, {0}, wide.tensor());
  CHECK(read<uint64_t>(stream(), wide.tensor()) == std::vector<uint64_t>{65535, 65537, 105537, 105540});
}

TEST_CASE("unsigned: bits are moved as they are") {
  const std::vector<uint32_t> x = {UINT32_MAX, 1, 0x80000000, 3, 4, 0x80000005};
  const Tensor on_device = tensor_of(x, {2, 3}), index = tensor_of<int64_t>({2, 0});
  const Guarded picked({2, 2}, DType::u32), joined({4, 3}, DType::u32), flipped({2, 3}, DType::u32),
      rolled({2, 3}, DType::u32), tiled({2, 6}, DType::u32), lower({2, 3}, DType::u32),
      added({2, 4}, DType::u32);
  index_select(stream(), on_device, index, 1, picked.tensor());
  CHECK(read<uint32_t>(stream(), picked.tensor()) ==
        std::vector<uint32_t>{0x80000000, UINT32_MAX, 0x80000005, 3});
  concat(stream(), {on_device, on_device}, 0, joined.tensor());
  std::vector<uint32_t> twice = x;
  twice.insert(twice.end(), x.begin(), x.end());
  CHECK(read<uint32_t>(stream(), joined.tensor()) == twice);
  flip(stream(), on_device, {1}, flipped.tensor());
  CHECK(read<uint32_t>(stream(), flipped.tensor())[0] == 0x80000000);
  roll(stream(), on_device, {1}, {1}, rolled.tensor());
  CHECK(read<uint32_t>(stream(), rolled.tensor())[1] == UINT32_MAX);
  tile(stream(), on_device, tiled.tensor());
  CHECK(read<uint32_t>(stream(), tiled.tensor())[3] == UINT32_MAX);
  tril(stream(), on_device, 0, lower.tensor());
  CHECK(read<uint32_t>(stream(), lower.tensor()) == std::vector<uint32_t>{UINT32_MAX, 0, 0, 3, 4, 0});
  slice_backward(stream(), on_device, 1, 1, 4, 1, added.tensor());
  CHECK(read<uint32_t>(stream(), added.tensor())[1] == UINT32_MAX);
  const Guarded hot({2, 3}, DType::u16);
  one_hot(stream(), index, hot.tensor());
  CHECK(read<uint16_t>(stream(), hot.tensor()) == std::vector<uint16_t>{0, 0, 1, 1, 0, 0});
  CHECK(read<uint32_t>(stream(), masked_select(stream(), on_device, tensor_of(x, {2, 3}))) == x);
}

namespace {

template <class T>
void check_scatter() {
  INFO(name_of(dtype_for<T>()));
  constexpr T kMost = std::numeric_limits<T>::max(), kHalf = kMost / 2 + 1;
  const Tensor x = tensor_of<T>({5, kHalf, 1}), src = tensor_of<T>({kMost, kHalf, 3, 7}),
               index = tensor_of<int64_t>({0, 0, 1, 2});
  const Guarded y({3}, dtype_for<T>());
  const auto written = [&](ScatterReduce reduce, bool include_self = true) {
    ScatterParams params;
    params.reduce = reduce, params.include_self = include_self;
    scatter(stream(), x, index, src, 0, params, y.tensor());
    CHECK(y.intact());
    return read<T>(stream(), y.tensor());
  };
  const auto list = [](auto... v) { return std::vector<T>{static_cast<T>(v)...}; };
  CHECK(written(ScatterReduce::none) == list(kHalf, 3, 7));
  CHECK(written(ScatterReduce::sum) == list(kHalf + 4, kHalf + 3, 8));
  CHECK(written(ScatterReduce::max) == list(kMost, kHalf, 7));
  CHECK(written(ScatterReduce::min) == list(5, 3, 1));
  CHECK(written(ScatterReduce::max, false) == list(kMost, 3, 7));
  CHECK(written(ScatterReduce::min, false) == list(kHalf, 3, 7));
  CHECK(written(ScatterReduce::prod) == list(uint64_t{5} * kMost * kHalf, uint64_t{kHalf} * 3, 7));
}

}  // namespace

TEST_CASE("unsigned: scattered elements are folded as unsigned numbers") {
  check_scatter<uint16_t>();
  check_scatter<uint32_t>();
  check_scatter<uint64_t>();
}

TEST_CASE("unsigned: sorting, the largest, searching and what is different") {
  check_order<uint16_t>();
  check_order<uint32_t>();
  check_order<uint64_t>();
}

TEST_CASE("unsigned: random whole numbers, and counts of elements") {
  const Guarded words({1000}, DType::u32), halves({1000}, DType::u16), y({1000}, DType::u64);
  random_integers(stream(), 0x80000000, 0x100000000, {1, 0}, words.tensor());
  for (uint32_t v : read<uint32_t>(stream(), words.tensor())) REQUIRE(v >= 0x80000000);
  random_integers(stream(), 65000, 65536, {2, 0}, halves.tensor());
  for (uint16_t v : read<uint16_t>(stream(), halves.tensor())) REQUIRE(v >= 65000);
  random_integers(stream(), INT64_MAX - 9, INT64_MAX, {3, 0}, y.tensor());
  for (uint64_t v : read<uint64_t>(stream(), y.tensor())) REQUIRE((v >= INT64_MAX - 9 && v < INT64_MAX));
  CHECK(refusal([&] {
          random_integers(stream(), -1, 5, {1, 0}, halves.tensor());
        }) == "low: -1 is below 0, the least that u16 takes");
  CHECK(read<int64_t>(stream(), bincount(stream(), tensor_of<uint64_t>({2, 0, 2}), {}, 0)) ==
        std::vector<int64_t>{1, 0, 2});
  CHECK(refusal([&] {
          bincount(stream(), tensor_of<uint64_t>({1, kTop}), {}, 0);
        }) == "x: the element 9223372036854775808 needs more bins than can be counted");
}

TEST_CASE("unsigned: operators on matrices and windows refuse them as ever", "[small]") {
  const Tensor a(context(), {4, 4}, DType::u32), c(context(), {4, 4}, DType::u32);
  CHECK(refusal([&] { gemm(stream(), a, a, {}, {}, c); }).find("dtype") != std::string::npos);
  const Tensor x(context(), {1, 1, 4, 4}, DType::u16), y(context(), {1, 1, 2, 2}, DType::u16);
  PoolParams window;
  window.kernel = {2, 2}, window.stride = {2, 2};
  CHECK(refusal([&] { pool(stream(), x, window, y); }) == "x: dtype u16 must be f32, f16, bf16 or f64");
}
