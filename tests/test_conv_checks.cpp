// What convolution refuses, and in which words.
#include "cases/conv.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

template <class F>
std::string refusal(F&& f) {
  return error_of<ValidationError>(f);
}

}  // namespace

TEST_CASE("conv: output shapes", "[conv][small]") {
  CHECK(conv2d_output_shape({64, 3, 224, 224}, {64, 3, 7, 7}, {{2, 2}, {3, 3}, {3, 3}}) ==
        Shape{64, 64, 112, 112});
  CHECK(conv2d_output_shape({1, 4, 10, 9}, {6, 2, 3, 2}, {{3, 2}, {0, 1}, {1, 0}, {2, 3}, 2}) ==
        Shape{1, 6, 3, 4});
  const auto shape = [](const Shape& x, const Shape& w, const ConvParams& p) {
    return refusal([&] { conv2d_output_shape(x, w, p); });
  };
  const Shape x{2, 6, 8, 8}, w{4, 6, 3, 3};
  CHECK_THAT(shape({2, 6, 8}, w, {}), contains("x: rank 3 must be 4"));
  CHECK_THAT(shape(x, {4, 6, 3, 3, 1}, {}), contains("w: rank 5 must be 4"));
  CHECK_THAT(shape({2, -6, 8, 8}, w, {}), contains("x: shape [2, -6, 8, 8]"));
  CHECK_THAT(shape({2, 6, int64_t{1} << 31, 8}, w, {}), contains("x: shape [2, 6, 2147483648, 8]"));
  CHECK_THAT(shape(x, {4, 6, 0, 3}, {}), contains("w: shape [4, 6, 0, 3]: taps must be in [1, "));
  CHECK_THAT(shape(x, {4, 5, 3, 3}, {}), contains("w: shape [4, 5, 3, 3]: dimension 1 must be 6"));
  CHECK_THAT(shape(x, w, {{0, 1}}), contains("params: stride along H is 0"));
  CHECK_THAT(shape(x, w, {{1, -2}}), contains("params: stride along W is -2"));
  CHECK_THAT(shape(x, w, {{1, 1}, {0, 0}, {0, 0}, {1, 0}}), contains("params: dilation along W is 0"));
  CHECK_THAT(shape(x, w, {{1, 1}, {int64_t{1} << 40, 0}}),
             contains("params: pad_begin along H is 1099511627776"));
  CHECK_THAT(shape(x, w, {{1, 1}, {2147483647, 0}}), contains("x: padded size along H is 2147483655"));
  CHECK_THAT(shape(x, w, {{1, 1}, {0, 0}, {0, 0}, {1, 1}, 0}), contains("params: groups is 0"));
  CHECK_THAT(shape(x, w, {{1, 1}, {0, 0}, {0, 0}, {1, 1}, 4}),
             contains("groups 4 do not divide x's 6 channels"));
  CHECK_THAT(shape(x, {4, 2, 3, 3}, {{1, 1}, {0, 0}, {0, 0}, {1, 1}, 3}),
             contains("groups 3 do not divide w's 4 filters"));
  CHECK_THAT(shape(x, {4, 6, 3, 9}, {}), contains("w: window of 9 along W") && contains("padded input's 8"));
  CHECK_THAT(shape(x, w, {{1, 1}, {-4, 0}, {-2, 0}}),
             contains("w: window of 3 along H") && contains("padded input's 2"));
  CHECK_THAT(shape(x, w, {{1, 1}, {0, 0}, {0, 0}, {4, 1}}),
             contains("window of 9 along H (3 taps, dilation 4)"));
}

