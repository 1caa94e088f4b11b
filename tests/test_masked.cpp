// masked_select, its gradient and nonzero against plain loops.
#include <dlprim/masked.hpp>

#include "cases/indexing.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kTile = 8192;  // of the engine of that name, on most devices

struct MaskCase {
  Shape shape;
  DType dtype = DType::f32, mask_dtype = DType::boolean;
  Placing placing = Placing::row_major, mask_placing = Placing::row_major;
  double density = 0.5;
  int64_t offset = 0;  ///< where the row-major mask begins, in elements; aligned if 0
};

std::string text_of(const MaskCase& c, const char* name) {
  return to_string(c.shape) + " " + name_of(c.dtype) + " " + name_of(c.placing) +
         " mask=" + name_of(c.mask_dtype) + " " + name_of(c.mask_placing) +
         " density=" + std::to_string(c.density) + " offset=" + std::to_string(c.offset) + " engine=" + name;
}

std::vector<float> mask_of(const MaskCase& c, Rng& rng) {
  const bool negative = is_floating(c.mask_dtype);
  std::vector<float> values;
  for (int64_t i = 0; i < element_count(c.shape); i++) {
    const bool chosen = rng.real(0, 1) < c.density;
    values.push_back(chosen ? (negative && i % 3 ? -0.5f : 1.0f) : (negative && i % 2 ? -0.0f : 0.0f));
  }
  return values;
}

Tensor mask_tensor(const MaskCase& c, const std::vector<float>& values) {
  if (c.mask_placing != Placing::row_major) return placed(c.mask_placing, c.shape, values, c.mask_dtype);
  const auto count = static_cast<int64_t>(values.size());
  std::vector<float> behind(static_cast<size_t>(c.offset), 1.0f);
  behind.insert(behind.end(), values.begin(), values.end());
  return device_tensor({c.offset + count}, behind, c.mask_dtype)
      .slice(0, c.offset, c.offset + count)
      .reshape(c.shape);
}

/// All three operators, with a room that is as large as x, and of the right size.
void check(const MaskCase& c) {
  for (const char* name : {"chunks", "tiles"}) {
    const std::string text = text_of(c, name);
    if (!is_selected(text)) continue;
    INFO(again(text));
    Rng rng(51);
    const std::vector<float> chosen = mask_of(c, rng), values = integers(element_count(c.shape), rng, 100);
    const Tensor x = placed(c.placing, c.shape, values, c.dtype), mask = mask_tensor(c, chosen);
    std::vector<float> expected, places, gradient = values;
    for (size_t i = 0; i < values.size(); i++) {
      if (chosen[i] == 0) {
        gradient[i] = 0;
        continue;
      }
      expected.push_back(values[i]);
      for (int64_t at : coordinates(c.shape, static_cast<int64_t>(i)))
        places.push_back(static_cast<float>(at));
    }
    const auto count = static_cast<int64_t>(expected.size());
    const Guarded room({x.numel()}, c.dtype), number({1}, DType::i64),
        dx(c.shape, strides_in(c.placing, c.shape), c.dtype);
    masked_select(stream(), x, mask, room.tensor(), number.tensor(), engine(name));
    CHECK(read<int64_t>(stream(), number.tensor())[0] == count);
    CHECK((host_values(room.tensor().slice(0, 0, count)) == expected));
    const Tensor selected = masked_select(stream(), x, mask, engine(name));
    CHECK(selected.shape() == Shape{count});
    CHECK((host_values(selected) == expected));
    masked_select_backward(stream(), selected, mask, dx.tensor(), engine(name));
    CHECK(deviation(host_values(dx.tensor()), gradient) == 0);
    const Tensor where = nonzero(stream(), mask, engine(name));
    CHECK(where.shape() == Shape{count, c.shape.size()});
    CHECK((host_values(where) == places));
    CHECK((room.intact() && number.intact() && dx.intact()));
  }
}

}  // namespace

