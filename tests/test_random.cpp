// Random numbers: known answers, every engine by name bit for bit against the same arithmetic on the host,
// that arithmetic against the C library, bits that must never change, statistics, bad input.
#include <dlprim/random.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include "cases/nn.hpp"
#include "cases/random.hpp"
#include "catch.hpp"
#include "core/kernel_source.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/random/random_tiles.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr const char* kEngines[] = {"cpu", "direct", "copied"};
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

struct Parameters {
  double a, b;
};
Parameters parameters_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform:
      return {-2, 5};
    case Distribution::bernoulli:
    case Distribution::geometric:
      return {0.3, 0};
    case Distribution::exponential:
      return {1.5, 0};
    default:
      return {1, 2};
  }
}

/// `value` as `dtype` holds it.
float stored(float value, DType dtype) {
  if (dtype == DType::f16) return to_float(to_half(value));
  if (dtype == DType::bf16) return to_float(to_bfloat16(value));
  return is_floating(dtype) ? value : std::trunc(value);
}

void check(const char* name, Distribution distribution, const Shape& shape, Placing placing, DType dtype,
           const RandomState& state) {
  const auto [a, b] = parameters_of(distribution);
  INFO("engine=" << name << " distribution=" << name_of(distribution) << " " << dlprim::name_of(dtype)
                 << to_string(shape) << " " << name_of(placing) << " seed=" << state.seed
                 << " offset=" << state.offset);
  const Guarded y(shape, strides_in(placing, shape), dtype, state.offset % 2 ? 37 : 64),
      again(shape, strides_in(placing, shape), dtype, 37);
  const RandomDesc desc{y.tensor(), distribution};
  Random(context(), desc, engine(name)).run(stream(), a, b, state, y.tensor());
  Random(context(), {again.tensor(), distribution}, engine(name)).run(stream(), a, b, state, again.tensor());
  std::vector<float> values;
  for (int64_t i = 0; i < element_count(shape); i++)
    values.push_back(stored(random_reference(distribution, a, b, state, i), dtype));
  CHECK(host_values(y.tensor()) == values);
  CHECK(y.intact());
  CHECK(again.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));
}

/// FNV-1a.
uint64_t hash_of(const std::vector<unsigned char>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
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
    for (Distribution distribution : kReals)
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3}, Shape{33}, Shape{2, 3, 5, 7}})
        for (uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{6}, uint64_t{0x3fffffff3}})
          check(name, distribution, shape, Placing::row_major, DType::f32, {0x123456789abcdef0, offset});
}

TEST_CASE("random numbers in strided memory and other dtypes", "[small]") {
  for (Placing placing : {Placing::channels_last, Placing::gaps})
    check("auto", Distribution::normal, {3, 4, 5}, placing, DType::f32, {7, 3});
  check("auto", Distribution::uniform, {2, 1, 3, 1, 2, 2, 1, 2}, Placing::gaps, DType::bf16, {7, 3});
  for (Distribution distribution : {Distribution::uniform, Distribution::normal}) {
    for (DType dtype : {DType::f16, DType::bf16})
      for (const char* name : {"cpu", "direct"})
        for (uint64_t offset : {3, 4})
          check(name, distribution, {3, 4, 5}, Placing::row_major, dtype, {7, offset});
    if (has_doubles()) check("auto", distribution, {3, 4, 5}, Placing::row_major, DType::f64, {7, 4});
  }
  for (DType dtype : {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64})
    check("direct", Distribution::geometric, {3, 4, 5}, Placing::row_major, dtype, {7, 4});
  for (DType dtype : {DType::u8, DType::i32, DType::i64, DType::boolean})
    check("auto", Distribution::bernoulli, {3, 4, 5}, Placing::row_major, dtype, {7, 3});
}

