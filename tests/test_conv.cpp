// Convolution: every engine by name against the references, bit for bit, in all three directions.
#include "cases/conv.hpp"

#include <cstdlib>
#include <iterator>
#include <utility>

#include <dlprim/copy.hpp>

#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Whether the engine serves here, asked for by name. Only devices and sizes may refuse, never shapes.
template <class P>
bool serves(const ConvDesc& desc, const Options& options) {
  const std::string refusal = conv_refusal<P>(desc, options);
  if (!refusal.empty()) CHECK_THAT(refusal, contains(options.engine + " refused:"));
  return refusal.empty();
}

/// A view in the layout that holds `values`; it does not start at the memory's first element.
Tensor operand(const ConvCase& c, Layout layout, const Shape& shape, const std::vector<float>& values) {
  const Guarded room(shape, strides_in(layout, shape), c.dtype, c.operand_offset());
  copy(stream(), device_tensor(shape, values), room.tensor());
  return room.tensor();
}

/// As the dtype holds them.
std::vector<float> rounded(const std::vector<double>& values, DType dtype) {
  const std::vector<float> floats(values.begin(), values.end());
  if (dtype == DType::f32) return floats;
  return host_values(device_tensor({static_cast<int64_t>(floats.size())}, floats, dtype));
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
  std::vector<double> y, dx, dw;  // what must come out; y without bias
};

Data exact_data(const ConvCase& c, uint64_t seed = 1) {
  Rng rng(seed);
  return {integers(element_count(c.x_shape()), rng, 3),
          integers(element_count(c.w_shape()), rng, 3),
          integers(element_count(c.y_shape()), rng, 3),
          integers(c.k, rng, 9),
          {},
          {},
          {}};
}

/// With the references, once for all engines: they take longer than a kernel.
Data referenced_data(const ConvCase& c, uint64_t seed = 1) {
  Data data = exact_data(c, seed);
  if (!is_selected(c.text())) return data;
  data.y = conv_forward_reference(c, data.x, data.w);
  data.dx = conv_backward_data_reference(c, data.dy, data.w);
  data.dw = conv_backward_filter_reference(c, data.x, data.dy);
  return data;
}

std::vector<double> with_bias(const ConvCase& c, std::vector<double> y, const std::vector<float>& bias) {
  const auto planes = static_cast<size_t>(c.n * c.k), plane = y.size() / std::max<size_t>(planes, 1);
  for (size_t i = 0; i < y.size(); i++) y[i] += bias[i / plane % bias.size()];
  return y;
}

Guarded output(const ConvCase& c, Layout layout, const Shape& shape, DType dtype) {
  return Guarded(shape, strides_in(layout, shape), dtype, c.result_offset());
}

/// Runs `run(output)` twice on poisoned, guarded outputs and compares with the reference and with itself.
template <class Run>
void check_output(const ConvCase& c, Layout layout, const Shape& shape, DType dtype,
                  const std::vector<double>& expected, const Run& run) {
  const Guarded first = output(c, layout, shape, dtype);
  run(first.tensor());
  CHECK(same(host_values(first.tensor()), rounded(expected, dtype)));
  CHECK(first.intact());
  const Guarded again = output(c, layout, shape, dtype);
  run(again.tensor());
  CHECK(host_bytes(first.tensor()) == host_bytes(again.tensor()));
}

struct Operands {
  Tensor x, w, dy, bias;
};

Operands operands(const ConvCase& c, const Data& data) {
  return {operand(c, c.x_layout, c.x_shape(), data.x), operand(c, c.w_layout, c.w_shape(), data.w),
          operand(c, c.y_layout, c.y_shape(), data.dy), device_tensor({c.k}, data.bias, c.dtype)};
}

/// A description of the result as the tests make it; f16 and bf16 may give f32.
TensorDesc result(const ConvCase& c, Layout layout, const Shape& shape, DType dtype) {
  return {shape, strides_in(layout, shape), dtype, c.aligned};
}

