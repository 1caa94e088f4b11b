// Tensors of more than 2^31 elements. Most operators treat each row by itself: rows of a huge tensor must
// come out as those of a small one that holds the same numbers. The others are compared with what is known of
// them.
//   test_huge '[huge]'       4.3 GB a tensor of f16, up to three at a time; ten minutes on a CPU
#include <cmath>
#include <functional>
#include <utility>

#include <dlprim/class_loss.hpp>
#include <dlprim/dropout.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/grid_sample.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/interpolate.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/pad.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/pixel_shuffle.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/random.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/softmax.hpp>
#include <dlprim/sort.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

// The last twelve rows lie beyond 2^31.
constexpr int64_t kColumns = 8 * 17 * 241, kRows = (int64_t{1} << 31) / kColumns + 13;

/// Where one memory object may hold `tensors` of them.
bool there_is_room(int tensors) {
  const DeviceFacts& facts = context().device().facts();
  const uint64_t bytes = uint64_t{2} * kRows * kColumns;
  const bool room = facts.max_allocation >= bytes && facts.global_memory >= (tensors + 1) * bytes;
  if (!room) note_skipped("the device has not the memory");
  return room;
}

float element(int64_t row, int64_t column) {
  return static_cast<float>((7 * row + column) % 61 - 30);
}

/// Rows `first` and behind of the numbers that `element` gives. No quotient lies near a whole number, where
/// devices whose division is rounded otherwise would differ.
Tensor numbers(int64_t first, int64_t rows) {
  const Tensor r(context(), {rows, 1}), c(context(), {1, kColumns});
  const Tensor x(context(), {rows, kColumns}, DType::f16);
  arange(stream(), 7 * first, 7, r.reshape({rows}));
  arange(stream(), 0, 1, c.reshape({kColumns}));
  pointwise(stream(), {r, c}, {x}, {}, "y0 = x0 + x1 - 61 * floor((x0 + x1 + 0.5) / 61) - 30");
  return x;
}

/// Rows that are looked at: the first, some around the middle and where element 2^31 of kRows lies, the last.
constexpr int64_t kWindow = 3;
std::vector<int64_t> windows(int64_t rows) {
  return {0, rows / 2, rows - 14, rows - kWindow};
}

Tensor poisoned(const Shape& shape, DType dtype) {
  Tensor y(context(), shape, dtype);
  fill(stream(), is_floating(dtype) ? NAN : 99, y);
  return y;
}

Shape with_rows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

/// f(x, y) treats rows by themselves. x is seen as of shape x_row, y has y_row; their first sizes are put in.
struct RowWise {
  const char* name;
  Shape x_row, y_row;
  DType dtype;
  std::function<void(const Tensor& x, const Tensor& y)> f;
};

void check(const RowWise& op, const Tensor& x) {
  if (!is_selected(op.name)) return;
  const int64_t rows = x.shape()[0];
  INFO(op.name << ", " << again(op.name));
  const Tensor y = poisoned(with_rows(op.y_row, rows), op.dtype);
  op.f(x.reshape(with_rows(op.x_row, rows)), y);
  for (const int64_t first : windows(rows)) {
    INFO("rows from " << first);
    const Tensor expected = poisoned(with_rows(op.y_row, kWindow), op.dtype);
    op.f(numbers(first, kWindow).reshape(with_rows(op.x_row, kWindow)), expected);
    const std::vector<float> wanted = host_values(expected);
    // Sums may be formed in another order.
    CHECK(deviation(host_values(y.slice(0, first, first + kWindow)), wanted) <= 0x1p-9);
  }
}

RowWise same_shape(const char* name, std::function<void(const Tensor&, const Tensor&)> f,
                   DType dtype = DType::f16) {
  return {name, {0, kColumns}, {0, kColumns}, dtype, std::move(f)};
}

const Shape kImage = {0, 8, 17, 241};

