// Convolution's calls: epilogues, prologues, accuracy, gradients by finite differences.
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>

#include "cases/conv_winograd.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

const ConvCase kSmall{
    "small", 2, 8, {6, 5}, 12, {3, 2}, {{2, 1}, {1, 0}, {0, 2}, {1, 2}, 2, Activation::identity}};

/// Every extra at once; powers of two as factors keep all exact.
void check_epilogue(ConvCase c, const std::string& name) {
  INFO(name << ", " << c.text());
  Rng rng(9);
  const auto x = integers(element_count(c.x_shape()), rng, 2),
             w = integers(element_count(c.w_shape()), rng, 2);
  ConvEpilogueData data{integers(c.k, rng, 4), {}, integers(element_count(c.y_shape()), rng, 8)};
  for (int64_t k = 0; k < c.k; k++) data.scale.push_back(k % 2 ? 0.5f : 2.0f);
  const Layout layout = c.y_layout;
  const DType dtype = c.dtype;
  const Strides strides = strides_in(layout, c.y_shape());
  const Guarded y(c.y_shape(), strides, dtype), before(c.y_shape(), strides, dtype), mean({c.k}),
      variance({c.k}), residual(c.y_shape(), strides, dtype),
      operand(c.x_shape(), strides_in(c.x_layout, c.x_shape()), dtype);
  copy(stream(), device_tensor(c.x_shape(), x), operand.tensor());
  copy(stream(), device_tensor(c.y_shape(), data.residual), residual.tensor());
  ConvExtras with;
  with.bias = device_tensor({c.k}, data.bias, dtype);
  with.scale = device_tensor({c.k}, data.scale, dtype);
  with.residual = residual.tensor();
  with.preactivation = before.tensor();
  with.mean = mean.tensor(), with.variance = variance.tensor();
  conv(stream(), operand.tensor(), device_tensor(c.w_shape(), w, dtype), with, c.params, y.tensor(),
       engine(name));
  const auto expected = conv_forward_reference(c, x, w, data);
  CHECK(deviation(host_values(y.tensor()), expected) == 0);
  c.params.activation = Activation::identity;
  CHECK(deviation(host_values(before.tensor()), conv_forward_reference(c, x, w, data)) == 0);
  std::vector<double> means(static_cast<size_t>(c.k), 0), variances(means);
  const auto channels = means.size(), plane = expected.size() / static_cast<size_t>(c.n) / channels;
  const double count = static_cast<double>(c.n) * static_cast<double>(plane);
  for (size_t i = 0; i < expected.size(); i++) means[i / plane % channels] += expected[i] / count;
  for (size_t i = 0; i < expected.size(); i++)
    variances[i / plane % channels] += std::pow(expected[i] - means[i / plane % channels], 2) / count;
  CHECK(deviation(host_values(mean.tensor()), means) < 1e-6);
  CHECK(deviation(host_values(variance.tensor()), variances) < 1e-6);
  CHECK((y.intact() && before.intact() && mean.intact() && variance.intact()));
}

}  // namespace