TEST_CASE("masks: shapes, densities", "[small]") {
  for (const Shape& shape : {Shape{17}, Shape{3, 5, 7}, Shape{2, 1, 2, 3, 1, 2, 2, 2}})
    for (double density : {0.0, 0.4, 1.0}) {
      MaskCase c{shape};
      c.density = density;
      check(c);
    }
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 0, 4}}) check({shape});
}

// With 1, 2, 4 and 8 bytes of x and of the mask, the latter read as vectors or, where it begins elsewhere,
// one by one.
constexpr DType kDTypes[][2] = {{DType::f16, DType::f32}, {DType::i8, DType::bf16}, {DType::i64, DType::i64}};

TEST_CASE("masks: dtypes", "[small]") {
  for (const auto& [dtype, mask] : kDTypes) check({{3, 5, 7}, dtype, mask});
}

TEST_CASE("masks: placings", "[small]") {
  for (Placing placing : kPlacings) check({{3, 5, 2, 7}, DType::f32, DType::boolean, placing, placing});
  check({{3, 5, 2, 7}, DType::f32, DType::boolean, Placing::gaps, Placing::channels_last});
}

TEST_CASE("masks: about a tile", "[small]") {
  check({{kTile + 5}});
}

TEST_CASE("masks: tiles and chunks") {
  for (int64_t size : {kTile - 1, kTile, kTile + 1, 3 * kTile + 16, 5 * kTile - 31})
    for (double density : {0.0, 0.5, 1.0}) {
      MaskCase c{{size}};
      c.density = density;
      check(c);
    }
  for (const auto& [dtype, mask] : kDTypes)
    for (int64_t offset : {0, 1})
      check({{3, kTile / 4 + 1, 2}, dtype, mask, Placing::row_major, Placing::row_major, 0.5, offset});
  for (Placing placing : kPlacings) check({{2, 9, 31, 33}, DType::f32, DType::boolean, placing, placing});
}

TEST_CASE("masks: more tiles than there may be groups") {
  const int64_t size = 4096 * kTile + 77;
  const Tensor mask(stream(), {size}, DType::boolean), y(stream(), {3}, DType::i32),
      count(stream(), {1}, DType::i32);
  fill(stream(), 0, mask);
  for (int64_t at : {int64_t{5}, 2 * kTile - 1, size - 1}) fill(stream(), 1, mask.slice(0, at, at + 1));
  nonzero(stream(), mask, y.reshape({3, 1}), count, engine("tiles"));
  CHECK(read<int32_t>(stream(), y) ==
        std::vector<int32_t>{5, 2 * static_cast<int32_t>(kTile) - 1, static_cast<int32_t>(size - 1)});
  CHECK(read<int32_t>(stream(), count)[0] == 3);
}

// A view whose elements lie further apart than 32 bits of an offset tell, of memory that is mostly not
// touched.
TEST_CASE("masks: offsets of 64 bits") {
  const int64_t step = (int64_t{1} << 30) + 8;
  if (context().device().facts().max_allocation < static_cast<uint64_t>(step + 16)) {
    WARN("left out: the device has not the memory");
    return;
  }
  for (const char* name : {"chunks", "tiles"}) {
    INFO(name);
    const Tensor memory(stream(), {step + 16}, DType::u8), mask = memory.as_strided({2, 3}, {step, 2}),
                                                           x = memory.as_strided({2, 3}, {step, 2}, 1);
    write(stream(), mask, std::vector<uint8_t>{0, 1, 0, 2, 0, 128});
    write(stream(), x, std::vector<uint8_t>{1, 2, 3, 4, 5, 6});
    const Tensor chosen = masked_select(stream(), x, mask, engine(name));
    CHECK(host_values(chosen) == std::vector<float>{2, 4, 6});
    CHECK(host_values(nonzero(stream(), mask, engine(name))) == std::vector<float>{0, 1, 1, 0, 1, 2});
    masked_select_backward(stream(), chosen, mask, x, engine(name));
    CHECK(host_values(x) == std::vector<float>{0, 2, 0, 4, 0, 6});
  }
}

