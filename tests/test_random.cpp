// Random numbers: known answers, every engine by name against the reference's words, statistics, bad input.
#include <dlprim/random.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"
#include "core/kernel_source.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr const char* kEngines[] = {"cpu", "direct", "copied"};
constexpr Distribution kAll[] = {Distribution::uniform, Distribution::normal, Distribution::bernoulli};

struct Vector {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> result;
};

/// Random123's published vectors for philox4x32, 10 rounds: zeros, ones, digits of pi.
const Vector kPublished[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

/// What element i should be, before it is rounded.
double expected(Distribution distribution, double a, double b, const RandomState& state, int64_t i) {
  const uint64_t at = state.offset + static_cast<uint64_t>(i);
  const uint32_t w = random_word(state.seed, at);
  switch (distribution) {
    case Distribution::uniform: {
      const auto low = static_cast<float>(a), high = static_cast<float>(b);
      const float v = std::fmaf(static_cast<float>(w >> 8) * 0x1p-24f, high - low, low);
      return high > low ? std::min(v, std::nextafter(high, low)) : low;
    }
    case Distribution::normal:
      return a + b * normal_reference(state.seed, at);
    case Distribution::bernoulli:
      return w < a * 0x1p32 ? 1 : 0;
  }
  return 0;
}

void check(const char* name, Distribution distribution, const Shape& shape, Placing placing, DType dtype,
           const RandomState& state) {
  const bool normal = distribution == Distribution::normal;
  const double a = normal ? 1 : distribution == Distribution::uniform ? -2 : 0.3, b = normal ? 2 : 5;
  INFO("engine=" << name << " distribution=" << static_cast<int>(distribution) << " " << name_of(dtype)
                 << to_string(shape) << " " << name_of(placing) << " seed=" << state.seed
                 << " offset=" << state.offset);
  const Guarded y(shape, strides_in(placing, shape), dtype, 37),
      again(shape, strides_in(placing, shape), dtype, 37);
  const RandomDesc desc{y.tensor(), distribution};
  const Random plan(context(), desc, engine(name));
  plan.run(stream(), a, b, state, y.tensor());
  plan.run(stream(), a, b, state, again.tensor());
  Values values;
  for (int64_t i = 0; i < element_count(shape); i++) values.push_back(expected(distribution, a, b, state, i));
  // Uniform and Bernoulli numbers are bit-equal in f32; log, cospi and sqrt may be a few units off.
  const double tolerance = (normal ? 64 * 0x1p-24 : 0) + storage_roundoff(dtype);
  CHECK(deviation(host_values(y.tensor()), values) <= tolerance);
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));
}

}  // namespace

TEST_CASE("Philox gives the published words", "[small]") {
  for (const Vector& v : kPublished) CHECK(philox_reference(v.counter, v.key) == v.result);
  const std::string test = detail::kernel_source("philox") + R"(
    __kernel void test(__global uint* v, long v_o) {
      v += v_o + 10 * get_global_id(0);
      words c = {v[0], v[1], v[2], v[3]};
      c = philox(c, (uint2)(v[4], v[5]));
#if WORDS == 8
      v[6] = c.s0.s5; v[7] = c.s1.s5; v[8] = c.s2.s5; v[9] = c.s3.s5;
#else
      v[6] = c.s0; v[7] = c.s1; v[8] = c.s2; v[9] = c.s3;
#endif
    })";
  for (int words : {1, 8}) {
    std::vector<int32_t> buffer;
    const auto put = [&](const auto& list) {
      for (uint32_t w : list) buffer.push_back(static_cast<int32_t>(w));
    };
    for (const Vector& v : kPublished) put(v.counter), put(v.key), put(std::array<uint32_t, 4>{});
    const Tensor v(context(), {static_cast<int64_t>(buffer.size())}, DType::i32);
    write(stream(), v, buffer);
    const detail::Kernel kernel = context().state().programs.generated("philox_test", test, "test",
                                                                       detail::Defines().set("WORDS", words));
    detail::Launch(stream(), kernel).arg(v).run({std::size(kPublished)}, {1});
    const std::vector<int32_t> out = read<int32_t>(stream(), v);
    for (size_t i = 0; i < std::size(kPublished); i++)
      for (size_t j = 0; j < 4; j++)
        CHECK(static_cast<uint32_t>(out[10 * i + 6 + j]) == kPublished[i].result[j]);
  }
}

