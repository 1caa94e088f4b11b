// Padding, both engines, against a loop that finds each element's source one by one.
#include <dlprim/pad.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

const char* name_of(PadMode mode) {
  const char* names[] = {"constant", "reflect", "replicate", "circular"};
  return names[static_cast<int>(mode)];
}

struct Case {
  Shape x;
  PadParams params;
  std::string text() const {
    return name_of(params.mode) + (" x=" + to_string(x)) + " begin=" + to_string(params.begin) +
           " end=" + to_string(params.end);
  }
};

/// The element along one axis that comes to place o, -1 if none: by walking.
int64_t source_of(PadMode mode, int64_t size, int64_t begin, int64_t end, int64_t o) {
  int64_t i = o - begin;
  if (mode == PadMode::constant) return i < 0 || i >= size ? -1 : i;
  if (mode == PadMode::replicate) return i < 0 ? 0 : i >= size ? size - 1 : i;
  if (mode == PadMode::reflect) {
    if (i < 0) i = -i;
    return i >= size ? size - 1 - (i - (size - 1)) : i;
  }
  const int64_t low = begin < 0 ? -begin : 0, high = end < 0 ? size + end : size;
  i = begin < 0 ? o + low : i;
  while (i < low) i += high - low;
  while (i >= high) i -= high - low;
  return i;
}

/// For every element of y, row-major, the element of x, or -1.
std::vector<int64_t> sources(const Case& c) {
  const Shape y = pad_output_shape(c.x, c.params);
  const Strides steps = contiguous_strides(c.x);
  std::vector<int64_t> result;
  for (int64_t flat = 0; flat < element_count(y); flat++) {
    int64_t rest = flat, at = 0;
    for (int axis = y.size() - 1; axis >= 0; axis--) {
      const int64_t i =
          source_of(c.params.mode, c.x[axis], c.params.begin[axis], c.params.end[axis], rest % y[axis]);
      rest /= y[axis];
      at = i < 0 || at < 0 ? -1 : at + i * steps[axis];
    }
    result.push_back(at);
  }
  return result;
}

void check(const Case& c, Placing placing, DType x_dtype, DType y_dtype, const char* name) {
  const std::string text = c.text() + " " + dlprim::name_of(x_dtype) + " " + dlprim::name_of(y_dtype) + " " +
                           dlprim::test::name_of(placing) + " engine=" + name;
  if (!is_selected(text)) return;
  INFO(again(text));
  const Shape shape = pad_output_shape(c.x, c.params);
  const std::vector<int64_t> from = sources(c);
  Rng rng(11);
  // Small integers, which every dtype holds, and sums of a few of them.
  const Tensor x = placed(placing, c.x, integers(element_count(c.x), rng), x_dtype);
  const Tensor dy = placed(placing, shape, integers(element_count(shape), rng), y_dtype);
  const Values x_values = values_of(x), dy_values = values_of(dy);
  Values y_expected(from.size(), 2.5), dx_expected(x_values.size(), 0.0);
  for (size_t i = 0; i < from.size(); i++) {
    if (from[i] < 0) continue;
    y_expected[i] = x_values[static_cast<size_t>(from[i])];
    dx_expected[static_cast<size_t>(from[i])] += dy_values[i];
  }
  const Guarded y(shape, strides_in(placing, shape), y_dtype, 37),
      dx(c.x, strides_in(placing, c.x), x_dtype, 37);
  pad(stream(), x, c.params, 2.5, y.tensor(), engine(name));
  CHECK(deviation(host_values(y.tensor()), y_expected) == 0);
  CHECK(y.intact());
  pad_backward(stream(), dy, c.params, dx.tensor(), engine(name));
  CHECK(deviation(host_values(dx.tensor()), dx_expected) == 0);
  CHECK(dx.intact());
  const std::vector<unsigned char> first = host_bytes(dx.tensor());
  pad_backward(stream(), dy, c.params, dx.tensor(), engine(name));
  CHECK(host_bytes(dx.tensor()) == first);
}

const std::vector<Case>& odd_cases() {
  constexpr PadMode kConstant = PadMode::constant, kReflect = PadMode::reflect,
                    kReplicate = PadMode::replicate, kCircular = PadMode::circular;
  static const std::vector<Case> cases = {
      {{1}, {{0}, {0}, kConstant}},
      {{7}, {{2}, {5}, kConstant}},
      {{2, 3, 5, 7}, {{0, 0, 1, 2}, {0, 0, 3, 0}, kConstant}},
      {{2, 3, 5, 7}, {{0, 0, -1, 2}, {0, 0, 3, -4}, kConstant}},
      {{2, 3, 5, 7}, {{1, 0, 0, 0}, {0, 2, 0, 0}, kConstant}},
      {{2, 3, 5, 7}, {{0, 0, 3, 0}, {0, 0, -1, 0}, kConstant}},
      {{2, 1, 3, 2, 2, 3, 1, 2}, {{1, 0, -1, 1, 0, 2, 1, 1}, {0, 2, 1, 0, 1, -1, 0, 2}, kConstant}},
      {{2, 3, 2, 3, 2, 3, 2, 3}, {{0, 0, 0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 1, 0, 0}, kReflect}},
      {{0, 3}, {{2, 0}, {1, 1}, kConstant}},
      {{4, 3}, {{-2, 0}, {-2, 1}, kConstant}},
      {{2, 3, 5, 7}, {{0, 0, 4, 2}, {0, 0, 3, 6}, kReflect}},
      {{2, 3, 5, 7}, {{0, 0, -2, 2}, {0, 0, 3, -3}, kReflect}},
      {{2, 3, 9}, {{0, 0, 8}, {0, 0, 0}, kReflect}},
      {{2, 3, 5, 7}, {{0, 0, 4, 9}, {0, 0, 3, 0}, kReplicate}},
      {{1, 2, 3, 4, 5}, {{0, 0, 1, -2, 3}, {0, 0, 4, 5, 1}, kReplicate}},
      {{2, 3, 1, 1}, {{0, 0, 2, 1}, {0, 0, 1, 1}, kReplicate}},
      {{2, 3, 5, 7}, {{0, 0, 5, 2}, {0, 0, 3, 7}, kCircular}},
      {{2, 3, 5, 7}, {{0, 0, -1, 2}, {0, 0, 3, -3}, kCircular}},
      {{1, 2, 3, 4, 5}, {{0, 0, 1, 2, 3}, {0, 0, 3, 1, 0}, kCircular}},
  };
  return cases;
}

}  // namespace

