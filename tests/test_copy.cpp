// Copies, casts, fills and transfers: bool, interleaved views, refusals in the caller's names.
#include <dlprim/copy.hpp>
#include <dlprim/rehearsal.hpp>

#include <limits>

#include "catch.hpp"
#include "ops/movement/interleave.hpp"
#include "ops/movement/transpose.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Row-major small numbers, and the same permuted.
std::vector<float> counted(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i % 125);
  return values;
}
std::vector<float> permuted(const std::vector<float>& values, const Shape& shape, const Dims& axes) {
  std::vector<float> result;
  const Strides strides = contiguous_strides(shape);
  for (size_t i = 0; i < values.size(); i++) {
    auto rest = static_cast<int64_t>(i), from = int64_t{0};
    for (int d = shape.size(); d-- > 0; rest /= shape[static_cast<int>(axes[d])])
      from += rest % shape[static_cast<int>(axes[d])] * strides[static_cast<int>(axes[d])];
    result.push_back(values[static_cast<size_t>(from)]);
  }
  return result;
}

/// Rows that lie `gap` elements apart.
Strides with_gaps(const Shape& shape, int64_t gap) {
  Shape longer = shape;
  longer[longer.size() - 1] += gap;
  return contiguous_strides(longer);
}

/// x of `shape` and its permuted copy, by Interleave, and copy() where it is f32. The last of either has gaps
/// behind its rows where that is the planes' side.
struct Planes {
  Shape shape;
  Dims axes;
  bool joins = false;
};
void check_planes(const Planes& c, DType dtype, int64_t padding, int64_t gap) {
  INFO(to_string(c.shape) << " permuted " << to_string(c.axes) << " " << name_of(dtype) << " " << padding
                          << " gap " << gap);
  const std::vector<float> values = counted(c.shape), expected = permuted(values, c.shape, c.axes);
  const Guarded source(c.shape, with_gaps(c.shape, c.joins ? gap : 0), dtype, padding);
  copy(stream(), device_tensor(c.shape, values, dtype), source.tensor());
  const Tensor x = source.tensor().permute(c.axes);
  const auto made = [&](auto run) {
    const Guarded y(x.shape(), with_gaps(x.shape(), c.joins ? 0 : gap), dtype, padding);
    run(y.tensor());
    CHECK(host_values(y.tensor()) == expected);
    CHECK(y.intact());
  };
  if (dtype == DType::f32) made([&](const Tensor& y) { copy(stream(), x, y); });
  for (bool cpu : {false, true}) {
    if (cpu && dtype != DType::f32 && padding != 37) continue;  // its loops are the same for every dtype
    for (bool wide : {false, true})
      if (!wide || (dtype == DType::f32 && padding == 37))
        made([&](const Tensor& y) {
          REQUIRE(detail::Interleave::suits(x, y));
          detail::Interleave(context(), x, y, cpu, wide).run(stream(), x, y);
        });
  }
}

}  // namespace

TEST_CASE("copy: columns of one matrix go to other columns of it", "[copy][small]") {
  std::vector<float> values(3 * 8);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i);
  const Tensor x = device_tensor({3, 8}, values);
  copy(stream(), x.slice(1, 0, 4), x.slice(1, 4, 8));
  copy(stream(), x.slice(1, 0, 8, 2).slice(1, 0, 1), x.slice(1, 1, 8, 2).slice(1, 0, 1));
  for (size_t row = 0; row < 3; row++) {
    for (size_t i = 0; i < 4; i++) values[row * 8 + 4 + i] = values[row * 8 + i];
    values[row * 8 + 1] = values[row * 8];
  }
  CHECK(host_values(x) == values);
  CHECK(refusal([&] { copy(stream(), x.slice(1, 0, 4), x.slice(1, 3, 7)); }) ==
        "y: overlaps x without being the same elements");
  CHECK(refusal([&] { copy(stream(), x.slice(1, 0, 5), x.slice(1, 4, 8)); }).find("x: ") == 0);
}

