// Permutations and multinomial samples: to the last bit against plain loops, permutations by what they are,
// distributions by counting.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <dlprim/sampling.hpp>

#include "cases/nn.hpp"
#include "cases/random.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

std::vector<int64_t> whole(const Tensor& x) {
  const Tensor y(context(), x.shape(), DType::i64);
  copy(stream(), x, y);
  return read<int64_t>(stream(), y);
}

uint32_t stream_word(const RandomState& state, uint64_t i, uint32_t number) {
  const uint64_t block = i / 4;
  return philox_reference(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), number, 0},
      {static_cast<uint32_t>(state.seed), static_cast<uint32_t>(state.seed >> 32)})[i % 4];
}

std::vector<int64_t> permutation(int64_t n, const RandomState& state, DType dtype = DType::i64) {
  const Guarded y({n}, dtype, 37);
  random_permutation(stream(), state, y.tensor());
  CHECK(y.intact());
  return whole(y.tensor());
}

/// The order of numbers by keys, the smaller of two equal ones first.
std::vector<int64_t> ranked(int64_t n, const RandomState& state) {
  std::vector<std::pair<uint64_t, int64_t>> keys;
  for (int64_t i = 0; i < n; i++) {
    const uint64_t at = state.offset + static_cast<uint64_t>(i);
    keys.emplace_back(uint64_t{stream_word(state, at, 0)} << 32 | stream_word(state, at, 1), i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> order;
  for (const auto& key : keys) order.push_back(key.second);
  return order;
}

/// The keyed bijection, in plain words.
std::vector<int64_t> by_key(int64_t n, const RandomState& state) {
  uint32_t keys[12];
  for (uint32_t k = 0; k < 12; k++)
    keys[k] = philox_reference(
        {static_cast<uint32_t>(state.offset), static_cast<uint32_t>(state.offset >> 32), 2, k / 4},
        {static_cast<uint32_t>(state.seed), static_cast<uint32_t>(state.seed >> 32)})[k % 4];
  const auto mixed = [](uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
  };
  int bits = 0;
  while (int64_t{1} << bits < n) bits++;
  const int left = bits / 2, right = bits - left;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; i++) {
    auto x = static_cast<uint32_t>(i);
    do {
      uint32_t half[2] = {x >> right, x & ((1u << right) - 1)};
      for (int round = 0; round < 12; round++) {
        const int to = round % 2, size = to == 0 ? left : right;
        half[to] ^= mixed(half[1 - to] + keys[round]) & ((1u << size) - 1);
      }
      x = half[0] << right | half[1];
    } while (x >= n);
    order.push_back(x);
  }
  return order;
}

bool may_be_drawn(float w) {
  return w > 0 && std::isfinite(w);
}

/// One row with replacement, by exact sums of integers. `first` is the row's first sample.
std::vector<int64_t> draws(const std::vector<float>& w, int64_t samples, const RandomState& state,
                           int64_t first) {
  int bits = 62;
  while (uint64_t{1} << (62 - bits) < w.size()) bits--;
  int most = -1000;
  for (float v : w)
    if (may_be_drawn(v)) most = std::max(most, std::max(std::ilogb(v), -126));
  std::vector<uint64_t> sums;
  uint64_t sum = 0;
  for (float v : w) {
    // floor(v 2^(bits - 1 - most)).
    if (may_be_drawn(v)) sum += static_cast<uint64_t>(std::ldexp(static_cast<double>(v), bits - 1 - most));
    sums.push_back(sum);
  }
  std::vector<int64_t> result;
  for (int64_t s = 0; s < samples; s++) {
    const auto at = static_cast<uint64_t>(first + s);
    // mul_hi of 64 random bits and the sum, which is below 2^63.
    const auto target = static_cast<uint64_t>(random_integer_reference(
        0, std::max<int64_t>(static_cast<int64_t>(sum), (1 << 20) + 1), state, static_cast<int64_t>(at)));
    const auto passed = std::upper_bound(sums.begin(), sums.end(), target);
    result.push_back(sum == 0 ? -1 : passed - sums.begin());
  }
  return result;
}

/// One row without replacement. In double the product of two floats' 24 bits is exact; devices round it.
std::vector<int64_t> race(const std::vector<float>& w, int64_t samples, const RandomState& state,
                          int64_t first) {
  std::vector<std::pair<double, int64_t>> keys;
  for (size_t c = 0; c < w.size(); c++) {
    const auto at = state.offset + static_cast<uint64_t>(first) + c;
    if (!may_be_drawn(w[c])) continue;
    int e1, e2;
    const float a = std::frexp(w[c], &e1),
                b = std::frexp(reciprocal_reference(negative_log_reference(random_word(state.seed, at))),
                               &e2);
    const float product = a * b;
    keys.emplace_back(-std::ldexp(static_cast<double>(product), e1 + e2), static_cast<int64_t>(c));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> result;
  for (int64_t s = 0; s < samples; s++)
    result.push_back(s < static_cast<int64_t>(keys.size()) ? keys[static_cast<size_t>(s)].second : -1);
  return result;
}

std::vector<float> weights_of(int64_t count, Rng& rng) {
  std::vector<float> w = reals(count, rng, 0, 2);
  for (float& v : w)
    if (rng.integer(0, 5) == 0) v = 0;
  return w;
}

void check(const std::vector<float>& w, int64_t rows, int64_t samples, bool replacement, Placing placing,
           DType dtype, DType index) {
  const int64_t columns = static_cast<int64_t>(w.size()) / rows;
  const RandomState state{99, 6};
  CAPTURE(rows, columns, samples, replacement, name_of(placing), dlprim::name_of(dtype));
  const Shape shape{rows, samples};
  const Tensor x = placed(placing, {rows, columns}, w, dtype);
  const Guarded y(shape, strides_in(placing, shape), index, 37),
      again(shape, strides_in(placing, shape), index, 37);
  multinomial(stream(), x, replacement, state, y.tensor());
  multinomial(stream(), x, replacement, state, again.tensor());
  const std::vector<float> stored = host_values(x);
  std::vector<int64_t> expected;
  for (int64_t n = 0; n < rows; n++) {
    const std::vector<float> row(stored.begin() + n * columns, stored.begin() + (n + 1) * columns);
    for (int64_t i :
         replacement ? draws(row, samples, state, n * samples) : race(row, samples, state, n * columns))
      expected.push_back(i);
  }
  CHECK(whole(y.tensor()) == expected);
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));
}

}  // namespace