TEST_CASE("random numbers of odd shapes, every engine", "[small]") {
  for (const char* name : kEngines)
    for (Distribution distribution : kAll)
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3}, Shape{33}, Shape{2, 3, 5, 7}})
        for (uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{6}, uint64_t{0x3fffffff3}})
          check(name, distribution, shape, Placing::row_major, DType::f32, {0x123456789abcdef0, offset});
}

TEST_CASE("random numbers in strided memory and other dtypes", "[small]") {
  for (Distribution distribution : kAll) {
    for (Placing placing : {Placing::channels_last, Placing::gaps})
      check("auto", distribution, {3, 4, 5}, placing, DType::f32, {7, 3});
    for (DType dtype : {DType::f16, DType::bf16})
      check("auto", distribution, {3, 4, 5}, Placing::row_major, dtype, {7, 3});
    check("auto", distribution, {3, 4, 5}, Placing::gaps, DType::f16, {7, 3});
  }
  for (DType dtype : {DType::u8, DType::i32, DType::i64, DType::boolean})
    check("auto", Distribution::bernoulli, {3, 4, 5}, Placing::row_major, dtype, {7, 3});
}

TEST_CASE("random numbers as bool are the same by every engine", "[small]") {
  const RandomState state{11, 5};
  for (Distribution distribution : kAll) {
    std::vector<unsigned char> expected;
    for (const char* name : kEngines) {
      INFO("engine=" << name << " distribution=" << static_cast<int>(distribution));
      const Guarded y({1000}, DType::boolean);
      Random(context(), {y.tensor(), distribution}, engine(name))
          .run(stream(), 0.25, 0.75, state, y.tensor());
      if (expected.empty()) expected = host_bytes(y.tensor());
      CHECK(host_bytes(y.tensor()) == expected);
      CHECK(y.intact());
    }
    if (distribution != Distribution::bernoulli) CHECK(expected == std::vector<unsigned char>(1000, 1));
  }
}

TEST_CASE("random numbers of many elements") {
  for (const char* name : kEngines)
    for (Distribution distribution : kAll)
      check(name, distribution, {100003}, Placing::row_major, DType::f32, {1, 5});
}

TEST_CASE("the next state continues the sequence", "[small]") {
  RandomState state{42, 0};
  const Guarded whole({50}), first({21}), second({29});
  random_uniform(stream(), whole.tensor(), 0, 1, state);
  random_uniform(stream(), first.tensor(), 0, 1, state.take(21));
  random_uniform(stream(), second.tensor(), 0, 1, state.take(29));
  CHECK(state.offset == 50);
  std::vector<float> joined = host_values(first.tensor());
  const std::vector<float> rest = host_values(second.tensor());
  joined.insert(joined.end(), rest.begin(), rest.end());
  CHECK(host_values(whole.tensor()) == joined);
}

TEST_CASE("random numbers have the moments of their distributions") {
  constexpr int64_t kCount = 1 << 20;
  const auto moments = [](const std::vector<float>& values) {
    double mean = 0, square = 0;
    for (float v : values) mean += v / static_cast<double>(kCount);
    for (float v : values) square += (v - mean) * (v - mean) / static_cast<double>(kCount);
    return std::pair(mean, square);
  };
  const Tensor y(context(), {kCount});
  // Five standard errors each.
  random_uniform(stream(), y, -1, 3, {9, 0});
  auto [mean, variance] = moments(host_values(y));
  CHECK(std::abs(mean - 1) < 5 * std::sqrt(16.0 / 12 / kCount));
  CHECK(std::abs(variance - 16.0 / 12) < 5 * std::sqrt(256.0 / 180 / kCount));
  random_normal(stream(), y, 0, 1, {9, 0});
  std::tie(mean, variance) = moments(host_values(y));
  CHECK(std::abs(mean) < 5 / std::sqrt(double{kCount}));
  CHECK(std::abs(variance - 1) < 5 * std::sqrt(2.0 / kCount));
  random_bernoulli(stream(), y, 0.25, {9, 0});
  std::tie(mean, variance) = moments(host_values(y));
  CHECK(std::abs(mean - 0.25) < 5 * std::sqrt(0.1875 / kCount));
}