TEST_CASE("random numbers in tiles, where neighbours in memory are channels", "[small]") {
  for (Distribution distribution : kReals)
    for (const Shape& shape : {Shape{2, 8, 3, 5}, Shape{2, 5, 4, 3}})
      check("tiles", distribution, shape, Placing::channels_last, DType::f32, {7, 3});
  check("tiles", Distribution::geometric, {3, 4, 5}, Placing::channels_last, DType::i32, {7, 4});
  check("tiles", Distribution::uniform, {2, 8, 3, 5}, Placing::channels_last, DType::bf16, {7, 1});
  const Shape shape{2, 8, 3, 5};
  const Tensor whole(context(), shape);
  const Guarded integers(shape, strides_in(Placing::channels_last, shape), DType::i64),
      wide(shape, strides_in(Placing::channels_last, shape), DType::f32);
  const Tensor plain(context(), shape, DType::i64);
  const RandomState state{9, 6};
  const auto draw_integers = [&](const char* name, const Tensor& y) {
    Random(context(), {y, Distribution::integers}, engine(name))
        .run_integers(stream(), -3, int64_t{1} << 40, state, y);
  };
  draw_integers("tiles", integers.tensor());
  draw_integers("direct", plain);
  CHECK(host_bytes(integers.tensor()) == host_bytes(plain));
  // Offsets of 64 bits.
  detail::Draw draw;
  draw.a = 0;
  draw.b = 1;
  draw.top = 1;
  detail::RandomTiles(context(), nullptr, wide.tensor(), detail::Defines().set("UNIFORM", true), true)
      .run(stream(), nullptr, wide.tensor(), draw, state);
  random_uniform(stream(), 0, 1, state, whole);
  CHECK(host_bytes(wide.tensor()) == host_bytes(whole));
  CHECK(wide.intact());
}