void check_forward(const ConvCase& c, const Data& data, const Options& options, bool bias, DType to) {
  if (!is_selected(c.text())) return;
  const Operands t = operands(c, data);
  ConvDesc desc{t.x, t.w, result(c, c.y_layout, c.y_shape(), to), c.params};
  desc.bias = bias;
  if (!serves<Conv>(desc, options)) return;
  INFO("forward by " << options.engine << (bias ? " with bias, to " : ", to ") << name_of(to) << ", "
                     << again(c.text()));
  const Tensor b = bias ? cast(stream(), t.bias, to) : Tensor();
  check_output(c, c.y_layout, c.y_shape(), to, bias ? with_bias(c, data.y, data.bias) : data.y,
               [&](const Tensor& y) { conv(stream(), t.x, t.w, b, c.params, y, options); });
}

void check_backward(const ConvCase& c, const Data& data, const Options& options, DType to) {
  if (!is_selected(c.text())) return;
  const Operands t = operands(c, data);
  INFO("by " << options.engine << " to " << name_of(to) << ", " << again(c.text()));
  if (serves<ConvBackwardData>({result(c, c.x_layout, c.x_shape(), to), t.w, t.dy, c.params}, options)) {
    INFO("backward data");
    check_output(c, c.x_layout, c.x_shape(), to, data.dx,
                 [&](const Tensor& dx) { conv_backward_data(stream(), t.dy, t.w, c.params, dx, options); });
  }
  if (serves<ConvBackwardFilter>({t.x, result(c, c.w_layout, c.w_shape(), to), t.dy, c.params}, options)) {
    INFO("backward filter");
    check_output(c, c.w_layout, c.w_shape(), to, data.dw,
                 [&](const Tensor& dw) { conv_backward_filter(stream(), t.x, t.dy, c.params, dw, options); });
  }
}

void check_all(const ConvCase& c, DType to) {
  const Data data = referenced_data(c);
  for (const std::string& name : exact_conv_engines()) {
    check_forward(c, data, engine(name), true, to);
    check_backward(c, data, engine(name), to);
  }
}
void check_all(const ConvCase& c) {
  check_all(c, c.dtype);
}

void check_in(Layout layout, const ConvCase& c) {
  ConvCase other = c.in(layout);
  other.w_layout = layout;
  other.aligned = layout == Layout::nhwc;
  check_all(other);
}

/// By the engines that are made for such.
void check_depthwise(const ConvCase& c, DType to) {
  const Data data = referenced_data(c);
  for (const char* name : {"depthwise", "depthwise_cpu", "depthwise_cpu_last"}) {
    check_forward(c, data, engine(name), true, to);
    check_backward(c, data, engine(name), to);
  }
}

/// `strict`: Winograd's tiles of four results round.
Options chosen() {
  Options options;
  options.math = MathMode::strict;
  return options;
}

void check_chosen(const ConvCase& c) {
  const Data data = referenced_data(c);
  check_forward(c, data, chosen(), true, c.dtype);
  check_backward(c, data, chosen(), c.dtype);
}

bool on_cpu() {
  return context().device().kind() == DeviceKind::cpu;
}

bool has(DType dtype) {
  return dtype != DType::f64 || has_doubles();
}

}  // namespace

TEST_CASE("conv: odd cases are exact", "[.forms]") {
  size_t number = 0;
  for (const ConvCase& c : odd_convs()) {
    if (!test::in_share(test::kShareOfForms, number++)) continue;
    check_all(c);
    check_forward(c, referenced_data(c, 2), chosen(), false, c.dtype);
  }
}

// As compilers optimise them, and on a simulated device, where all of them take minutes.
TEST_CASE("conv: every third odd case is exact", "[conv][small]") {
  for (size_t i = 0; i < odd_convs().size(); i += 3)
    if (test::in_share(test::kShareOfShapes, i / 3)) check_all(odd_convs()[i]);
}

// On GPUs small problems are computed so; their sums are those of three or fewer parts of the taps.
TEST_CASE("conv: odd cases in parts are exact", "[conv]") {
  const Options parts = engine("fma:tm=32,tn=32,tk=8,rm=4,rn=4,parts=3");
  for (const ConvCase& c : odd_convs()) {
    const Data data = referenced_data(c);
    check_forward(c, data, parts, true, c.dtype);
    check_backward(c, data, parts, c.dtype);
  }
}