TEST_CASE("permutations are the same everywhere, and permutations") {
  for (int64_t n : {0, 1, 2, 3, 17, 256, 1024, 1025, 2048, 5000, 100003})
    for (DType dtype : {DType::i32, DType::i64}) {
      const RandomState state{0x123456789abcdef0, 77};
      std::vector<int64_t> y = permutation(n, state, dtype);
      CAPTURE(n);
      CHECK(y == (n <= 1024 ? ranked(n, state) : by_key(n, state)));
      CHECK(y == permutation(n, state, dtype));
      if (n > 16) CHECK(y != permutation(n, {state.seed, state.offset + 1}, dtype));
      if (n > 16) CHECK(y != permutation(n, {state.seed + 1, state.offset}, dtype));
      std::sort(y.begin(), y.end());
      std::vector<int64_t> all(static_cast<size_t>(n));
      std::iota(all.begin(), all.end(), 0);
      CHECK(y == all);
    }
  const Guarded strided({2000}, {3}, DType::i64);
  random_permutation(stream(), {5, 0}, strided.tensor());
  CHECK(whole(strided.tensor()) == by_key(2000, {5, 0}));
  CHECK(strided.intact());
}

TEST_CASE("permutations are fair") {
  // All 24 orders of 4 numbers: chi-square of 23 degrees of freedom is above 58 once in 10^4.
  std::vector<double> counts(256);
  for (uint64_t seed = 0; seed < 2400; seed++) {
    const std::vector<int64_t> y = ranked(4, {seed, 0});
    counts[static_cast<size_t>(y[0] + 4 * y[1] + 16 * y[2] + 64 * y[3])]++;
  }
  double square = 0;
  for (double count : counts)
    if (count > 0) square += (count - 100) * (count - 100) / 100;
  CHECK(square < 58);
  CHECK(std::count_if(counts.begin(), counts.end(), [](double c) { return c > 0; }) == 24);
  // Of the keyed bijection, over many seeds: in which sixteenth each of four places lands, and whether
  // neighbours stay in order. 15 degrees of freedom: above 44 once in 10^4.
  constexpr int64_t kSize = 1600, kSeeds = 1600;
  std::array<std::array<double, 16>, 4> bins{};
  double rising = 0, fixed = 0;
  for (uint64_t seed = 0; seed < kSeeds; seed++) {
    const std::vector<int64_t> y = by_key(kSize, {seed, 0});
    for (size_t k = 0; k < 4; k++) bins[k][static_cast<size_t>(y[k * 533] / 100)]++;
    for (size_t i = 0; i + 1 < y.size(); i += 2) rising += y[i] < y[i + 1];
    for (size_t i = 0; i < y.size(); i++) fixed += y[i] == static_cast<int64_t>(i);
  }
  for (const auto& places : bins) {
    square = 0;
    for (double count : places) square += (count - 100) * (count - 100) / 100;
    CHECK(square < 44);
  }
  constexpr double kPairs = kSize / 2.0 * kSeeds;
  CHECK(std::abs(rising / kPairs - 0.5) < 5 * 0.5 / std::sqrt(kPairs));
  CHECK(std::abs(fixed / kSeeds - 1) < 5 / std::sqrt(double{kSeeds}));  // fixed points: one, with variance 1
}

