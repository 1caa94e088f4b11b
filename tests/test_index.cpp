// Indexing by several tensors and embeddings against plain loops.
#include <dlprim/embedding.hpp>

#include <cmath>

#include "cases/indexing.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Case {
  Shape x;
  std::vector<std::optional<Shape>> indices;
  Shape y;       ///< the result's shape
  int at;        ///< where in it the indices' shape stands
  Shape common;  ///< that shape
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{5}, {Shape{7}}, {7}, 0, {7}},
      {{5, 6}, {Shape{2, 3}}, {2, 3, 6}, 0, {2, 3}},
      {{5, 6}, {{}, Shape{4}}, {5, 4}, 1, {4}},
      {{5, 6}, {Shape{4}, Shape{4}}, {4}, 0, {4}},
      {{4, 5, 6}, {{}, Shape{2, 1}, Shape{3}}, {4, 2, 3}, 1, {2, 3}},
      {{4, 5, 6}, {Shape{3}, {}, Shape{2, 1}}, {2, 3, 5}, 0, {2, 3}},
      {{2, 3, 4, 3, 2}, {{}, Shape{}, {}, Shape{6}}, {6, 2, 4, 2}, 0, {6}},
      {{5, 3, 16}, {Shape{7}}, {7, 3, 16}, 0, {7}},
      {{3, 4}, {Shape{0}}, {0, 4}, 0, {0}},
  };
  return all;
}

/// For each element of the result its element of x, or -1; fills `given` with index tensors.
std::vector<int64_t> places_of(const Case& c, Rng& rng, std::vector<Tensor>& given) {
  std::vector<std::vector<int64_t>> numbers;
  for (size_t axis = 0; axis < c.indices.size(); axis++) {
    numbers.emplace_back();
    given.emplace_back();
    if (!c.indices[axis]) continue;
    numbers.back() = random_indices(element_count(*c.indices[axis]), c.x[static_cast<int>(axis)], rng, 60);
    given.back() = index_tensor(*c.indices[axis], numbers.back());
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < element_count(c.y); i++) {
    const std::vector<int64_t> at = coordinates(c.y, i);
    std::vector<int64_t> from;
    size_t plain = 0;
    for (int axis = 0; axis < c.x.size(); axis++) {
      const auto a = static_cast<size_t>(axis);
      if (a >= c.indices.size() || !c.indices[a]) {
        if (plain == static_cast<size_t>(c.at)) plain += static_cast<size_t>(c.common.size());
        from.push_back(at[plain++]);
        continue;
      }
      const Shape& shape = *c.indices[a];
      int64_t element = 0;
      for (int d = 0; d < shape.size(); d++) {
        const int64_t place = at[static_cast<size_t>(c.at + c.common.size() - shape.size() + d)];
        element = element * shape[d] + (shape[d] == 1 ? 0 : place);
      }
      from.push_back(numbers[a][static_cast<size_t>(element)]);
    }
    places.push_back(element_at(c.x, from));
  }
  return places;
}

void check(const Case& c, DType dtype, Placing placing) {
  INFO("x=" << to_string(c.x) << " y=" << to_string(c.y) << " " << name_of(dtype) << " " << name_of(placing));
  Rng rng(41);
  std::vector<Tensor> indices;
  const std::vector<int64_t> places = places_of(c, rng, indices);
  const Tensor x = placed(placing, c.x, integers(element_count(c.x), rng), dtype);
  const Guarded y(c.y, strides_in(placing, c.y), dtype, 64), z(c.x, strides_in(placing, c.x), dtype, 37);
  index(stream(), x, indices, y.tensor());
  Values expected;
  for (int64_t place : places) expected.push_back(place < 0 ? 0 : values_of(x)[static_cast<size_t>(place)]);
  CHECK(deviation(host_values(y.tensor()), expected) == 0);
  index(stream(), x, indices, y.tensor(), engine("direct"));  // whole words, where rows allow
  CHECK(deviation(host_values(y.tensor()), expected) == 0);

  const Tensor dy = placed(placing, c.y, integers(element_count(c.y), rng), dtype);
  index_backward(stream(), dy, indices, z.tensor());
  const ScatterParams sum{ScatterReduce::sum, true}, last{};
  const Values zeros(static_cast<size_t>(element_count(c.x)), 0);
  CHECK(deviation(host_values(z.tensor()), scatter_reference(zeros, places, values_of(dy), sum)) == 0);
  for (const char* name : {"columns", "sorted", "winners"}) {
    index_put(stream(), x, indices, dy, last, z.tensor(), engine(name));
    CHECK(deviation(host_values(z.tensor()), scatter_reference(values_of(x), places, values_of(dy), last)) ==
          0);
  }
  CHECK((y.intact() && z.intact()));
}

Tensor rows_of(const Shape& shape, Rng& rng, DType dtype) {
  return device_tensor(shape, integers(element_count(shape), rng), dtype);
}

}  // namespace

TEST_CASE("index: every form, its gradient and writing") {
  for (const Case& c : cases()) check(c, DType::f32, Placing::row_major);
}

TEST_CASE("index: dtypes and placings", "[small]") {
  for (Placing placing : kPlacings) check(cases()[4], DType::f32, placing);
  check(cases()[4], DType::f16, Placing::row_major);
  check(cases()[7], DType::f16, Placing::row_major);
  check(cases()[1], DType::i8, Placing::row_major);
}