TEST_CASE("random numbers as bool are the same by every engine", "[small]") {
  const RandomState state{11, 5};
  for (Distribution distribution : {Distribution::uniform, Distribution::bernoulli}) {
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
    for (Distribution distribution : kReals)
      check(name, distribution, {100003}, Placing::row_major, DType::f32, {1, 5});
}

TEST_CASE("whole numbers are the upper halves of products, in every dtype") {
  struct Range {
    int64_t low, high;
    DType dtype;
  };
  for (const Range& r :
       {Range{0, 10, DType::i64}, Range{-5, 6, DType::i32}, Range{7, 8, DType::u8}, Range{0, 256, DType::u8},
        Range{-128, 128, DType::i8}, Range{0, 2, DType::boolean}, Range{-32768, 32768, DType::i16},
        Range{INT32_MIN, int64_t{INT32_MAX} + 1, DType::i32}, Range{INT64_MIN, INT64_MAX, DType::i64},
        Range{0, (1 << 20) + 1, DType::i64}, Range{0, 1 << 20, DType::i64},
        Range{-(1 << 24), (1 << 24) + 1, DType::f32}, Range{-256, 257, DType::bf16},
        Range{-2048, 2049, DType::f16}})
    for (const char* name : {"direct", r.dtype == DType::i64 || r.dtype == DType::f16 ? "cpu" : "direct"})
      for (uint64_t offset : {8, 6}) {
        INFO("engine=" << name << " [" << r.low << ", " << r.high << ") " << dlprim::name_of(r.dtype)
                       << " offset=" << offset);
        const RandomState state{3, offset};
        const Guarded y({7, 11}, r.dtype);
        Random(context(), {y.tensor(), Distribution::integers}, engine(name))
            .run_integers(stream(), r.low, r.high, state, y.tensor());
        std::vector<int64_t> expected;
        for (int64_t i = 0; i < 77; i++)
          expected.push_back(random_integer_reference(r.low, r.high, state, i));
        const Tensor wide(context(), {7, 11}, DType::i64);
        copy(stream(), y.tensor(), wide);
        CHECK(read<int64_t>(stream(), wide) == expected);
        CHECK(y.intact());
      }
}

TEST_CASE("the arithmetic of random numbers is as exact as f32 allows", "[small]") {
  // Units in the last place: log 2, times the factor's rounding; of a normal number log, root, sine and a
  // product; exp adds its argument's error, |a + b z| <= 15 here.
  for (Distribution distribution : kReals) {
    const auto [a, b] = parameters_of(distribution);
    const double bound = distribution == Distribution::log_normal ? 120 * 0x1p-24 : 10 * 0x1p-24;
    for (int64_t i = 0; i < 20000; i++) {
      const double value = random_reference(distribution, a, b, {5, 0}, i),
                   exact = random_in_double(distribution, a, b, {5, 0}, i);
      // Where a and b z cancel, their own size counts.
      if (!(std::abs(value - exact) <= bound * (std::abs(exact) + std::abs(a)))) {
        CAPTURE(name_of(distribution), i, value, exact);
        CHECK(false);
        break;
      }
    }
  }
  const auto log_error = [](uint32_t w) {
    const double exact = -std::log1p(-(static_cast<double>(~w) + 0.5) * 0x1p-32);
    return std::abs(negative_log_reference(w) - exact) / exact;
  };
  for (uint32_t w :
       {0u, 1u, 0x3fffffffu, 0x7fffffffu, 0xb504f334u, 0xbfffffffu, 0xc0000000u, 0xfffffffeu, 0xffffffffu})
    CHECK(log_error(w) < 4 * 0x1p-24);
  double largest = 0;
  for (uint64_t w = 0; w <= 0xffffffffu; w += 99991)
    largest = std::max(largest, log_error(static_cast<uint32_t>(w)));
  CHECK(largest < 4 * 0x1p-24);
  for (float x : {1.0f, 1.5f, 3.0f, 1e-9f, 2e9f, 0x1.fffffep0f})
    CHECK(std::abs(reciprocal_reference(x) * static_cast<double>(x) - 1) < 0x1p-23);
}

TEST_CASE("random bits never change", "[small]") {
  struct Golden {
    Distribution distribution;
    std::array<uint32_t, 4> first;
    uint64_t hash;  ///< of 4096 numbers
  };
  for (const Golden& golden : {
           Golden{
               Distribution::uniform, {0x40982783, 0x3f3144d4, 0x4084f5fe, 0x3f7decc8}, 0xbf4b0584b498a67e},
           Golden{Distribution::normal, {0x3f19a69f, 0x3fad5314, 0x3db6bec8, 0x3fb93097}, 0x594d047e34489179},
           Golden{Distribution::bernoulli, {0, 0, 0, 0}, 0x445a8e2f2d7c1915},
           Golden{Distribution::log_normal,
                  {0x3fe9470e, 0x4077e393, 0x3f8bf258, 0x4087fbb2},
                  0xe8ad6488090ea341},
           Golden{Distribution::exponential,
                  {0x3cc2b6eb, 0x3f231085, 0x3dafa334, 0x3f111136},
                  0x4218e993ca4a66b5},
           Golden{Distribution::cauchy, {0x4198d231, 0x3e7773d8, 0x40c09905, 0x3f092d9e}, 0x58dc579207208be},
           Golden{
               Distribution::geometric, {0x3f800000, 0x40400000, 0x3f800000, 0x40400000}, 0xe61182fed35290b3},
       }) {
    INFO(name_of(golden.distribution));
    const auto [a, b] = parameters_of(golden.distribution);
    const Tensor y(context(), {4096});
    Random(context(), {y, golden.distribution}).run(stream(), a, b, {0x123456789abcdef0, 12}, y);
    const std::vector<unsigned char> bytes = host_bytes(y);
    std::array<uint32_t, 4> first{};
    std::memcpy(first.data(), bytes.data(), sizeof first);
    CHECK(first == golden.first);
    CHECK(hash_of(bytes) == golden.hash);
  }
  const Tensor y(context(), {4096}, DType::i64);
  random_integers(stream(), -1000, 1000000000000, {0x123456789abcdef0, 12}, y);
  CHECK(hash_of(host_bytes(y)) == 0x8f87b66a26a5813a);
}

TEST_CASE("the next state continues the sequence", "[small]") {
  RandomState state{42, 0};
  const Guarded whole({50}), first({21}), second({29});
  random_uniform(stream(), 0, 1, state, whole.tensor());
  random_uniform(stream(), 0, 1, state.take(21), first.tensor());
  random_uniform(stream(), 0, 1, state.take(29), second.tensor());
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
  random_uniform(stream(), -1, 3, {9, 0}, y);
  auto [mean, variance] = moments(host_values(y));
  CHECK(std::abs(mean - 1) < 5 * std::sqrt(16.0 / 12 / kCount));
  CHECK(std::abs(variance - 16.0 / 12) < 5 * std::sqrt(256.0 / 180 / kCount));
  random_normal(stream(), 0, 1, {9, 0}, y);
  std::tie(mean, variance) = moments(host_values(y));
  CHECK(std::abs(mean) < 5 / std::sqrt(double{kCount}));
  CHECK(std::abs(variance - 1) < 5 * std::sqrt(2.0 / kCount));
  random_exponential(stream(), 0.5, {9, 0}, y);  // mean 2, variance 4, fourth central moment 9 * 16
  std::tie(mean, variance) = moments(host_values(y));
  CHECK(std::abs(mean - 2) < 5 * std::sqrt(4.0 / kCount));
  CHECK(std::abs(variance - 4) < 5 * std::sqrt(128.0 / kCount));
  random_geometric(stream(), 0.25, {9, 0}, y);  // mean 1 / p, variance (1 - p) / p^2 = 12
  std::tie(mean, variance) = moments(host_values(y));
  CHECK(std::abs(mean - 4) < 5 * std::sqrt(12.0 / kCount));
  random_log_normal(stream(), 0.5, 0.25, {9, 0}, y);
  std::vector<float> logs = host_values(y);
  for (float& v : logs) v = std::log(v);
  std::tie(mean, variance) = moments(logs);
  CHECK(std::abs(mean - 0.5) < 5 * 0.25 / std::sqrt(double{kCount}));
  CHECK(std::abs(variance - 0.0625) < 5 * 0.0625 * std::sqrt(2.0 / kCount));
  // A Cauchy number has no mean; a quarter of them lie in each of (-inf, -1), (-1, 0), (0, 1), (1, inf)
  // widths.
  random_cauchy(stream(), 3, 2, {9, 0}, y);
  std::array<double, 4> quarters{};
  for (float v : host_values(y)) quarters[v < 1 ? 0 : v < 3 ? 1 : v < 5 ? 2 : 3] += 1.0 / kCount;
  for (double share : quarters) CHECK(std::abs(share - 0.25) < 5 * std::sqrt(0.1875 / kCount));
  random_integers(stream(), 10, 17, {9, 0}, y);
  std::array<double, 7> shares{};
  for (float v : host_values(y)) shares[static_cast<size_t>(v) - 10] += 1.0 / kCount;
  for (double share : shares) CHECK(std::abs(share - 1.0 / 7) < 5 * std::sqrt(6.0 / 49 / kCount));
  random_bernoulli(stream(), 0.25, {9, 0}, y);
  std::tie(mean, variance) = moments(host_values(y));
  CHECK(std::abs(mean - 0.25) < 5 * std::sqrt(0.1875 / kCount));
}

TEST_CASE("random numbers at the ends of their ranges", "[small]") {
  const Guarded y({4096});
  // A range of few floats: rounding must not reach the upper end.
  const float low = 1, high = 1 + 4 * 0x1p-23f;
  random_uniform(stream(), low, high, {1, 0}, y.tensor());
  for (float v : host_values(y.tensor())) CHECK((v >= low && v < high));
  random_uniform(stream(), 2.5, 2.5, {1, 0}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 2.5f));
  random_bernoulli(stream(), 0, {1, 0}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 0.0f));
  random_bernoulli(stream(), 1, {1, 0}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 1.0f));
  random_geometric(stream(), 1, {1, 0}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 1.0f));
  random_geometric(stream(), 1e-20, {1, 0}, y.tensor());
  for (float v : host_values(y.tensor())) CHECK((v > 1e10f && v < 1e23f));
  const Guarded narrow({4096}, DType::i8);
  random_geometric(stream(), 1e-20, {1, 0}, narrow.tensor());
  CHECK(host_values(narrow.tensor()) == std::vector<float>(4096, 127.0f));
  random_exponential(stream(), 1, {1, 0}, y.tensor());
  for (float v : host_values(y.tensor())) CHECK((v > 0 && v < 23));
  random_log_normal(stream(), 0, 1e4, {1, 0}, y.tensor());
  for (float v : host_values(y.tensor())) CHECK(v >= 0);
  random_log_normal(stream(), 1000, 0, {1, 0}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, std::numeric_limits<float>::infinity()));
  random_normal(stream(), 3, 0, {1, 0}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>(4096, 3.0f));
}

