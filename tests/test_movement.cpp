// Movement against plain loops over coordinates, exact in every dtype.
#include <dlprim/masked.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/patterns.hpp>

#include <cmath>

#include "cases/indexing.hpp"
#include "catch.hpp"
#include "ops/movement/slice_backward_direct.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::i8, DType::i64, DType::boolean};

using At = std::vector<int64_t>;

/// 0, 1, 2, ... modulo 120, or truths.
std::vector<float> counted(const Shape& shape, DType dtype = DType::f32) {
  std::vector<float> values;
  for (int64_t i = 0; i < element_count(shape); i++)
    values.push_back(dtype == DType::boolean ? float(i % 3 == 1) : static_cast<float>(i % 120));
  return values;
}

/// What each element of `shape` is, by its coordinates.
std::vector<float> made(const Shape& shape, const std::function<double(const At&)>& f) {
  std::vector<float> values;
  for (int64_t i = 0; i < element_count(shape); i++)
    values.push_back(static_cast<float>(f(coordinates(shape, i))));
  return values;
}

float value_at(const std::vector<float>& values, const Shape& shape, const At& at) {
  return values[static_cast<size_t>(element_at(shape, at))];
}

}  // namespace

TEST_CASE("split gives views, concat puts them together", "[small]") {
  for (DType dtype : kDTypes)
    for (Placing placing : {Placing::row_major, Placing::gaps}) {
      if (placing != Placing::row_major && dtype != DType::f32) continue;
      const Shape shape{3, 11, 4};
      const Tensor x = placed(placing, shape, counted(shape, dtype), dtype);
      for (int axis : {1, -1}) {
        INFO(name_of(dtype) << " " << name_of(placing) << " axis " << axis);
        std::vector<Tensor> parts = split(x, 3, axis);
        CHECK(parts.size() == (axis == 1 ? 4 : 2));
        CHECK(parts.back().size(axis) == (axis == 1 ? 2 : 1));
        CHECK(parts[1].buffer()() == x.buffer()());
        parts.insert(parts.begin() + 1, parts[0].slice(axis, 0, 0));
        const Guarded y(shape, strides_in(placing, shape), dtype);
        concat(stream(), parts, axis, y.tensor());
        CHECK(host_bytes(y.tensor()) == host_bytes(x));
        CHECK(y.intact());
      }
    }
  const Guarded y({5});
  concat(stream(), {device_tensor({2}, {1, 2}, DType::f16), device_tensor({3}, {3, 4, 5}, DType::i8)}, 0,
         y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>{1, 2, 3, 4, 5});
  CHECK(split(y.tensor().slice(0, 0, 0), 2, 0).size() == 1);
}

