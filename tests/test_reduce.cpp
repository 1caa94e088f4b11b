// Reductions by the generator: axes, accumulators, dtypes, parts, bits, bad input.
#include <algorithm>
#include <cmath>
#include <limits>

#include <dlprim/pointwise.hpp>

#include "cases/reduction.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

void run(const char* name, const std::vector<Tensor>& xs, const std::vector<Tensor>& ys,
         const std::vector<Scalar>& scalars, const Reduction& reduction) {
  Reduce(context(), described(xs), described(ys), static_cast<int>(scalars.size()), reduction, engine(name))
      .run(stream(), xs, ys, scalars);
}

void check_sum(const char* name, const Tensor& x, const Guarded& y) {
  const Shape& shape = y.tensor().shape();
  run(name, {x}, {y.tensor()}, {}, sum_of("x0"));
  const std::vector<float> values = host_values(x);
  std::vector<float> expected(static_cast<size_t>(element_count(shape)), 0);
  for_each_reduced(x.shape(), shape, [&](size_t i, size_t k) { expected[k] += values[i]; });
  CHECK(host_values(y.tensor()) == expected);
  CHECK(y.intact());
}

struct Case {
  Shape x, y;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {{{1}, {1}},
                                         {{7}, {1}},
                                         {{1000}, {1}},
                                         {{0}, {1}},
                                         {{3, 0}, {3, 1}},
                                         {{0, 3}, {0, 1}},
                                         {{5, 1}, {5, 1}},
                                         {{5, 7}, {5, 1}},
                                         {{5, 7}, {1, 7}},
                                         {{5, 7}, {1, 1}},
                                         {{33, 257}, {33, 1}},
                                         {{257, 33}, {1, 33}},
                                         {{300, 3}, {1, 3}},
                                         {{2, 600}, {2, 1}},
                                         {{4, 6, 7, 7}, {1, 6, 1, 1}},
                                         {{4, 6, 8, 8}, {1, 6, 1, 1}},
                                         {{4, 6, 8, 8}, {4, 1, 8, 8}},
                                         {{4, 6, 8, 8}, {1, 6, 1, 8}},
                                         {{2, 3, 2, 3, 2, 3, 2, 3}, {1, 3, 1, 3, 1, 3, 1, 3}},
                                         {{2, 3, 2, 3, 2, 3, 2, 3}, {2, 1, 2, 1, 2, 1, 2, 1}}};
  return list;
}

}  // namespace

TEST_CASE("sums over any axes are exact", "[small]") {
  Rng rng(1);
  for (const Case& c : cases())
    for (const char* name : engines()) {
      INFO("engine " << name << " " << to_string(c.x) << " to " << to_string(c.y));
      const std::vector<float> x = integers(element_count(c.x), rng);
      const Guarded y(c.y);
      run(name, {device_tensor(c.x, x)}, {y.tensor()}, {2}, sum_of("x0", "y0 = s0 * a0"));
      std::vector<float> expected(static_cast<size_t>(element_count(c.y)), 0);
      for_each_reduced(c.x, c.y, [&](size_t i, size_t k) { expected[k] += 2 * x[i]; });
      CHECK(host_values(y.tensor()) == expected);
      CHECK(y.intact());
    }
}

TEST_CASE("large sums go in parts and give the same bits twice") {
  Rng rng(2);
  struct Large {
    Shape x, y;
  };
  for (const Large& c : {Large{{1 << 20}, {1}}, Large{{100003}, {1}}, Large{{64, 16, 24, 24}, {1, 16, 1, 1}},
                         Large{{5000, 48}, {1, 48}}, Large{{3, 70001}, {3, 1}}})
    for (const char* name : engines()) {
      INFO("engine " << name << " " << to_string(c.x) << " to " << to_string(c.y));
      const std::vector<float> x = reals(element_count(c.x), rng);
      const Tensor dx = device_tensor(c.x, x);
      const Guarded y(c.y), again(c.y);
      run(name, {dx}, {y.tensor()}, {}, sum_of("x0"));
      run(name, {dx}, {again.tensor()}, {}, sum_of("x0"));
      CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));
      std::vector<double> exact(static_cast<size_t>(element_count(c.y)), 0), scale = exact;
      for_each_reduced(c.x, c.y, [&](size_t i, size_t k) { exact[k] += x[i], scale[k] += std::abs(x[i]); });
      const std::vector<float> got = host_values(y.tensor());
      // Every lane adds at most count / 16 terms in a row: the error is below that many roundings of the sum
      // of magnitudes, and far below in practice.
      for (size_t k = 0; k < exact.size(); k++) CHECK(std::abs(got[k] - exact[k]) <= 1e-6 * scale[k]);
      CHECK(y.intact());
    }
}