TEST_CASE("random numbers at the ends of their ranges", "[small]") {
  const Guarded y({4096});
  // A range of few floats: rounding must not reach the upper end.
  const float low = 1, high = 1 + 4 * 0x1p-23f;
  random_uniform(stream(), y.tensor(), low, high, {1, 0});
  for (float v : host_values(y.tensor())) CHECK((v >= low && v < high));
  random_uniform(stream(), y.tensor(), 2.5, 2.5, {1, 0});
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 2.5f));
  random_bernoulli(stream(), y.tensor(), 0, {1, 0});
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 0.0f));
  random_bernoulli(stream(), y.tensor(), 1, {1, 0});
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 1.0f));
  random_normal(stream(), y.tensor(), 3, 0, {1, 0});
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 3.0f));
}

TEST_CASE("random plans list their engines", "[small]") {
  const RandomDesc strided{TensorDesc({2, 2}, {1, 2}, DType::f32, true), Distribution::uniform};
  const Random plan(context(), strided);
  CHECK(plan.engine() == "copied");
  CHECK(plan.workspace_size() == 16);
  CHECK(plan.explain().find("direct: refused, y is not row-major, its strides are [1, 2]") !=
        std::string::npos);
  CHECK(error_of<ValidationError>([&] {
          Random(context(), strided, engine("direct"));
        }).find("engine: random: direct refused") == 0);
}

TEST_CASE("random numbers refuse bad input", "[small]") {
  const Tensor y = device_tensor({3}, {1, 2, 3});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto uniform = [&](double low, double high) {
    return error_of<ValidationError>([&] { random_uniform(stream(), y, low, high, {}); });
  };
  const auto normal = [&](double mean, double deviation) {
    return error_of<ValidationError>([&] { random_normal(stream(), y, mean, deviation, {}); });
  };
  const auto bernoulli = [&](double p) {
    return error_of<ValidationError>([&] { random_bernoulli(stream(), y, p, {}); });
  };
  CHECK(uniform(2, 1) == "high: 1 must not be below low, 2");
  CHECK(uniform(nan, 1) == "low: nan is not a finite f32");
  CHECK(uniform(0, 1e39) == "high: 1e+39 is not a finite f32");
  CHECK(uniform(-3e38, 3e38) == "high: 3e+38 less low, -3e+38, is not a finite f32");
  CHECK(normal(0, -1) == "deviation: -1 must not be negative");
  CHECK(normal(nan, 1) == "mean: nan is not a finite f32");
  CHECK(bernoulli(1.5) == "p: 1.5 must lie in [0, 1]");
  CHECK(bernoulli(-0.1) == "p: -0.1 must lie in [0, 1]");
  CHECK(bernoulli(nan) == "p: nan must lie in [0, 1]");
  const Random plan(context(), {y, Distribution::uniform});
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), 2, 1, {}, y); }) == "b: 1 must not be below a, 2");
  CHECK(error_of<ValidationError>([&] { random_uniform(stream(), {}, 0, 1, {}); }) == "y: is not defined");
  CHECK(error_of<ValidationError>([&] {
          random_uniform(stream(), y, 0, 1, {1, UINT64_MAX - 1});
        }) == "state: offset 18446744073709551614 and 3 elements pass 2^64");
  CHECK(error_of<ValidationError>([&] {
          random_uniform(stream(), y.slice(0, 0, 1).expand({3}), 0, 1, {});
        }).find("y: strides [0]") == 0);
  CHECK(host_values(y) == std::vector<float>{1, 2, 3});
}