TEST_CASE("random plans list their engines", "[small]") {
  const RandomDesc strided{TensorDesc({2, 2}, {5, 2}, DType::f32, true), Distribution::uniform};
  const Random plan(context(), strided);
  CHECK(plan.engine() == "copied");
  CHECK(plan.workspace_size() == 16);
  CHECK(plan.explain().find("direct: refused, y is not row-major, its strides are [5, 2]") !=
        std::string::npos);
  CHECK(error_of<ValidationError>([&] {
          Random(context(), strided, engine("direct"));
        }).find("engine: random: direct refused") == 0);
}

TEST_CASE("random numbers refuse bad input", "[small]") {
  const Tensor y = device_tensor({3}, {1, 2, 3});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto uniform = [&](double low, double high) {
    return error_of<ValidationError>([&] { random_uniform(stream(), low, high, {}, y); });
  };
  const auto normal = [&](double mean, double deviation) {
    return error_of<ValidationError>([&] { random_normal(stream(), mean, deviation, {}, y); });
  };
  const auto bernoulli = [&](double p) {
    return error_of<ValidationError>([&] { random_bernoulli(stream(), p, {}, y); });
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
  const auto exponential = [&](double rate) {
    return error_of<ValidationError>([&] { random_exponential(stream(), rate, {}, y); });
  };
  CHECK(exponential(0) == "rate: 0 must lie in [2^-90, 2^90]");
  CHECK(exponential(nan) == "rate: nan must lie in [2^-90, 2^90]");
  CHECK(error_of<ValidationError>([&] { random_geometric(stream(), 0, {}, y); }) ==
        "p: 0 must lie in [2^-90, 1]");
  CHECK(error_of<ValidationError>([&] { random_cauchy(stream(), 0, -1, {}, y); }) ==
        "scale: -1 must not be negative");
  CHECK(error_of<ValidationError>([&] { random_log_normal(stream(), 0, nan, {}, y); }) ==
        "deviation: nan is not a finite f32");
  const auto whole = [](DType dtype, int64_t low, int64_t high) {
    const Tensor z(context(), {3}, dtype);
    return error_of<ValidationError>([&] { random_integers(stream(), low, high, {}, z); });
  };
  CHECK(whole(DType::i32, 3, 3) == "high: 3 must be above low, 3");
  CHECK(whole(DType::u8, -1, 3) == "low: -1 is below 0, the least that u8 takes");
  CHECK(whole(DType::u8, 0, 257) == "high: 257 is above 255, the largest that u8 takes, by more than 1");
  CHECK(whole(DType::f16, 0, 2050) == "high: 2050 is above 2048, the largest that f16 takes, by more than 1");
  const Random plan(context(), {y, Distribution::uniform});
  CHECK(error_of<ValidationError>([&] { plan.run_integers(stream(), 0, 2, {}, y); }) ==
        "distribution: run_integers is for integers, this plan makes uniform");
  CHECK(error_of<ValidationError>([&] {
          Random(context(), {y, Distribution::integers}).run(stream(), 0, 2, {}, y);
        }) == "distribution: integers are drawn by run_integers");
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), 2, 1, {}, y); }) == "b: 1 must not be below a, 2");
  CHECK(error_of<ValidationError>([&] { random_uniform(stream(), 0, 1, {}, {}); }) == "y: is not defined");
  CHECK(error_of<ValidationError>([&] {
          random_uniform(stream(), 0, 1, {1, UINT64_MAX - 1}, y);
        }) == "state: offset 18446744073709551614 and 3 elements pass 2^64");
  CHECK(error_of<ValidationError>([&] {
          random_uniform(stream(), 0, 1, {}, y.slice(0, 0, 1).expand({3}));
        }).find("y: strides [0]") == 0);
  CHECK(host_values(y) == std::vector<float>{1, 2, 3});
}