TEST_CASE("masks: what does not fit is dropped but counted", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 0, 3, 4, 5, 0});
  for (const char* name : {"chunks", "tiles"}) {
    INFO(name);
    const Guarded y({3}), where({2, 2}, DType::i32), count({1}, DType::i32), dx({2, 3});
    masked_select(stream(), x, x, y.tensor(), count.tensor(), engine(name));
    CHECK(host_values(y.tensor()) == std::vector<float>{1, 3, 4});
    CHECK(host_values(count.tensor()) == std::vector<float>{4});
    nonzero(stream(), x, where.tensor(), count.tensor(), engine(name));
    CHECK(host_values(where.tensor()) == std::vector<float>{0, 0, 0, 2});
    CHECK(host_values(count.tensor()) == std::vector<float>{4});
    masked_select_backward(stream(), y.tensor(), x, dx.tensor(), engine(name));
    CHECK(host_values(dx.tensor()) == std::vector<float>{1, 0, 3, 4, 0, 0});
    CHECK((y.intact() && where.intact() && count.intact() && dx.intact()));
  }
}

TEST_CASE("masks: results with strides", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 0, 3, 4, 5, 0});
  for (const char* name : {"chunks", "tiles"}) {
    INFO(name);
    const Guarded y({4}, {3}, DType::f32), where({4, 2}, {1, 5}, DType::i32), count({1}, DType::i32);
    masked_select(stream(), x, x, y.tensor(), count.tensor(), engine(name));
    CHECK(host_values(y.tensor()) == std::vector<float>{1, 3, 4, 5});
    nonzero(stream(), x, where.tensor(), count.tensor(), engine(name));
    CHECK(host_values(where.tensor()) == std::vector<float>{0, 0, 0, 2, 1, 0, 1, 1});
    CHECK((y.intact() && where.intact()));
  }
}

// What is not 0 is told by bits: neither are denormals, nor NaN; bytes of bool may hold any number.
TEST_CASE("masks: special values", "[small]") {
  const Tensor words(stream(), {6}, DType::i32), bytes(stream(), {6}, DType::u8);
  write(stream(), words, std::vector<int32_t>{1, INT32_MIN, 0, 0x7fc00000, INT32_MIN + 1, 0x7f800000});
  write(stream(), bytes, std::vector<uint8_t>{2, 0, 255, 128, 0, 1});
  for (const char* name : {"chunks", "tiles"}) {
    INFO(name);
    CHECK(host_values(nonzero(stream(), words.reinterpret(DType::u8).reinterpret(DType::f32),
                              engine(name))) == std::vector<float>{0, 3, 4, 5});
    CHECK(host_values(nonzero(stream(), bytes.reinterpret(DType::boolean), engine(name))) ==
          std::vector<float>{0, 2, 3, 5});
  }
}

TEST_CASE("masks: refusals", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 0, 3, 4, 5, 0}), y = device_tensor({6}, {0, 0, 0, 0, 0, 0});
  const Tensor count = index_tensor({1}, {0});
  CHECK(refusal([&] { masked_select(stream(), x, y, y, count); }) == "mask: shape [6] must be [2, 3]");
  CHECK(refusal([&] { masked_select(stream(), x, x, count, count); }) == "y: dtype i64 must be f32");
  CHECK(refusal([&] { masked_select(stream(), x, x, y, y); }) == "count: dtype f32 must be i32 or i64");
  CHECK(refusal([&] { nonzero(stream(), x, y, count); }) == "count: dtype f32 must be i32 or i64");
  CHECK(refusal([&] { masked_select(stream(), x, x, Tensor(), count); }) == "y: is not defined");
  CHECK(refusal([&] { masked_select(stream(), x, y); }) == "mask: shape [6] must be [2, 3]");
  CHECK(refusal([&] { masked_select(stream(), x, {}); }) == "mask: is not defined");
  CHECK(refusal([&] { nonzero(stream(), x, engine("scan")); }) == "engine: there is no engine 'scan'");
  CHECK(host_values(y) == std::vector<float>(6, 0));
}