TEST_CASE("concat of dense tensors in one launch or a few", "[small]") {
  const auto check = [](const Shape& shape, int axis, const std::vector<int64_t>& sizes, DType dtype,
                        Placing placing = Placing::row_major, int64_t padding = 64) {
    INFO(to_string(shape) << " axis " << axis << ", " << sizes.size() << " inputs " << name_of(dtype) << ' '
                          << name_of(placing) << " padding " << padding);
    const std::vector<float> values = counted(shape, dtype);
    const std::vector<Tensor> views = split(placed(placing, shape, values, dtype), sizes, axis);
    std::vector<Tensor> inputs;
    for (const Tensor& view : views)
      inputs.push_back(placed(placing, view.shape(), host_values(view), dtype));
    for (bool words : {false, true}) {
      const Guarded y(shape, strides_in(placing, shape), dtype, padding);
      concat(stream(), inputs, axis, y.tensor(), engine(words && element_count(shape) ? "words" : "copies"));
      CHECK(host_values(y.tensor()) == values);
      CHECK(y.intact());
    }
  };
  const std::vector<int64_t> nine = {1, 0, 3, 4, 2, 0, 16, 5, 9}, seventy(70, 2);
  for (DType dtype : kDTypes) check({3, 40, 7}, 1, nine, dtype);
  for (int64_t padding : {64, 37}) {
    check({40, 3, 8}, 0, nine, DType::f16, Placing::row_major, padding);
    check({3, 40}, 1, nine, DType::f32, Placing::row_major, padding);
  }
  check({3, 8, 5, 4}, 1, {8}, DType::f32);
  check({2, 140, 20}, 1, seventy, DType::f32);
  check({140, 120}, 0, seventy, DType::f32);
  check({3, 24, 5, 4}, 1, {8, 4, 12}, DType::f16, Placing::channels_last);
  check({3, 24, 5, 4}, 3, {1, 3}, DType::f32, Placing::channels_last);
  check({2, 3, 2, 2, 1, 3, 2, 16}, 5, {1, 2}, DType::f32);
  check({0, 3}, 1, {1, 2}, DType::f32);

  const Tensor x = device_tensor({2, 4}, counted({2, 4})),
               other = device_tensor({2, 4}, counted({2, 4}), DType::f16);
  const Tensor y(context(), {2, 8});
  const auto serves = [&](const Tensor& a, const Tensor& b, const Tensor& to) {
    const ConcatDesc desc{{a, b}, to, 1};
    return refusal([&] { Concat(context(), desc, engine("words")); }) == "(nothing was thrown)";
  };
  CHECK(serves(x, x, y));
  CHECK(!serves(x, other, y));
  CHECK(!serves(x.slice(1, 0, 2), x.slice(1, 2, 4), y.slice(1, 0, 4)));
  CHECK(!serves(x, x.as_strided({2, 4}, {1, 2}), y));
  // A part of y's memory behind an input's in the same buffer, at a place that is no multiple of a word.
  const Tensor all = device_tensor({40}, counted({40}));
  const Tensor part = all.slice(0, 0, 6).as_strided({2, 3}, {3, 1}, 1),
               to = all.as_strided({2, 6}, {6, 1}, 17);
  concat(stream(), {part, part}, 1, to);
  CHECK(host_values(to) == std::vector<float>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
}

TEST_CASE("the gradient of a slice with steps", "[small]") {
  const Guarded dx({2, 9}, DType::f32);
  slice_backward(stream(), device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), 1, 1, 8, 3, dx.tensor());
  CHECK(host_values(dx.tensor()) == std::vector<float>{0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0, 6, 0});
  CHECK(dx.intact());
}

namespace {

/// slice_backward() and its GPUs' form, with offsets of either width. Elements of both dtypes are whole
/// numbers.
void check_slice_backward(const Shape& shape, int axis, int64_t start, int64_t end, int64_t step,
                          Placing x_placing, Placing y_placing, DType dy_dtype, DType dx_dtype) {
  Shape part = shape;
  part[axis] = start == end ? 0 : (end - start - 1) / step + 1;
  INFO(to_string(shape) << " axis " << axis << " from " << start << " to " << end << " step " << step << ' '
                        << name_of(x_placing) << ' ' << name_of(y_placing) << ' ' << name_of(dy_dtype) << ' '
                        << name_of(dx_dtype));
  const std::vector<float> values = counted(part, dx_dtype == DType::boolean ? DType::boolean : dy_dtype);
  const Tensor dy = placed(y_placing, part, values, dy_dtype);
  const std::vector<float> expected = made(shape, [&](At at) {
    int64_t& c = at[static_cast<size_t>(axis)];
    if (c < start || c >= end || (c - start) % step) return 0.0f;
    c = (c - start) / step;
    return value_at(values, part, at);
  });
  for (int form : {0, 1, 2}) {
    INFO("form " << form);
    const Guarded dx(shape, strides_in(x_placing, shape), dx_dtype);
    if (form == 0)
      slice_backward(stream(), dy, axis, start, end, step, dx.tensor(), engine("copies"));
    else if (dy.numel() && (form == 1 || step == 2))
      detail::SliceBackwardDirect(context(), dy, {axis, start, step}, dx.tensor(), form == 2)
          .run(stream(), dy, dx.tensor());
    else
      continue;
    CHECK(host_values(dx.tensor()) == expected);
    CHECK(dx.intact());
  }
}

}  // namespace