TEST_CASE("copy: transposed tensors of every size of element", "[copy][small]") {
  const std::vector<std::pair<Shape, Dims>> cases = {{{40, 24}, {1, 0}},
                                                     {{33, 71}, {1, 0}},
                                                     {{200, 130}, {1, 0}},
                                                     {{3, 17, 40}, {0, 2, 1}},
                                                     {{2, 9, 3, 20}, {3, 0, 2, 1}},
                                                     {{2, 12, 3, 8, 2, 1, 2, 2}, {1, 0, 3, 2, 5, 4, 7, 6}}};
  for (DType dtype : {DType::f32, DType::f16, DType::i8, DType::i64})
    for (const auto& [shape, axes] : cases)
      for (int64_t padding : {64, 37}) {
        INFO(to_string(shape) << " permuted " << to_string(axes) << " " << name_of(dtype) << " " << padding);
        const std::vector<float> values = counted(shape), expected = permuted(values, shape, axes);
        const Guarded source(shape, dtype, padding);
        copy(stream(), device_tensor(shape, values, dtype), source.tensor());
        const Tensor x = source.tensor().permute(axes);
        const Guarded y(x.shape(), dtype, padding);
        copy(stream(), x, y.tensor());
        CHECK(host_values(y.tensor()) == expected);
        CHECK(y.intact());
        if (!detail::Transpose::suits(x, y.tensor())) continue;
        for (bool cpu : {false, true}) {
          const Guarded tiles(x.shape(), dtype, padding);
          detail::Transpose(context(), x, tiles.tensor(), cpu).run(stream(), x, tiles.tensor());
          CHECK(host_values(tiles.tensor()) == expected);
          CHECK(tiles.intact());
        }
      }
}

TEST_CASE("copy: a few planes become neighbours, and neighbours planes", "[copy][small]") {
  for (DType dtype : {DType::i8, DType::f16, DType::f32, DType::i64})
    for (int64_t r : {2, 3, 4, 8})
      for (const auto& [n, gap, padding] :
           {std::tuple{56, 16, 64}, std::tuple{27, 0, 64}, std::tuple{22, 3, 37}}) {
        if (n != 56 && r > (n == 27 ? 3 : 2)) continue;  // each is a kernel to compile
        check_planes({{2, r, 3, n}, {0, 2, 3, 1}, true}, dtype, padding, gap);
        check_planes({{2, 3, n, r}, {0, 3, 1, 2}, false}, dtype, padding, gap);
      }
}