TEST_CASE("index_put: values broadcast, an index may be 32 bits", "[small]") {
  const Tensor x = device_tensor({3, 4}, std::vector<float>(12, 1)),
               index = index_tensor({2}, {2, -3}, DType::i32);
  const Guarded y({3, 4});
  index_put(stream(), x, {index}, device_tensor({1}, {5}), {ScatterReduce::sum, true}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>{6, 6, 6, 6, 1, 1, 1, 1, 6, 6, 6, 6});
  CHECK(y.intact());
}

TEST_CASE("embedding: rows, gradient, padding, frequencies") {
  Rng rng(43);
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (int64_t columns : {1, 8, 19})
      for (const char* name : {"auto", "sorted"}) {
        INFO(name_of(dtype) << " columns=" << columns << " " << name);
        const int64_t rows = 9;
        const Shape shape{4, 30};
        const std::vector<int64_t> numbers = random_indices(120, rows, rng, 50);
        const Tensor index = index_tensor(shape, numbers), w = rows_of({rows, columns}, rng, dtype);
        const Tensor dy = rows_of({4, 30, columns}, rng, dtype);
        const Guarded y({4, 30, columns}, dtype), dw({rows, columns}, dtype), scaled({rows, columns}, dtype);
        embedding(stream(), w, index, y.tensor());
        embedding_backward(stream(), dy, index, {3, false}, dw.tensor(), engine(name));
        embedding_backward(stream(), dy, index, {-1, true}, scaled.tensor(), engine(std::string(name)));
        Values looked_up, gradient(static_cast<size_t>(rows * columns), 0), mean = gradient;
        Values counts(static_cast<size_t>(rows), 0);
        const auto row_of = [&](int64_t n) { return n >= rows || n < -rows ? -1 : n < 0 ? n + rows : n; };
        for (int64_t n : numbers)
          if (row_of(n) >= 0) counts[static_cast<size_t>(row_of(n))]++;
        for (size_t i = 0; i < numbers.size(); i++)
          for (int64_t c = 0; c < columns; c++) {
            const int64_t row = row_of(numbers[i]);
            const auto at = static_cast<size_t>(row * columns + c);
            looked_up.push_back(row < 0 ? 0 : values_of(w)[at]);
            if (row < 0) continue;
            const double d = values_of(dy)[i * static_cast<size_t>(columns) + static_cast<size_t>(c)];
            if (row != 3) gradient[at] += d;
            mean[at] += d / counts[static_cast<size_t>(row)];
          }
        CHECK(deviation(host_values(y.tensor()), looked_up) == 0);
        CHECK(deviation(host_values(dw.tensor()), gradient) == 0);
        // One division, and the storage's rounding.
        CHECK(deviation(host_values(scaled.tensor()), mean) <= 0x1p-22 + storage_roundoff(dtype));
        CHECK((y.intact() && dw.intact() && scaled.intact()));
        const Tensor again(context(), {rows, columns}, dtype);
        embedding_backward(stream(), dy, index, {3, false}, again, engine(name));
        CHECK(host_bytes(again) == host_bytes(dw.tensor()));
      }
}

TEST_CASE("embedding: many rows of one number", "[small]") {
  const int64_t count = 700, columns = 70;
  std::vector<int64_t> numbers(count, 1);
  numbers[5] = 0;
  numbers[count - 1] = 2;
  Rng rng(44);
  const Tensor index = index_tensor({count}, numbers), dy = rows_of({count, columns}, rng, DType::f32);
  const Guarded by_columns({3, columns}), sorted({3, columns});
  embedding_backward(stream(), dy, index, {}, by_columns.tensor(), engine("columns"));
  embedding_backward(stream(), dy, index, {}, sorted.tensor(), engine("sorted"));
  CHECK(host_values(by_columns.tensor()) == host_values(sorted.tensor()));
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    if (numbers[static_cast<size_t>(i)] == 1) sum += values_of(dy)[static_cast<size_t>(i * columns + 3)];
  CHECK(host_values(sorted.tensor())[columns + 3] == sum);
  CHECK((by_columns.intact() && sorted.intact()));
}

TEST_CASE("index and embedding refuse what does not fit", "[small]") {
  const Tensor x = device_tensor({2, 3}, std::vector<float>(6, 1)),
               y = device_tensor({4, 3}, std::vector<float>(12, 1));
  const Tensor i = index_tensor({4}, {0, 1, 0, 1}), other = index_tensor({3}, {0, 1, 2}, DType::i32);
  CHECK(refusal([&] { index(stream(), x, {}, y); }) == "indices: there is none");
  CHECK(refusal([&] { index(stream(), x, {i, i, i}, y); }) == "indices: 3 for x of rank 2");
  CHECK(refusal([&] { index(stream(), x, {i, other}, y); }) == "indices: dtype i32 must be i64");
  CHECK(refusal([&] { index(stream(), x, {i}, x); }) == "y: shape [2, 3] must be [4, 3]");
  CHECK(refusal([&] { index_put(stream(), {}, {i}, y, {}, y.slice(0, 0, 2)); }) ==
        "y: shares memory with values");
  CHECK(refusal([&] { index_put(stream(), {}, {i}, x, {}, x); }) ==
        "values: shape [2, 3] does not broadcast to [4, 3]");
  CHECK(refusal([&] { embedding(stream(), x.reshape({6}), i, y); }) == "w: rank 1 must be 2, shape is [6]");
  CHECK(refusal([&] { embedding_backward(stream(), x, i, {}, x); }) == "dy: shape [2, 3] must be [4, 3]");
  CHECK(refusal([&] { embedding_backward(stream(), y, {}, {}, x); }) == "index: is not defined");
}