TEST_CASE("the gradient of a slice along every axis, in any memory and dtype", "[small]") {
  const auto check = [](const Shape& shape, int axis, int64_t start, int64_t end, int64_t step,
                        Placing placing = Placing::row_major, DType dy = DType::f32, DType dx = DType::f32) {
    check_slice_backward(shape, axis, start, end, step, placing, placing, dy, dx);
  };
  for (int64_t step : {1, 2, 3, 7}) {
    check({3, 2, 5, 56}, 3, 0, 56, step);
    check({3, 2, 5, 56}, 3, 5, 43, step);
    check({3, 12, 8}, 1, 1, 11, step);
  }
  check({3, 16}, 1, 4, 12, 1);  // whole words
  check({40, 25, 5}, 2, 1, 5, 2);
  check({2, 3, 5, 8}, 0, 1, 2, 1000);
  check({2, 3, 5, 8}, 2, 2, 2, 1);
  check({2, 0, 8}, 2, 1, 5, 2);
  check({9}, 0, 3, 9, 2);
  check({2, 3, 2, 1, 2, 3, 2, 8}, 5, 1, 3, 1);
  for (Placing placing : {Placing::channels_last, Placing::gaps}) {
    check({2, 8, 6, 7}, 3, 1, 7, 2, placing);
    check({2, 8, 6, 7}, 1, 1, 7, 2, placing, DType::f16, DType::f16);
  }
  check_slice_backward({2, 8, 6, 7}, 3, 1, 7, 2, Placing::channels_last, Placing::row_major, DType::f32,
                       DType::f16);
  for (DType dtype : kDTypes) check({3, 4, 24}, 2, 2, 24, 2, Placing::row_major, dtype, dtype);
  check({3, 4, 24}, 1, 1, 4, 2, Placing::row_major, DType::f32, DType::bf16);
  check({3, 4, 24}, 1, 1, 4, 2, Placing::row_major, DType::f16, DType::f32);
  check({3, 4, 24}, 2, 0, 24, 2, Placing::row_major, DType::f32, DType::boolean);
  check({3, 4, 24}, 2, 0, 24, 2, Placing::row_major, DType::f16, DType::i64);
}

TEST_CASE("tile and its gradient", "[small]") {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{3}, {12}},  {{2, 3}, {4, 9}}, {{2, 3}, {5, 2, 6}},   {{1, 4}, {7, 4}}, {{2, 1, 3}, {2, 6, 3}},
      {{}, {3, 2}}, {{2, 2}, {0, 4}}, {{2, 3, 2}, {2, 6, 8}}};
  for (const auto& [shape, y_shape] : cases) {
    INFO(to_string(shape) << " to " << to_string(y_shape));
    const std::vector<float> values = counted(shape);
    const auto source = [&, &shape = shape, &y_shape = y_shape](At at) {
      at.erase(at.begin(), at.begin() + y_shape.size() - shape.size());
      for (int d = 0; d < shape.size(); d++) at[static_cast<size_t>(d)] %= shape[d];
      return at;
    };
    const std::vector<float> expected =
        made(y_shape, [&, &shape = shape](const At& at) { return value_at(values, shape, source(at)); });
    const Guarded y(y_shape, strides_in(Placing::gaps, y_shape), DType::f32);
    tile(stream(), device_tensor(shape, values), y.tensor());
    CHECK(host_values(y.tensor()) == expected);
    CHECK(y.intact());
    const std::vector<float> dy = counted(y_shape);
    Values sums(values.size(), 0);
    for (int64_t i = 0; i < element_count(y_shape); i++)
      sums[static_cast<size_t>(element_at(shape, source(coordinates(y_shape, i))))] +=
          dy[static_cast<size_t>(i)];
    const Guarded dx(shape);
    tile_backward(stream(), device_tensor(y_shape, dy), dx.tensor());
    CHECK(deviation(host_values(dx.tensor()), sums) == 0);
    CHECK(dx.intact());
  }
}

