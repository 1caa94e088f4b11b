// Pooling: every engine by name against the references, forward and backward.
#include <dlprim/pool.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Case {
  Shape x;
  std::array<int64_t, 2> kernel{2, 2}, stride{2, 2}, pad_begin{0, 0}, pad_end{0, 0};
  bool ceil_mode = false, count_include_pad = true;

  PoolParams params(PoolMode mode) const {
    return {mode, kernel, stride, pad_begin, pad_end, ceil_mode, count_include_pad};
  }
  std::string text(PoolMode mode) const {
    const auto pair = [](const std::array<int64_t, 2>& a) {
      return "{" + std::to_string(a[0]) + "," + std::to_string(a[1]) + "}";
    };
    return (mode == PoolMode::max ? "max" : "average") + (" x=" + to_string(x)) + " kernel=" + pair(kernel) +
           " stride=" + pair(stride) + " pad=" + pair(pad_begin) + pair(pad_end) +
           (ceil_mode ? " ceil" : "") + (count_include_pad ? "" : " without padding");
  }
};

const std::vector<Case>& odd_cases() {
  static const std::vector<Case> cases = {
      {{1, 1, 1, 1}, {1, 1}, {1, 1}},
      {{2, 3, 8, 8}},
      {{2, 3, 7, 9}},
      {{1, 2, 5, 5}, {5, 5}, {1, 1}},
      {{2, 2, 6, 5}, {3, 2}, {1, 3}},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {0, 2}, {1, 0}, false, true},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {0, 2}, {1, 0}, true, false},
      {{2, 1, 6, 6}, {3, 3}, {2, 2}, {0, 0}, {0, 0}, true, true},
      {{2, 1, 6, 6}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, true, true},
      {{1, 1, 4, 4}, {2, 2}, {4, 4}, {1, 0}, {0, 1}, true, true},
      {{1, 1, 1, 2}, {3, 3}, {4, 4}, {0, 0}, {0, 0}, true, true},
      {{1, 3, 9, 11}, {2, 3}, {3, 5}},
      // Wide enough for vectors that meet no border, but windows clipped by the input's end.
      {{2, 2, 12, 12}, {3, 3}, {2, 2}, {0, 0}, {0, 0}, true, true},
      {{2, 2, 5, 12}, {3, 3}, {2, 2}, {0, 1}, {0, 1}, true, false},
      {{1, 2, 4, 13}, {3, 4}, {1, 1}},
      {{1, 2, 4, 23}, {1, 3}, {1, 3}, {0, 1}, {0, 2}, true, true},
      {{3, 5, 17, 3}, {9, 2}, {8, 1}, {4, 1}, {3, 0}},
      {{0, 3, 4, 4}},
      {{2, 0, 4, 4}},
  };
  return cases;
}

const std::vector<Case>& larger_cases() {
  static const std::vector<Case> cases = {
      {{4, 7, 28, 28}},
      {{2, 33, 57, 55}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{2, 70, 14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 2, 131, 129}, {11, 9}, {3, 4}, {5, 4}, {5, 4}, true, false},
      {{3, 40, 7, 7}, {7, 7}, {1, 1}},
  };
  return cases;
}

std::vector<int32_t> indices_of(const Tensor& indices) {
  return read<int32_t>(stream(), indices);
}

void check(const Case& c, PoolMode mode, Placing placing, DType dtype, const char* name) {
  INFO(c.text(mode) << " " << name_of(dtype) << " " << name_of(placing) << " engine=" << name);
  const PoolParams params = c.params(mode);
  const Shape shape = pool2d_output_shape(c.x, params);
  const Strides strides = strides_in(placing, shape);
  // Small integers: many equal maxima, and sums without rounding.
  Rng rng(19);
  const bool max = mode == PoolMode::max;
  const Tensor x = placed(placing, c.x, integers(element_count(c.x), rng, 9), dtype);
  const Pooled expected = pool2d_reference(values_of(x), c.x, params);
  // One division is all that rounds.
  const double tolerance = (max ? 0 : 4 * 0x1p-24) + (max ? 0 : storage_roundoff(dtype));

  const Guarded y(shape, strides, dtype, 37), indices(shape, strides, DType::i32, 37), again(shape, dtype);
  const Tensor wanted = max ? indices.tensor() : Tensor();
  pool2d(stream(), x, params, y.tensor(), wanted, engine(name));
  pool2d(stream(), x, params, again.tensor(), {}, engine(name));
  CHECK(deviation(host_values(y.tensor()), expected.y) <= tolerance);
  if (max) CHECK(indices_of(indices.tensor()) == expected.indices);
  CHECK(y.intact());
  CHECK(indices.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));

  // Backward. Sums of up to a window's worth of terms.
  const Tensor dy = placed(placing, shape, integers(element_count(shape), rng, 9), dtype);
  const Values dx_expected = pool2d_backward_reference(values_of(dy), values_of(x), c.x, params);
  const Guarded dx(c.x, strides_in(placing, c.x), dtype, 37),
      dx_again(c.x, strides_in(placing, c.x), dtype, 37);
  pool2d_backward(stream(), dy, wanted, params, dx.tensor(), engine(name));
  pool2d_backward(stream(), dy, wanted, params, dx_again.tensor(), engine(name));
  const double terms = static_cast<double>(c.kernel[0] * c.kernel[1]);
  CHECK(deviation(host_values(dx.tensor()), dx_expected) <=
        (max ? 0 : terms * 0x1p-22) + storage_roundoff(dtype));
  CHECK(dx.intact());
  CHECK(host_bytes(dx.tensor()) == host_bytes(dx_again.tensor()));
}

}  // namespace

