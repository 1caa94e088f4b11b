// The winograd engine. F(2, 3) computes small integers exactly: its matrices hold 0, 1, -1 and halves, so all
// numbers are multiples of 1/4 and far below 2^22. Other forms: test_conv_winograd_error.cpp.
#include "cases/conv_winograd.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

void check_exact(const ConvCase& c, const std::string& name, int64_t first = 5) {
  if (!is_selected(c.text())) return;
  INFO(name << ", " << again(c.text()));
  const ConvData data = integer_conv_data(c);
  const ConvResults got = run_conv(c, data, engine(name), first);
  CHECK(got.intact);
  CHECK(got.repeats);
  CHECK(got.y == rounded_to(c.dtype, conv_forward_reference(c, data.x, data.w)));
  CHECK(got.dx == rounded_to(c.dtype, conv_backward_data_reference(c, data.y, data.w)));
  CHECK(got.dw == rounded_to(c.dtype, conv_backward_filter_reference(c, data.x, data.y)));
}

/// The kernels for CPUs and the others run on every device.
constexpr const char* kPlain[] = {"winograd:m=2,cpu=1", "winograd:m=2,cpu=0"};

}  // namespace

TEST_CASE("winograd: F(2, 3) is exact on integers", "[conv]") {
  for (const ConvCase& c : winograd_convs())
    for (const char* name : kPlain) check_exact(c, name);
}

// Little enough for a simulated device.
TEST_CASE("winograd: a few tiles are exact", "[conv][small]") {
  for (Layout layout : {Layout::nchw, Layout::nhwc})
    for (const char* name : kPlain)
      check_exact(ConvCase{"few", 1, 3, {5, 6}, 2, {3, 3}, {{}, {1}, {1}}}.in(layout), name);
  check_exact(ConvCase{"pairs", 2, 6, {5, 6}, 4, {3, 3}, {{}, {1}, {1}}}.in(Layout::nhwc),
              "winograd:m=2,cpu=0,parts=2", 8);
}

TEST_CASE("winograd: pairs of channels are exact", "[conv]") {
  for (ConvCase c : winograd_convs()) {
    c.c += c.c % 2, c.k += c.k % 2;
    check_exact(c.in(Layout::nhwc), "winograd:m=2,cpu=0", 8);
  }
  ConvCase mixed{"odd filters", 3, 130, {9, 7}, 5, {3, 3}, {{}, {1}, {1}}};
  check_exact(mixed.in(Layout::nhwc), "winograd:m=2,cpu=0", 8);
}

TEST_CASE("winograd: sums of backward filter in parts are exact", "[conv]") {
  const ConvCase c{"parts", 6, 8, {9, 11}, 6, {3, 3}, {{}, {1}, {1}}};  // 30 rows of tiles
  for (Layout layout : {Layout::nchw, Layout::nhwc})
    for (const char* name : {"winograd:m=2,cpu=0,parts=2", "winograd:m=2,cpu=0,parts=3,rows=13",
                             "winograd:m=2,cpu=0,parts=15", "winograd:m=2,cpu=0,parts=30"})
      check_exact(c.in(layout), name, 8);
  const ConvDesc desc{{c.x_shape()}, {c.w_shape()}, {c.y_shape()}, c.params};
  const auto plan = [&] {
    ConvBackwardFilter(context(), backward_filter_of(desc), engine("winograd:m=2,cpu=0,parts=7"));
  };
  CHECK_THAT(error_of<ValidationError>(plan), contains("7 parts are not for 30 rows of tiles"));
}

TEST_CASE("winograd: exact in other layouts, mixed ones and 16-bit dtypes", "[.forms]") {
  struct Way {
    Layout x, y, w;
    DType dtype;
  };
  constexpr Layout kFlat = Layout::nchw, kLast = Layout::nhwc, kGaps = Layout::gaps;
  size_t turn = 0;  // 13 cases: each way has each case by one of the forms
  for (const Way& way : {Way{kLast, kLast, kFlat, DType::f32}, Way{kLast, kLast, kLast, DType::f16},
                         Way{kFlat, kLast, kGaps, DType::bf16}, Way{kLast, kFlat, kLast, DType::f32},
                         Way{kGaps, kGaps, kGaps, DType::f32}, Way{kFlat, kFlat, kFlat, DType::f16}})
    for (ConvCase c : winograd_convs()) {
      c.x_layout = way.x, c.y_layout = way.y, c.w_layout = way.w, c.dtype = way.dtype;
      check_exact(c, kPlain[turn++ % 2]);
    }
}

