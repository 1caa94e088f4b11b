// Max unpooling, every engine, bit for bit against plain loops.
#include <dlprim/max_unpool.hpp>

#include <algorithm>
#include <cmath>

#include <dlprim/pool.hpp>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Case {
  Shape x, y;
  int spatial = 2;

  int64_t planes() const { return element_count(x) / std::max<int64_t>(1, plane(x)); }
  int64_t plane(const Shape& shape) const {
    int64_t product = 1;
    for (int i = shape.size() - spatial; i < shape.size(); i++) product *= shape[i];
    return product;
  }
  std::string text() const {
    return "x=" + to_string(x) + " y=" + to_string(y) + " spatial " + std::to_string(spatial);
  }
};

const Case kCases[] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}},    {{2, 3, 4, 5}, {2, 3, 9, 11}},
    {{2, 3, 7}, {2, 3, 15}, 1},      {{3, 7}, {3, 4}, 1},
    {{3, 4, 5}, {3, 8, 9}, 2},       {{2, 5, 2, 3, 4}, {2, 5, 5, 6, 7}, 3},
    {{3, 2, 3, 4}, {3, 3, 4, 5}, 3}, {{0, 3, 4, 4}, {0, 3, 8, 8}},
    {{2, 3, 0, 4}, {2, 3, 3, 8}},    {{2, 3, 3, 4}, {2, 3, 0, 8}},
    {{1, 70, 3, 3}, {1, 70, 6, 5}},
};

/// Some outside on both sides, some twice.
std::vector<float> some_indices(const Case& c, Rng& rng) {
  std::vector<float> all;
  const int64_t size = c.plane(c.y);
  for (int64_t i = 0; i < element_count(c.x); i++) {
    const int64_t kind = rng.integer(0, 9);
    all.push_back(static_cast<float>(kind == 0   ? -rng.integer(1, size + 2)
                                     : kind == 1 ? size + rng.integer(0, 3)
                                                 : rng.integer(0, std::max<int64_t>(0, size - 1))));
  }
  return all;
}

struct Expected {
  std::vector<float> y, dx;
};

Expected reference(const Case& c, const std::vector<float>& x, const std::vector<float>& indices,
                   const std::vector<float>& dy) {
  Expected e{std::vector<float>(dy.size(), 0.0f), std::vector<float>(x.size(), 0.0f)};
  const int64_t from = c.plane(c.x), to = c.plane(c.y);
  for (int64_t p = 0; p < c.planes(); p++)
    for (int64_t i = 0; i < from; i++) {
      const auto at = static_cast<size_t>(p * from + i);
      const auto index = static_cast<int64_t>(indices[at]);
      if (index < 0 || index >= to) continue;
      e.y[static_cast<size_t>(p * to + index)] = x[at];
      e.dx[at] = dy[static_cast<size_t>(p * to + index)];
    }
  return e;
}

std::vector<float> numbers(const Shape& shape, Rng& rng) {
  return integers(element_count(shape), rng, 100);
}

using Names = std::vector<const char*>;
const Names kAny{"cpu", "claims"}, kDense{"cpu", "claims", "planes"}, kTiles{"tiles"};

void check(const Case& c, Placing placing, DType dtype, DType index_dtype, const Names& engines,
           int64_t padding = 64) {
  Rng rng(7);
  const std::vector<float> x = numbers(c.x, rng), dy = numbers(c.y, rng), indices = some_indices(c, rng);
  const Expected expected = reference(c, x, indices, dy);
  const Tensor xs = placed(placing, c.x, x, dtype), dys = placed(placing, c.y, dy, dtype),
               at = placed(placing, c.x, indices, index_dtype);
  for (const char* name : engines) {
    INFO(name);
    const Guarded y(c.y, strides_in(placing, c.y), dtype, padding);
    max_unpool(stream(), xs, at, c.spatial, y.tensor(), engine(name));
    CHECK(host_values(y.tensor()) == expected.y);
    CHECK(y.intact());
  }
  for (const char* name : {"cpu", "direct"}) {
    const Guarded dx(c.x, strides_in(placing, c.x), dtype);
    max_unpool_backward(stream(), dys, at, c.spatial, dx.tensor(), engine(name));
    CHECK(host_values(dx.tensor()) == expected.dx);
    CHECK(dx.intact());
  }
}

}  // namespace

TEST_CASE("max_unpool: exact, on odd shapes, both engines", "[small]") {
  for (const Case& c : kCases) {
    if (!is_selected(c.text())) continue;
    INFO(again(c.text()));
    check(c, Placing::row_major, DType::f32, DType::i64, kDense);
  }
}

TEST_CASE("max_unpool: every placing and dtype") {
  for (const Placing placing : kPlacings)
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i64, DType::i8}) {
      const bool first = dtype == DType::f32;
      if (!first && placing != Placing::gaps) continue;
      for (size_t i = 1; i < (first ? std::size(kCases) : 2); i++) {
        const std::string text = kCases[i].text() + " " + name_of(placing) + " " + name_of(dtype);
        if (!is_selected(text)) continue;
        INFO(again(text));
        check(kCases[i], placing, dtype, first ? DType::i32 : DType::i64, kAny);
      }
    }
}