TEST_CASE("conv: bias and activation", "[conv][small]") {
  const std::pair<Activation, bool> epilogues[] = {
      {Activation::identity, false}, {Activation::identity, true}, {Activation::relu, false},
      {Activation::relu6, true},     {Activation::sigmoid, true},  {Activation::tanh, false},
      {Activation::silu, true}};
  const std::vector<std::string> engines = serving_conv_engines(kSmall);
  CHECK(has_matrix_engine(engines));
  for (const std::string& name : engines)
    for (const auto& [f, bias] : epilogues) {
      ConvCase c = kSmall;
      c.params.activation = f;
      INFO(name << ", bias " << bias << ", " << c.text());
      Rng rng(3);
      // Both signs, below 0, between 0 and 6, and above 6; a few halves, so that sigmoid and tanh are not
      // flat.
      std::vector<float> x = integers(element_count(c.x_shape()), rng, 2),
                         w = integers(element_count(c.w_shape()), rng, 2);
      for (float& v : x) v /= 4;
      const std::vector<float> b = integers(c.k, rng, 6);
      const Guarded y(c.y_shape());
      conv(stream(), device_tensor(c.x_shape(), x), device_tensor(c.w_shape(), w),
           bias ? device_tensor({c.k}, b) : Tensor(), c.params, y.tensor(), engine(name));
      const std::vector<double> expected = conv_forward_reference(c, x, w, {bias ? b : std::vector<float>()});
      const bool exact = f == Activation::identity || f == Activation::relu || f == Activation::relu6;
      // exp and tanh may be off by 5 units in the last place each.
      CHECK(deviation(host_values(y.tensor()), expected) <= (exact ? 0 : 2e-6));
      CHECK(y.intact());
    }
}

TEST_CASE("conv: every family's epilogue has the activations", "[conv]") {
  const ConvCase cases[] = {{"plain", 1, 6, {9, 10}, 19, {3, 3}, {{}, {1}, {1}}},
                            {"depthwise", 1, 19, {9, 10}, 19, {3, 3}, {{}, {1}, {1}, {}, 19}},
                            {"strided", 1, 19, {9, 10}, 19, {3, 3}, {{2}, {1}, {1}, {}, 19}},
                            {"points", 1, 6, {9, 10}, 19, {1, 1}, {}}};
  std::vector<std::string> names = exact_conv_engines();
  for (const char* form : {"winograd:m=2,cpu=1", "winograd:m=2,cpu=0"}) names.emplace_back(form);
  std::set<std::string> served;
  for (const ConvCase& form : cases)
    for (Layout layout : {Layout::nchw, Layout::nhwc}) {
      ConvCase c = form.in(layout);
      c.params.activation = layout == Layout::nchw ? Activation::silu : Activation::gelu;
      Rng rng(4);
      std::vector<float> x = integers(element_count(c.x_shape()), rng, 2),
                         w = integers(element_count(c.w_shape()), rng, 2);
      for (float& v : x) v /= 4;
      const std::vector<float> b = integers(c.k, rng, 3);
      const std::vector<double> expected = conv_forward_reference(c, x, w, {b});
      const Tensor image = strided_operand(layout, c.x_shape(), x, DType::f32),
                   filter = device_tensor(c.w_shape(), w), bias = device_tensor({c.k}, b);
      for (const std::string& name : names) {
        INFO(name << ", " << c.text());
        const Guarded y(c.y_shape(), strides_in(layout, c.y_shape()), DType::f32);
        const ConvDesc problem{image, filter, y.tensor(), c.params};
        if (!conv_refusal<Conv>(problem, engine(name)).empty()) continue;
        served.insert(name.substr(0, name.find(':')));
        conv(stream(), image, filter, bias, c.params, y.tensor(), engine(name));
        CHECK(deviation(host_values(y.tensor()), expected) <= 2e-6);
        CHECK(y.intact());
      }
    }
  for (const char* family : {"naive", "fma", "gemm", "winograd"}) {
    INFO(family);
    CHECK((served.count(family) == 1 || std::getenv("DLPRIM_TEST_ENGINES")));
  }
}

TEST_CASE("conv: scale, bias, residual, preactivation, statistics", "[conv][small]") {
  ConvParams turned = kSmall.params;
  turned.transposed = true;
  for (const ConvParams& params : {kSmall.params, turned})
    for (DType dtype : {DType::f32, DType::bf16})
      for (Layout layout : {Layout::nchw, Layout::nhwc}) {
        ConvCase c = kSmall.in(layout);
        c.params = params;
        c.params.activation = Activation::relu;
        c.dtype = dtype;
        const std::vector<std::string> engines = serving_conv_engines(c);
        CHECK((params.transposed || has_matrix_engine(engines)));
        for (const std::string& name : engines) check_epilogue(c, name);
      }
}