TEST_CASE("sums of many numbers err as the logarithm of how many they are") {
  // Of equal numbers the errors of a plain sum all have one sign: it would be 100001.5 for the first of
  // these.
  struct Long {
    Shape x, y;
    DType dtype;
    size_t workspace = SIZE_MAX;
  };
  for (const Long& c :
       {Long{{1000001}, {1}, DType::f32}, Long{{1000001}, {1}, DType::f32, 0},
        Long{{1000001}, {1}, DType::bf16}, Long{{2, 1000001}, {2, 1}, DType::f32},
        Long{{200003, 5}, {1, 5}, DType::f32}, Long{{100003, 40}, {1, 40}, DType::f16},
        Long{{3, 100001, 5}, {3, 1, 5}, DType::f32}, Long{{1000, 9, 301}, {1, 9, 1}, DType::f32},
        Long{{100000, 2, 3}, {1, 2, 1}, DType::f32}})
    for (const char* name : engines())
      for (const bool equal : {true, false})
        for (const bool gaps : {false, true}) {
          INFO("engine " << name << " " << name_of(c.dtype) << to_string(c.x) << " to " << to_string(c.y)
                         << (equal ? " equal" : "") << (gaps ? " with gaps" : ""));
          Rng rng(9);
          Shape shape = c.x;
          if (gaps) shape[shape.size() - 1] *= 2;
          const auto count = static_cast<size_t>(element_count(shape));
          Tensor x = device_tensor(
              shape, equal ? std::vector<float>(count, 0.1f) : reals(element_count(shape), rng, 0, 1),
              c.dtype);
          if (gaps) x = x.slice(x.rank() - 1, 0, shape[x.rank() - 1], 2);
          const Guarded y(c.y);
          Options options = engine(name);
          options.workspace_limit = std::min(options.workspace_limit, c.workspace);
          Reduce(context(), {x}, {y.tensor()}, 0, sum_of("x0"), options).run(stream(), {x}, {y.tensor()}, {});
          const std::vector<float> values = host_values(x), got = host_values(y.tensor());
          std::vector<double> exact(got.size(), 0);
          for_each_reduced(c.x, c.y, [&](size_t i, size_t k) { exact[k] += values[i]; });
          const double n = static_cast<double>(values.size()) / static_cast<double>(got.size());
          for (size_t k = 0; k < exact.size(); k++)
            CHECK(std::abs(got[k] - exact[k]) <= std::log2(n) * 0x1p-23 * exact[k]);
          CHECK(y.intact());
        }
}

