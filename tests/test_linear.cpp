// Linear layers against plain loops in double, bit for bit on small integers.
#include <dlprim/linear.hpp>

#include "cases/gemm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Layer {
  int64_t batch, in, out;
  std::vector<float> x, w, bias, dy;

  Layer(int64_t batch_, int64_t in_, int64_t out_) : batch(batch_), in(in_), out(out_) {
    Rng rng(5);
    x = integers(batch * in, rng);
    w = integers(out * in, rng);
    bias = integers(out, rng);
    dy = integers(batch * out, rng);
  }
  Tensor x_tensor() const { return device_tensor({batch, in}, x); }
  Tensor w_tensor() const { return device_tensor({out, in}, w); }
  Tensor dy_tensor() const { return device_tensor({batch, out}, dy); }
};

std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      result[static_cast<size_t>(j * rows + i)] = values[static_cast<size_t>(i * columns + j)];
  return result;
}

std::vector<float> product(int64_t m, int64_t n, int64_t k, const std::vector<float>& a,
                           const std::vector<float>& b, const std::vector<float>& bias = {},
                           Activation f = Activation::identity) {
  GemmCase c(m, n, k);
  c.bias = bias.empty() ? GemmDesc::Vector::none : GemmDesc::Vector::row;
  c.activation = f;
  const std::vector<double> result = gemm_reference(c, {a, b, {}, bias, {}, {}});
  return {result.begin(), result.end()};
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> list = {{1, 1, 1},     {3, 5, 2}, {64, 33, 10},
                                          {17, 300, 65}, {0, 4, 3}, {2, 0, 3}};
  return list;
}

}  // namespace

TEST_CASE("linear: forward", "[linear][small]") {
  for (const Layer& l : layers())
    for (const bool with_bias : {false, true})
      for (const Activation f : {Activation::identity, Activation::relu}) {
        INFO("batch=" << l.batch << " in=" << l.in << " out=" << l.out << " bias=" << with_bias << " "
                      << name_of(f));
        const Guarded y({l.batch, l.out});
        const Tensor bias = with_bias ? device_tensor({l.out}, l.bias) : Tensor();
        linear(stream(), l.x_tensor(), l.w_tensor(), bias, f, y.tensor());
        CHECK(host_values(y.tensor()) == product(l.batch, l.out, l.in, l.x, transposed(l.w, l.out, l.in),
                                                 with_bias ? l.bias : std::vector<float>(), f));
        CHECK(y.intact());
      }
}

TEST_CASE("linear: backward", "[linear][small]") {
  for (const Layer& l : layers()) {
    INFO("batch=" << l.batch << " in=" << l.in << " out=" << l.out);
    const Guarded dx({l.batch, l.in}), dw({l.out, l.in}), db({l.out});
    linear_backward_data(stream(), l.dy_tensor(), l.w_tensor(), dx.tensor());
    CHECK(host_values(dx.tensor()) == product(l.batch, l.in, l.out, l.dy, l.w));
    linear_backward_weights(stream(), l.x_tensor(), l.dy_tensor(), dw.tensor());
    CHECK(host_values(dw.tensor()) == product(l.out, l.in, l.batch, transposed(l.dy, l.batch, l.out), l.x));
    linear_backward_bias(stream(), l.dy_tensor(), db.tensor());
    CHECK(host_values(db.tensor()) ==
          product(1, l.out, l.batch, std::vector<float>(static_cast<size_t>(l.batch), 1.0f), l.dy));
    CHECK(dx.intact());
    CHECK(dw.intact());
    CHECK(db.intact());
  }
}

TEST_CASE("linear: gradients of weights are added to what was there", "[linear][small]") {
  for (const Layer& l : layers()) {
    Rng rng(3);
    const std::vector<float> before = integers(l.out * l.in, rng, 3);
    const Guarded dw({l.out, l.in});
    write(stream(), dw.tensor(), before);
    linear_backward_weights(stream(), l.x_tensor(), l.dy_tensor(), dw.tensor(), Write::add);
    std::vector<float> expected = product(l.out, l.in, l.batch, transposed(l.dy, l.batch, l.out), l.x);
    for (size_t i = 0; i < expected.size(); i++) expected[i] += before[i];
    CHECK(host_values(dw.tensor()) == expected);
    CHECK(dw.intact());
  }
}

TEST_CASE("linear: sixteen bits, an engine by name, a workspace of the caller's", "[linear][small]") {
  const Layer l(5, 7, 6);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = device_tensor({l.batch, l.in}, l.x, dtype), w = device_tensor({l.out, l.in}, l.w, dtype);
    const Guarded y({l.batch, l.out}, dtype), db({l.out});
    linear(stream(), x, w, {}, Activation::identity, y.tensor(), engine("naive"), Tensor(stream(), {64}));
    CHECK(host_values(y.tensor()) ==
          product(l.batch, l.out, l.in, l.x, transposed(l.w, l.out, l.in), {}, Activation::identity));
    linear_backward_bias(stream(), device_tensor({l.batch, l.out}, l.dy, dtype), db.tensor());
    CHECK(host_values(db.tensor()) ==
          product(1, l.out, l.batch, std::vector<float>(static_cast<size_t>(l.batch), 1.0f), l.dy));
  }
  CHECK_THROWS_AS(linear(stream(), l.x_tensor(), l.w_tensor(), {}, Activation::identity,
                         Tensor(stream(), {l.batch, l.out}), engine("no_such_engine")),
                  ValidationError);
}