// Compilers for CPUs take most of the time: there each case is either in one of the layouts or of one of the
// dtypes.
TEST_CASE("conv: odd cases in other layouts are exact", "[.forms]") {
  size_t turn = 0;
  for (const ConvCase& c : odd_convs()) {
    const bool last = turn % 4 == 0, gaps = turn % 4 == 2;
    if (!test::in_share(test::kShareOfForms, turn++)) continue;
    if (last || !on_cpu()) check_in(Layout::nhwc, c);
    if (gaps || !on_cpu()) check_in(Layout::gaps, c);
  }
}

TEST_CASE("conv: channels that are a part of more are exact", "[conv]") {
  const ConvCase cases[] = {{"part_3x3", 2, 16, {9, 8}, 24, {3, 3}, {{1}, {1}, {1}}},
                            {"part_3x3_strided", 1, 32, {9, 8}, 16, {3, 3}, {{2}, {1}, {1}}},
                            {"part_1x1", 2, 32, {7, 5}, 48, {1, 1}},
                            {"part_first", 1, 3, {12, 19}, 20, {3, 3}, {{2}, {1}, {1}}},
                            {"part_depthwise", 2, 24, {8, 9}, 24, {3, 3}, {{1}, {1}, {1}, {1}, 24}}};
  constexpr std::pair<Layout, Layout> kLayouts[] = {
      {Layout::part, Layout::part}, {Layout::nhwc, Layout::part}, {Layout::part, Layout::nhwc}};
  size_t turn = 0;
  for (ConvCase c : cases)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      // Compilers for CPUs take most of the time: there three cases run, each in one way.
      const size_t ways = !on_cpu() ? std::size(kLayouts) : turn % 4 == 0 ? 1 : 0;
      for (size_t way = 0; way < ways; way++) {
        const auto [x, y] = kLayouts[(turn + way) % std::size(kLayouts)];
        c.x_layout = x, c.y_layout = y, c.dtype = dtype, c.aligned = true;
        check_all(c);
      }
      turn++;
    }
}

TEST_CASE("conv: odd cases in other dtypes are exact", "[.forms]") {
  // Addresses do not depend on the dtype: each case takes turns.
  constexpr std::pair<DType, DType> kDTypes[] = {{DType::f16, DType::f16},
                                                 {DType::bf16, DType::f32},
                                                 {DType::f64, DType::f64},
                                                 {DType::f16, DType::f32},
                                                 {DType::bf16, DType::bf16}};
  size_t turn = 0;
  for (ConvCase c : odd_convs()) {
    const auto [from, to] = kDTypes[turn++ % std::size(kDTypes)];
    c.dtype = from;
    c.aligned = turn / 2 % 2 == 0;
    const bool in_a_layout = turn % 2 == 1;  // see above
    if (test::in_share(test::kShareOfForms, turn) && has(from) && !(on_cpu() && in_a_layout))
      check_all(c, to);
  }
}

TEST_CASE("conv: depthwise cases are exact", "[conv]") {
  for (const ConvCase& c : depthwise_convs()) check_depthwise(c, c.dtype);
}

// Each case in one of these ways: compilers take longer than all else here.
TEST_CASE("conv: depthwise cases in other layouts and dtypes are exact", "[.forms]") {
  struct Way {
    Layout x, y, w;
    DType dtype, to;
  };
  constexpr Layout kFlat = Layout::nchw, kLast = Layout::nhwc, kGaps = Layout::gaps;
  const Way ways[] = {
      {kLast, kLast, kFlat, DType::f32, DType::f32},  {kGaps, kGaps, kGaps, DType::f32, DType::f32},
      {kLast, kLast, kLast, DType::f16, DType::f16},  {kFlat, kFlat, kFlat, DType::bf16, DType::f32},
      {kLast, kFlat, kFlat, DType::f32, DType::f32},  {kLast, kLast, kFlat, DType::bf16, DType::f32},
      {kFlat, kLast, kGaps, DType::f16, DType::f32},  {kLast, kLast, kFlat, DType::f64, DType::f64},
      {kFlat, kFlat, kFlat, DType::f16, DType::f16},  {kFlat, kFlat, kFlat, DType::f64, DType::f64},
      {kFlat, kFlat, kFlat, DType::bf16, DType::bf16}};
  size_t number = 0;
  for (ConvCase c : depthwise_convs()) {
    const Way& way = ways[number++ % std::size(ways)];
    if (!test::in_share(test::kShareOfForms, number) || !has(way.dtype)) continue;
    c.x_layout = way.x, c.y_layout = way.y, c.w_layout = way.w, c.dtype = way.dtype;
    c.aligned = way.x == kLast;
    check_depthwise(c, way.to);
  }
}

