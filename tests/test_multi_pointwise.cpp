// Expressions over lists of tensors against plain loops.
#include <algorithm>
#include <cmath>

#include <dlprim/multi_pointwise.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Values = std::vector<float>;

const std::vector<Shape> kShapes = {{3, 5}, {1}, {0, 4}, {64, 3, 2, 2}, {}, {7}, {1, 4099}};
constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16, DType::f64};

/// A tensor of small whole numbers, which every dtype holds, for each shape.
struct Numbers {
  std::vector<Tensor> tensors;
  std::vector<Values> values;

  Numbers(const std::vector<Shape>& shapes, DType dtype, uint64_t seed, int64_t padding = 64) {
    Rng rng(seed);
    for (const Shape& shape : shapes) {
      values.push_back(integers(element_count(shape), rng));
      const Guarded memory(shape, dtype, padding);
      copy(stream(), device_tensor(shape, values.back()), memory.tensor());
      tensors.push_back(memory.tensor());
    }
  }
};

/// Tensors that hold poison, with canaries around them.
struct Results {
  std::vector<Guarded> memory;
  std::vector<Tensor> tensors;

  Results(const std::vector<Shape>& shapes, DType dtype, int64_t padding = 64) {
    for (const Shape& shape : shapes) {
      memory.emplace_back(shape, dtype, padding);
      tensors.push_back(memory.back().tensor());
    }
  }
  bool intact() const {
    return std::all_of(memory.begin(), memory.end(), [](const Guarded& g) { return g.intact(); });
  }
};

Tensor number(float value, DType dtype = DType::f32) {
  return device_tensor({1}, {value}, dtype);
}

/// One for each place: 0, 1, 2, 0, ...
std::vector<Tensor> counts(size_t places, DType dtype) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < places; i++) result.push_back(number(static_cast<float>(i % 3), dtype));
  return result;
}

std::vector<double> place_numbers(size_t places) {
  std::vector<double> result;
  for (size_t i = 0; i < places; i++) result.push_back(static_cast<double>(i % 5) - 1);
  return result;
}

struct Dtypes {
  DType changed, input, single, number, output;
};

/// An expression with all that there may be, whose results are whole numbers up to 65.
void check_all_parts(const std::vector<Shape>& shapes, const Dtypes& d, int64_t padding = 64) {
  CAPTURE(name_of(d.changed), name_of(d.input), name_of(d.single), name_of(d.number), name_of(d.output),
          padding);
  const Numbers before(shapes, d.changed, 1), x(shapes, d.input, 2, padding);
  const Results changed(shapes, d.changed, padding), y(shapes, d.output, padding);
  for (size_t i = 0; i < shapes.size(); i++) copy(stream(), before.tensors[i], changed.tensors[i]);
  MultiPointwiseTensors t;
  t.changed = {changed.tensors};
  t.inputs = {x.tensors};
  t.singles = {counts(shapes.size(), d.single)};
  t.numbers = {number(2, d.number), number(5)};
  t.outputs = {y.tensors};
  const std::vector<double> own = place_numbers(shapes.size());
  multi_pointwise(stream(), t, {3, -1}, {own},
                  "real sum = x0 + x1 * x2; y0 = x3 * sum + s1; y1 = s0 * x1 - x0 + x4 * s2");
  size_t wrong = 0;
  for (size_t i = 0; i < shapes.size(); i++) {
    Values first = host_values(changed.tensors[i]), second = host_values(y.tensors[i]);
    for (size_t j = 0; j < first.size(); j++) {
      const float a = before.values[i][j], b = x.values[i][j];
      if (first[j] != 2 * (a + b * static_cast<float>(i % 3)) - 1) wrong++;
      if (second[j] != 3 * b - a + 5 * static_cast<float>(own[i])) wrong++;
    }
  }
  CHECK(wrong == 0);
  CHECK((changed.intact() && y.intact()));
}

/// y = x, of lists of dtypes that only the tensors say.
void copy_all(const std::vector<Tensor>& x, const std::vector<Tensor>& y) {
  MultiPointwiseTensors t;
  t.inputs = {x};
  t.outputs = {y};
  multi_pointwise(stream(), t, {}, {}, "y0 = x0");
}

}  // namespace

TEST_CASE("multi_pointwise: lists, singles, numbers and scalars, exact", "[small]") {
  for (int64_t padding : {64, 65}) {
    check_all_parts(kShapes, {DType::f32, DType::f32, DType::f32, DType::f32, DType::f32}, padding);
    check_all_parts(kShapes, {DType::f32, DType::bf16, DType::f16, DType::bf16, DType::f16}, padding);
  }
}

