// What convolution refuses, and in which words.
#include "cases/conv.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

TEST_CASE("conv: output shapes", "[conv][small]") {
  CHECK(conv_output_shape({64, 3, 224, 224}, {64, 3, 7, 7}, {{2, 2}, {3, 3}, {3, 3}}) ==
        Shape{64, 64, 112, 112});
  CHECK(conv_output_shape({1, 4, 10, 9}, {6, 2, 3, 2}, {{3, 2}, {0, 1}, {1, 0}, {2, 3}, 2}) ==
        Shape{1, 6, 3, 4});
  const auto shape = [](const Shape& x, const Shape& w, const ConvParams& p) {
    return refusal([&] { conv_output_shape(x, w, p); });
  };
  const Shape x{2, 6, 8, 8}, w{4, 6, 3, 3};
  CHECK_THAT(shape({2, 6, 8}, w, {}), contains("w: rank 4 must be 3 as x's"));
  CHECK_THAT(shape({2, 6}, {4, 6}, {}), contains("x: rank 2 must be 3, 4 or 5"));
  CHECK_THAT(shape({2, 6, 1, 1, 1, 1}, {4, 6, 1, 1, 1, 1}, {}), contains("x: rank 6 must be 3, 4 or 5"));
  CHECK_THAT(shape(x, {4, 6, 3, 3, 1}, {}), contains("w: rank 5 must be 4"));
  CHECK_THAT(shape(x, w, {{1, 1, 1}}), contains("params: stride [1, 1, 1] has 3 numbers for 2 spatial axes"));
  ConvParams strange;
  strange.output_pad = {1};
  CHECK_THAT(shape(x, w, strange),
             contains("output_pad along H is 1, but the convolution is not transposed"));
  CHECK_THAT(shape({2, -6, 8, 8}, w, {}), contains("x: shape [2, -6, 8, 8]"));
  CHECK_THAT(shape({2, 6, int64_t{1} << 31, 8}, w, {}), contains("x: shape [2, 6, 2147483648, 8]"));
  CHECK_THAT(shape(x, {4, 6, 0, 3}, {}), contains("w: shape [4, 6, 0, 3]: taps must be in [1, "));
  CHECK_THAT(shape(x, {4, 5, 3, 3}, {}), contains("w: shape [4, 5, 3, 3]: dimension 1 must be 6"));
  CHECK_THAT(shape(x, w, {{0, 1}}), contains("params: stride along H is 0"));
  CHECK_THAT(shape(x, w, {{1, -2}}), contains("params: stride along W is -2"));
  CHECK_THAT(shape(x, w, {{1, 1}, {0, 0}, {0, 0}, {1, 0}}), contains("params: dilation along W is 0"));
  CHECK_THAT(shape(x, w, {{1, 1}, {int64_t{1} << 40, 0}}),
             contains("params: pad_begin along H is 1099511627776"));
  CHECK_THAT(shape(x, w, {{1, 1}, {2147483647, 0}, {0}}), contains("x: padded size along H is 2147483655"));
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

TEST_CASE("conv: output shapes of one and three dimensions, and transposed ones", "[conv][small]") {
  CHECK(conv_output_shape({2, 6, 30}, {4, 6, 5}, {{2}, {1}, {3}, {2}}) == Shape{2, 4, 13});
  CHECK(conv_output_shape({2, 6, 8, 9, 10}, {4, 3, 3, 2, 1}, {{1, 2, 3}, {1, 0, 0}, {0}, {}, 2}) ==
        Shape{2, 4, 7, 4, 4});
  // Without a list behind, the padding is as in front.
  CHECK(conv_output_shape({2, 6, 8, 9, 10}, {4, 3, 3, 2, 1}, {{1, 2, 3}, {1, 0, 0}, {}, {}, 2}) ==
        Shape{2, 4, 8, 4, 4});
  ConvParams p{{2, 3}, {1, 0}, {0, 1}, {1, 2}, 2};
  p.transposed = true;
  p.output_pad = {1, 2};
  const Shape x{2, 6, 5, 4}, w{6, 3, 3, 3};
  // (5 - 1) * 2 - 1 + 3 + 1 and (4 - 1) * 3 - 1 + 5 + 2
  CHECK(conv_output_shape(x, w, p) == Shape{2, 6, 11, 15});
  const auto shape = [&](const Shape& xs, const Shape& ws, const ConvParams& params) {
    return refusal([&] { conv_output_shape(xs, ws, params); });
  };
  CHECK_THAT(shape(x, {4, 3, 3, 3}, p),
             contains("w: shape [4, 3, 3, 3]: dimension 0 must be 6, x's channels"));
  p.output_pad = {2, 2};
  CHECK_THAT(shape(x, w, p),
             contains("output_pad along H is 2, must be below the stride 2 or the dilation 1"));
  p.output_pad = {-1, 0};
  CHECK_THAT(shape(x, w, p), contains("output_pad along H is -1"));
  p.output_pad = {};
  p.pad_begin = {40, 0};
  CHECK_THAT(shape(x, w, p), contains("x: size 5 along H gives a y of -29"));
}

TEST_CASE("conv: bad tensors", "[conv][small]") {
  const Tensor x(context(), {2, 4, 6, 6}), w(context(), {3, 4, 3, 3}), b(context(), {3}),
      y(context(), {2, 3, 4, 4});
  const auto forward = [&](const Tensor& xt, const Tensor& wt, const Tensor& bt, const Tensor& yt,
                           const ConvParams& p = {}) {
    return refusal([&] { conv(stream(), xt, wt, bt, p, yt); });
  };
  const auto data = [&](const Tensor& dyt, const Tensor& wt, const Tensor& dxt, const ConvParams& p = {}) {
    return refusal([&] { conv_backward_data(stream(), dyt, wt, p, dxt); });
  };
  const auto filter = [&](const Tensor& xt, const Tensor& dyt, const Tensor& dwt, const ConvParams& p = {}) {
    return refusal([&] { conv_backward_filter(stream(), xt, dyt, p, dwt); });
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
  CHECK(forward(half, w, b, y) == "w: dtype f32 must be f16");
  CHECK(data(y, w, half) == "dx: dtype f16 must be f32");
  CHECK(forward(Tensor(context(), {2, 4, 6, 6}, DType::i32), w, b, y) ==
        "x: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(forward(x, half_w, b, y) == "w: dtype f16 must be f32");
  CHECK(filter(x, y, half_w) == "dw: dtype f16 must be f32");
  CHECK(forward(x, w, b, Tensor(context(), y.shape(), DType::i32)) == "y: dtype i32 must be f32");

  const Tensor wrong(context(), {2, 3, 4, 5});
  CHECK(forward(x, w, b, wrong) == "y: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  CHECK(data(wrong, w, x) == "dy: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  CHECK(filter(x, wrong, w) == "dy: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  CHECK_THAT(forward(x.reshape({8, 6, 6}), w, b, y), contains("w: rank 4 must be 3"));
  CHECK_THAT(forward(x, w, Tensor(context(), {4}), y), contains("bias: shape [4] must be [3]"));
  CHECK_THAT(forward(x, w, Tensor(context(), {6}).slice(0, 0, 6, 2), y),
             contains("bias: strides [2] must be [1]"));

  CHECK_THAT(filter(x, y, Tensor(context(), {3, 1, 3, 3}).expand({3, 4, 3, 3})),
             contains("dw: strides [9, 0, 3, 1]"));
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

  const Conv plan(context(), {x, w, y, {}, true});
  CHECK_THAT(refusal([&] { plan.run(stream(), x, w, {}, y); }), contains("bias: is not defined"));
  CHECK_THAT(refusal([&] { plan.run(stream(), y, w, b, y); }),
             contains("x: shape [2, 3, 4, 4] must be [2, 4, 6, 6]"));
  CHECK_THAT(refusal([&] {
               Conv(context(), {x, w, y, {}}).run(stream(), x, w, b, y);
             }),
             contains("bias: is given"));
  ConvDesc odd{x, w, y};
  odd.prologue_activation = Activation::relu;
  CHECK(refusal([&] { Conv(context(), odd); }) == "prologue_activation: relu without a prologue");
  CHECK(refusal([&] {
          ConvBackwardFilter(context(), {x, y, w, {}, static_cast<Write>(7)});
        }) == "write: 7 is no Write");
  ConvExtras with;
  with.residual = Tensor(context(), {2, 3, 4, 5});
  CHECK(refusal([&] { conv(stream(), x, w, with, {}, y); }) ==
        "residual: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  with.residual = y;
  CHECK(refusal([&] { conv(stream(), x, w, with, {}, y); }) == "y: shares memory with residual");
  with.residual = {};
  with.mean = b;
  CHECK(refusal([&] { conv(stream(), x, w, with, {}, y); }) == "variance: is not defined");

  const Context elsewhere(context().device());
  const Tensor foreign(elsewhere, x.shape());
  CHECK(forward(foreign, w, b, y) == "x: belongs to another context");
  CHECK_THAT(refusal([&] { plan.run(Stream(elsewhere), x, w, b, y); }),
             contains("stream: belongs to another context"));
  // Nothing of all that has hurt the context.
  conv(stream(), x, w, b, {}, y);
  stream().finish();
}