TEST_CASE("copy: planes along two dimensions, 8 dimensions, and what no block of planes is",
          "[copy][small]") {
  const auto suits = [](const Tensor& x, const Tensor& y) { return detail::Interleave::suits(x, y); };
  for (int64_t gap : {0, 8}) {
    check_planes({{3, 2, 2, 2, 40}, {0, 3, 4, 1, 2}, true}, DType::f16, 64, gap);
    check_planes({{3, 40, 2, 3}, {0, 3, 2, 1}, false}, DType::f32, 64, gap);
    check_planes({{2, 3, 2, 3, 2, 3, 5, 8}, {1, 0, 3, 2, 5, 6, 7, 4}, true}, DType::f32, 64, gap);
  }
  check_planes({{2500, 2}, {1, 0}, false}, DType::f32, 64, 0);
  // Every second or third place of planes.
  for (DType dtype : {DType::i8, DType::f16, DType::f32, DType::i64})
    for (int64_t step : {2, 3}) {
      if (step == 3 && dtype != DType::f32) continue;
      INFO(name_of(dtype) << " step " << step);
      const Shape spread{2, 3, 2, 2, 5, 24 * step}, shape{2, 3, 5, 2, 24, 2};
      const Dims to{0, 1, 4, 2, 5, 3}, back{0, 1, 3, 5, 2, 4};
      const std::vector<float> values = counted(spread);
      const Guarded whole(spread, dtype);
      copy(stream(), device_tensor(spread, values, dtype), whole.tensor());
      const Tensor part = whole.tensor().slice(5, 0, 24 * step, step);
      const std::vector<float> chosen = host_values(part);
      for (bool cpu : {false, true})
        for (bool wide : {false, true}) {
          const Guarded packed(shape, dtype);
          const Tensor from = part.permute(to), again = packed.tensor().permute(back);
          REQUIRE(suits(from, packed.tensor()));
          REQUIRE(suits(again, part));
          detail::Interleave(context(), from, packed.tensor(), cpu, wide)
              .run(stream(), from, packed.tensor());
          CHECK(host_values(packed.tensor()) == host_values(from));
          CHECK(packed.intact());
          fill(stream(), 99, part);
          detail::Interleave(context(), again, part, cpu, wide).run(stream(), again, part);
          CHECK(host_values(whole.tensor()) == host_values(device_tensor(spread, values, dtype)));
          CHECK(host_values(part) == chosen);
        }
      CHECK(whole.intact());
    }
  // Planes that are all one, as of a nearest neighbour's upsampling.
  const Tensor x = device_tensor({4, 80, 1}, counted({4, 80, 1})).expand({4, 80, 3});
  const Guarded y({4, 80, 3});
  REQUIRE(suits(x, y.tensor()));
  detail::Interleave(context(), x, y.tensor(), false).run(stream(), x, y.tensor());
  std::vector<float> expected;
  for (float value : counted({320}))
    for (int r = 0; r < 3; r++) expected.push_back(value);
  CHECK(host_values(y.tensor()) == expected);
  CHECK(y.intact());
  const auto make = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor(context(), shape, dtype);
  };
  CHECK(!suits(make({100, 9}).permute({1, 0}), make({9, 100})));
  CHECK(!suits(make({100, 4}).slice(1, 0, 2).permute({1, 0}), make({2, 100})));
  CHECK(!suits(make({100, 2}).permute({1, 0}), make({2, 100})));
  CHECK(!suits(make({1000, 2}, DType::f16).permute({1, 0}), make({2, 1000})));
  CHECK(!suits(make({1000, 2}), make({1000, 2})));
}