TEST_CASE("flip", "[small]") {
  const std::vector<std::pair<Shape, std::vector<int>>> cases = {
      {{7}, {0}},       {{4, 6}, {0}},    {{4, 6}, {1}},     {{4, 6}, {-1, 0}},
      {{3, 4, 8}, {1}}, {{2, 0, 3}, {0}}, {{3, 5, 16}, {0}}, {{2, 1, 3, 2, 2, 1, 2, 3}, {0, 3, 6}},
      {{5, 3}, {}}};
  for (const auto& [shape, axes] : cases)
    for (DType dtype : kDTypes)
      for (Placing placing : {Placing::row_major, Placing::gaps}) {
        INFO(to_string(shape) << " " << name_of(dtype) << " " << name_of(placing) << " axes " << axes.size());
        if (dtype != DType::f32 && placing != Placing::row_major) continue;
        const std::vector<float> values = counted(shape, dtype);
        const Guarded y(shape, strides_in(placing, shape), dtype);
        flip(stream(), placed(placing, shape, values, dtype), axes, y.tensor());
        CHECK(host_values(y.tensor()) == made(shape, [&, &shape = shape, &axes = axes](At at) {
                for (int axis : axes) {
                  const int d = axis < 0 ? axis + shape.size() : axis;
                  at[static_cast<size_t>(d)] = shape[d] - 1 - at[static_cast<size_t>(d)];
                }
                return value_at(values, shape, at);
              }));
        CHECK(y.intact());
      }
}

TEST_CASE("roll", "[small]") {
  const Shape shape{4, 5, 6};
  const std::vector<float> values = counted(shape);
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int>>> cases = {
      {{1}, {0}}, {{-2}, {2}}, {{3, 7}, {0, 1}}, {{1, 0, -13}, {0, 1, -1}}, {{}, {}}, {{5}, {1}}};
  for (const auto& [shifts, axes] : cases)
    for (Placing placing : kPlacings) {
      INFO(shifts.size() << " shifts " << name_of(placing));
      const Guarded y(shape, strides_in(placing, shape), DType::f32);
      roll(stream(), placed(placing, shape, values), shifts, axes, y.tensor());
      CHECK(host_values(y.tensor()) == made(shape, [&, &shifts = shifts, &axes = axes](At at) {
              for (size_t i = 0; i < axes.size(); i++) {
                const int d = axes[i] < 0 ? axes[i] + 3 : axes[i];
                int64_t& c = at[static_cast<size_t>(d)];
                c = ((c - shifts[i]) % shape[d] + shape[d]) % shape[d];
              }
              return value_at(values, shape, at);
            }));
      CHECK(y.intact());
    }
}

TEST_CASE("triangles and the identity", "[small]") {
  for (const Shape& shape : {Shape{4, 4}, Shape{3, 7}, Shape{2, 5, 3}, Shape{1, 1}, Shape{0, 3}})
    for (int64_t k : {-2, 0, 1, 100})
      for (DType dtype : {DType::f32, DType::i64, DType::boolean}) {
        if (dtype != DType::f32 && shape.size() != 3) continue;
        INFO(to_string(shape) << " k=" << k << " " << name_of(dtype));
        const std::vector<float> values = counted(shape, dtype);
        const Tensor x = device_tensor(shape, values, dtype);
        const size_t row = static_cast<size_t>(shape.size()) - 2;
        const auto triangle = [&](bool lower) {
          return made(shape, [&](const At& at) {
            const int64_t over = at[row + 1] - at[row];
            return (lower ? over <= k : over >= k) ? value_at(values, shape, at) : 0;
          });
        };
        const Guarded y(shape, dtype);
        tril(stream(), x, k, y.tensor());
        CHECK(host_values(y.tensor()) == triangle(true));
        triu(stream(), x, k, y.tensor());
        CHECK(host_values(y.tensor()) == triangle(false));
        eye(stream(), k, y.tensor());
        CHECK(host_values(y.tensor()) ==
              made(shape, [&](const At& at) { return at[row + 1] - at[row] == k; }));
        CHECK(y.intact());
        tril(stream(), x, k, x);
        CHECK(host_values(x) == triangle(true));
      }
}