TEST_CASE("padding of odd shapes, both engines", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (const Case& c : odd_cases()) check(c, Placing::row_major, DType::f32, DType::f32, name);
}

TEST_CASE("padding in every form of memory", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (Placing placing : {Placing::channels_last, Placing::gaps})
      for (size_t i : {2u, 10u, 17u}) check(odd_cases()[i], placing, DType::f32, DType::f32, name);
}

TEST_CASE("padding of vectors of channels, and of many planes") {
  for (const char* name : {"cpu", "direct"}) {
    check({{2, 40, 5, 7}, {{0, 0, 1, 2}, {0, 0, 2, 1}, PadMode::reflect}}, Placing::channels_last, DType::f16,
          DType::f16, name);
    check({{2, 8, 30, 40}, {{0, 0, 1, 0}, {0, 0, 2, 0}, PadMode::constant}}, Placing::row_major, DType::f32,
          DType::f32, name);
    check({{16, 64, 24, 24}, {{0, 0, 1, 1}, {0, 0, 1, 1}, PadMode::constant}}, Placing::row_major, DType::f32,
          DType::f32, name);
  }
}

TEST_CASE("padding of every dtype", "[small]") {
  for (const char* name : {"cpu", "direct"}) {
    const Case& c = odd_cases()[10];
    for (DType dtype : {DType::f16, DType::bf16}) check(c, Placing::row_major, dtype, dtype, name);
    check(c, Placing::row_major, DType::bf16, DType::f32, name);
    if (!has_doubles()) continue;
    check(c, Placing::row_major, DType::f64, DType::f64, name);
  }
}

TEST_CASE("padding moves special values as they are, and puts any value around", "[small]") {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name : {"cpu", "direct"})
    for (float value : {kInf, kNan, -0.0f}) {
      INFO(name << " " << value);
      const Guarded y({6});
      pad(stream(), device_tensor({4}, {-0.0f, kInf, kNan, 1e-40f}), {{1}, {1}, PadMode::constant}, value,
          y.tensor(), engine(name));
      const std::vector<float> moved = host_values(y.tensor());
      CHECK(deviation(moved, {value, -0.0, kInf, kNan, double(1e-40f), value}) == 0);
      CHECK(std::signbit(moved[1]));
      CHECK(std::signbit(moved[0]) == std::signbit(value));
      CHECK(moved[4] == 1e-40f);
    }
}

TEST_CASE("padding refuses bad input", "[small]") {
  const Tensor x(context(), {2, 4}), y(context(), {2, 6});
  const auto refused = [&](const Tensor& from, const PadParams& params, const Tensor& to) {
    return error_of<ValidationError>([&] { pad(stream(), from, params, 0, to); });
  };
  CHECK(refused({}, {{0, 1}, {0, 1}}, y) == "x: is not defined");
  CHECK(refused(x, {{1}, {0, 1}}, y) == "begin: 1 numbers for 2 axes");
  CHECK(refused(x, {{0, 1}, {1}}, y) == "end: 1 numbers for 2 axes");
  CHECK(refused(x, {{0, 1}, {0, 2}}, y) == "y: shape [2, 6] must be [2, 7]");
  CHECK(refused(x, {{0, -3}, {0, -2}}, y) == "begin: -3 and -2 around axis 1 leave nothing of size 4");
  CHECK(refused(x, {{0, 4}, {0, 0}, PadMode::reflect}, y) ==
        "begin: 4 around axis 1 of size 4 is more than reflect can take, 3");
  CHECK(refused(x, {{0, 5}, {0, 0}, PadMode::circular}, y) ==
        "begin: 5 around axis 1 of size 4 is more than circular can take, 4");
  CHECK(refused(x.slice(1, 0, 0), {{0, 1}, {0, 0}, PadMode::replicate}, y) ==
        "begin: 1 around axis 1 of size 0 is more than replicate can take, 0");
  CHECK(refused(x, {{0, 1}, {0, 1}, static_cast<PadMode>(8)}, y) == "mode: number 8 does not exist");
  CHECK(refused(x, {{0, 0}, {0, 0}}, x) == "y: shares memory with x");
  CHECK(refused(x, {{0, int64_t{1} << 40}, {0, 0}}, y).find("do not fit in 32 bits") != std::string::npos);
}