// Engines for groups of few channels have epilogues of their own; on a CPU those chosen are depthwise_cpu
// and depthwise_cpu_last.
TEST_CASE("conv: epilogues of depthwise convolutions", "[conv][small]") {
  const ConvParams window{{2}, {1}, {1}, {1}, 8, Activation::relu};
  ConvParams turned = window;
  turned.transposed = true;
  for (const ConvParams& params : {window, turned})
    for (const auto& [layout, dtype] : {std::pair(Layout::nchw, DType::f32),
                                        {Layout::nhwc, DType::f32},
                                        {Layout::nhwc, DType::bf16},
                                        {Layout::gaps, DType::f16}})
      for (const char* name : {"depthwise", "auto"}) {
        ConvCase c = ConvCase{"", 2, 8, {5, 6}, 8, {3, 3}, params}.in(layout);
        c.dtype = dtype;
        check_epilogue(c, name);
      }
}

TEST_CASE("conv: epilogues of sums in parts", "[conv][small]") {
  for (Layout layout : {Layout::nchw, Layout::nhwc})
    for (DType dtype : {DType::f32, DType::bf16}) {
      ConvCase c = kSmall.in(layout);
      c.params.activation = Activation::relu;
      c.dtype = dtype;
      check_epilogue(c, "fma:tm=32,tn=32,tk=8,rm=4,rn=4,parts=3");
    }
}

// Those of windows of one tap are GEMM's, of rows or of columns.
TEST_CASE("conv: epilogues of products", "[conv][small]") {
  ConvParams plain{{1}, {0}, {0}, {1}, 1, Activation::relu}, turned = plain;
  turned.transposed = true;
  for (const ConvParams& params : {plain, turned})
    for (Layout layout : {Layout::nchw, Layout::nhwc})
      for (const auto& [images, size] : {std::pair(1, 5), {3, 5}, {3, 1}})
        for (DType dtype : {DType::f32, DType::bf16}) {
          ConvCase c = ConvCase{"", images, 8, {size, 6}, 6, {1, 1}, params}.in(layout);
          if (size == 1) c.size = {1, 1};
          c.dtype = dtype;
          check_epilogue(c, "gemm");
        }
}

// A prologue is the operator on an x that was written: forward, and backward filter through the plan.
TEST_CASE("conv: prologue", "[conv][small]") {
  ConvParams turned = kSmall.params;
  turned.transposed = true;
  for (const ConvParams& params : {kSmall.params, turned})
    for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::gaps}) {
      ConvCase c = kSmall.in(layout);
      c.params = params;
      INFO(c.text());
      Rng rng(10);
      const auto x = integers(element_count(c.x_shape()), rng, 3),
                 w = integers(element_count(c.w_shape()), rng, 3),
                 dy = integers(element_count(c.y_shape()), rng, 3), scale = integers(c.c, rng, 2),
                 shift = integers(c.c, rng, 3);
      std::vector<float> normal = x;
      const size_t plane = x.size() / static_cast<size_t>(c.n * c.c);
      for (size_t i = 0; i < x.size(); i++) {
        const size_t channel = i / plane % scale.size();
        normal[i] = std::max(0.0f, scale[channel] * x[i] + shift[channel]);
      }
      const Guarded room(c.x_shape(), strides_in(layout, c.x_shape()), DType::f32, 3), y(c.y_shape()),
          dw(c.w_shape());
      write(stream(), room.tensor(), x);
      ConvExtras with;
      with.input_scale = device_tensor({c.c}, scale), with.input_shift = device_tensor({c.c}, shift);
      ConvDesc desc{room.tensor(), dw.tensor(), y.tensor(), c.params};
      desc.prologue = true, desc.prologue_activation = Activation::relu;
      const Tensor tw = device_tensor(c.w_shape(), w);
      Conv(context(), desc).run(stream(), room.tensor(), tw, with, y.tensor());
      CHECK(deviation(host_values(y.tensor()), conv_forward_reference(c, normal, w)) == 0);
      ConvBackwardFilter(context(), backward_filter_of(desc))
          .run(stream(), room.tensor(), device_tensor(c.y_shape(), dy), with, dw.tensor());
      CHECK(deviation(host_values(dw.tensor()), conv_backward_filter_reference(c, normal, dy)) == 0);
      CHECK((y.intact() && dw.intact()));
    }
}

