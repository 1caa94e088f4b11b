// The stable sort of pairs that scattering operators group destinations with, both of its forms.
#include <algorithm>
#include <numeric>

#include "catch.hpp"
#include "core/composed.hpp"
#include "ops/sort/sort_pairs.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using namespace dlprim::test;

namespace {

Tensor numbers(const std::vector<uint32_t>& values) {
  const Tensor x(context(), {static_cast<int64_t>(values.size())}, DType::i32);
  write(stream(), x, values.data(), x.bytes());
  return x;
}

std::vector<uint32_t> numbers_of(const Tensor& x) {
  std::vector<uint32_t> values(static_cast<size_t>(x.numel()));
  read(stream(), x, values.data(), x.bytes());
  return values;
}

/// Sorts `keys` with `values` (empty: positions) and compares with the standard library's stable sort.
void check(const std::vector<uint32_t>& keys, const std::vector<uint32_t>& values, int bits, bool cpu) {
  INFO(keys.size() << " keys of " << bits << " bits, " << (cpu ? "cpu" : "gpu"));
  const auto count = static_cast<int64_t>(keys.size());
  std::vector<uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  std::vector<uint32_t> expected_keys, expected_values;
  for (uint32_t i : order) {
    expected_keys.push_back(keys[i]);
    expected_values.push_back(values.empty() ? i : values[i]);
  }
  const SortPairs sort(context(), count, bits, cpu);
  const Guarded workspace({static_cast<int64_t>(sort.workspace_size())}, DType::u8);
  const Guarded keys_out({count}, DType::i32), values_out({count}, DType::i32);
  const Tensor keys_in = numbers(keys);
  for (int round = 0; round < 2; round++) {
    sort.run(stream(), keys_in, values.empty() ? Tensor() : numbers(values), keys_out.tensor(),
             values_out.tensor(), workspace.tensor());
    CHECK(numbers_of(keys_out.tensor()) == expected_keys);
    CHECK(numbers_of(values_out.tensor()) == expected_values);
  }
  CHECK(numbers_of(keys_in) == keys);
  CHECK((keys_out.intact() && values_out.intact() && workspace.intact()));
}

std::vector<uint32_t> random_numbers(int64_t count, int bits, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint32_t> result;
  for (int64_t i = 0; i < count; i++)
    result.push_back(bits ? static_cast<uint32_t>(rng.next() >> (64 - bits)) : 0);
  return result;
}

}  // namespace

TEST_CASE("few pairs are sorted, stably", "[small]") {
  for (bool cpu : {true, false})
    for (int64_t count : {0, 1, 70}) check(random_numbers(count, 5, 3), random_numbers(count, 32, 5), 5, cpu);
}

TEST_CASE("pairs are sorted by all bits, stably") {
  for (bool cpu : {true, false})
    for (int64_t count : {0, 1, 257, 2049})
      for (int bits : {1, 13, 32}) {
        check(random_numbers(count, bits, 3), {}, bits, cpu);
        check(random_numbers(count, bits, 4), random_numbers(count, 32, 5), bits, cpu);
      }
}

TEST_CASE("sorting many pairs: several tiles a block, several blocks") {
  for (bool cpu : {true, false})
    for (int64_t count : {2047, 40000, 300001}) check(random_numbers(count, 20, 6), {}, 20, cpu);
}

TEST_CASE("sorting what is sorted, reversed, or all the same") {
  for (bool cpu : {true, false}) {
    std::vector<uint32_t> rising(5000);
    std::iota(rising.begin(), rising.end(), 0xfffff000u - 2500);
    check(rising, {}, 32, cpu);
    std::reverse(rising.begin(), rising.end());
    check(rising, {}, 32, cpu);
    check(std::vector<uint32_t>(5000, 0xffffffffu), {}, 32, cpu);
    check(std::vector<uint32_t>(5000, 0), {}, 0, cpu);
  }
}

TEST_CASE("bits of numbers", "[small]") {
  CHECK(bits_of(0) == 0);
  CHECK(bits_of(1) == 1);
  CHECK(bits_of(255) == 8);
  CHECK(bits_of(256) == 9);
  CHECK(bits_of(~uint64_t{0}) == 64);
}