std::vector<RowWise> along_rows() {
  const Stream& s = stream();
  return {
      same_shape(
          "copy to bf16", [&](auto& x, auto& y) { copy(s, x, y); }, DType::bf16),
      same_shape("gelu", [&](auto& x, auto& y) { elementwise(s, "gelu", {x}, {}, y); }),
      same_shape("gelu backward",
                 [&](auto& x, auto& y) { elementwise_backward(s, "gelu", x, {x}, {}, {y}); }),
      same_shape("softmax", [&](auto& x, auto& y) { softmax(s, x, {}, 1, y); }),
      same_shape("log_softmax", [&](auto& x, auto& y) { log_softmax(s, x, {}, 1, y); }),
      same_shape("softmax backward", [&](auto& x, auto& y) { softmax_backward(s, x, x, {}, 1, y); }),
      same_shape("layer norm", [&](auto& x, auto& y) { layer_norm(s, x, {}, {}, 1, 1e-5, y); }),
      same_shape("flip", [&](auto& x, auto& y) { flip(s, x, {1}, y); }),
      same_shape("roll", [&](auto& x, auto& y) { roll(s, x, {5}, {1}, y); }),
      same_shape("cumsum", [&](auto& x, auto& y) { cumsum(s, x, {1}, y); }),
      same_shape("cummax", [&](auto& x, auto& y) { cummax(s, x, {1}, y); }),
      same_shape("sort", [&](auto& x, auto& y) { sort(s, x, {1}, y); }),
      {"top-k", {0, kColumns}, {0, 5}, DType::f16, [&](auto& x, auto& y) { top_k(s, x, {1}, y); }},
      {"sum", {0, kColumns}, {0, 1}, DType::f32, [&](auto& x, auto& y) { reduction(s, "sum", x, {}, {y}); }},
      {"argmax",
       {0, kColumns},
       {0, 1},
       DType::i64,
       [&](auto& x, auto& y) { reduction(s, "argmax", x, {}, {y}); }},
      {"var", {0, kColumns}, {0, 1}, DType::f32, [&](auto& x, auto& y) { reduction(s, "var", x, {0}, {y}); }},
      {"pad",
       {0, kColumns},
       {0, kColumns + 5},
       DType::f16,
       [&](auto& x, auto& y) {
         pad(s, x, {{0, 2}, {0, 3}, PadMode::reflect}, 0, y);
       }},
      {"max pooling",
       kImage,
       {0, 8, 8, 120},
       DType::f16,
       [&](auto& x, auto& y) {
         pool(s, x, {PoolMode::max, {3, 3}, {2, 2}}, y);
       }},
      {"average pooling",
       kImage,
       {0, 8, 17, 241},
       DType::f16,
       [&](auto& x, auto& y) {
         pool(s, x, {PoolMode::average, {3, 3}, {1, 1}, {1, 1}}, y);
       }},
      {"interpolation",
       kImage,
       {0, 8, 15, 230},
       DType::f16,
       [&](auto& x, auto& y) { interpolate(s, x, {InterpolateMode::linear}, y); }},
      {"pixel shuffle",
       kImage,
       {0, 2, 34, 482},
       DType::f16,
       [&](auto& x, auto& y) { pixel_shuffle(s, x, 2, y); }},
      {"group norm", kImage, kImage, DType::f16,
       [&](auto& x, auto& y) { group_norm(s, x, {}, {}, 4, 1e-5, y); }},
      {"grid sampling",
       kImage,
       {0, 8, 2, 3},
       DType::f16,
       [&](auto& x, auto& y) {
         const Tensor grid(context(), {x.shape()[0], 2, 3, 2});
         fill(s, 0.25, grid);
         grid_sample(s, x, grid, {}, y);
       }},
      {"gather",
       {0, kColumns},
       {0, 4},
       DType::f16,
       [&](auto& x, auto& y) {
         const Tensor index(context(), {x.shape()[0], 4}, DType::i32);
         fill(s, static_cast<double>(kColumns - 2), index);
         gather(s, x, index, 1, y);
       }},
      {"cross-entropy",
       {0, kColumns},
       {0},
       DType::f32,
       [&](auto& x, auto& y) {
         const Tensor target(context(), {x.shape()[0]}, DType::i64);
         fill(s, static_cast<double>(kColumns - 1), target);
         ClassLossParams params;
         params.reduction = LossReduction::none;
         cross_entropy(s, x, target, {}, params, y);
       }},
  };
}

std::vector<float> row(int64_t r) {
  std::vector<float> values;
  for (int64_t c = 0; c < kColumns; c++) values.push_back(element(r, c));
  return values;
}

std::vector<float> row_of(const Tensor& x, int64_t r) {
  return host_values(x.slice(0, r, r + 1));
}

}  // namespace

TEST_CASE("huge: the numbers themselves", "[.huge]") {
  if (!there_is_room(1)) return;
  const Tensor x = numbers(0, kRows);
  for (const int64_t r : {int64_t{0}, kRows / 2, kRows - 13, kRows - 1}) CHECK(row_of(x, r) == row(r));
}

TEST_CASE("rows of a tensor come out as they do by themselves") {
  const Tensor x = numbers(0, 40);
  for (const RowWise& op : along_rows()) check(op, x);
}

TEST_CASE("huge: operators along rows", "[.huge]") {
  if (!there_is_room(3)) return;
  const Tensor x = numbers(0, kRows);
  for (const RowWise& op : along_rows()) check(op, x);
}