TEST_CASE("a workspace of the user's is used and checked", "[small]") {
  const TensorDesc x({1 << 16});
  const TensorDesc y({1});
  const Reduce plan(context(), {x}, {y}, 0, sum_of("x0"), engine("gpu"));
  REQUIRE(plan.workspace_size() > 0);
  const auto bytes = static_cast<int64_t>(plan.workspace_size());
  const Tensor dx(context(), {1 << 16}), dy(context(), {1});
  fill(stream(), 1, dx);
  plan.run(stream(), {dx}, {dy}, {}, Tensor(context(), {bytes}, DType::u8));
  CHECK(host_values(dy)[0] == 65536);
  CHECK_THROWS_AS(plan.run(stream(), {dx}, {dy}, {}, Tensor(context(), {bytes - 1}, DType::u8)),
                  ValidationError);
  const auto refused = [&](const Tensor& workspace) {
    return error_of<ValidationError>([&] { plan.run(stream(), {dx}, {dy}, {}, workspace); });
  };
  CHECK(refused(dx) == "workspace: shares memory with inputs[0]");
  const Tensor large(context(), {bytes / 4 + 4});
  const Tensor inside = large.slice(0, 0, 1), workspace = large.slice(0, 0, bytes / 4);
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), {dx}, {inside}, {}, workspace); }) ==
        "workspace: shares memory with outputs[0]");
  CHECK(refused(Tensor(Context(context().device()), {bytes}, DType::u8)) ==
        "workspace: belongs to another context");
  CHECK(host_values(dx) == std::vector<float>(1 << 16, 1));
}

TEST_CASE("a reduction keeps to the limit of its workspace", "[small]") {
  const Tensor x(context(), {1 << 16}), y(context(), {1});
  fill(stream(), 1, x);
  for (const char* name : engines()) {
    Options options = engine(name);
    const size_t wanted = Reduce(context(), {x}, {y}, 0, sum_of("x0"), options).workspace_size();
    REQUIRE(wanted > 12);
    for (size_t limit : {wanted, wanted - 1, size_t{12}, size_t{0}}) {
      INFO(name << " limit " << limit);
      options.workspace_limit = limit;
      const Reduce plan(context(), {x}, {y}, 0, sum_of("x0"), options);
      CHECK(plan.workspace_size() <= limit);
      plan.run(stream(), {x}, {y}, {});
      CHECK(host_values(y)[0] == 65536);
    }
  }
}

TEST_CASE("strided inputs reduce along their own memory order", "[small]") {
  Rng rng(3);
  const Tensor base = device_tensor({4, 9, 5, 6}, integers(1080, rng));
  const std::vector<Tensor> views = {base.permute({0, 3, 1, 2}), base.slice(3, 1, 6, 2), base.transpose(0, 2),
                                     base.slice(1, 3, 4)};
  for (const Tensor& x : views)
    for (const char* name : engines())
      for (unsigned mask : {0b0001u, 0b0110u, 0b1000u, 0b1101u, 0b1111u}) {
        Shape shape = x.shape();
        for (int d = 0; d < 4; d++)
          if (mask >> d & 1u) shape[d] = 1;
        INFO("engine " << name << " " << to_string(x.shape()) << " to " << to_string(shape));
        const Guarded y(shape);
        check_sum(name, x, y);
      }
}

TEST_CASE("several accumulators, inputs and outputs in one pass", "[small]") {
  Rng rng(4);
  const Shape shape{6, 5, 11};
  const std::vector<float> a = integers(330, rng), b = integers(55, rng);
  for (const char* name : engines()) {
    const Guarded dot({6, 1, 1}), first({6, 1, 1}, DType::i32);
    const Reduction r{2, "a0 = 0; a1 = 0", "a0 += x0 * x1; a1 += x0", "a0 += b0; a1 += b1",
                      "y0 = a0; y1 = a1"};
    run(name, {device_tensor(shape, a), device_tensor({5, 11}, b)}, {dot.tensor(), first.tensor()}, {}, r);
    std::vector<float> e0(6, 0), e1(6, 0);
    for (size_t i = 0; i < a.size(); i++) e0[i / 55] += a[i] * b[i % 55], e1[i / 55] += a[i];
    CHECK(host_values(dot.tensor()) == e0);
    CHECK(host_values(first.tensor()) == e1);
    CHECK((dot.intact() && first.intact()));
  }
}