namespace {

/// The fused kernel is exact as the others of two results are; it has no backward filter direction.
void check_fused(const ConvCase& c, const std::string& name) {
  if (!is_selected(c.text())) return;
  INFO(name << ", " << again(c.text()));
  const ConvData data = integer_conv_data(c);
  const Tensor x = strided_operand(c.x_layout, c.x_shape(), data.x, c.dtype),
               w = strided_operand(c.w_layout, c.w_shape(), data.w, c.dtype),
               dy = strided_operand(c.y_layout, c.y_shape(), data.y, c.dtype);
  const Guarded y(c.y_shape(), strides_in(c.y_layout, c.y_shape()), c.dtype, 37),
      dx(c.x_shape(), strides_in(c.x_layout, c.x_shape()), c.dtype, 37);
  for (int i = 0; i < 2; i++) {
    conv(stream(), x, w, {}, c.params, y.tensor(), engine(name));
    conv_backward_data(stream(), dy, w, c.params, dx.tensor(), engine(name));
    CHECK(host_values(y.tensor()) == rounded_to(c.dtype, conv_forward_reference(c, data.x, data.w)));
    CHECK(host_values(dx.tensor()) == rounded_to(c.dtype, conv_backward_data_reference(c, data.y, data.w)));
  }
  CHECK(y.intact());
  CHECK(dx.intact());
}

}  // namespace

// A compiler for CPUs takes a while for its groups of 256.
TEST_CASE("winograd: the fused kernel is exact on integers", "[.forms]") {
  for (ConvCase c : winograd_convs()) {
    if (c.window != Dims{3, 3}) continue;
    check_fused(c, "winograd_fused");
    check_fused(c.in(Layout::nhwc), "winograd_fused:channels=4");
  }
  for (ConvCase c : {ConvCase{"many filters", 1, 19, {7, 9}, 140, {3, 3}, {{}, {1}, {1}}},
                     ConvCase{"many tiles", 3, 9, {13, 15}, 35, {3, 3}, {{}, {0}, {2}}}}) {
    check_fused(c, "winograd_fused:filters=32");
    c.x_layout = Layout::nhwc, c.w_layout = Layout::gaps, c.dtype = DType::f16;
    check_fused(c, "winograd_fused:channels=2");
    c.x_layout = Layout::gaps, c.y_layout = Layout::nhwc, c.dtype = DType::bf16;
    check_fused(c, "winograd_fused:filters=64,channels=4");  // what 48 KiB of local memory hold
  }
}

TEST_CASE("winograd: exact in chunks, and with as little workspace as one row of tiles needs", "[conv]") {
  const ConvCase c{"chunks", 3, 6, {11, 13}, 20, {3, 3}, {{}, {1}, {1}}};
  for (const char* name : {"winograd:m=2,cpu=1,rows=4", "winograd:m=2,cpu=0,rows=5", "winograd:m=2,rows=1"})
    check_exact(c, name);
  const ConvData data = integer_conv_data(c);
  Options options = engine("winograd:m=2");
  options.workspace_limit = 1;
  const ConvDesc desc{{c.x_shape()}, {c.w_shape()}, {c.y_shape()}, c.params};
  const std::string text = error_of<ValidationError>([&] { Conv(context(), desc, options); });
  CHECK_THAT(text, contains("winograd: needs ") && contains(" bytes of workspace, the limit is "));
  const size_t at = text.find("winograd: needs ") + 16;
  // Rounding of the parts, and GEMM's own wishes, come on top.
  options.workspace_limit = static_cast<size_t>(std::stoll(text.substr(at))) + 4096 + 65536;
  const ConvResults got = run_conv(c, data, options);
  CHECK(got.y == rounded_to(c.dtype, conv_forward_reference(c, data.x, data.w)));
  CHECK(Conv(context(), desc, options).workspace_size() <= options.workspace_limit);
}

