// Operators made again of their lines in the log: they have the same lines, whatever is in them, and give
// numbers; what is no such line is refused.
#include <dlprim/logged_operator.hpp>

#include <dlprim/conv.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/profile.hpp>
#include <dlprim/softmax.hpp>

#include <set>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// What operators in turn say of themselves.
std::vector<OperatorTime> said(const Stream& s, const std::function<void()>& work) {
  Profile profile(s);
  work();
  return profile.take();
}

/// The name of each operator that was made again.
std::set<std::string> check_again(const Stream& s, const std::function<void()>& work) {
  std::set<std::string> names;
  const std::vector<OperatorTime> operators = said(s, work);
  CHECK(!operators.empty());
  for (const OperatorTime& op : operators) {
    INFO(op.text);
    Options options;
    options.engine = logged_engine(op.text);
    const LoggedOperator again(s, op.text + " kernels=3 us=12.5 gflops=1 gbytes=2", options);
    CHECK(again.engine() == options.engine);
    const std::vector<OperatorTime> second = said(s, [&] {
      again.run();
      again.run();
    });
    REQUIRE(second.size() == 2);
    for (const OperatorTime& run : second) {
      CHECK(run.text == op.text);
      CHECK(run.flops == op.flops);
      CHECK(run.bytes == op.bytes);
      CHECK(!run.kernels.empty());
    }
    names.insert(op.text.substr(3, op.text.find(' ') - 3));
  }
  return names;
}

Tensor some(const Stream& s, const Shape& shape, DType dtype = DType::f32) {
  const Tensor x(s, shape, dtype);
  fill(s, 1, x);
  return x;
}

void products(const Stream& s) {
  const Tensor a = some(s, {6, 5}), b = some(s, {5, 7}), c = some(s, {6, 7});
  gemm(s, a, b, {}, {}, c);
  gemm(s, some(s, {5, 6}).transpose(0, 1), some(s, {7, 5}).transpose(0, 1), {}, {2, 0.5}, c);
  EpilogueTensors with(some(s, {7}));
  with.scale = some(s, {6, 1}), with.residual = some(s, {6, 7}), with.preactivation = some(s, {6, 7});
  gemm(s, a, b, with, {1, 0, Activation::silu}, c);
  gemm(s, some(s, {3, 6, 5}), some(s, {1, 5, 7}).expand({3, 5, 7}), {}, {}, some(s, {3, 6, 7}));
  gemm(s, some(s, {3, 6, 5}).slice(1, 1, 4), some(s, {3, 5, 7}), {}, {}, some(s, {3, 3, 7}));
  gemm(s, some(s, {6, 5}, DType::i8), some(s, {5, 7}, DType::i8), {}, {}, some(s, {6, 7}, DType::i32));
  gemm(s, some(s, {6, 5}, DType::bf16), some(s, {5, 7}, DType::bf16), {}, {}, c);
  GemmDesc desc{a, b, c};
  desc.constant_b = true;
  Gemm(s.context(), desc).run(s, a, b, {}, c);
}

