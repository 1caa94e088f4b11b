// masked_select, its gradient and nonzero against plain loops.
#include <dlprim/masked.hpp>

#include "cases/indexing.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

std::vector<float> mask_of(const Shape& shape, Rng& rng, double density) {
  std::vector<float> values;
  for (int64_t i = 0; i < element_count(shape); i++) values.push_back(rng.real(0, 1) < density);
  return values;
}

void check(const Shape& shape, DType dtype, DType mask_dtype, Placing placing, double density) {
  INFO(to_string(shape) << " " << name_of(dtype) << " " << name_of(mask_dtype) << " " << name_of(placing)
                        << " " << density);
  Rng rng(51);
  const std::vector<float> chosen = mask_of(shape, rng, density),
                           values = integers(element_count(shape), rng, 100);
  const Tensor x = placed(placing, shape, values, dtype), mask = placed(placing, shape, chosen, mask_dtype);
  std::vector<float> expected, places;
  for (size_t i = 0; i < values.size(); i++) {
    if (chosen[i] == 0) continue;
    expected.push_back(values[i]);
    for (int64_t c : coordinates(shape, static_cast<int64_t>(i))) places.push_back(static_cast<float>(c));
  }
  const auto count = static_cast<int64_t>(expected.size());
  const Guarded room({x.numel()}, dtype), number({1}, DType::i64),
      dx(shape, strides_in(placing, shape), dtype);
  masked_select(stream(), x, mask, room.tensor(), number.tensor());
  CHECK(read<int64_t>(stream(), number.tensor())[0] == count);
  CHECK(host_values(room.tensor().slice(0, 0, count)) == expected);
  const Tensor selected = masked_select(stream(), x, mask);
  CHECK(selected.shape() == Shape{count});
  CHECK(host_values(selected) == expected);
  masked_select_backward(stream(), selected, mask, dx.tensor());
  std::vector<float> gradient = values;
  for (size_t i = 0; i < gradient.size(); i++) gradient[i] *= chosen[i];
  CHECK(deviation(host_values(dx.tensor()), gradient) == 0);
  const Tensor where = nonzero(stream(), mask);
  CHECK(where.shape() == Shape{count, shape.size()});
  CHECK(host_values(where) == places);
  CHECK((room.intact() && number.intact() && dx.intact()));
}

}  // namespace

TEST_CASE("masks: shapes, densities", "[small]") {
  for (const Shape& shape : {Shape{1}, Shape{17}, Shape{3, 5, 7}, Shape{2, 1, 2, 3, 1, 2, 2, 2}, Shape{0, 4}})
    for (double density : {0.0, 0.4, 1.0})
      check(shape, DType::f32, DType::boolean, Placing::row_major, density);
}

TEST_CASE("masks: dtypes and placings", "[small]") {
  for (DType dtype : {DType::f16, DType::i8, DType::i64})
    check({3, 5, 7}, dtype, DType::boolean, Placing::row_major, 0.5);
  for (DType mask : {DType::f32, DType::bf16, DType::i64})
    check({3, 5, 7}, DType::f32, mask, Placing::row_major, 0.5);
  for (Placing placing : kPlacings) check({3, 5, 7}, DType::f32, DType::boolean, placing, 0.5);
}

TEST_CASE("masks: several chunks") {
  check({40001}, DType::f32, DType::boolean, Placing::row_major, 0.3);
}

TEST_CASE("masks: what does not fit is dropped but counted", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 0, 3, 4, 5, 0});
  const Guarded y({3}), where({2, 2}, DType::i32), count({1}, DType::i32);
  masked_select(stream(), x, x, y.tensor(), count.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>{1, 3, 4});
  CHECK(host_values(count.tensor()) == std::vector<float>{4});
  nonzero(stream(), x, where.tensor(), count.tensor());
  CHECK(host_values(where.tensor()) == std::vector<float>{0, 0, 0, 2});
  CHECK(host_values(count.tensor()) == std::vector<float>{4});
  CHECK((y.intact() && where.intact() && count.intact()));
}

TEST_CASE("masks: refusals", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 0, 3, 4, 5, 0}), y = device_tensor({6}, {0, 0, 0, 0, 0, 0});
  const Tensor count = index_tensor({1}, {0});
  const auto refused = [](auto&& f) { return error_of<ValidationError>(f); };
  CHECK(refused([&] { masked_select(stream(), x, y, y, count); }) == "mask: shape [6] must be [2, 3]");
  CHECK(refused([&] { masked_select(stream(), x, x, count, count); }) == "y: dtype i64 must be f32");
  CHECK(refused([&] { masked_select(stream(), x, x, y, y); }) == "count: dtype f32 must be i32 or i64");
  CHECK(refused([&] { nonzero(stream(), x, y, count); }) == "count: dtype f32 must be i32 or i64");
  CHECK(refused([&] { masked_select(stream(), x, x, {}, count); }) == "y: is not defined");
  CHECK(host_values(y) == std::vector<float>(6, 0));
}
