// Activations, forward and backward: values, forms of memory, dtypes, special values, bad input.
#include <dlprim/activation.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/elementwise.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr Activation kAll[] = {Activation::identity, Activation::relu,      Activation::relu6,
                               Activation::sigmoid,  Activation::tanh,      Activation::hardsigmoid,
                               Activation::silu,     Activation::hardswish, Activation::gelu,
                               Activation::gelu_tanh};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// A few units in the last place of exp and tanh, which OpenCL lets devices miss by 3 to 5.
constexpr double kTolerance = 16 * 0x1p-24;

Values forward_reference(Activation f, const Values& x) {
  Values y;
  for (double v : x) y.push_back(activation_value(f, v));
  return y;
}

void check(Activation f, const Shape& shape, Placing placing, DType dtype) {
  INFO("activation " << name_of(f) << " of " << name_of(dtype) << to_string(shape) << " "
                     << name_of(placing));
  Rng rng(7);
  const int64_t count = element_count(shape);
  const Tensor x = placed(placing, shape, reals(count, rng, -8, 8), dtype);
  const Guarded y(shape, strides_in(placing, shape), dtype, 37),
      again(shape, strides_in(placing, shape), dtype, 37);
  activation(stream(), x, f, y.tensor());
  activation(stream(), x, f, again.tensor());
  const double tolerance = kTolerance + storage_roundoff(dtype);
  CHECK(deviation(host_values(y.tensor()), forward_reference(f, values_of(x))) <= tolerance);
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));

  // Backward, told from the stored y.
  if (!is_told_from_result(f)) return;
  const Tensor dy = placed(placing, shape, reals(count, rng, -2, 2), dtype);
  const Guarded dx(shape, strides_in(placing, shape), dtype, 37);
  activation_backward(stream(), dy, y.tensor(), f, dx.tensor());
  Values expected = values_of(dy);
  const Values out = values_of(y.tensor());
  for (size_t i = 0; i < expected.size(); i++) {
    const double v = out[i];
    switch (f) {
      case Activation::identity:
        break;
      case Activation::relu:
        expected[i] *= v > 0;
        break;
      case Activation::relu6:
        expected[i] *= v > 0 && v < 6;
        break;
      case Activation::sigmoid:
        expected[i] *= v * (1 - v);
        break;
      case Activation::tanh:
        expected[i] *= 1 - v * v;
        break;
      case Activation::hardsigmoid:
        expected[i] *= v > 0 && v < 1 ? 1.0 / 6 : 0;
        break;
      default:
        break;
    }
  }
  CHECK(deviation(host_values(dx.tensor()), expected) <= tolerance);
  CHECK(dx.intact());
}

}  // namespace

TEST_CASE("activations of odd shapes in every form of memory", "[small]") {
  for (Activation f : kAll)
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{3, 0, 2}, Shape{2, 3, 5, 7}, Shape{2, 4, 4, 8}})
      for (Placing placing : kPlacings) check(f, shape, placing, DType::f32);
}

TEST_CASE("activations of 16-bit floats", "[small]") {
  for (Activation f : kAll)
    for (DType dtype : {DType::f16, DType::bf16}) check(f, {3, 5, 11}, Placing::row_major, dtype);
  check(Activation::relu, {3, 5, 11}, Placing::channels_last, DType::f16);
  check(Activation::relu, {3, 5, 11}, Placing::gaps, DType::bf16);
}

TEST_CASE("activations of many elements") {
  for (Activation f : kAll) check(f, {3, 17, 65, 129}, Placing::row_major, DType::f32);
}

TEST_CASE("activations between dtypes", "[small]") {
  const Tensor x = device_tensor({5}, {-1, 0.25f, 1, 2, 300}, DType::f16);
  const Guarded y({5});
  activation(stream(), x, Activation::relu6, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>{0, 0.25f, 1, 2, 6});
}

TEST_CASE("activations of special values", "[small]") {
  const std::vector<float> special = {kNan,   kInf,   -kInf,   -0.0f, 0.0f, 1e30f,
                                      -1e30f, 1e-42f, -1e-42f, 6,     89,   -89};
  for (Activation f : kAll) {
    INFO("activation " << name_of(f));
    const Tensor x = device_tensor({12}, special);
    const Guarded y({12});
    activation(stream(), x, f, y.tensor());
    CHECK(deviation(host_values(y.tensor()), forward_reference(f, values_of(x))) <= kTolerance);
  }
  // A NaN in y passes dy on, an infinite dy survives.
  const Tensor y = device_tensor({5}, {kNan, 0, 6, 3, -0.0f}), dy = device_tensor({5}, {2, 3, 4, -kInf, 5});
  const Guarded dx({5});
  activation_backward(stream(), dy, y, Activation::relu, dx.tensor());
  CHECK(host_values(dx.tensor()) == std::vector<float>{2, 0, 4, -kInf, 0});
  activation_backward(stream(), dy, y, Activation::relu6, dx.tensor());
  CHECK(host_values(dx.tensor()) == std::vector<float>{2, 0, 0, -kInf, 0});
  activation_backward(stream(), dy, device_tensor({5}, {kNan, 0, 1, 0.5f, 0.75f}), Activation::hardsigmoid,
                      dx.tensor());
  CHECK(host_values(dx.tensor()) == std::vector<float>{2.0f / 6, 0, 0, -kInf, 5.0f / 6});
}