TEST_CASE("linear: gradients agree with finite differences", "[linear][small]") {
  // loss = sum of dy * y, y = x w^T: linear in x and in w, so differences are exact but for rounding.
  const Layer l(3, 5, 4);
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& w) {
    double sum = 0;
    for (int64_t i = 0; i < l.batch; i++)
      for (int64_t j = 0; j < l.out; j++)
        for (int64_t k = 0; k < l.in; k++)
          sum += l.dy[static_cast<size_t>(i * l.out + j)] * x[static_cast<size_t>(i * l.in + k)] *
                 w[static_cast<size_t>(j * l.in + k)];
    return sum;
  };
  const std::vector<double> x(l.x.begin(), l.x.end()), w(l.w.begin(), l.w.end());
  const Tensor dx(context(), {l.batch, l.in}), dw(context(), {l.out, l.in});
  linear_backward_data(stream(), l.dy_tensor(), l.w_tensor(), dx);
  linear_backward_weights(stream(), l.x_tensor(), l.dy_tensor(), dw);
  const std::vector<float> gx = host_values(dx), gw = host_values(dw);
  for (size_t i = 0; i < x.size(); i++)
    CHECK(gx[i] == Approx(numeric_gradient([&](const std::vector<double>& v) { return loss(v, w); }, x, i))
                       .margin(1e-6));
  for (size_t i = 0; i < w.size(); i++)
    CHECK(gw[i] == Approx(numeric_gradient([&](const std::vector<double>& v) { return loss(x, v); }, w, i))
                       .margin(1e-6));
}

TEST_CASE("linear: refusals name the argument", "[linear][small]") {
  const Tensor x(context(), {3, 5}), w(context(), {4, 5}), y(context(), {3, 4}), bias(context(), {4}), none;
  const auto f = Activation::identity;
  const auto error = [](auto&& call) { return error_of<ValidationError>(call); };
  CHECK(error([&] { linear(stream(), none, w, bias, f, y); }) == "x: is not defined");
  CHECK(error([&] { linear(stream(), x, bias, none, f, y); }) == "w: rank 1 must be 2, shape is [4]");
  CHECK(error([&] { linear(stream(), x, y, none, f, y); }) == "w: shape [3, 4] must be [3, 5]");
  CHECK(error([&] { linear(stream(), x, w, bias, f, x); }) == "y: shape [3, 5] must be [3, 4]");
  CHECK(error([&] {
          linear(stream(), x, w, none, f, Tensor(context(), {3, 4}, DType::f16));
        }) == "y: dtype f16 must be f32");
  CHECK(error([&] { linear(stream(), x, w, x, f, y); }) == "bias: shape [3, 5] must be [4]");
  CHECK(error([&] {
          linear(stream(), x, w, none, f, y.transpose(0, 1).reshape({3, 4}));
        }).find("tensor: reshape") == 0);
  CHECK(error([&] { linear_backward_data(stream(), y, w, none); }) == "dx: is not defined");
  CHECK(error([&] { linear_backward_data(stream(), y, w, w); }) == "dx: shape [4, 5] must be [3, 5]");
  CHECK(error([&] { linear_backward_weights(stream(), x, w, w); }) == "x: shape [3, 5] must be [4, 5]");
  CHECK(error([&] { linear_backward_bias(stream(), y, x); }) == "dbias: shape [3, 5] must be [4]");
  CHECK(error([&] { linear(stream(), x, w, bias, static_cast<Activation>(17), y); }) ==
        "activation: activation 17 does not exist");
  CHECK(error([&] { linear_backward_bias(stream(), y, Tensor(context(), {4}, DType::i32)); }) ==
        "dbias: dtype i32 must be f32");
  CHECK(error([&] {
          linear_backward_bias(stream(), Tensor(context(), {3, 4}, DType::i32), bias);
        }) == "dy: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(error([&] { linear_backward_bias(stream(), y, y.slice(0, 1, 2).reshape({4})); }) ==
        "dbias: shares memory with dy");
  CHECK(error([&] {
          linear_backward_bias(stream(), y, y.slice(1, 0, 1).slice(0, 0, 1).reshape({1}).expand({4}));
        }).find("dbias: strides [0]") == 0);
  CHECK(error([&] { linear_backward_bias(stream(), y, Tensor(Context(context().device()), {4})); }) ==
        "dbias: belongs to another context");
  const Tensor square(context(), {4, 4});
  CHECK(error([&] {
          linear(stream(), square, w.as_strided({4, 4}, {4, 1}), none, f, square);
        }) == "y: shares memory with x");
  CHECK(error([&] {
          linear(stream(), x.as_strided({2, 2}, {6, 2}), square.as_strided({2, 2}, {2, 1}), none, f,
                 Tensor(context(), {2, 2}));
        }) == "x: strides [6, 2] of shape [2, 2]: one must be 1");
}