TEST_CASE("inputs that only finish reads, one of them in place", "[small]") {
  std::vector<Case> shapes = cases();
  shapes.insert(shapes.end(), {{{3, 20000}, {3, 1}}, {{20000, 5}, {1, 5}}, {{2, 9000, 8}, {1, 1, 8}}});
  for (const char* name : engines())
    for (const Case& c : shapes) {
      INFO(name << " " << to_string(c.x) << " to " << to_string(c.y));
      Rng rng(5);
      const std::vector<float> x = integers(element_count(c.x), rng), own = integers(element_count(c.y), rng);
      const Tensor in = device_tensor(c.x, x), added = device_tensor(c.y, own), one = device_tensor({1}, {3});
      const Guarded first(c.y), second(c.y, DType::i32);
      Reduction r = sum_of("x0", "y0 = x1 + s0 * a0; y1 = x2 * a0");
      r.finishing = 2;
      copy(stream(), added, first.tensor());
      run(name, {in, first.tensor(), one}, {first.tensor(), second.tensor()}, {2}, r);
      std::vector<float> sums(own.size(), 0), expected;
      for_each_reduced(c.x, c.y, [&](size_t i, size_t k) { sums[k] += x[i]; });
      for (size_t k = 0; k < own.size(); k++) expected.push_back(own[k] + 2 * sums[k]), sums[k] *= 3;
      CHECK(host_values(first.tensor()) == expected);
      CHECK(host_values(second.tensor()) == sums);
      CHECK((first.intact() && second.intact()));
    }
}

TEST_CASE("Welford keeps its digits where squares cancel") {
  // Deviations of 1 around 10000: E[x^2] - E[x]^2 would lose them all in float.
  for (const char* name : engines())
    for (const Case& c :
         {Case{{8, 3, 7, 7}, {1, 3, 1, 1}}, Case{{4096, 3}, {1, 3}}, Case{{3, 5000}, {3, 1}}}) {
      INFO("engine " << name << " " << to_string(c.x));
      Rng rng(5);
      std::vector<float> x = reals(element_count(c.x), rng, 9999, 10001);
      const Tensor dx = device_tensor(c.x, x);
      const Guarded mean(c.y), square(c.y), count(c.y);
      run(name, {dx}, {mean.tensor(), square.tensor(), count.tensor()}, {},
          welford("x0", "y0 = a1; y1 = a2; y2 = a0"));
      const auto outputs = static_cast<size_t>(element_count(c.y));
      std::vector<double> m(outputs, 0), s(outputs, 0), n(outputs, 0);
      for_each_reduced(c.x, c.y, [&](size_t i, size_t k) { m[k] += x[i], n[k]++; });
      for_each_reduced(c.x, c.y, [&](size_t i, size_t k) { s[k] += std::pow(x[i] - m[k] / n[k], 2); });
      const auto got_m = host_values(mean.tensor()), got_s = host_values(square.tensor());
      for (size_t k = 0; k < outputs; k++) {
        CHECK(got_m[k] == Approx(m[k] / n[k]).epsilon(1e-6));
        CHECK(got_s[k] == Approx(s[k]).epsilon(2e-3));
        CHECK(host_values(count.tensor())[k] == n[k]);
      }
    }
}

TEST_CASE("maximum and minimum, with infinities and NaN", "[small]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const char* name : engines()) {
    const Tensor x = device_tensor({4, 3}, {1, -2, 3, -inf, -inf, -inf, 5, nan, 7, inf, 0, -0.0f});
    const Guarded high({4, 1}), low({4, 1});
    run(name, {x}, {high.tensor()}, {}, max_of("x0"));
    run(name, {x}, {low.tensor()}, {}, min_of("x0"));
    const auto h = host_values(high.tensor()), l = host_values(low.tensor());
    CHECK((h[0] == 3 && h[1] == -inf && std::isnan(h[2]) && h[3] == inf));
    CHECK((l[0] == -2 && l[1] == -inf && std::isnan(l[2]) && l[3] == 0));
    const Tensor i = device_tensor({2, 2}, {-5, -9, -1, -3}, DType::i32);
    const Guarded most({2, 1}, DType::i32);
    run(name, {i}, {most.tensor()}, {}, max_of("x0"));
    CHECK(host_values(most.tensor()) == std::vector<float>{-5, -1});
  }
}