TEST_CASE("conv: bad tensors", "[conv][small]") {
  const Tensor x(context(), {2, 4, 6, 6}), w(context(), {3, 4, 3, 3}), b(context(), {3}),
      y(context(), {2, 3, 4, 4});
  const auto forward = [&](const Tensor& xt, const Tensor& wt, const Tensor& bt, const Tensor& yt,
                           const ConvParams& p = {}) {
    return refusal([&] { conv2d(stream(), xt, wt, bt, p, yt); });
  };
  const auto data = [&](const Tensor& dyt, const Tensor& wt, const Tensor& dxt, const ConvParams& p = {}) {
    return refusal([&] { conv2d_backward_data(stream(), dyt, wt, p, dxt); });
  };
  const auto filter = [&](const Tensor& xt, const Tensor& dyt, const Tensor& dwt, const ConvParams& p = {}) {
    return refusal([&] { conv2d_backward_filter(stream(), xt, dyt, p, dwt); });
  };
  CHECK(forward({}, w, b, y) == "x: is not defined");
  CHECK(forward(x, {}, b, y) == "w: is not defined");
  CHECK(forward(x, w, b, {}) == "y: is not defined");
  CHECK(data({}, w, x) == "dy: is not defined");
  CHECK(data(y, {}, x) == "w: is not defined");
  CHECK(data(y, w, {}) == "dx: is not defined");
  CHECK(filter({}, y, w) == "x: is not defined");
  CHECK(filter(x, {}, w) == "dy: is not defined");
  CHECK(filter(x, y, {}) == "dw: is not defined");

  const Tensor half(context(), {2, 4, 6, 6}, DType::f16), half_w(context(), {3, 4, 3, 3}, DType::f16);
  CHECK(forward(half, w, b, y) == "x: dtype f16 must be f32");
  CHECK(data(y, w, half) == "dx: dtype f16 must be f32");
  CHECK(forward(x, half_w, b, y) == "w: dtype f16 must be f32");
  CHECK(filter(x, y, half_w) == "dw: dtype f16 must be f32");
  CHECK(forward(x, w, b, Tensor(context(), y.shape(), DType::i32)) == "y: dtype i32 must be f32");

  const Tensor wrong(context(), {2, 3, 4, 5});
  CHECK(forward(x, w, b, wrong) == "y: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  CHECK(data(wrong, w, x) == "dy: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  CHECK(filter(x, wrong, w) == "dy: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  CHECK_THAT(forward(x.reshape({8, 6, 6}), w, b, y), contains("x: rank 3 must be 4"));
  CHECK_THAT(forward(x, w, Tensor(context(), {4}), y), contains("bias: shape [4] must be [3]"));
  CHECK_THAT(forward(x, w, Tensor(context(), {6}).slice(0, 0, 6, 2), y),
             contains("bias: strides [2] must be [1]"));

  const Tensor wide(context(), {3, 4, 3, 4});
  CHECK_THAT(forward(x, wide.slice(3, 0, 3), b, y),
             contains("w: strides [48, 12, 4, 1]") && contains("row-major"));
  CHECK_THAT(data(y, wide.slice(3, 0, 3), x), contains("w: strides [48, 12, 4, 1]"));
  CHECK_THAT(filter(x, y, wide.slice(3, 0, 3)), contains("dw: strides [48, 12, 4, 1]"));
  CHECK_THAT(forward(x, w, b, Tensor(context(), {1, 3, 4, 4}).expand({2, 3, 4, 4})),
             contains("y: strides [0, 16, 4, 1]"));
  CHECK_THAT(data(y, w, Tensor(context(), {2, 4, 6, 1}).expand({2, 4, 6, 6})),
             contains("dx: strides [24, 6, 1, 0]"));

  const Tensor shared(context(), {1000});
  const Tensor sx = shared.as_strided({2, 4, 6, 6}, {144, 36, 6, 1}),
               sy = shared.as_strided(y.shape(), y.strides(), 287);
  const Tensor sw = shared.as_strided(w.shape(), w.strides(), 380), sb = shared.as_strided({3}, {1}, 300);
  CHECK(forward(sx, w, b, sy) == "y: shares memory with x");
  CHECK(forward(x, sw, b, sy) == "y: shares memory with w");
  CHECK(forward(x, w, sb, sy) == "y: shares memory with bias");
  CHECK(data(sy, w, sx) == "dx: shares memory with dy");
  CHECK(data(y, shared.as_strided(w.shape(), w.strides(), 200), sx) == "dx: shares memory with w");
  CHECK(filter(shared.as_strided(x.shape(), x.strides(), 400), y, sw) == "dw: shares memory with x");
  CHECK(filter(x, sy, sw) == "dw: shares memory with dy");

  ConvParams relu;
  relu.activation = Activation::relu;
  CHECK_THAT(data(y, w, x, relu), contains("params: activation relu"));
  CHECK_THAT(filter(x, y, w, relu), contains("params: activation relu"));

  const Conv2D plan(context(), {x, w, y, {}, true});
  CHECK_THAT(refusal([&] { plan.run(stream(), x, w, {}, y); }), contains("bias: is not defined"));
  CHECK_THAT(refusal([&] { plan.run(stream(), y, w, b, y); }),
             contains("x: shape [2, 3, 4, 4] must be [2, 4, 6, 6]"));
  CHECK_THAT(refusal([&] {
               Conv2D(context(), {x, w, y, {}, false}).run(stream(), x, w, b, y);
             }),
             contains("bias: is given"));
  CHECK_THAT(refusal([&] {
               Conv2DBackwardData(context(), {x, w, y, {}, true});
             }),
             contains("bias: belongs to the forward"));

  const Context elsewhere(context().device());
  const Tensor foreign(elsewhere, x.shape());
  CHECK(forward(foreign, w, b, y) == "x: belongs to another context");
  CHECK_THAT(refusal([&] { plan.run(Stream(elsewhere), x, w, b, y); }),
             contains("stream: belongs to another context"));
  // Nothing of all that has hurt the context.
  conv2d(stream(), x, w, b, {}, y);
  stream().finish();
}