TEST_CASE("multinomial samples are the reference's") {
  Rng rng(8);
  for (bool replacement : {false, true}) {
    check(weights_of(3 * 17, rng), 3, 5, replacement, Placing::row_major, DType::f32, DType::i64);
    check(weights_of(2 * 1001, rng), 2, 40, replacement, Placing::row_major, DType::f32, DType::i64);
    check(weights_of(3 * 64, rng), 3, 33, replacement, Placing::gaps, DType::f32, DType::i32);
    check(weights_of(3 * 64, rng), 3, 7, replacement, Placing::channels_last, DType::f16, DType::i64);
    check({2}, 1, 1, replacement, Placing::row_major, DType::bf16, DType::i32);
    check(weights_of(4 * 300, rng), 4, 300, replacement, Placing::row_major, DType::f32, DType::i64);
    // Huge, tiny and denormal ones; those that are no weights; nothing to draw.
    check({3e38f, 3e38f, 1e38f, 0, INFINITY, NAN, -1, -0.0f}, 1, 8, replacement, Placing::row_major,
          DType::f32, DType::i64);
    check({1e-40f, 3e-40f, 1e-45f, 2e-38f, 0, 0, 0, 0}, 2, 4, replacement, Placing::row_major, DType::f32,
          DType::i64);
  }
  check(weights_of(50, rng), 1, 2000, true, Placing::row_major, DType::f32, DType::i64);
}

TEST_CASE("multinomial samples of vectors, and of none", "[small]") {
  const Tensor w = device_tensor({4}, {0, 0, 5, 0}), y(context(), {3}, DType::i64);
  multinomial(stream(), w, true, {1, 0}, y);
  CHECK(whole(y) == std::vector<int64_t>{2, 2, 2});
  multinomial(stream(), w, false, {1, 0}, y);
  CHECK(whole(y) == std::vector<int64_t>{2, -1, -1});
  multinomial(stream(), w, true, {1, 0}, Tensor(context(), {0}, DType::i64));
  multinomial(stream(), Tensor(context(), {0, 4}), false, {1, 0}, Tensor(context(), {0, 2}, DType::i64));
}

TEST_CASE("multinomial samples have their weights' probabilities") {
  const std::vector<float> w = {1, 2, 0, 5, 0.5f, 1.5f};  // of 10
  constexpr int64_t kCount = 200000;
  for (bool replacement : {true, false}) {
    // Without replacement: the first of two.
    const int64_t rows = replacement ? 1 : kCount, samples = replacement ? kCount : 2;
    const Tensor y(context(), {rows, samples}, DType::i64);
    multinomial(stream(), device_tensor({1, 6}, w).expand({rows, 6}), replacement, {4, 0}, y);
    const std::vector<int64_t> drawn = whole(y);
    std::array<double, 6> share{}, second{};
    for (int64_t i = 0; i < kCount; i++)
      share[static_cast<size_t>(drawn[static_cast<size_t>(i * (replacement ? 1 : 2))])] += 1.0 / kCount;
    for (size_t c = 0; c < 6; c++)
      CHECK(std::abs(share[c] - w[c] / 10.0) <= 5 * std::sqrt(w[c] / 10.0 * (1 - w[c] / 10.0) / kCount));
    if (replacement) continue;
    for (int64_t i = 0; i < kCount; i++)
      second[static_cast<size_t>(drawn[static_cast<size_t>(2 * i + 1)])] += 1.0 / kCount;
    for (size_t c = 0; c < 6; c++) {
      double p = 0;  // the other first, then this of what is left
      for (size_t k = 0; k < 6; k++)
        if (k != c) p += w[k] / 10.0 * w[c] / (10.0 - w[k]);
      CHECK(std::abs(second[c] - p) <= 5 * std::sqrt(p * (1 - p) / kCount));
    }
  }
}

TEST_CASE("sampling refuses what does not fit", "[small]") {
  const auto draw = [](const Shape& w, DType dtype, const Shape& y, DType index, bool replacement) {
    return error_of<ValidationError>([&] {
      multinomial(stream(), Tensor(context(), w, dtype), replacement, {}, Tensor(context(), y, index));
    });
  };
  CHECK(draw({2, 3}, DType::i32, {2, 1}, DType::i64, true).find("w: ") == 0);
  CHECK(draw({2, 3}, DType::f32, {2, 1}, DType::f32, true) == "y: dtype f32 must be i32 or i64");
  CHECK(draw({2, 3}, DType::f32, {3, 1}, DType::i64, true) == "y: 3 rows, w has 2");
  CHECK(draw({2, 3}, DType::f32, {2, 4}, DType::i64, false) ==
        "y: 4 samples without replacement, there are 3 columns");
  CHECK(draw({2, 0}, DType::f32, {2, 1}, DType::i64, true) == "w: has no columns");
  CHECK(draw({2, 3, 4}, DType::f32, {2, 1}, DType::i64, true) == "w: rank 3 must be 1 or 2");
  CHECK(draw({2, 3}, DType::f32, {2}, DType::i64, true).find("y: rank 1") == 0);
  const auto permute = [](const Tensor& y) {
    return error_of<ValidationError>([&] { random_permutation(stream(), {}, y); });
  };
  CHECK(permute({}) == "y: is not defined");
  CHECK(permute(Tensor(context(), {3})) == "y: dtype f32 must be i32 or i64");
  CHECK(permute(Tensor(context(), {3, 1}, DType::i64)).find("y: rank 2") == 0);
}