TEST_CASE("conv: real numbers are as accurate as a chain of multiply-adds", "[conv]") {
  const ConvCase c = tiled_convs().front();
  Rng rng(11);
  const auto x = reals(element_count(c.x_shape()), rng), w = reals(element_count(c.w_shape()), rng),
             dy = reals(element_count(c.y_shape()), rng);
  const auto check = [](const std::string& what, const Tensor& result, const std::vector<double>& expected,
                        double terms) {
    INFO(what);
    // Rounding errors of a chain grow like a random walk: each addition contributes half a unit of a sum that
    // is itself about sqrt(terms / 9) large. Ten standard deviations.
    const double bound = 10 * 0x1p-24 * std::sqrt(terms) * std::sqrt(terms / 9);
    const std::vector<float> values = host_values(result);
    double worst = 0;
    for (size_t i = 0; i < values.size(); i++) worst = std::max(worst, std::abs(values[i] - expected[i]));
    CHECK(worst <= bound);
    CHECK(worst > 0);  // else the comparison is with itself
  };
  const Tensor tx = device_tensor(c.x_shape(), x), tw = device_tensor(c.w_shape(), w),
               tdy = device_tensor(c.y_shape(), dy);
  const auto taps = static_cast<double>(c.taps());
  const std::vector<std::string> engines = serving_conv_engines(c);
  CHECK(has_matrix_engine(engines));
  for (const std::string& name : engines) {
    const Guarded y(c.y_shape()), dx(c.x_shape()), dw(c.w_shape());
    conv(stream(), tx, tw, {}, c.params, y.tensor(), engine(name));
    conv_backward_data(stream(), tdy, tw, c.params, dx.tensor(), engine(name));
    conv_backward_filter(stream(), tx, tdy, c.params, dw.tensor(), engine(name));
    check(name + " forward", y.tensor(), conv_forward_reference(c, x, w), static_cast<double>(c.c) * taps);
    check(name + " backward data", dx.tensor(), conv_backward_data_reference(c, dy, w),
          static_cast<double>(c.k) * taps);
    check(name + " backward filter", dw.tensor(), conv_backward_filter_reference(c, x, dy),
          static_cast<double>(c.n * element_count(c.size)));
  }
}