TEST_CASE("max_unpool: several images at a time, the last at an index stays") {
  // 40 images, each of 1 MiB of owners: the second part finds the workspace as the first has left it.
  const Case c{{40, 1, 300}, {40, 1, 262144}, 1};
  check(c, Placing::row_major, DType::f32, DType::i32, kAny);
  for (const char* name : kDense) {
    const Tensor x = device_tensor({1, 1, 5}, {1, 2, 3, 4, 5}),
                 indices = device_tensor({1, 1, 5}, {2, 0, 2, 0, 2}, DType::i32);
    const Guarded y(Shape{1, 1, 3});
    max_unpool(stream(), x, indices, 1, y.tensor(), engine(name));
    CHECK(host_values(y.tensor()) == std::vector<float>{4, 0, 5});
  }
}

TEST_CASE("max_unpool: dense planes, several to a work-group, in words and in elements", "[small]") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::i8})
    for (const Case& c : {Case{{2, 3, 4, 8}, {2, 3, 8, 16}}, Case{{3, 50, 2, 3}, {3, 50, 4, 6}}})
      for (const int64_t padding : {64, 37}) {
        const std::string text = c.text() + " " + name_of(dtype) + " " + std::to_string(padding);
        if (!is_selected(text)) continue;
        INFO(again(text));
        check(c, Placing::row_major, dtype, DType::i32, {"planes"}, padding);
      }
}

TEST_CASE("max_unpool: dense planes in two ranges of local memory, and in three larger ones") {
  check({{1, 2, 45, 90}, {1, 2, 90, 91}}, Placing::row_major, DType::f32, DType::i64, {"planes"});
  check({{1, 2, 45, 64}, {1, 2, 90, 128}}, Placing::row_major, DType::f16, DType::i64, {"planes"});
  if (context().device().facts().local_memory < 48000)
    return note_skipped("three ranges need 48000 bytes of local memory");
  check({{1, 2, 60, 70}, {1, 2, 180, 160}}, Placing::row_major, DType::f32, DType::i32, {"planes"});
}

TEST_CASE("max_unpool: neighbouring channels", "[small]") {
  const auto run = [](const Case& c, DType dtype, DType indices, int64_t padding = 64) {
    const std::string text = c.text() + " " + name_of(dtype) + " " + std::to_string(padding);
    if (!is_selected(text)) return;
    INFO(again(text));
    check(c, Placing::channels_last, dtype, indices, kTiles, padding);
  };
  for (const Case& c : kCases)
    if (c.x.size() == c.spatial + 2 && c.x[1] > 1) run(c, DType::f32, DType::i64);
  for (const int64_t channels : {3, 4, 5, 8, 64})
    run({{2, channels, 5, 7}, {2, channels, 9, 15}}, DType::bf16, DType::i64, 37);
  for (const DType dtype : {DType::i64, DType::i8, DType::f16})
    run({{1, 40, 2, 3}, {1, 40, 4, 6}}, dtype, DType::i32);
  // More ranges than those that each read all indices, and chunks of which a range needs none; lone ones.
  run({{2, 9, 12, 40}, {2, 9, 35, 79}}, DType::f32, DType::i64);
  run({{1, 9, 1, 1}, {1, 9, 50, 80}}, DType::f32, DType::i64);
}

TEST_CASE("max_unpool: neighbouring channels of more chunks than a work-group has work-items") {
  check({{1, 2, 90, 100}, {1, 2, 180, 201}}, Placing::channels_last, DType::f16, DType::i32, kTiles);
  // As pooling gives them: a range finds all that it needs in a few chunks.
  const Shape shape{2, 10, 60, 90};
  const Case c{{2, 10, 30, 45}, shape};
  std::vector<float> indices;
  Rng rng(3);
  for (int64_t i = 0; i < element_count(c.x); i++) {
    const int64_t place = i % c.plane(c.x);
    indices.push_back(
        static_cast<float>((place / 45 * 2 + rng.integer(0, 1)) * 90 + place % 45 * 2 + rng.integer(0, 1)));
  }
  const std::vector<float> x = numbers(c.x, rng);
  const Guarded y(shape, strides_in(Placing::channels_last, shape), DType::f32);
  max_unpool(stream(), placed(Placing::channels_last, c.x, x),
             placed(Placing::channels_last, c.x, indices, DType::i64), 2, y.tensor(), engine("tiles"));
  CHECK(host_values(y.tensor()) ==
        reference(c, x, indices, std::vector<float>(static_cast<size_t>(element_count(shape)))).y);
  CHECK(y.intact());
}