TEST_CASE("huge: across rows", "[.huge]") {
  if (!there_is_room(1)) return;
  const Tensor x = numbers(0, kRows);
  std::vector<float> sums(61);  // of all rows, for each of the first columns; they repeat
  for (int64_t c = 0; c < 61; c++)
    for (int64_t r = 0; r < kRows; r++) sums[static_cast<size_t>(c)] += element(r, c);
  const Tensor columns = poisoned({1, kColumns}, DType::f32), count = poisoned({1, 1}, DType::i64),
               place = poisoned({1, 1}, DType::i64);
  reduction(stream(), "sum", x, {}, {columns});
  const std::vector<float> values = host_values(columns);
  for (size_t c = 0; c < values.size(); c++) REQUIRE(values[c] == sums[c % 61]);

  int64_t zeros = 0;  // one in 61 neighbours, and perhaps one more in what is left of a row
  for (int64_t r = 0; r < kRows; r++) {
    zeros += kColumns / 61;
    for (int64_t c = kColumns / 61 * 61; c < kColumns; c++) zeros += element(r, c) == 0;
  }
  reduction(stream(), "count_nonzero", x, {}, {count});
  int64_t counted = 0;
  read(stream(), count, &counted, sizeof(counted));
  CHECK(counted == kRows * kColumns - zeros);

  fill(stream(), 99, x.slice(0, kRows - 1, kRows).slice(1, 5, 6));
  reduction(stream(), "argmax", x, {}, {place});
  int64_t found = 0;
  read(stream(), place, &found, sizeof(found));
  CHECK(found == (kRows - 1) * kColumns + 5);
}

TEST_CASE("huge: transposed, and rows chosen, written and joined", "[.huge]") {
  if (!there_is_room(2)) return;
  const Tensor x = numbers(0, kRows), y = poisoned({kColumns, kRows}, DType::f16);
  copy(stream(), x.transpose(0, 1), y);
  for (const int64_t r : {int64_t{0}, kRows / 2, kRows - 1})
    CHECK(host_values(y.slice(1, r, r + 1)) == row(r));
  const int64_t last = kColumns - 1;
  const std::vector<float> column = host_values(y.slice(0, last, last + 1));
  for (int64_t r = 0; r < kRows; r++) REQUIRE(column[static_cast<size_t>(r)] == element(r, last));

  const std::vector<int64_t> chosen = {kRows - 1, 0, kRows - 13};
  const Tensor index(context(), {3}, DType::i64), rows = poisoned({3, kColumns}, DType::f16);
  write(stream(), index, chosen.data(), 3 * sizeof(int64_t));
  index_select(stream(), x, index, 0, rows);
  for (int64_t i = 0; i < 3; i++) CHECK(row_of(rows, i) == row(chosen[static_cast<size_t>(i)]));

  const Tensor written = y.reshape({kRows, kColumns});
  fill(stream(), 5, rows);
  index_write(stream(), x, index, rows, 0, {}, written);
  for (const int64_t r : {int64_t{1}, kRows - 14, kRows - 12, kRows - 2}) CHECK(row_of(written, r) == row(r));
  for (const int64_t r : chosen) CHECK(row_of(written, r) == std::vector<float>(kColumns, 5));

  concat(stream(), {x.slice(0, 9, kRows), x.slice(0, 0, 9)}, 0, written);
  CHECK(row_of(written, kRows - 1) == row(8));
  CHECK(row_of(written, kRows - 10) == row(kRows - 1));
}

TEST_CASE("huge: random numbers and dropout go on as their stream does", "[.huge]") {
  if (!there_is_room(2)) return;
  const Tensor y = poisoned({kRows, kColumns}, DType::f16), few(context(), {kWindow, kColumns}, DType::f16),
               x = numbers(0, kRows);
  const auto check_stream = [&](const auto& make) {
    make(x, y, RandomState{3, 0});
    for (const int64_t first : windows(kRows)) {
      INFO("rows from " << first);
      make(x.slice(0, first, first + kWindow), few, RandomState{3, static_cast<uint64_t>(first * kColumns)});
      CHECK(host_bytes(few) == host_bytes(y.slice(0, first, first + kWindow)));
    }
  };
  check_stream(
      [](const Tensor&, const Tensor& to, RandomState state) { random_uniform(stream(), -1, 1, state, to); });
  check_stream(
      [](const Tensor&, const Tensor& to, RandomState state) { random_normal(stream(), 0, 1, state, to); });
  check_stream([](const Tensor& from, const Tensor& to, RandomState state) {
    dropout(stream(), from, 0.4, state, to);
  });
}