TEST_CASE("conv: a filter's gradient is added to what was there", "[conv]") {
  for (const Layout layout : {Layout::nchw, Layout::nhwc, Layout::gaps})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      ConvCase c = kSmall.in(layout);
      c.w_layout = layout, c.dtype = dtype;
      Rng rng(31);
      const auto x = integers(element_count(c.x_shape()), rng, 1),
                 dy = integers(element_count(c.y_shape()), rng, 1),
                 before = integers(element_count(c.w_shape()), rng, 4);
      const std::vector<double> gradient = conv_backward_filter_reference(c, x, dy);
      const auto after = [&](int passes) {
        std::vector<double> sum(before.begin(), before.end());
        for (size_t i = 0; i < sum.size(); i++) sum[i] += passes * gradient[i];
        return sum;
      };
      const Guarded tx(c.x_shape(), strides_in(layout, c.x_shape()), dtype),
          tdy(c.y_shape(), strides_in(layout, c.y_shape()), dtype);
      copy(stream(), device_tensor(c.x_shape(), x), tx.tensor());
      copy(stream(), device_tensor(c.y_shape(), dy), tdy.tensor());
      for (const std::string& name : serving_conv_engines(c)) {
        INFO(name << ", " << c.text());
        const Guarded dw(c.w_shape(), strides_in(layout, c.w_shape()), dtype);
        copy(stream(), device_tensor(c.w_shape(), before), dw.tensor());
        const ConvBackwardFilter plan(
            context(), {tx.tensor(), tdy.tensor(), dw.tensor(), c.params, Write::add}, engine(name));
        const auto bytes = static_cast<int64_t>(plan.workspace_size());
        const Guarded workspace({bytes}, DType::u8);
        plan.run(stream(), tx.tensor(), tdy.tensor(), {}, dw.tensor(), workspace.tensor());
        CHECK(deviation(host_values(dw.tensor()), after(1)) == 0);
        conv_backward_filter(stream(), tx.tensor(), tdy.tensor(), c.params, dw.tensor(), Write::add,
                             engine(name), workspace.tensor());
        CHECK(deviation(host_values(dw.tensor()), after(2)) == 0);
        CHECK((dw.intact() && workspace.intact()));
        CHECK_THAT(refusal([&] {
                     conv_backward_filter(stream(), tx.tensor(), tdy.tensor(), c.params, dw.tensor(),
                                          Write::add, engine(name), Tensor(stream(), {16}));
                   }),
                   contains("workspace"));
      }
    }
}

TEST_CASE("conv: operands whose elements repeat", "[conv]") {
  const ConvCase c{"expanded", 3, 64, {6, 7}, 64, {3, 3}, {{1}, {1}, {1}}};
  Rng rng(21);
  for (const int axis : {0, 2, 3})
    for (const Layout layout : {Layout::nchw, Layout::nhwc})
      for (const std::string& name : serving_conv_engines(c)) {
        INFO(name << ", axis " << axis << ", layout " << static_cast<int>(layout));
        const auto expanded = [&](const Shape& shape) {
          Shape one = shape;
          one[axis] = 1;
          const Guarded room(one, strides_in(layout, one), DType::f32, 16);
          copy(stream(), device_tensor(one, integers(element_count(one), rng, 2)), room.tensor());
          return room.tensor().expand(shape);
        };
        const Tensor x = expanded(c.x_shape()), w = expanded(c.w_shape()), dy = expanded(c.y_shape());
        const Guarded y(c.y_shape()), dx(c.x_shape()), dw(c.w_shape());
        conv(stream(), x, w, {}, c.params, y.tensor(), engine(name));
        conv_backward_data(stream(), dy, w, c.params, dx.tensor(), engine(name));
        conv_backward_filter(stream(), x, dy, c.params, dw.tensor(), engine(name));
        const auto xs = host_values(x), ws = host_values(w), dys = host_values(dy);
        CHECK(deviation(host_values(y.tensor()), conv_forward_reference(c, xs, ws)) == 0);
        CHECK(deviation(host_values(dx.tensor()), conv_backward_data_reference(c, dys, ws)) == 0);
        CHECK(deviation(host_values(dw.tensor()), conv_backward_filter_reference(c, xs, dys)) == 0);
      }
}