TEST_CASE("pooling of odd shapes, every engine", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (PoolMode mode : {PoolMode::max, PoolMode::average})
      for (const Case& c : odd_cases()) check(c, mode, Placing::row_major, DType::f32, name);
}

TEST_CASE("pooling in every form of memory", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (PoolMode mode : {PoolMode::max, PoolMode::average})
      for (Placing placing : {Placing::channels_last, Placing::gaps}) {
        check(odd_cases()[2], mode, placing, DType::f32, name);
        check(odd_cases()[8], mode, placing, DType::f32, name);
        check(odd_cases()[15], mode, placing, DType::f32, name);
      }
}

TEST_CASE("pooling of 16-bit floats", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (PoolMode mode : {PoolMode::max, PoolMode::average})
      for (DType dtype : {DType::f16, DType::bf16})
        check(odd_cases()[6], mode, Placing::row_major, dtype, name);
}

TEST_CASE("pooling of larger shapes") {
  for (const char* name : {"cpu", "direct"})
    for (PoolMode mode : {PoolMode::max, PoolMode::average})
      for (const Case& c : larger_cases())
        for (Placing placing : {Placing::row_major, Placing::channels_last})
          check(c, mode, placing, DType::f32, name);
}

TEST_CASE("the output's shape follows PyTorch's rules", "[small]") {
  const auto shape = [](Case c) { return pool2d_output_shape(c.x, c.params(PoolMode::max)); };
  CHECK(shape({{2, 3, 8, 7}}) == Shape{2, 3, 4, 3});
  CHECK(shape({{2, 3, 8, 7}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, true}) == Shape{2, 3, 4, 4});
  // A last window that would start in the padding behind does not count.
  CHECK(shape({{1, 1, 6, 6}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, true}) == Shape{1, 1, 3, 3});
  CHECK(shape({{1, 1, 5, 5}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, true}) == Shape{1, 1, 2, 2});
  CHECK(shape({{1, 1, 7, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}}) == Shape{1, 1, 4, 4});
  CHECK(shape({{1, 1, 1, 2}, {3, 3}, {4, 4}, {0, 0}, {0, 0}, true}) == Shape{1, 1, 1, 1});
}

TEST_CASE("max pooling of special values", "[small]") {
  // 2 x 2 windows: NaN wins, the last one is kept; all -infinity; -0 and 0 are equal, so the first stays.
  const std::vector<float> values = {1, kNan, -kInf, -kInf, -0.0f, 0,     kNan, 2,  //
                                     3, kNan, -kInf, -kInf, 0,     -0.0f, 5,    kInf};
  const Tensor x = device_tensor({1, 1, 2, 8}, values);
  for (const char* name : {"cpu", "direct"}) {
    INFO("engine " << name);
    const Guarded y({1, 1, 1, 4}), indices({1, 1, 1, 4}, DType::i32);
    pool2d(stream(), x, {}, y.tensor(), indices.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), {kNan, -kInf, 0, kNan}) == 0);
    CHECK(std::signbit(host_values(y.tensor())[2]));
    CHECK(indices_of(indices.tensor()) == std::vector<int32_t>{9, 2, 4, 6});
  }
}

TEST_CASE("average pooling of special values", "[small]") {
  const Tensor x = device_tensor({1, 1, 1, 6}, {kInf, 1, kInf, -kInf, kNan, 1});
  PoolParams params;
  params.mode = PoolMode::average;
  params.kernel = params.stride = {1, 2};
  const Guarded y({1, 1, 1, 3});
  pool2d(stream(), x, params, y.tensor());
  CHECK(deviation(host_values(y.tensor()), {kInf, kNan, kNan}) == 0);
}

