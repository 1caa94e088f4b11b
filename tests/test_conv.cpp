// Convolution: every engine by name against the references, bit for bit, in all three directions.
#include "cases/conv.hpp"

#include <cmath>

#include <dlprim/activation.hpp>

#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

const char* const kEngines[] = {"cpu", "fma", "naive"};

/// The engine's name if it serves here, else an empty text. Only devices and sizes may refuse, never shapes.
template <class P>
bool serves(const ConvDesc& desc, const Options& options) {
  if (options.engine == "auto" || options.engine == "naive") return true;
  Options any = options;
  any.engine = "naive";
  const std::string text = P(context(), desc, any).explain();
  return text.find(options.engine + ": refused") == std::string::npos;
}

/// A view in the case's layout that holds `values`; it does not start at the memory's first element.
Tensor operand(Layout layout, const Shape& shape, const std::vector<float>& values) {
  const Guarded room(shape, strides_in(layout, shape), DType::f32, 5);
  write(stream(), room.tensor(), values);
  return room.tensor();
}

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// -0 equals 0: a sum of nothing and a sum of zeros may differ in sign.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++)
    if (!(a[i] == b[i])) return false;
  return true;
}

struct Data {
  std::vector<float> x, w, dy, bias;
};

Data exact_data(const ConvCase& c, uint64_t seed = 1) {
  Rng rng(seed);
  return {integers(element_count(c.x_shape()), rng, 3), integers(element_count(c.w_shape()), rng, 3),
          integers(element_count(c.y_shape()), rng, 3), integers(c.k, rng, 9)};
}

/// Runs `run(output)` twice on poisoned, guarded outputs and compares with the reference and with itself.
template <class Run>
void check_output(Layout layout, const Shape& shape, const std::vector<float>& expected, const Run& run) {
  const Guarded first(shape, strides_in(layout, shape), DType::f32, 37);
  run(first.tensor());
  CHECK(same(host_values(first.tensor()), expected));
  CHECK(first.intact());
  const Guarded again(shape, strides_in(layout, shape), DType::f32, 37);
  run(again.tensor());
  CHECK(host_bytes(first.tensor()) == host_bytes(again.tensor()));
}

void check_forward(const ConvCase& c, const Data& data, const Options& options, bool bias) {
  if (!is_selected(c.text())) return;
  const Tensor x = operand(c.layout, c.x_shape(), data.x), w = device_tensor(c.w_shape(), data.w);
  if (!serves<Conv2D>({x, w, c.y_shape(), c.params, bias}, options)) return;
  INFO("forward by " << options.engine << (bias ? " with bias, " : ", ") << again(c.text()));
  const auto expected =
      rounded(conv_forward_reference(c, data.x, data.w, bias ? data.bias : std::vector<float>()));
  const Tensor b = bias ? device_tensor({c.k}, data.bias) : Tensor();
  check_output(c.layout, c.y_shape(), expected,
               [&](const Tensor& y) { conv2d(stream(), x, w, b, c.params, y, options); });
}

void check_backward(const ConvCase& c, const Data& data, const Options& options) {
  if (!is_selected(c.text())) return;
  const Tensor x = operand(c.layout, c.x_shape(), data.x), w = device_tensor(c.w_shape(), data.w);
  const Tensor dy = operand(c.layout, c.y_shape(), data.dy);
  const ConvDesc desc{x, w, dy, c.params, false};
  if (serves<Conv2DBackwardData>(desc, options)) {
    INFO("backward data by " << options.engine << ", " << again(c.text()));
    check_output(c.layout, c.x_shape(), rounded(conv_backward_data_reference(c, data.dy, data.w)),
                 [&](const Tensor& dx) { conv2d_backward_data(stream(), dy, w, c.params, dx, options); });
  }
  if (serves<Conv2DBackwardFilter>(desc, options)) {
    INFO("backward filter by " << options.engine << ", " << again(c.text()));
    check_output(Layout::nchw, c.w_shape(), rounded(conv_backward_filter_reference(c, data.x, data.dy)),
                 [&](const Tensor& dw) { conv2d_backward_filter(stream(), x, dy, c.params, dw, options); });
  }
}

void check_all(const ConvCase& c) {
  const Data data = exact_data(c);
  for (const char* name : kEngines) {
    check_forward(c, data, engine(name), true);
    check_backward(c, data, engine(name));
  }
}

}  // namespace

TEST_CASE("conv: odd cases are exact", "[conv][small]") {
  for (const ConvCase& c : odd_convs()) {
    check_all(c);
    check_forward(c, exact_data(c, 2), engine("auto"), false);
  }
}

TEST_CASE("conv: odd cases in other layouts are exact", "[conv]") {
  for (ConvCase c : odd_convs())
    for (Layout layout : {Layout::nhwc, Layout::gaps}) {
      c.layout = layout;
      check_all(c);
    }
}

TEST_CASE("conv: random cases are exact", "[conv]") {
  for (const ConvCase& c : random_convs(150, 2024)) check_all(c);
}

TEST_CASE("conv: random cases by the engine chosen are exact", "[conv][small]") {
  for (const ConvCase& c : random_convs(6, 7)) {
    const Data data = exact_data(c);
    check_forward(c, data, engine("auto"), true);
    check_backward(c, data, engine("auto"));
  }
}

TEST_CASE("conv: cases of many tiles are exact", "[conv]") {
  for (const ConvCase& c : tiled_convs()) check_all(c);
}

TEST_CASE("conv: network layers are exact at batch 2", "[conv]") {
  for (const std::vector<ConvCase>* layers : {&demo_convs(), &network_convs()})
    for (const ConvCase& layer : *layers) {
      const ConvCase c = layer.with_batch(2);
      const Data data = exact_data(c);
      check_forward(c, data, engine("auto"), true);
      check_backward(c, data, engine("auto"));
    }
}

// Full size: the references would take minutes, so the engines are compared with each other.
TEST_CASE("conv: network layers are exact at full batch", "[.large]") {
  for (const ConvCase& c : network_convs()) {
    if (!is_selected(c.text())) continue;
    INFO(again(c.text()));
    const Data data = exact_data(c);
    const Tensor x = device_tensor(c.x_shape(), data.x), w = device_tensor(c.w_shape(), data.w);
    const Tensor dy = device_tensor(c.y_shape(), data.dy);
    const auto results = [&](const Options& options) {
      const Guarded y(c.y_shape()), dx(c.x_shape()), dw(c.w_shape());
      conv2d(stream(), x, w, {}, c.params, y.tensor(), options);
      conv2d_backward_data(stream(), dy, w, c.params, dx.tensor(), options);
      conv2d_backward_filter(stream(), x, dy, c.params, dw.tensor(), options);
      return std::vector<std::vector<float>>{host_values(y.tensor()), host_values(dx.tensor()),
                                             host_values(dw.tensor())};
    };
    const auto fast = results(engine("auto")), slow = results(engine("naive"));
    for (size_t i = 0; i < fast.size(); i++) CHECK(same(fast[i], slow[i]));
  }
}