// Every layout and dtype takes minutes.
TEST_CASE("conv: depthwise cases in all layouts and dtypes are exact", "[.many]") {
  for (const ConvCase& each : depthwise_convs())
    for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::gaps})
      for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        if (!has(dtype)) continue;
        ConvCase c = each.in(layout);
        c.w_layout = layout == Layout::gaps ? layout : Layout::nchw;
        c.dtype = dtype;
        c.aligned = layout == Layout::nhwc;
        check_depthwise(c, dtype);
        if (size_of(dtype) == 2) check_depthwise(c, DType::f32);
      }
}

TEST_CASE("conv: random cases are exact", "[.forms]") {
  size_t number = 0;
  for (const ConvCase& c : random_convs(on_cpu() ? 24 : 80, 2024))
    if (test::in_share(test::kShareOfForms, number++)) check_all(c);
}

TEST_CASE("conv: cases of many tiles are exact", "[.forms]") {
  for (const ConvCase& c : tiled_convs()) check_all(c);
}

TEST_CASE("conv: random cases by the engine chosen are exact", "[conv]") {
  for (const ConvCase& c : random_convs(6, 7)) check_chosen(c);
}

// DLPRIM_TEST_CONVS: how many. 2000 take minutes. DLPRIM_TEST_SEED: others, for several programs side by
// side.
TEST_CASE("conv: many random cases are exact", "[.many]") {
  const int count = static_cast<int>(setting("DLPRIM_TEST_CONVS", 2000));
  for (const ConvCase& c : random_convs(count, static_cast<uint64_t>(setting("DLPRIM_TEST_SEED", 5))))
    check_chosen(c);
}

TEST_CASE("conv: network layers are exact at batch 2", "[conv]") {
  for (const std::vector<ConvCase>* layers : {&demo_convs(), &network_convs()})
    for (const ConvCase& layer : *layers) check_chosen(layer.with_batch(2));
}

// Full size, as the benchmarks time them: the references would take minutes, so the engines are compared with
// each other.
TEST_CASE("conv: network layers are exact at full batch", "[.large]") {
  struct Way {
    Layout layout;
    DType dtype;
    MathMode math;
  };
  constexpr Way kWays[] = {{Layout::nchw, DType::f32, MathMode::strict},
                           {Layout::nhwc, DType::f32, MathMode::tf32},
                           {Layout::nhwc, DType::bf16, MathMode::strict}};
  for (ConvCase c : network_convs())
    for (const Way& way : kWays) {
      c.x_layout = c.y_layout = c.w_layout = way.layout;
      c.dtype = way.dtype, c.aligned = true;
      if (!is_selected(c.text())) continue;
      INFO(again(c.text()));
      const Operands t = operands(c, exact_data(c));
      const auto results = [&](Options options) {
        options.math = way.math;
        const Guarded y = output(c, c.y_layout, c.y_shape(), c.dtype),
                      dx = output(c, c.x_layout, c.x_shape(), c.dtype),
                      dw = output(c, c.w_layout, c.w_shape(), c.dtype);
        conv(stream(), t.x, t.w, {}, c.params, y.tensor(), options);
        conv_backward_data(stream(), t.dy, t.w, c.params, dx.tensor(), options);
        conv_backward_filter(stream(), t.x, t.dy, c.params, dw.tensor(), options);
        return std::vector<std::vector<float>>{host_values(y.tensor()), host_values(dx.tensor()),
                                               host_values(dw.tensor())};
      };
      const auto fast = results(chosen()), slow = results(engine("naive"));
      for (size_t i = 0; i < fast.size(); i++) CHECK(same(fast[i], slow[i]));
    }
}