TEST_CASE("multi_pointwise: every mix of dtypes") {
  const bool doubles = has_doubles();
  size_t turn = 0;
  for (DType changed : kFloats)
    for (DType input : kFloats)
      for (DType output : kFloats) {
        const Dtypes d{changed, input, kFloats[turn % 4], kFloats[turn / 4 % 4], output};
        turn++;
        const auto all = {d.changed, d.input, d.single, d.number, d.output};
        if (!doubles && std::find(all.begin(), all.end(), DType::f64) != all.end()) continue;
        check_all_parts(kShapes, d, turn % 2 ? 64 : 65);
      }
}

TEST_CASE("multi_pointwise: 500 places, most in buffers of their own") {
  // Launches take some hundred places of at most 48 buffers; the long ones are several work-groups with
  // rests.
  std::vector<Shape> shapes;
  for (int64_t i = 0; i < 500; i++) shapes.push_back(i % 7 == 3 ? Shape{0} : Shape{i % 9 + 1, i % 4 + 1});
  shapes[1] = {2, 3500};
  shapes[40] = {4097};
  shapes[77] = {3, 40000};
  check_all_parts(shapes, {DType::f32, DType::f32, DType::f32, DType::f32, DType::f32});
  const auto wrapped = [](const Shape& shape, float value) {
    const auto bytes = std::max<size_t>(static_cast<size_t>(element_count(shape)) * sizeof(float), 4);
    const Tensor x = Tensor::wrap(context(), cl::Buffer(context().cl(), CL_MEM_READ_WRITE, bytes), shape);
    fill(stream(), value, x);
    return x;
  };
  MultiPointwiseTensors t;
  t.changed.resize(1), t.singles.resize(1);
  std::vector<std::vector<double>> own(2);
  for (size_t i = 0; i < shapes.size(); i++) {
    t.changed[0].push_back(wrapped(shapes[i], static_cast<float>(i)));
    t.singles[0].push_back(wrapped({1}, static_cast<float>(2 * i)));
    own[0].push_back(static_cast<double>(i) / 2);
    own[1].push_back(i % 2 ? 1 : -1);
  }
  multi_pointwise(stream(), t, {}, own, "y0 = s1 * (x0 + x1) + s0");
  for (size_t i = 0; i < shapes.size(); i++) {
    const auto n = static_cast<float>(i);
    const Values values = host_values(t.changed[0][i]);
    CHECK(values == Values(values.size(), (i % 2 ? 1 : -1) * 3 * n + n / 2));
  }
  // One list alone leaves room for most places a launch.
  const Numbers alone(shapes, DType::f32, 8);
  MultiPointwiseTensors one;
  one.changed = {alone.tensors};
  multi_pointwise(stream(), one, {7}, {}, "y0 = s0 - x0");
  for (size_t i = 0; i < shapes.size(); i++) {
    Values expected = alone.values[i];
    for (float& v : expected) v = 7 - v;
    CHECK(host_values(alone.tensors[i]) == expected);
  }
}

TEST_CASE("multi_pointwise: results are rounded as casts are, doubles keep their digits", "[small]") {
  const Tensor x = device_tensor({1001}, [] {
    Rng rng(3);
    return reals(1001, rng, -100, 100);
  }());
  for (DType dtype : {DType::f16, DType::bf16}) {
    const Guarded y({1001}, dtype), expected({1001}, dtype);
    copy_all({x}, {y.tensor()});
    copy(stream(), x, expected.tensor());
    CHECK(same_bits(y, expected));
  }
  if (!has_doubles()) return;
  const Guarded y({5}, DType::f64);
  MultiPointwiseTensors t;
  t.singles = {{number(3)}};
  t.outputs = {{y.tensor()}};
  multi_pointwise(stream(), t, {0.1}, {{1e-9}}, "y0 = s0 + s1 / x0");
  CHECK(read<double>(stream(), y.tensor()) == std::vector<double>(5, 0.1 + 1e-9 / 3));
  CHECK(y.intact());
}

TEST_CASE("multi_pointwise: what is read at a place may be what is written there", "[small]") {
  const Numbers a(kShapes, DType::f32, 4), b(kShapes, DType::f32, 5);
  MultiPointwiseTensors t;
  t.changed = {a.tensors};
  t.inputs = {a.tensors, b.tensors, b.tensors};
  t.outputs = {b.tensors};
  multi_pointwise(stream(), t, {}, {}, "y0 = x0 * x1 - x2; y1 = x3 + x0");
  for (size_t i = 0; i < kShapes.size(); i++) {
    Values first = a.values[i], second = a.values[i];
    for (size_t j = 0; j < first.size(); j++) {
      first[j] = a.values[i][j] * a.values[i][j] - b.values[i][j];
      second[j] = b.values[i][j] + a.values[i][j];
    }
    CHECK(host_values(a.tensors[i]) == first);
    CHECK(host_values(b.tensors[i]) == second);
  }
}