TEST_CASE("maximum and minimum of nothing are the lowest and the highest number", "[small]") {
  const std::pair<DType, std::pair<float, float>> limits[] = {
      {DType::i8, {-128, 127}},
      {DType::u8, {0, 255}},
      {DType::i16, {-32768, 32767}},
      {DType::i32, {-0x1p31f, 0x1p31f}},  // the highest is 2^31 - 1, a float cannot tell
      {DType::i64, {-0x1p63f, 0x1p63f}},
      {DType::u16, {0, 65535}},
      {DType::u32, {0, 0x1p32f}},
      {DType::u64, {0, 0x1p64f}},
      {DType::f32, {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()}}};
  for (const char* name : engines())
    for (const auto& [dtype, limit] : limits) {
      INFO(name << " " << name_of(dtype));
      const Tensor x(context(), {2, 0}, dtype);
      const Guarded low({2, 1}, dtype), high({2, 1}, dtype);
      run(name, {x}, {low.tensor()}, {}, max_of("x0"));
      run(name, {x}, {high.tensor()}, {}, min_of("x0"));
      CHECK(host_values(low.tensor()) == std::vector<float>(2, limit.first));
      CHECK(host_values(high.tensor()) == std::vector<float>(2, limit.second));
      if (dtype != DType::i32) continue;
      CHECK(read<int32_t>(stream(), low.tensor()) == std::vector<int32_t>(2, INT32_MIN));
      CHECK(read<int32_t>(stream(), high.tensor()) == std::vector<int32_t>(2, INT32_MAX));
    }
}

TEST_CASE("sums of every dtype", "[small]") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                      DType::i32, DType::i64, DType::boolean, DType::u16, DType::u32, DType::u64})
    for (const char* name : engines()) {
      if (dtype == DType::f64 && !has_doubles()) continue;
      INFO(name << " " << name_of(dtype));
      Rng rng(6);
      std::vector<float> x = integers(300, rng);
      for (float& v : x) v = dtype == DType::boolean ? v > 0 : std::abs(v);
      const Guarded y({3, 1}, is_floating(dtype) ? dtype : DType::i64);
      run(name, {device_tensor({3, 100}, x, dtype)}, {y.tensor()}, {}, sum_of("x0"));
      std::vector<float> expected(3, 0);
      for (size_t i = 0; i < 300; i++) expected[i / 100] += x[i];
      if (dtype == DType::bf16)
        for (float& v : expected) v = to_float(to_bfloat16(v));
      CHECK(host_values(y.tensor()) == expected);
      CHECK(y.intact());
    }
}

TEST_CASE("sums by wide accesses, along the reduced elements and along the outputs", "[small]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (const Case& c : {Case{{5, 48}, {5, 1}}, Case{{50, 48}, {1, 48}}, Case{{3, 20, 8}, {3, 1, 8}},
                          Case{{6, 2, 5, 40}, {1, 2, 1, 40}}, Case{{9, 300}, {1, 300}}})
      for (const bool two : {false, true}) {
        INFO(name_of(dtype) << " " << to_string(c.x) << " to " << to_string(c.y)
                            << (two ? ", two inputs" : ""));
        Rng rng(7);
        const std::vector<float> x = integers(element_count(c.x), rng);
        const Shape others = two ? Shape{c.x[c.x.size() - 2], 1} : Shape{};
        const std::vector<float> factors = integers(element_count(others), rng);
        std::vector<Tensor> xs = {device_tensor(c.x, x, dtype)};
        if (two) xs.push_back(device_tensor(others, factors, dtype));
        const Guarded y(c.y, dtype == DType::i8 ? DType::i32 : DType::f32), most(c.y);
        const Reduction sum = sum_of(two ? "x0 * x1" : "x0");
        run("gpu", xs, {y.tensor()}, {}, sum);
        run("gpu", xs, {most.tensor()}, {},
            {3, "a0 = 0; a1 = 0; a2 = 0", "a0 += 1; a1 += x0; a2 += x0 * x0", "a0 += b0; a1 += b1; a2 += b2",
             "y0 = a0 + 1000 * a1 + a2"});
        std::vector<float> expected(static_cast<size_t>(element_count(c.y)), 0), many = expected;
        for_each_reduced(c.x, c.y, [&](size_t i, size_t k) {
          const int64_t row = static_cast<int64_t>(i) / c.x[c.x.size() - 1] % c.x[c.x.size() - 2];
          expected[k] += x[i] * (two ? factors[static_cast<size_t>(row)] : 1);
          many[k] += 1 + 1000 * x[i] + x[i] * x[i];
        });
        CHECK(host_values(y.tensor()) == expected);
        CHECK(host_values(most.tensor()) == many);
        CHECK(y.intact());
        CHECK(most.intact());
      }
}