TEST_CASE("conv: gradients agree with finite differences", "[conv][small]") {
  const ConvCase& c = kSmall;
  Rng rng(5);
  const auto eighths = [&](int64_t count) {
    std::vector<float> values = integers(count, rng, 8);
    for (float& v : values) v /= 8;
    return values;
  };
  const auto x = eighths(element_count(c.x_shape())), w = eighths(element_count(c.w_shape())),
             b = eighths(c.k), dy = eighths(element_count(c.y_shape()));
  // The loss is the inner product of y and dy; the reference's forward direction is the only thing
  // differentiated.
  const auto loss = [&](const std::vector<float>& xs, const std::vector<float>& ws,
                        const std::vector<float>& bs) {
    const std::vector<double> y = conv_forward_reference(c, xs, ws, {bs});
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  const auto floats = [](const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); };
  const auto numeric = [&](const std::vector<float>& at, const auto& f) {
    std::vector<float> gradient(at.size());
    const std::vector<double> point(at.begin(), at.end());
    // The loss is linear in each operand, so no step is too large; this one keeps all numbers exact in float.
    for (size_t i = 0; i < at.size(); i++)
      gradient[i] = static_cast<float>(numeric_gradient(f, point, i, 0.25));
    return gradient;
  };
  const Tensor tx = device_tensor(c.x_shape(), x), tw = device_tensor(c.w_shape(), w),
               tdy = device_tensor(c.y_shape(), dy);
  const auto nx = numeric(x, [&](const std::vector<double>& v) { return loss(floats(v), w, b); });
  const auto nw = numeric(w, [&](const std::vector<double>& v) { return loss(x, floats(v), b); });
  const auto nb = numeric(b, [&](const std::vector<double>& v) { return loss(x, w, floats(v)); });
  const std::vector<std::string> engines = serving_conv_engines(c);
  CHECK(has_matrix_engine(engines));
  for (const std::string& name : engines) {
    INFO(name);
    const Guarded dx(c.x_shape()), dw(c.w_shape());
    conv_backward_data(stream(), tdy, tw, c.params, dx.tensor(), engine(name));
    CHECK(host_values(dx.tensor()) == nx);
    conv_backward_filter(stream(), tx, tdy, c.params, dw.tensor(), engine(name));
    CHECK(host_values(dw.tensor()) == nw);
  }
  const Guarded db({c.k});
  conv_backward_bias(stream(), tdy, db.tensor());
  CHECK(host_values(db.tensor()) == nb);
}

TEST_CASE("conv: bias gradient", "[conv][small]") {
  for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::gaps})
    for (const Shape& shape :
         {Shape{3, 5, 7, 9}, Shape{1, 1, 1, 1}, Shape{2, 33, 1, 3}, Shape{0, 4, 3, 3}, Shape{2, 0, 3, 3}}) {
      INFO("layout " << static_cast<int>(layout) << ", shape " << to_string(shape));
      Rng rng(8);
      const std::vector<float> dy = integers(element_count(shape), rng, 5);
      const Guarded room(shape, strides_in(layout, shape), DType::f32, 3), db({shape[1]});
      write(stream(), room.tensor(), dy);
      std::vector<float> expected(static_cast<size_t>(shape[1]), 0);
      const auto plane = static_cast<size_t>(shape[2] * shape[3]);
      for (size_t i = 0; i < dy.size(); i++) expected[i / plane % expected.size()] += dy[i];
      conv_backward_bias(stream(), room.tensor(), db.tensor());
      CHECK(host_values(db.tensor()) == expected);
      CHECK(db.intact());
    }
  const Tensor dy(context(), {2, 3, 4, 4}), db(context(), {3});
  const auto call = [&](const Tensor& a, const Tensor& b) {
    return refusal([&] { conv_backward_bias(stream(), a, b); });
  };
  CHECK(call({}, db) == "dy: is not defined");
  CHECK(call(dy, {}) == "dbias: is not defined");
  CHECK_THAT(call(dy.reshape({6, 16}), db), contains("dy: rank 2 must be 3, 4 or 5"));
  CHECK_THAT(call(dy, Tensor(context(), {4})), contains("dbias: shape [4] must be [3]"));
  CHECK_THAT(call(dy, Tensor(context(), {3}, DType::f16)), contains("dbias: dtype f16 must be f32"));
  const Tensor line = device_tensor({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, DType::bf16);
  conv_backward_bias(stream(), line, db);
  CHECK(host_values(db) == std::vector<float>{18, 26, 34});
  CHECK_THAT(call(dy, dy.as_strided({3}, {1})), contains("dbias: shares memory with dy"));
}