void convolutions(const Stream& s) {
  const Tensor x = some(s, {2, 4, 9, 7}), w = some(s, {6, 2, 3, 2});
  ConvParams params;
  params.stride = {2, 1}, params.pad_begin = {1, 0}, params.pad_end = {0, 2}, params.dilation = {1, 2};
  params.groups = 2;
  const auto output = [&](const Tensor& in, const Tensor& filter) {
    return some(s, conv_output_shape(in.shape(), filter.shape(), params));
  };
  const Tensor y = output(x, w);
  params.activation = Activation::gelu_tanh;
  conv(s, x, w, {some(s, {6})}, params, y);
  ConvExtras extras(some(s, {6}));
  extras.scale = some(s, {6}), extras.residual = some(s, y.shape()),
  extras.preactivation = some(s, y.shape());
  extras.mean = some(s, {6}), extras.variance = some(s, {6});
  conv(s, x, w, extras, params, y);
  params.activation = Activation::identity;
  conv_backward_data(s, y, w, params, x);
  conv_backward_filter(s, x, y, params, w);
  conv_backward_filter(s, x, y, params, w, Write::add);
  const Tensor last = some(s, {2, 9, 7, 4}).permute({0, 3, 1, 2});
  conv(s, last, w, {}, params, y);
  ConvExtras prologue;
  prologue.input_scale = some(s, {4}), prologue.input_shift = some(s, {4});
  ConvDesc desc{x, w, y, params};
  desc.prologue = true, desc.prologue_activation = Activation::relu, desc.constant_w = true;
  Conv(s.context(), desc).run(s, x, w, prologue, y);
  params = {};
  params.pad_begin = {-1};
  conv(s, x, some(s, {3, 4, 2, 2}), {}, params, output(x, some(s, {3, 4, 2, 2})));
  const Tensor x1 = some(s, {1, 3, 11}), w1 = some(s, {2, 3, 3});
  params = {};
  conv(s, x1, w1, {}, params, output(x1, w1));
  const Tensor x3 = some(s, {1, 3, 4, 5, 6}), w3 = some(s, {2, 3, 2, 3, 2});
  conv(s, x3, w3, {}, params, output(x3, w3));
  params.transposed = true, params.stride = {2}, params.output_pad = {1}, params.groups = 2;
  const Tensor wt = some(s, {4, 3, 3, 3}), yt = output(x, wt);
  conv(s, x, wt, {some(s, {6})}, params, yt);
  conv_backward_data(s, yt, wt, params, x);
  conv_backward_filter(s, x, yt, params, wt);
}

void elements(const Stream& s) {
  const Tensor x = some(s, {3, 4, 6, 5}), y = some(s, {3, 4, 6, 5});
  copy(s, x.permute({0, 1, 3, 2}), some(s, {3, 4, 5, 6}, DType::bf16));
  elementwise(s, "relu", {x}, {}, y);
  elementwise(s, "add", {x, some(s, {5})}, {0.5}, y);
  elementwise(s, "less", {some(s, {7}, DType::i64), some(s, {7}, DType::i32)}, {},
              some(s, {7}, DType::boolean));
  pointwise(s, {x, some(s, {5})}, {y, some(s, {3, 4, 6, 5})}, {2.0, 3.0},
            "y0 = (int)(x0 * s0) % 3 > 0 ? x1 : exp(x0); y1 = s1");
}

void rows(const Stream& s) {
  const Tensor x = some(s, {3, 4, 6, 5}), y = some(s, {3, 4, 6, 5});
  softmax(s, x, {}, 1, y);
  softmax(s, x, some(s, {6, 5}, DType::boolean), -1, y);
  log_softmax(s, x, {}, 3, y);
  layer_norm(s, x, some(s, {6, 5}), some(s, {6, 5}), 2, 1e-3, y);
  layer_norm(s, x, {}, {}, 1, 1e-5, y, some(s, {3, 4, 6, 1}), some(s, {3, 4, 6, 1}));
  rms_norm(s, x, some(s, {5}), 1, 1e-5, y);
  PoolParams params;
  params.kernel = {3, 2}, params.stride = {2, 1}, params.pad_begin = {1, 0}, params.ceil_mode = true;
  const Tensor pooled = some(s, pool_output_shape(x.shape(), params));
  pool(s, x, params, pooled);
  pool(s, x, params, pooled, some(s, pooled.shape(), DType::i64));
  params.mode = PoolMode::average, params.count_include_pad = false, params.divisor = 5;
  pool(s, x, params, pooled);
  pool(s, x, adaptive_pool(PoolMode::average, {2, 3}), some(s, {3, 4, 2, 3}));
}

