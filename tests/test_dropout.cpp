// Dropout: every engine by name against the reference's words, its use backward, bad input.
#include <dlprim/dropout.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr const char* kEngines[] = {"cpu", "direct", "masked"};

Values dropout_reference(const Values& x, double p, const RandomState& state) {
  Values y;
  for (size_t i = 0; i < x.size(); i++)
    y.push_back(random_word(state.seed, state.offset + i) < p * 0x1p32 ? 0 : x[i] / (1 - p));
  return y;
}

void check(const char* name, double p, const Shape& shape, Placing placing, DType dtype) {
  INFO("engine=" << name << " p=" << p << " " << name_of(dtype) << to_string(shape) << " "
                 << name_of(placing));
  const RandomState state{0xfeedface12345678, 13};
  Rng rng(3);
  const Tensor x = placed(placing, shape, reals(element_count(shape), rng), dtype);
  const Guarded y(shape, strides_in(placing, shape), dtype, 37),
      again(shape, strides_in(placing, shape), dtype, 37);
  const Dropout plan(context(), {x, y.tensor()}, engine(name));
  plan.run(stream(), x, p, state, y.tensor());
  plan.run(stream(), x, p, state, again.tensor());
  CHECK(deviation(host_values(y.tensor()), dropout_reference(values_of(x), p, state)) <=
        4 * 0x1p-24 + storage_roundoff(dtype));
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));
}

}  // namespace

TEST_CASE("dropout of odd shapes, every engine", "[small]") {
  for (const char* name : kEngines)
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{5}, Shape{2, 3, 5, 7}})
      for (double p : {0.0, 0.1, 0.5}) check(name, p, shape, Placing::row_major, DType::f32);
}

TEST_CASE("dropout in strided memory and of 16-bit floats", "[small]") {
  for (Placing placing : {Placing::channels_last, Placing::gaps})
    check("auto", 0.4, {3, 4, 5}, placing, DType::f32);
  for (DType dtype : {DType::f16, DType::bf16})
    for (const char* name : kEngines) check(name, 0.4, {3, 4, 5}, Placing::row_major, dtype);
}

TEST_CASE("dropout of f64 keeps all of its bits", "[small]") {
  const Tensor mixed(context(), {7}, DType::f64), single(context(), {7});
  if (!has_doubles()) {
    CHECK_THROWS_AS(Dropout(context(), {mixed, mixed}), ValidationError);
    return;
  }
  const RandomState state{6, 3};
  std::vector<double> values;
  for (int i = 0; i < 105; i++) values.push_back(1 + i / 7.0);
  for (const Placing placing : {Placing::row_major, Placing::channels_last}) {
    const Shape shape{3, 5, 7};
    const Tensor x = placed(placing, shape, {values.begin(), values.end()}, DType::f64);
    const Guarded y(shape, strides_in(placing, shape), DType::f64, 37);
    write(stream(), x, values);
    dropout(stream(), x, 0.3, state, y.tensor());
    const std::vector<double> result = read<double>(stream(), y.tensor());
    for (size_t i = 0; i < values.size(); i++) {
      const bool dropped = random_word(state.seed, state.offset + i) < 0.3 * 0x1p32;
      CHECK(result[i] == Approx(dropped ? 0 : values[i] / 0.7).epsilon(0x1p-51));
    }
    CHECK(y.intact());
  }
  CHECK(error_of<ValidationError>([&] {
          Dropout(context(), {single, mixed}, engine("direct"));
        }).find("too little for f64") != std::string::npos);
}