TEST_CASE("sums of few elements for many outputs", "[small]") {
  for (const auto& [x_dtype, y_dtype] :
       {std::pair(DType::f32, DType::f32), std::pair(DType::bf16, DType::bf16),
        std::pair(DType::f16, DType::f32)})
    for (const Case& c : {Case{{66, 3, 264}, {66, 1, 264}}, Case{{74, 4, 57}, {74, 1, 57}}})
      for (const char* name : engines()) {
        INFO(name << ' ' << name_of(x_dtype) << to_string(c.x) << " to " << name_of(y_dtype));
        Rng rng(8);
        const std::vector<float> x = integers(element_count(c.x), rng);
        const Guarded y(c.y, y_dtype);
        run(name, {device_tensor(c.x, x, x_dtype)}, {y.tensor()}, {}, sum_of("x0"));
        std::vector<float> expected(static_cast<size_t>(element_count(c.y)), 0);
        for_each_reduced(c.x, c.y, [&](size_t i, size_t k) { expected[k] += x[i]; });
        CHECK(host_values(y.tensor()) == expected);
        CHECK(y.intact());
      }
}

TEST_CASE("sums of elements with gaps between them", "[small]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (const Shape& shape : {Shape{3, 1, 300}, Shape{1, 17, 300}, Shape{3, 17, 1}, Shape{1, 17, 1}})
      for (const char* name : engines()) {
        INFO(name << ' ' << name_of(dtype) << " to " << to_string(shape));
        Rng rng(9);
        const Tensor base = device_tensor({3, 17, 600}, integers(3 * 17 * 600, rng), dtype),
                     x = base.slice(2, 0, 600, 2);
        const Guarded y(shape, dtype == DType::i8 ? DType::i32 : DType::f32);
        check_sum(name, x, y);
      }
}

TEST_CASE("outputs of a lane side by side or with gaps or unaligned", "[small]") {
  const Shape x_shape = {20, 48}, y_shape = {1, 48};
  for (const DType dtype : {DType::f32, DType::f16})
    for (const int64_t step : {1, 2, 4, 8})
      for (const int64_t padding : {64, 65}) {
        INFO(name_of(dtype) << ", outputs' stride " << step << ", padding " << padding);
        Rng rng(10);
        const std::vector<float> x = integers(element_count(x_shape), rng);
        const Strides strides = {48 * step, step};
        // The second output is dense: words of one say nothing of the other.
        const Guarded y(y_shape, strides, dtype, padding), dense(y_shape, dtype);
        run("gpu", {device_tensor(x_shape, x, dtype)}, {y.tensor(), dense.tensor()}, {},
            {1, "a0 = 0", "a0 += x0", "a0 += b0", "y0 = a0; y1 = 2 * a0"});
        std::vector<float> expected(48, 0), twice = expected;
        for_each_reduced(x_shape, y_shape,
                         [&](size_t i, size_t k) { expected[k] += x[i], twice[k] += 2 * x[i]; });
        CHECK(host_values(y.tensor()) == expected);
        CHECK(host_values(dense.tensor()) == twice);
        CHECK(y.intact());
        CHECK(dense.intact());
      }
}