TEST_CASE("multi_pointwise: neighbours in memory, other strides, nothing at all", "[small]") {
  Rng rng(6);
  const Values values = integers(60, rng);
  const Tensor x = device_tensor({60}, values);
  const Guarded y({60}), z({60});
  const auto parts = [](const Tensor& whole) {
    return std::vector<Tensor>{whole.slice(0, 0, 7), whole.slice(0, 7, 32), whole.slice(0, 32, 60)};
  };
  copy_all(parts(x), parts(y.tensor()));
  CHECK(host_values(y.tensor()) == values);
  MultiPointwiseTensors t;
  t.inputs = {parts(x)};
  t.outputs = {parts(z.tensor())};
  multi_pointwise(stream(), t, {}, {{1, 2, 3}}, "y0 = s0 * x0");
  Values expected = values;
  for (size_t i = 0; i < 60; i++) expected[i] *= i < 7 ? 1.0f : i < 32 ? 2.0f : 3.0f;
  CHECK(host_values(z.tensor()) == expected);
  CHECK((y.intact() && z.intact()));

  const Guarded last({2, 3, 4, 5}, {60, 1, 15, 3}, DType::f32);
  const Tensor image = Tensor(context(), {2, 4, 5, 3}).permute({0, 3, 1, 2});
  const Values pixels = integers(120, rng);
  write(stream(), image, pixels);
  copy_all({image}, {last.tensor()});
  CHECK(host_values(last.tensor()) == pixels);
  CHECK(last.intact());

  copy_all({}, {});
  copy_all({Tensor(context(), {0, 3})}, {Tensor(context(), {0, 3})});
}

TEST_CASE("multi_pointwise: functions are those of pointwise", "[small]") {
  const Tensor x = device_tensor({4}, {0.5f, 2, 3, 11});
  const Guarded y({4}), z({4});
  MultiPointwiseTensors t;
  t.inputs = {{x}};
  t.outputs = {{y.tensor()}, {z.tensor()}};
  multi_pointwise(stream(), t, {}, {}, "y0 = log_gamma(x0); y1 = sin(expm1(-x0))");
  std::vector<double> gammas, sines;
  for (float v : host_values(x)) {
    gammas.push_back(std::lgamma(static_cast<double>(v)));
    sines.push_back(std::sin(std::expm1(-static_cast<double>(v))));
  }
  CHECK(deviation(host_values(y.tensor()), gammas) < 8 * 0x1p-24);
  CHECK(deviation(host_values(z.tensor()), sines) < 8 * 0x1p-24);
}

TEST_CASE("multi_pointwise: one program for all shapes and places, the same bits each time", "[small]") {
  const Numbers a(kShapes, DType::f32, 7);
  const Results y(kShapes, DType::f32), again(kShapes, DType::f32);
  const auto root = [](const std::vector<Tensor>& x, const std::vector<Tensor>& result, double scalar) {
    MultiPointwiseTensors t;
    t.inputs = {x};
    t.outputs = {result};
    multi_pointwise(stream(), t, {scalar}, {}, "y0 = sqrt(fabs(x0)) * s0");
  };
  root(a.tensors, y.tensors, 0.3);
  const auto built = context().program_stats().built;
  root(a.tensors, again.tensors, 0.3);
  for (size_t i = 0; i < kShapes.size(); i++) {
    std::vector<double> expected;
    for (float v : a.values[i]) expected.push_back(0.3 * std::sqrt(std::fabs(static_cast<double>(v))));
    CHECK(deviation(host_values(y.tensors[i]), expected) < 4 * 0x1p-24);
    CHECK(same_bits(y.memory[i], again.memory[i]));
  }
  const Guarded other({9, 11});
  root({device_tensor({9, 11}, Values(99, 4))}, {other.tensor()}, 0.5);
  CHECK(host_values(other.tensor()) == Values(99, 1));
  CHECK(context().program_stats().built == built);
}