TEST_CASE("dropout in memory whose neighbours are channels: the same mask", "[small]") {
  const auto check = [](const Shape& shape, uint64_t offset, DType x_dtype, DType y_dtype, int64_t padding) {
    INFO(to_string(shape) << " offset " << offset << ' ' << name_of(x_dtype) << ' ' << name_of(y_dtype)
                          << " padding " << padding);
    Rng rng(4);
    const RandomState state{77, offset};
    const std::vector<float> values = reals(element_count(shape), rng, 1, 2);
    const Strides strides = strides_in(Placing::channels_last, shape);
    const Tensor x = placed(Placing::channels_last, shape, values, x_dtype);
    const Guarded y(shape, strides, y_dtype, padding), plain(shape, y_dtype);
    Dropout(context(), {x, y.tensor()}, engine("tiles")).run(stream(), x, 0.4, state, y.tensor());
    const Tensor same = device_tensor(shape, values, x_dtype);
    Dropout(context(), {same, plain.tensor()}, engine("direct"))
        .run(stream(), same, 0.4, state, plain.tensor());
    CHECK(host_bytes(y.tensor()) == host_bytes(plain.tensor()));
    CHECK(y.intact());
  };
  for (const Shape& shape :
       {Shape{2, 8, 4, 6}, Shape{2, 12, 5, 7}, Shape{3, 5, 3, 3}, Shape{1, 3, 33}, Shape{2, 4, 2, 1, 3}})
    for (uint64_t offset : {0, 3}) check(shape, offset, DType::f32, DType::f32, 64);
  check({2, 8, 3, 5}, 2, DType::f16, DType::f16, 64);
  check({2, 8, 3, 5}, 1, DType::f32, DType::bf16, 64);
  check({2, 8, 3, 5}, 5, DType::f32, DType::f32, 37);
  const Tensor x(context(), {2, 8, 3, 5});
  CHECK(error_of<ValidationError>([&] {
          Dropout(context(), {x, x}, engine("tiles"));
        }).find("neighbours in memory") != std::string::npos);
}

TEST_CASE("dropout of many elements") {
  for (const char* name : kEngines) check(name, 0.3, {7, 14289}, Placing::row_major, DType::f32);
}

TEST_CASE("dropout drops everything, special values too", "[small]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Tensor x = device_tensor({4}, {nan, inf, -inf, 1});
  for (const char* name : kEngines) {
    INFO("engine " << name);
    const Guarded y({4});
    const Dropout plan(context(), {x, y.tensor()}, engine(name));
    plan.run(stream(), x, 1, {}, y.tensor());
    CHECK(host_values(y.tensor()) == std::vector<float>(4, 0.0f));
    plan.run(stream(), x, 0, {}, y.tensor());
    CHECK(deviation(host_values(y.tensor()), values_of(x)) == 0);
  }
}

TEST_CASE("the backward direction of dropout is dropout", "[small]") {
  const RandomState state{5, 100};
  Rng rng(29);
  const std::vector<float> at = reals(40, rng), weights = reals(40, rng);
  const Tensor dy = device_tensor({40}, weights);
  const Guarded dx({40});
  dropout(stream(), dy, 0.35, state, dx.tensor());
  const auto loss = [&](const Values& v) {
    const Values y = dropout_reference(v, 0.35, state);
    double sum = 0;
    for (size_t i = 0; i < y.size(); i++) sum += y[i] * weights[i];
    return sum;
  };
  const std::vector<float> gradient = host_values(dx.tensor());
  for (size_t i = 0; i < at.size(); i++)
    CHECK(gradient[i] == Approx(numeric_gradient(loss, {at.begin(), at.end()}, i)).margin(1e-6));
}

TEST_CASE("dropout in place", "[small]") {
  const RandomState state{1, 2};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Values expected = dropout_reference({values.begin(), values.end()}, 0.5, state);
  for (Placing placing : {Placing::row_major, Placing::gaps}) {
    INFO(name_of(placing));
    const Tensor x = placed(placing, {3, 3}, values);
    dropout(stream(), x, 0.5, state, x);
    CHECK(deviation(host_values(x), expected) == 0);
  }
}

TEST_CASE("dropout refuses bad input", "[small]") {
  const Tensor x = device_tensor({4}, {1, 2, 3, 4}), y = device_tensor({4}, {0, 0, 0, 0});
  const auto refused = [&](const Tensor& from, double p, const Tensor& to) {
    return error_of<ValidationError>([&] { dropout(stream(), from, p, {}, to); });
  };
  CHECK(refused({}, 0.5, y) == "x: is not defined");
  CHECK(refused(x, 1.01, y) == "p: 1.01 must lie in [0, 1]");
  CHECK(refused(x, std::nan(""), y) == "p: nan must lie in [0, 1]");
  CHECK(refused(x, 0.5, y.slice(0, 0, 2)) == "y: shape [2] must be [4]");
  CHECK(refused(x.slice(0, 0, 3), 0.5, x.slice(0, 1, 4)) ==
        "y: shares memory with x without being the same tensor");
  CHECK(refused(device_tensor({4}, {1, 2, 3, 4}, DType::i32), 0.5, y) ==
        "x: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(host_values(y) == std::vector<float>(4, 0.0f));
}