std::string refused(const Stream& s, const std::string& line) {
  try {
    const LoggedOperator op(s, line);
  } catch (const ValidationError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("logged operators: made again of their lines, they have the same ones") {
  const Stream s = profiling_stream(context());
  std::set<std::string> names;
  for (const auto& work : {products, convolutions, elements, rows})
    for (const std::string& name : check_again(s, [&] { work(s); })) names.insert(name);
  const std::vector<std::string> known = logged_operators();
  CHECK(names == std::set<std::string>(known.begin(), known.end()));
}

TEST_CASE("logged operators: lines by hand, and as stderr has them", "[small]") {
  const Stream s = profiling_stream(context());
  const auto text = [&](const std::string& line, const std::string& engine = "auto") {
    Options options;
    options.engine = engine;
    const LoggedOperator op(s, line, options);
    return said(s, [&] { op.run(); }).at(0).text;
  };
  CHECK_THAT(text("op=gemm m=3 n=4 k=5"),
             Catch::Contains("m=3 n=4 k=5 dtype=f32 c_dtype=f32 a=mk b=kn lda=5"));
  CHECK_THAT(text("dlprim: op=gemm engine=cpu m=3 n=4 k=5 us=1.5", "naive"), Catch::Contains("engine=naive"));
  CHECK_THAT(text("op=conv n=1 c=2 k=4 size=9x8 window=3x3 pad=1x1 stride=2x2"),
             Catch::Contains("result=1x5x4") && Catch::Contains("size=1x9x8"));
  CHECK(logged_engine("op=gemm m=3 engine=fma:tm=64") == "fma:tm=64");
  CHECK(logged_engine("op=gemm m=3").empty());
}

TEST_CASE("logged operators: what is refused says why", "[small]") {
  const Stream s = profiling_stream(context());
  CHECK_THAT(refused(s, ""), Catch::Contains("does not begin with op=NAME"));
  CHECK_THAT(refused(s, "gemm m=3 n=4 k=5"), Catch::Contains("'gemm m=3 n=4 k=5' is no operator of the log"));
  CHECK_THAT(refused(s, "op=unique x=f32[3]"),
             Catch::Contains("'unique' cannot be made again") && Catch::Contains("gemm, conv"));
  const std::pair<const char*, const char*> wrong[] = {
      {"op=gemm m=3 n=4", "has no k="},
      {"op=gemm m=3 n=4 k=x", "k=x is no whole number"},
      {"op=gemm m=3 n=4 k=5 frob=1", "has an unknown frob="},
      {"op=gemm m=3 n=4 k=5 alpha=one", "alpha=one is no number"},
      {"op=gemm m=3 n=4 k=5 a_batch=1.5", "a_batch=1.5 is no whole number"},
      {"op=gemm m=3 n=4 k=5 bias=left", "bias=left is none of none, row, column"},
      {"op=gemm m=3 n=4 k=5 batches=2", "batches=2"},
      {"op=conv n=1 c=2 k=4 size=9x8 window=3", "window= 1"},
      {"op=conv n=1 c=2 k=4 size=2x2 window=3x3", "does not fit"},
      {"op=conv n=1 c=3 k=4 groups=2 size=9x8 window=3x3", "groups=2"},
      {"op=conv n=1 c=2 k=4 size=9x8 window=3x3 x_strides=1,2", "x_strides= has 2 numbers"},
      {"op=copy x=f32[2,3] y=f32", "y=f32 is no tensor like f32[2,3]"},
      {"op=copy x=f32[2,3] y=f31[2]", "f31"},
      {"op=copy x=f32[2,-3] y=f32[2,3]", "[2,-3] is no list of sizes"},
      {"op=copy x=f32[2,3]/1 y=f32[2,3]", "'/1' is not /STRIDE"},
      {"op=copy x=f32[1000000,1000000,1000000,1000000] y=f32[2]", "x="},
      {"op=elementwise f=frobnicate x0=f32[2] y=f32[2]", "frobnicate"},
      {"op=layer_norm x=f32[2] y=f32[2] axes=2", "axes=2"},
      {"op=pointwise x0=f32[2] y0=f32[2]", "has no body="},
  };
  for (const auto& [line, reason] : wrong) {
    INFO(line);
    CHECK_THAT(refused(s, line), Catch::Contains(reason));
  }
}