TEST_CASE("the identity in strided memory", "[small]") {
  const Shape shape{2, 4, 7};
  for (Placing placing : kPlacings)
    for (int64_t k : {-4, -3, 2, 6, 7}) {
      INFO(name_of(placing) << " k=" << k);
      const Guarded y(shape, strides_in(placing, shape), DType::bf16);
      eye(stream(), k, y.tensor());
      CHECK(host_values(y.tensor()) == made(shape, [&](const At& at) { return at[2] - at[1] == k; }));
      CHECK(y.intact());
    }
}

TEST_CASE("arange and linspace", "[small]") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::i32, DType::i64, DType::u8}) {
    const Guarded y({41}, dtype);
    arange(stream(), 3, 2, y.tensor());
    CHECK(host_values(y.tensor()) ==
          made({41}, [](const At& at) { return 3.0 + 2.0 * static_cast<double>(at[0]); }));
    CHECK(y.intact());
  }
  const Guarded wide({3}, Strides{4}, DType::i64), lines({1001}), one({1}), none({0});
  arange(stream(), 0x1p52, -1, wide.tensor());
  CHECK(read<int64_t>(stream(), wide.tensor()) ==
        std::vector<int64_t>{int64_t{1} << 52, (int64_t{1} << 52) - 1, (int64_t{1} << 52) - 2});
  const int64_t odd = (int64_t{1} << 62) + 1;  // no double
  arange(stream(), odd, -odd, wide.tensor());
  CHECK(read<int64_t>(stream(), wide.tensor()) == std::vector<int64_t>{odd, 0, -odd});
  linspace(stream(), -1, 0.1, lines.tensor());
  Values expected;
  for (int i = 0; i <= 1000; i++) expected.push_back(-1 + 1.1 * i / 1000);
  CHECK(deviation(host_values(lines.tensor()), expected) <=
        0x1p-23);  // computed in f64, or a few steps in f32
  CHECK(host_values(lines.tensor()).front() == -1);
  CHECK(host_values(lines.tensor()).back() == 0.1f);
  linspace(stream(), 5, 9, one.tensor());
  CHECK(host_values(one.tensor()) == std::vector<float>{5});
  linspace(stream(), 5, 9, none.tensor());
  CHECK((wide.intact() && lines.intact() && one.intact() && none.intact()));
}

TEST_CASE("linspace of whole numbers", "[small]") {
  struct Line {
    int64_t start, end, count;
  };
  for (const Line& c : {Line{0, 10, 4}, Line{0, 10, 7}, Line{-5, 5, 4}, Line{3, -7, 9}, Line{0, 1, 3},
                        Line{-7, -1, 5}, Line{100, -100, 33}, Line{5, 9, 1}, Line{-60, 7, 2}})
    for (DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64}) {
      INFO(name_of(dtype) << " from " << c.start << " to " << c.end << " in " << c.count);
      const Guarded y({c.count}, Strides{2}, dtype);
      linspace(stream(), c.start, c.end, y.tensor());
      std::vector<float> expected;
      for (int64_t i = 0; i < c.count; i++)  // C's division leaves the fraction out
        expected.push_back(
            c.count == 1
                ? static_cast<float>(c.start)
                : static_cast<float>((c.start * (c.count - 1) + i * (c.end - c.start)) / (c.count - 1)));
      CHECK(host_values(y.tensor()) == expected);
      CHECK(y.intact());
    }
  const Tensor bytes(context(), {6}, DType::u8), far(context(), {3}, DType::i64),
      none(context(), {0}, DType::i32);
  linspace(stream(), 0, 255, bytes);
  CHECK(host_values(bytes) == std::vector<float>{0, 51, 102, 153, 204, 255});
  linspace(stream(), 0x1p60, -0x1p60, far);
  CHECK(read<int64_t>(stream(), far) == std::vector<int64_t>{int64_t{1} << 60, 0, -(int64_t{1} << 60)});
  linspace(stream(), 0x1p53, 0x1p53 + 4, far);
  CHECK(read<int64_t>(stream(), far)[1] == (int64_t{1} << 53) + 2);
  const int64_t odd = (int64_t{1} << 60) + 1;
  linspace(stream(), odd, -odd, far);
  CHECK(read<int64_t>(stream(), far) == std::vector<int64_t>{odd, 0, -odd});
  linspace(stream(), 1, 2, none);
  CHECK_THAT(error_of<ValidationError>([&] { linspace(stream(), 0.5, 2, far); }),
             contains("start: 0.5 for "));
  CHECK(error_of<ValidationError>([&] {
          linspace(stream(), 0, 1, Tensor(context(), {2}, DType::boolean));
        }) == "y: dtype bool has no numbers between two");
}