namespace {

void check_extras(Layout layout, const std::string& name, int64_t filters = 21, int64_t first = 5) {
  INFO(name << " layout " << static_cast<int>(layout));
  ConvCase c = ConvCase{"extras", 2, 6, {9, 21}, filters, {3, 3}, {{}, {1}, {1}}}.in(layout);
  c.params.activation = Activation::relu;
  const ConvData data = integer_conv_data(c);
  Rng rng(3);
  const ConvEpilogueData with{integers(c.k, rng, 9), integers(c.k, rng, 3),
                              integers(element_count(c.y_shape()), rng, 9)};
  const Tensor x = strided_operand(layout, c.x_shape(), data.x, c.dtype, first),
               w = device_tensor(c.w_shape(), data.w);
  ConvExtras extras;
  extras.bias = device_tensor({c.k}, with.bias), extras.scale = device_tensor({c.k}, with.scale);
  extras.residual = strided_operand(layout, c.y_shape(), with.residual, c.dtype, first);
  const Guarded y(c.y_shape(), strides_in(layout, c.y_shape()), c.dtype, first + 32),
      before(c.y_shape(), strides_in(layout, c.y_shape()), c.dtype, first + 32);
  extras.residual = extras.residual.as_strided(c.y_shape(), y.tensor().strides());
  extras.preactivation = before.tensor();
  conv(stream(), x, w, extras, c.params, y.tensor(), engine(name));
  CHECK(host_values(y.tensor()) == rounded_to(c.dtype, conv_forward_reference(c, data.x, data.w, with)));
  c.params.activation = Activation::identity;
  CHECK(host_values(before.tensor()) == rounded_to(c.dtype, conv_forward_reference(c, data.x, data.w, with)));
  CHECK(y.intact());
  CHECK(before.intact());
}

}  // namespace

TEST_CASE("winograd: every extra of the forward direction, exactly", "[conv]") {
  for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::gaps})
    for (const char* name : kPlain) check_extras(layout, name);
  check_extras(Layout::nhwc, "winograd:m=2,cpu=0", 22, 8);  // in pairs of channels
}

TEST_CASE("winograd: a few tiles are exact in the fused kernel", "[.small]") {
  check_fused({"few", 1, 3, {5, 6}, 2, {3, 3}, {{}, {1}, {1}}}, "winograd_fused:channels=2");
}

TEST_CASE("winograd: every extra in the fused kernel, exactly", "[.forms]") {
  for (Layout layout : {Layout::nchw, Layout::nhwc}) check_extras(layout, "winograd_fused");
}

TEST_CASE("winograd: constant weights are transformed once, until they are forgotten", "[conv]") {
  const ConvCase c{"constant", 2, 6, {9, 21}, 21, {3, 3}, {{}, {1}, {1}}};
  for (const char* name : kPlain) {
    INFO(name);
    const ConvData first = integer_conv_data(c), second = integer_conv_data(c, 5);
    const Tensor x = device_tensor(c.x_shape(), first.x), w = device_tensor(c.w_shape(), first.w);
    const Guarded y(c.y_shape());
    ConvDesc desc{x, w, y.tensor(), c.params};
    desc.constant_w = true;
    const Conv plan(context(), desc, engine(name));
    const auto run = [&] {
      plan.run(stream(), x, w, {}, y.tensor());
      return host_values(y.tensor());
    };
    const std::vector<float> expected = rounded_to(c.dtype, conv_forward_reference(c, first.x, first.w));
    CHECK(run() == expected);
    copy(stream(), device_tensor(c.w_shape(), second.w), w);
    CHECK(run() == expected);
    plan.forget_constants();
    CHECK(run() == rounded_to(c.dtype, conv_forward_reference(c, first.x, second.w)));
  }
}