TEST_CASE("pooling gradients agree with finite differences", "[small]") {
  const Shape shape{1, 2, 5, 6};
  for (PoolMode mode : {PoolMode::max, PoolMode::average}) {
    const PoolParams params{mode, {3, 2}, {2, 1}, {1, 1}, {1, 0}, true, false};
    Rng rng(23);
    std::vector<float> at(60);  // all different, farther apart than the step
    for (size_t i = 0; i < at.size(); i++) at[i] = static_cast<float>(i * 37 % 60) * 0.1f;
    const Shape out = pool2d_output_shape(shape, params);
    const std::vector<float> weights = reals(element_count(out), rng);
    const Tensor x = device_tensor(shape, at), dy = device_tensor(out, weights);
    const Guarded y(out), indices(out, DType::i32), dx(shape);
    const Tensor wanted = mode == PoolMode::max ? indices.tensor() : Tensor();
    pool2d(stream(), x, params, y.tensor(), wanted);
    pool2d_backward(stream(), dy, wanted, params, dx.tensor());
    const auto loss = [&](const Values& v) {
      const Values pooled = pool2d_reference(v, shape, params).y;
      double sum = 0;
      for (size_t i = 0; i < pooled.size(); i++) sum += pooled[i] * weights[i];
      return sum;
    };
    const std::vector<float> gradient = host_values(dx.tensor());
    for (size_t i = 0; i < at.size(); i++)
      CHECK(gradient[i] == Approx(numeric_gradient(loss, values_of(x), i)).margin(1e-6));
  }
}

TEST_CASE("pooling plans list their engines", "[small]") {
  const Pool2D plan(context(), {TensorDesc({1, 1, 4, 4}), TensorDesc({1, 1, 2, 2}), false, {}, {}});
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  CHECK(plan.engine() == (cpu ? "cpu" : "direct"));
  CHECK(plan.explain().find("cpu: ") != std::string::npos);
  CHECK(plan.explain().find("direct: ") != std::string::npos);
}

TEST_CASE("pooling refuses bad input", "[small]") {
  const Tensor x = device_tensor({1, 1, 4, 4}, std::vector<float>(16, 1)),
               y = device_tensor({1, 1, 2, 2}, {0, 0, 0, 0});
  const Tensor indices = device_tensor({1, 1, 2, 2}, {0, 0, 0, 0}, DType::i32);
  const auto refused = [&](const Tensor& from, const PoolParams& params, const Tensor& to,
                           const Tensor& places = {}, const char* name = "auto") {
    return error_of<ValidationError>([&] { pool2d(stream(), from, params, to, places, engine(name)); });
  };
  const auto bad = [&](auto change) {
    PoolParams params;
    change(params);
    return refused(x, params, y);
  };
  CHECK(refused({}, {}, y) == "x: is not defined");
  CHECK(refused(x.reshape({1, 4, 4}), {}, y) == "x: rank 3 must be 4, [N, C, H, W]");
  CHECK(refused(x, {}, x.slice(2, 0, 2)) == "y: shape [1, 1, 2, 4] must be [1, 1, 2, 2]");
  CHECK(refused(x, {}, x.slice(2, 0, 2).slice(3, 0, 2)) == "y: shares memory with x");
  CHECK(refused(x, {}, y, y) == "indices: dtype f32 must be i32");
  CHECK(refused(x, {}, y, indices.slice(2, 0, 1)) == "indices: shape [1, 1, 1, 2] must be [1, 1, 2, 2]");
  CHECK(refused(x, {}, y, y.reinterpret(DType::i32).reshape({1, 1, 2, 2})) ==
        "indices: shares memory with y");
  CHECK(refused(x, {}, y, {}, "magic") == "engine: pool2d has no engine 'magic'");
  CHECK(bad([](PoolParams& p) { p.kernel[1] = 0; }) == "kernel: 0 along W must be 1 or more");
  CHECK(bad([](PoolParams& p) { p.stride[0] = -1; }) == "stride: -1 along H must be 1 or more");
  CHECK(bad([](PoolParams& p) { p.pad_begin[0] = 2; }) ==
        "pad_begin: 2 along H must lie in [0, kernel), kernel is 2");
  CHECK(bad([](PoolParams& p) { p.pad_end[1] = -1; }) ==
        "pad_end: -1 along W must lie in [0, kernel), kernel is 2");
  CHECK(bad([](PoolParams& p) {
          p.kernel = {5, 5};
        }) == "x: size 4 along H with padding 0 and 0 has no room for a window of 5");
  CHECK(bad([](PoolParams& p) { p.kernel[0] = int64_t{1} << 40; }).find("does not fit in 32 bits") !=
        std::string::npos);
  CHECK(bad([](PoolParams& p) { p.mode = static_cast<PoolMode>(7); }) == "mode: number 7 does not exist");
  PoolParams average;
  average.mode = PoolMode::average;
  CHECK(refused(x, average, y, indices) == "indices: average pooling has none");
  CHECK(error_of<ValidationError>([&] { pool2d_backward(stream(), y, {}, {}, x); }) ==
        "indices: the backward direction of max pooling needs them");
  const Tensor empty(context(), {1, 1, 0, 4});
  CHECK(refused(empty, {}, y) == "x: size 0 along H must be 1 or more");
  CHECK(host_values(y) == std::vector<float>(4, 0.0f));
}