TEST_CASE("one_hot", "[small]") {
  for (DType dtype : {DType::f32, DType::boolean}) {
    const Guarded y({2, 3, 4}, dtype);
    one_hot(stream(), index_tensor({2, 3}, {0, 3, -1, 4, -5, 2}), y.tensor());
    CHECK(host_values(y.tensor()) == std::vector<float>{1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1,  //
                                                        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
    CHECK(y.intact());
  }
}

TEST_CASE("masked_fill", "[small]") {
  const Tensor mask = device_tensor({3}, {0, 1, 0}, DType::boolean);
  for (DType dtype : {DType::f32, DType::bf16, DType::i64}) {
    const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}, dtype);
    const Guarded y({2, 3}, dtype);
    masked_fill(stream(), x, mask, -7, y.tensor());
    CHECK(host_values(y.tensor()) == std::vector<float>{1, -7, 3, 4, -7, 6});
    CHECK(y.intact());
    masked_fill(stream(), x, mask, 0, x);
    CHECK(host_values(x) == std::vector<float>{1, 0, 3, 4, 0, 6});
  }
  const Guarded y({2});
  masked_fill(stream(), device_tensor({2}, {NAN, 1}), device_tensor({2}, {0, 0.5f}), -INFINITY, y.tensor());
  CHECK(deviation(host_values(y.tensor()), {NAN, -INFINITY}) == 0);
}

TEST_CASE("movement refuses what does not fit", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y = device_tensor({2, 3}, {0, 0, 0, 0, 0, 0});
  CHECK(refusal([&] {
          split(x, std::vector<int64_t>{1, 1}, 1);
        }) == "sizes: they add up to 2, the axis has 3");
  CHECK(refusal([&] { split(x, 0, 1); }) == "size: 0 must be 1 or more");
  CHECK(refusal([&] { concat(stream(), {x, x}, 0, y); }) == "y: size 2 along the axis must be 4");
  CHECK(refusal([&] { concat(stream(), {y}, 0, y); }) == "y: shares memory with inputs[0]");
  CHECK(refusal([&] { tile(stream(), x, y.slice(1, 0, 2)); }) ==
        "y: shape [2, 2] is no multiple of x's [2, 3]");
  CHECK(refusal([&] { flip(stream(), x, {0, -2}, y); }) == "axes: axis 0 is there twice");
  CHECK(refusal([&] { flip(stream(), x, {0}, x); }) == "y: shares memory with x");
  CHECK(refusal([&] { roll(stream(), x, {1}, {0, 1}, y); }) == "shifts: 1 for 2 axes");
  CHECK(refusal([&] { tril(stream(), x.reshape({6}), 0, y); }) == "x: rank 1 must be 2 or more");
  CHECK(refusal([&] { arange(stream(), 0.5, 1, Tensor(context(), {2}, DType::i32)); }) ==
        "start: 0.5 for i32[2]");
  CHECK(refusal([&] {
          one_hot(stream(), index_tensor({2}, {0, 1}), y.slice(0, 0, 1));
        }) == "y: shape [1, 3] must be [2, 3]");
  CHECK(refusal([&] { slice_backward(stream(), x, 1, 0, 3, 2, y); }) == "dy: shape [2, 3] must be [2, 2]");
  CHECK(host_values(y) == std::vector<float>(6, 0));
}