TEST_CASE("multi_pointwise: what does not fit is refused by name", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y(context(), {2, 3}), one = number(1);
  fill(stream(), 7, y);
  const auto said = [](const MultiPointwiseTensors& t, const char* body = "y0 = x0",
                       const std::vector<double>& scalars = {}) {
    return refusal([&] { multi_pointwise(stream(), t, scalars, {}, body); });
  };
  const auto copied = [&](const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
    MultiPointwiseTensors t;
    t.inputs = {from};
    t.outputs = {to};
    return said(t);
  };
  CHECK(said({}) == "outputs: nothing is written");
  CHECK(copied({x}, {y, y}) == "outputs[0]: 2 tensors, of inputs[0] there are 1");
  CHECK(copied({x}, {y.reshape({6})}) == "outputs[0][0]: shape [6] must be [2, 3]");
  CHECK(copied({x}, {Tensor(context(), {3, 2}).transpose(0, 1)}).find("outputs[0][0]: ") == 0);
  CHECK(copied({x.slice(1, 0, 2)}, {y.slice(1, 0, 2)}) == "inputs[0][0]: strides [3, 1] leave gaps");
  CHECK(copied({x, x}, {y, y}).find("outputs[0][") == 0);
  CHECK(copied({x, y}, {y, x}).find("shares memory with inputs[0][") != std::string::npos);
  CHECK(copied({x, {}}, {y, y}) == "inputs[0][1]: is not defined");
  CHECK(copied({x}, {Tensor(context(), {2, 3}, DType::i32)}) == "outputs[0]: dtype i32 is not floating");
  const Tensor row = device_tensor({9}, Values(9, 1));
  CHECK(copied({row.slice(0, 0, 6)}, {row.slice(0, 3, 9)}) ==
        "outputs[0][0]: shares memory with inputs[0][0]");
  CHECK(
      copied({row.slice(0, 0, 6), row.slice(0, 0, 6)}, {row.slice(0, 0, 6), device_tensor({6}, Values(6))}) ==
      "outputs[0][0]: shares memory with inputs[0][1]");
  CHECK(copied({x}, {x}) == "(nothing was thrown)");
  const Tensor half = device_tensor({5}, Values(5, 1), DType::f16);
  CHECK(copied({half}, {half.reinterpret(DType::bf16)}) == "outputs[0][0]: shares memory with inputs[0][0]");

  MultiPointwiseTensors t;
  t.changed = {{y}};
  t.singles = {{x}};
  CHECK(said(t) == "singles[0][0]: has 6 elements, must have one");
  t.singles = {{y.reshape({6}).slice(0, 2, 3)}};
  CHECK(said(t) == "changed[0][0]: shares memory with singles[0][0]");
  t.singles = {};
  t.numbers = {x};
  CHECK(said(t) == "numbers[0]: has 6 elements, must have one");
  t.numbers = {y.reshape({6}).slice(0, 0, 1)};
  CHECK(said(t) == "changed[0][0]: shares memory with numbers[0]");
  t.numbers = {};
  t.outputs = {{y}};
  CHECK(said(t, "y0 = x0; y1 = x0").find("shares memory with") != std::string::npos);
  t.outputs = {};
  t.inputs.assign(16, {x});
  CHECK(said(t) == "lists: 17 are more than 16");
  t.inputs.clear();
  CHECK(said(t, "y0 = x0", std::vector<double>(17)) == "scalars: 17 are more than 16");
  CHECK(said(t, "") == "body: the expression is empty");
  CHECK(refusal([&] {
          multi_pointwise(stream(), t, {}, {{1, 2}}, "y0 = s0");
        }) == "place_scalars[0]: 2 numbers for 1 places");

  MultiPointwiseDesc d;
  d.changed = {DType::f32};
  d.numbers = {DType::f32};
  d.scalars = 1;
  d.body = "y0 = x0";
  const MultiPointwise plan(context(), d);
  t.numbers = {one};
  CHECK(refusal([&] { plan.run(stream(), t, {}, {}); }) == "scalars: 0 of them, the plan has 1");
  CHECK(refusal([&] { plan.run(stream(), t, {1}, {{1}}); }) == "place_scalars: 1 of them, the plan has 0");
  t.numbers = {number(1, DType::f16)};
  CHECK(refusal([&] { plan.run(stream(), t, {1}, {}); }) == "numbers[0]: dtype f16 must be f32");
  t.numbers = {};
  CHECK(refusal([&] { plan.run(stream(), t, {1}, {}); }) == "numbers: 0 of them, the plan has 1");
  t.numbers = {one};
  t.changed = {};
  CHECK(refusal([&] { plan.run(stream(), t, {1}, {}); }) == "changed: 0 lists, the plan has 1");
  d.scalars = -1;
  CHECK(refusal([&] { MultiPointwise(context(), d); }) == "scalars: -1 must not be negative");
  CHECK(host_values(y) == Values(6, 7));
}