TEST_CASE("max_unpool: undoes pooling") {
  const Shape shape{2, 3, 8, 6};
  Rng rng(9);
  std::vector<float> values;
  for (int64_t i = 0; i < element_count(shape); i++) values.push_back(static_cast<float>(i * 37 % 289 + 1));
  const Tensor x = device_tensor(shape, values);
  const PoolParams params{PoolMode::max, {2, 2}, {2, 2}};
  const Tensor y(stream(), pool_output_shape(shape, params)), indices(stream(), y.shape(), DType::i64),
      z(stream(), shape), again_y(stream(), y.shape());
  pool(stream(), x, params, y, indices);
  max_unpool(stream(), y, indices, 2, z);
  pool(stream(), z, params, again_y);
  CHECK(host_values(again_y) == host_values(y));
  const std::vector<float> got = host_values(z);
  int64_t kept = 0, wrong = 0;
  for (size_t i = 0; i < got.size(); i++) {
    if (got[i] != 0) kept++;
    if (got[i] != 0 && got[i] != values[i]) wrong++;
  }
  CHECK(wrong == 0);
  CHECK(kept == y.numel());
}

TEST_CASE("max_unpool: NaN, infinities and the sign of zero pass", "[small]") {
  const Tensor x = device_tensor({1, 4}, {NAN, INFINITY, -INFINITY, -0.0f}),
               indices = device_tensor({1, 4}, {3, 1, 0, 2}, DType::i64);
  const Guarded y(Shape{1, 4});
  max_unpool(stream(), x, indices, 1, y.tensor());
  const std::vector<float> got = host_values(y.tensor());
  CHECK(got[0] == -INFINITY);
  CHECK(got[1] == INFINITY);
  CHECK((got[2] == 0 && std::signbit(got[2])));
  CHECK(std::isnan(got[3]));
}

TEST_CASE("max_unpool: what does not fit is refused by name", "[small]") {
  const Tensor x(context(), {2, 3, 4, 4}), indices(context(), {2, 3, 4, 4}, DType::i64),
      y(context(), {2, 3, 8, 8});
  const auto refused = [](const Tensor& a, const Tensor& i, int spatial, const Tensor& b) {
    return error_of<ValidationError>([&] { max_unpool(stream(), a, i, spatial, b); });
  };
  CHECK(refused(x, indices, 4, y) == "spatial: 4 must be 1, 2 or 3");
  CHECK(refused(x, indices, 1, y) == "x: rank 4 must be 2 or 3");
  CHECK(refused(x, Tensor(context(), {2, 3, 4, 5}, DType::i64), 2, y) ==
        "indices: shape [2, 3, 4, 5] must be [2, 3, 4, 4]");
  CHECK(refused(x, Tensor(context(), x.shape()), 2, y) == "indices: dtype f32 must be i32 or i64");
  CHECK(refused(x, indices, 2, Tensor(context(), {2, 4, 8, 8})) == "y: size 4 of axis 1 must be 3");
  CHECK(refused(x, indices, 2, Tensor(context(), y.shape(), DType::f16)) == "y: dtype f16 must be f32");
  CHECK(refused(x, {}, 2, y) == "indices: is not defined");
  const auto planes_refuse = [](const Shape& shape, const Tensor& to) {
    return error_of<ValidationError>([&] {
      const Tensor from(context(), shape), at(context(), shape, DType::i64);
      max_unpool(stream(), from, at, 2, to, engine("planes"));
    });
  };
  CHECK(
      planes_refuse({1, 1, 2, 2}, Tensor(context(), {1, 1, 300, 500})) ==
      "engine: max_unpool: planes refused:\n  planes: planes of y have 150000 elements\n  tiles: 1 channels");
  CHECK(
      planes_refuse({1, 1, 300, 300}, Tensor(context(), {1, 1, 2, 2})) ==
      "engine: max_unpool: planes refused:\n  planes: planes of x have 90000 elements\n  tiles: 1 channels");
  CHECK(planes_refuse({1, 1, 2, 2}, Tensor(context(), {1, 1, 4, 8}).slice(3, 0, 4)) ==
        "engine: max_unpool: planes refused:\n  planes: strides [32, 32, 8, 1] are not row-major\n  tiles: 1 "
        "channels");
  const auto tiles_refuse = [](const Tensor& from, const Tensor& to) {
    return error_of<ValidationError>([&] {
      max_unpool(stream(), from, Tensor(context(), from.shape(), DType::i64), 2, to, engine("tiles"));
    });
  };
  CHECK(tiles_refuse(x, y) ==
        "engine: max_unpool: tiles refused:\n  tiles: strides 16 of C and 4, 1 of H and W");
  CHECK(tiles_refuse(Tensor(context(), {2, 1, 4, 4}), Tensor(context(), {2, 1, 8, 8})) ==
        "engine: max_unpool: tiles refused:\n  tiles: 1 channels");
  CHECK(error_of<ValidationError>([&] { max_unpool_backward(stream(), y, indices, 2, y); }) ==
        "indices: shape [2, 3, 4, 4] must be [2, 3, 8, 8]");
}