TEST_CASE("activations are the elementwise functions of their names", "[small]") {
  Rng rng(11);
  std::vector<float> numbers = reals(1000, rng, -12, 12);
  for (float special : {kNan, kInf, -kInf, -0.0f, 0.0f, 1e30f, -1e30f, 1e-42f, 3.0f, -3.0f, 89.0f, -104.0f})
    numbers.push_back(special);
  const Shape shape{static_cast<int64_t>(numbers.size())};
  for (Activation f : kAll) {
    if (f == Activation::identity) continue;
    INFO("activation " << name_of(f));
    const Tensor x = device_tensor(shape, numbers), y(context(), shape), e(context(), shape);
    activation(stream(), x, f, y);
    elementwise(stream(), name_of(f), {x}, {}, e);
    const std::vector<float> ours = host_values(y), theirs = host_values(e);
    // Quotients may be off by 2.5 units in the last place, and compilers join products and sums as they like.
    const bool exact = f == Activation::relu || f == Activation::relu6;
    for (size_t i = 0; i < numbers.size(); i++) {
      INFO("of " << numbers[i] << ": " << ours[i] << ", as a function " << theirs[i]);
      const float bound = exact ? 0 : 0x1p-21f * std::max(std::fabs(theirs[i]), 0.5f);
      CHECK((ours[i] == theirs[i] || (std::isnan(ours[i]) && std::isnan(theirs[i])) ||
             std::fabs(ours[i] - theirs[i]) <= bound));
    }
  }
}

TEST_CASE("activation gradients agree with finite differences", "[small]") {
  // Away from the kinks at 0, 6, 3 and -3.
  const std::vector<float> at = {-3.1f, -0.5f, -0.01f, 0.01f, 0.5f, 1, 2.5f, 5.9f, 6.1f, 8};
  Rng rng(3);
  const std::vector<float> weights = reals(10, rng);
  for (Activation f : kAll) {
    if (!is_told_from_result(f)) continue;
    INFO("activation " << name_of(f));
    const Tensor x = device_tensor({10}, at), dy = device_tensor({10}, weights);
    const Guarded y({10}), dx({10});
    activation(stream(), x, f, y.tensor());
    activation_backward(stream(), dy, y.tensor(), f, dx.tensor());
    const auto loss = [&](const Values& v) {
      double sum = 0;
      for (size_t i = 0; i < v.size(); i++) sum += activation_value(f, v[i]) * weights[i];
      return sum;
    };
    const std::vector<float> gradient = host_values(dx.tensor());
    for (size_t i = 0; i < at.size(); i++)
      CHECK(gradient[i] == Approx(numeric_gradient(loss, values_of(x), i)).margin(1e-6));
  }
}

TEST_CASE("activations in place", "[small]") {
  const Tensor x = device_tensor({4}, {-1, 1, 2, 9});
  activation(stream(), x, Activation::relu6, x);
  CHECK(host_values(x) == std::vector<float>{0, 1, 2, 6});
  const Tensor dy = device_tensor({4}, {1, 2, 3, 4});
  activation_backward(stream(), dy, x, Activation::relu6, dy);
  CHECK(host_values(dy) == std::vector<float>{0, 2, 3, 0});
}

TEST_CASE("activation plans explain themselves", "[small]") {
  const ActivationForward plan(context(), {TensorDesc({2, 3}), TensorDesc({2, 3}), Activation::relu});
  CHECK(plan.engine() == "generated");
  CHECK(plan.explain().find(
            "op=activation engine=generated f=relu x=f32[2,3] y=f32[2,3]\n  generated: chosen") == 0);
  Options options;
  options.engine = "magic";
  const ActivationDesc desc{TensorDesc({1}), TensorDesc({1}), Activation::relu};
  CHECK(error_of<ValidationError>([&] { ActivationForward(context(), desc, options); }) ==
        "engine: activation has no engine 'magic', only 'generated'");
}

TEST_CASE("activations refuse bad input", "[small]") {
  const Tensor x = device_tensor({4}, {1, 2, 3, 4}), y = device_tensor({4}, {0, 0, 0, 0});
  const auto refused = [&](const Tensor& from, const Tensor& to, Activation f = Activation::relu) {
    return error_of<ValidationError>([&] { activation(stream(), from, f, to); });
  };
  CHECK(refused({}, y) == "x: is not defined");
  CHECK(refused(x, {}) == "y: is not defined");
  CHECK(refused(x, y.slice(0, 0, 3)) == "y: shape [3] must be [4]");
  CHECK(refused(device_tensor({4}, {1, 2, 3, 4}, DType::i32), y) ==
        "x: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(refused(x.slice(0, 0, 3), x.slice(0, 1, 4)) ==
        "y: shares memory with x without being the same tensor");
  CHECK(refused(x.expand({4, 4}), y.expand({4, 4})).find("y: strides [0, 1]") == 0);
  CHECK(refused(x, y, static_cast<Activation>(19)) == "f: activation 19 does not exist");
  const Tensor image = device_tensor({1, 1, 2, 2}, {1, 2, 3, 4}), filter = device_tensor({1, 1, 1, 1}, {1});
  ConvParams params;
  params.activation = static_cast<Activation>(17);
  CHECK(error_of<ValidationError>([&] { conv(stream(), image, filter, {}, params, image); }) ==
        "params: activation 17 does not exist");
  for (Activation f : kAll) CHECK(activation_named(name_of(f)) == f);
  CHECK(name_of(Activation::gelu_tanh) == std::string("gelu_tanh"));
  CHECK(!activation_named("swish"));
  for (Activation f : {Activation::silu, Activation::hardswish, Activation::gelu, Activation::gelu_tanh})
    CHECK(error_of<ValidationError>([&] { activation_backward(stream(), x, y, f, x); }) ==
          std::string("f: the gradient of ") + name_of(f) + " cannot be told from its result");
  CHECK(name_of(params.activation) == std::string("unknown"));
  CHECK(error_of<ValidationError>([&] { activation_backward(stream(), x, y, Activation::relu, y); }) ==
        "dx: shares memory with y");
  CHECK(host_values(y) == std::vector<float>(4, 0.0f));
}