TEST_CASE("copy: every nonzero number becomes true", "[copy][small]") {
  const Guarded y({4}, DType::boolean), z({4}, DType::boolean);
  copy(stream(), device_tensor({4}, {0, 0.5f, -0.0f, std::nanf("")}), y.tensor());
  CHECK(host_bytes(y.tensor()) == std::vector<unsigned char>{0, 1, 0, 1});
  for (double value : {0.5, -3.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    fill(stream(), value, z.tensor());
    CHECK(host_bytes(z.tensor()) == std::vector<unsigned char>{1, 1, 1, 1});
  }
  fill(stream(), -0.0, z.tensor());
  CHECK(host_bytes(z.tensor()) == std::vector<unsigned char>{0, 0, 0, 0});
  CHECK((y.intact() && z.intact()));
}

TEST_CASE("copy: what is read without waiting is there when its event is done", "[copy][small]") {
  const Stream own(context());
  constexpr int64_t kRows = 300, kColumns = 70;
  const std::vector<float> values = counted({kRows, kColumns});
  for (const bool turned : {false, true}) {
    std::vector<float> got(values.size(), -1);
    Event arrived;
    {
      const Tensor x(own, {kRows, kColumns});
      write(own, x, values);
      const Tensor view = turned ? x.transpose(0, 1) : x;
      arrived = read_async(own, view, got.data(), view.bytes());
      fill(own, 5, x);  // comes behind it
    }
    arrived.wait();
    CHECK(arrived.done());
    CHECK(got == (turned ? permuted(values, {kRows, kColumns}, {1, 0}) : values));
  }
  const Tensor none(own, {0, 4});
  CHECK(read_async(own, none, nullptr, 0).done());
  const Tensor one(own, {1});
  CHECK(error_of<ValidationError>([&] { read_async(own, one, nullptr, 4); }) == "host: is null");
  float host = 0;
  CHECK(error_of<ValidationError>([&] { read_async(own, one, &host, 8); }).find("bytes: 8 for ") == 0);
  const Rehearsal rehearsal;
  CHECK(error_of<ValidationError>([&] {
          read_async(own, one, &host, 4);
        }).find("x: is read in a rehearsal") == 0);
}

TEST_CASE("copy: host memory is read without a copy of it until the event is done", "[copy][small]") {
  const Stream own(context());
  constexpr int64_t kRows = 300, kColumns = 70;
  const std::vector<float> values = counted({kRows, kColumns});
  for (const bool turned : {false, true}) {
    const Guarded y({kRows, kColumns}, DType::f32);
    const Tensor view = turned ? y.tensor().reshape({kColumns, kRows}).transpose(0, 1) : y.tensor();
    const Event done = write_async(own, view, values.data(), view.bytes());
    CHECK(read<float>(own, view) == values);  // in order with what comes behind it
    done.wait();
    CHECK(done.done());
    CHECK(y.intact());
  }
  const Tensor none(own, {0, 4});
  CHECK(write_async(own, none, nullptr, 0).done());
  const Tensor one(own, {1});
  CHECK(error_of<ValidationError>([&] { write_async(own, one, nullptr, 4); }) == "host: is null");
  const float host = 0;
  CHECK(error_of<ValidationError>([&] { write_async(own, one, &host, 8); }).find("bytes: 8 for ") == 0);
  const Rehearsal rehearsal;
  CHECK(error_of<ValidationError>([&] {
          write_async(own, one, &host, 4);
        }).find("y: is written in a rehearsal") == 0);
}

TEST_CASE("copy: vectors of bool", "[copy][small]") {
  const Guarded y({3}, DType::boolean);
  const std::vector<bool> host{true, false, true};
  write(stream(), y.tensor(), host);
  CHECK(host_bytes(y.tensor()) == std::vector<unsigned char>{1, 0, 1});
  CHECK(read<bool>(stream(), y.tensor()) == host);
  CHECK(y.intact());
}

TEST_CASE("copy: refusals name the function's arguments", "[copy][small]") {
  const Context other(context().device());
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y = device_tensor({3}, {7, 8, 9});
  const Tensor foreign(other, {3}), i(context(), {3}, DType::i32);
  CHECK(refusal([&] { copy(stream(), x, y); }) == "x: shape [2, 3] does not broadcast to y's [3]");
  CHECK(refusal([&] { copy(stream(), Tensor(context(), {2}), y); }) ==
        "x: [2] and [3] do not broadcast: 2 against 3");
  CHECK(refusal([&] { copy(stream(), {}, y); }) == "x: is not defined");
  CHECK(refusal([&] { copy(stream(), x, {}); }) == "y: is not defined");
  CHECK(refusal([&] { copy(stream(), foreign, y); }) == "x: belongs to another context");
  CHECK(refusal([&] { copy(stream(), y, foreign); }) == "y: belongs to another context");
  CHECK(refusal([&] { copy(stream(), x, y.expand({2, 3})); }).find("y: strides [0, 1] of shape [2, 3]") == 0);
  CHECK(refusal([&] { fill(stream(), 1, foreign); }) == "y: belongs to another context");
  CHECK(refusal([&] { fill(stream(), 0x1p63, i); }) == "value: 9.22337204e+18 for i32[3]");
  CHECK(refusal([&] { fill(stream(), std::numeric_limits<double>::quiet_NaN(), i); }) ==
        "value: nan for i32[3]");
  CHECK(refusal([&] { write(stream(), i, std::vector<float>(3)); }) ==
        "y: i32[3], the host's elements are f32");
  CHECK(refusal([&] { write(stream(), y, std::vector<float>(2)); }) == "host: 2 elements for y, f32[3]");
  CHECK(refusal([&] { read<float>(stream(), i); }) == "x: i32[3], the host's elements are f32");
  CHECK(refusal([&] { read<float>(stream(), {}); }) == "x: is not defined");
  CHECK(host_values(y) == std::vector<float>{7, 8, 9});
}