TEST_CASE("winograd: what it refuses", "[conv][small]") {
  const auto refusal = [](const ConvCase& c, const char* name, MathMode math) {
    Options options = engine(name);
    options.math = math;
    const ConvDesc desc{{c.x_shape(), c.dtype}, {c.w_shape(), c.dtype}, {c.y_shape(), c.dtype}, c.params};
    return error_of<ValidationError>([&] { Conv(context(), desc, options); });
  };
  const ConvCase c{"refused", 1, 4, {9, 9}, 4, {3, 3}};
  const auto with = [&](auto change) {
    ConvCase other = c;
    change(other);
    return refusal(other, "winograd", MathMode::standard);
  };
  CHECK_THAT(with([](ConvCase& o) { o.params.stride = {2, 1}; }), contains("stride along H is 2, not 1"));
  CHECK_THAT(with([](ConvCase& o) { o.params.dilation = {1, 2}; }), contains("dilation along W is 2, not 1"));
  CHECK_THAT(with([](ConvCase& o) { o.params.groups = 2; }), contains("is for one group, there are 2"));
  CHECK_THAT(with([](ConvCase& o) { o.window = {2, 3}; }), contains("2 taps along H"));
  CHECK_THAT(with([](ConvCase& o) { o.window = {1, 1}; }), contains("window of one tap"));
  ConvCase large = c;
  large.window = {5, 5};
  CHECK_THAT(refusal(large, "winograd:m=4", MathMode::standard), contains("8 products along H exceed 6"));
  CHECK_THAT(refusal(large, "winograd_fused", MathMode::standard), contains("3x3 windows, not 5x5"));
  CHECK_THAT(refusal(c, "winograd_fused:filters=48", MathMode::standard), contains("tiles of 48 filters"));
  CHECK_THAT(with([](ConvCase& o) { o.n = 0; }), contains("nothing to multiply"));
  CHECK_THAT(with([](ConvCase& o) {
               o.size = {3, 9, 9}, o.window = {1, 3, 3};
             }),
             contains("three dimensions"));
  CHECK_THAT(refusal(c, "winograd:m=3", MathMode::standard), contains("tiles of 3, must be 2 or 4"));
  CHECK_THAT(refusal(c, "winograd:m=4", MathMode::strict), contains("math is strict"));
  for (const char* name : {"winograd", "winograd_fused"})
    CHECK_THAT(refusal(c, name, MathMode::strict), contains("sums of 4 products err more"));
  ConvCase row = c;
  row.c = 16;
  for (const char* name : {"winograd", "winograd_fused"})
    CHECK(refusal(row, name, MathMode::strict) == "(nothing was thrown)");
  row.window = {1, 3};
  CHECK(refusal(row, "winograd:m=2", MathMode::strict) == "(nothing was thrown)");
  Options strict = engine("winograd:m=2");
  strict.math = MathMode::strict;
  const auto filter_refusal = [&](const ConvCase& of) {
    const ConvDesc desc{{of.x_shape()}, {of.w_shape()}, {of.y_shape()}, of.params};
    return error_of<ValidationError>(
        [&] { ConvBackwardFilter(context(), backward_filter_of(desc), strict); });
  };
  CHECK_THAT(filter_refusal(row), contains("tiles of one axis err more"));
  CHECK_THAT(filter_refusal(c), contains("sums of 16 products err more than multiply-adds, must be of 64"));
  CHECK(filter_refusal(c.with_batch(4)) == "(nothing was thrown)");
}

// Elsewhere, with other math, the engine alone could choose others.
TEST_CASE("winograd: what was chosen is asked for with its tiles", "[conv]") {
  const ConvDesc desc{{{8, 64, 56, 56}}, {{64, 64, 3, 3}}, {{8, 64, 56, 56}}, {{1}, {1}, {1}}};
  const Conv plan(context(), desc);
  if (context().device().kind() == DeviceKind::cpu) CHECK(plan.engine() == "winograd");
  if (plan.engine() == "winograd") CHECK_THAT(plan.request(), contains("winograd:m="));
}