TEST_CASE("accumulators that count, and the index of an element") {
  // The place of the last 7, and how many there are: over rows, columns, middles, and in parts.
  const Reduction last = {3,
                          "a0 = 0; a1 = 0; a2 = 0",
                          "a0 += x0; a1 += x0 == 7; a2 = x0 == 7 && index + 1 > a2 ? index + 1 : a2",
                          "a0 += b0; a1 += b1; a2 = b2 > a2 ? b2 : a2",
                          "y0 = a0; y1 = a1; y2 = a2",
                          2,
                          true};
  Rng rng(8);
  std::vector<Case> all = cases();
  all.push_back({{70001}, {1}});
  all.push_back({{5000, 12}, {1, 12}});
  for (const Case& c : all)
    for (const char* name : engines())
      for (const bool permuted : {false, true}) {
        if (permuted && c.x.size() != 4) continue;
        Tensor x = device_tensor(c.x, integers(element_count(c.x), rng, 7));
        Shape shape = c.y;
        if (permuted) {
          x = x.permute({2, 0, 3, 1});
          shape = {c.y[2], c.y[0], c.y[3], c.y[1]};
        }
        INFO("engine " << name << " " << to_string(x.shape()) << " to " << to_string(shape));
        const Guarded sum(shape), count(shape, DType::i32), place(shape, DType::i64);
        run(name, {x}, {sum.tensor(), count.tensor(), place.tensor()}, {}, last);
        const auto outputs = static_cast<size_t>(element_count(shape));
        std::vector<float> sums(outputs, 0), counts = sums, places = sums, met = sums;
        const std::vector<float> values = host_values(x);
        for_each_reduced(x.shape(), shape, [&](size_t i, size_t k) {
          sums[k] += values[i];
          met[k]++;
          if (values[i] == 7) counts[k]++, places[k] = met[k];
        });
        CHECK(host_values(sum.tensor()) == sums);
        CHECK(host_values(count.tensor()) == counts);
        CHECK(host_values(place.tensor()) == places);
        CHECK((sum.intact() && count.intact() && place.intact()));
      }
}

TEST_CASE("bad reductions are refused by name and value", "[small]") {
  const Tensor x = device_tensor({4, 5}, std::vector<float>(20, 1));
  const auto call = [&](const Tensor& in, const Tensor& out, const Reduction& r) {
    return error_of<ValidationError>([&] { reduce(stream(), {in}, {out}, {}, r); });
  };
  CHECK_THAT(call(x, Tensor(context(), {3, 1}), sum_of("x0")), contains("inputs[0]"));
  CHECK_THAT(call(x, x.slice(1, 0, 1), sum_of("x0")), contains("outputs[0]") && contains("shares memory"));
  CHECK_THAT(call(x, Tensor(), sum_of("x0")), contains("outputs[0]"));
  Reduction none = sum_of("x0");
  none.accumulators = 0;
  CHECK_THAT(call(x, Tensor(context(), {4, 1}), none), contains("0 accumulators"));
  Reduction many = sum_of("x0");
  many.counts = 2;
  CHECK(call(x, Tensor(context(), {4, 1}), many) == "reduction: 2 of 1 accumulators count");
  Reduction last = sum_of("x0");
  last.finishing = 1;
  const Tensor y(context(), {4, 1});
  CHECK(call(x, y, last) == "reduction: 1 of 1 inputs are for finish, must be 0 to 0");
  const auto finished = [&](const Tensor& by) {
    return error_of<ValidationError>([&] { reduce(stream(), {x, by}, {y}, {}, last); });
  };
  CHECK(finished(x) ==
        "inputs[1]: shape [4, 5] has more than an element for an output, though finish reads it");
  const Tensor two(context(), {5, 1});
  CHECK(error_of<ValidationError>([&] {
          reduce(stream(), {x, two.slice(0, 1, 5)}, {two.slice(0, 0, 4)}, {}, last);
        }) == "outputs[0]: overlaps inputs[1] without being the same elements");
  reduce(stream(), {x}, {y}, {}, sum_of("x0"));
  CHECK(host_values(y) == std::vector<float>(4, 5));
}
