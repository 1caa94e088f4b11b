// Every form of the generated kernels that GPUs run, on any device, by the engine `gpu`: operands' inner
// strides, their places in memory, dtypes, kept and reduced orders, against plain loops. The forms that were
// reached are counted at the end.
#include <cmath>
#include <set>

#include <dlprim/pointwise.hpp>

#include "cases/reduction.hpp"
#include "catch.hpp"
#include "core/engine.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// How a tensor of a case lies in memory.
struct Layout {
  DType dtype = DType::f32;
  int step = 1;         ///< along the innermost dimension; 0: the tensor has size 1 there
  bool aligned = true;  ///< element 0 is on a 16-byte boundary
  int gap = 0;          ///< elements between rows, more than the steps take
  std::string text() const {
    return std::string(name_of(dtype)) + " step " + std::to_string(step) + (aligned ? "" : " unaligned") +
           (gap ? " gap " + std::to_string(gap) : "");
  }
};

Shape shape_of(Shape shape, const Layout& layout) {
  if (layout.step == 0) shape[shape.size() - 1] = 1;
  return shape;
}

/// Row-major, but for the step and the gap.
Strides strides_of(const Shape& shape, const Layout& layout) {
  Strides strides = contiguous_strides(shape);
  int64_t stride = std::max(layout.step, 1);
  for (int d = shape.size() - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= shape[d];
    if (d == shape.size() - 1) stride += layout.gap;
  }
  return strides;
}

int64_t padding_of(const Layout& layout) {
  return layout.aligned ? 64 : 65;
}

struct Input {
  Tensor tensor;
  std::vector<float> values;  ///< row-major
};

/// Small whole numbers, 0 and more, so that every dtype holds them and their sums; others lie in the gaps.
Input make_input(const Shape& whole, const Layout& layout, Rng& rng) {
  const Shape shape = shape_of(whole, layout);
  const Strides strides = strides_of(shape, layout);
  int64_t extent = 1 + padding_of(layout) + 64;
  for (int d = 0; d < shape.size(); d++) extent += (shape[d] - 1) * strides[d];
  std::vector<float> memory = integers(extent, rng, 3);
  for (float& v : memory) v = layout.dtype == DType::boolean ? v > 0 : std::abs(v);
  Input x;
  x.tensor = device_tensor({extent}, memory, layout.dtype).as_strided(shape, strides, padding_of(layout));
  for (int64_t i = 0; i < element_count(shape); i++) {
    int64_t rest = i, at = padding_of(layout);
    for (int d = shape.size() - 1; d >= 0; d--) at += rest % shape[d] * strides[d], rest /= shape[d];
    x.values.push_back(memory[static_cast<size_t>(at)]);
  }
  return x;
}

/// The value of x at row-major element i of the common shape.
float value_at(const Input& x, const Shape& whole, size_t i) {
  const auto columns = static_cast<size_t>(whole[whole.size() - 1]);
  return x.values[x.tensor.shape() == whole ? i : i / columns];
}

struct OpenPointwise : Pointwise {
  using Pointwise::Pointwise;
  const std::string& text() const { return info_->text; }
};
struct OpenReduce : Reduce {
  using Reduce::Reduce;
  const std::string& text() const { return info_->text; }
};

/// "vector=4" of the text of a plan: a form's part.
std::string part_of(const std::string& text, const std::string& name) {
  const size_t at = text.find(" " + name + "=");
  REQUIRE(at != std::string::npos);
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

/// What was reached: parts of forms, with the operand that they were reached by.
class Reached {
 public:
  void note(const std::string& what) { seen_.insert(what); }
  void require(const std::string& what) const {
    INFO("no case reached: " << what);
    CHECK(seen_.count(what) == 1);
  }

 private:
  std::set<std::string> seen_;
};

/// How an operand is accessed in a kernel whose vectors have that length.
std::string access(const char* operand, const Layout& layout, const std::string& vector) {
  return std::string(operand) + " " + name_of(layout.dtype) + " step " + std::to_string(layout.step) + " " +
         vector;
}
std::string step_of(const char* operand, const Layout& layout, const std::string& vector) {
  return std::string(operand) + " step " + std::to_string(layout.step) + " " + vector;
}

const std::vector<DType>& dtypes() {
  static const std::vector<DType> all = [] {
    std::vector<DType> list = {DType::f32, DType::f16, DType::bf16, DType::i8,     DType::u8,
                               DType::i16, DType::i32, DType::i64,  DType::boolean};
    if (has_doubles()) list.push_back(DType::f64);
    return list;
  }();
  return all;
}

/// The widest access that a dtype has: of 16 bytes at most, 8 elements at most, none of 8-byte elements.
std::string widest(DType dtype) {
  return size_of(dtype) > 4 ? "vector=1" : size_of(dtype) > 2 ? "vector=4" : "vector=8";
}

struct PointwiseCase {
  Shape shape;
  Layout a, b, y;
  std::string text() const {
    return "pointwise " + to_string(shape) + " of " + a.text() + ", " + b.text() + " to " + y.text();
  }
};

void check(const PointwiseCase& c, Reached& reached) {
  if (!is_selected(c.text())) return;
  INFO(again(c.text()));
  Rng rng(1);
  const Input a = make_input(c.shape, c.a, rng), b = make_input(c.shape, c.b, rng);
  const Guarded y(c.shape, strides_of(c.shape, c.y), c.y.dtype, padding_of(c.y));
  const OpenPointwise plan(context(), {a.tensor, b.tensor}, {y.tensor()}, 0, "y0 = 2 * x0 + x1",
                           engine("gpu"));
  plan.run(stream(), {a.tensor, b.tensor}, {y.tensor()}, {});
  std::vector<float> expected;
  for (size_t i = 0; i < static_cast<size_t>(element_count(c.shape)); i++) {
    const float v = 2 * value_at(a, c.shape, i) + value_at(b, c.shape, i);
    expected.push_back(c.y.dtype == DType::boolean ? v != 0 : v);
  }
  CHECK(host_values(y.tensor()) == expected);
  CHECK(y.intact());
  const std::string vector = part_of(plan.text(), "vector");
  for (const auto& [name, layout] : {std::pair("in", c.a), std::pair("in", c.b), std::pair("out", c.y)}) {
    reached.note(access(name, layout, vector));
    reached.note(step_of(name, layout, vector));
  }
}

struct ReduceCase {
  Shape x, y;
  Layout a, b, out;
  bool second = false;  ///< another output, whose elements lie side by side
  std::string text() const {
    return "reduce " + to_string(x) + " to " + to_string(y) + " of " + a.text() + ", " + b.text() + " to " +
           out.text() + (second ? " twice" : "");
  }
};

void check(const ReduceCase& c, Reached& reached) {
  if (!is_selected(c.text())) return;
  INFO(again(c.text()));
  Rng rng(2);
  const Input a = make_input(c.x, c.a, rng), b = make_input(c.x, c.b, rng);
  const Guarded y(c.y, strides_of(c.y, c.out), c.out.dtype, padding_of(c.out)), more(c.y, DType::f32);
  std::vector<Tensor> ys = {y.tensor()};
  if (c.second) ys.push_back(more.tensor());
  const Reduction sum = sum_of("2 * x0 + x1", c.second ? "y0 = a0; y1 = -a0" : "y0 = a0");
  const OpenReduce plan(context(), {a.tensor, b.tensor}, {ys.begin(), ys.end()}, 0, sum, engine("gpu"));
  plan.run(stream(), {a.tensor, b.tensor}, ys, {});
  std::vector<float> expected(static_cast<size_t>(element_count(c.y)), 0), negative;
  for_each_reduced(c.x, c.y,
                   [&](size_t i, size_t k) { expected[k] += 2 * value_at(a, c.x, i) + value_at(b, c.x, i); });
  for (float& v : expected) {
    negative.push_back(-v);
    if (c.out.dtype == DType::boolean) v = v != 0;
  }
  CHECK(host_values(y.tensor()) == expected);
  CHECK(y.intact());
  if (c.second) {
    CHECK(host_values(more.tensor()) == negative);
    CHECK(more.intact());
  }
  const std::string along = part_of(plan.text(), "along"), vector = part_of(plan.text(), "vector"),
                    whole = part_of(plan.text(), "whole");
  reached.note(along + " " + vector + " " + whole);
  reached.note(along + " " + part_of(plan.text(), "lanes"));
  reached.note(along + (part_of(plan.text(), "parts") == "parts=1" ? " one part" : " parts"));
  for (const Layout& layout : {c.a, c.b}) {
    reached.note(along + " " + access("in", layout, vector));
    reached.note(along + " " + step_of("in", layout, vector));
  }
  reached.note(access("out", c.out, vector) + " " + whole);
  reached.note(step_of("out", c.out, vector) + " " + whole);
}

/// The steps of two inputs, of which one at least has the innermost dimension.
const std::vector<std::pair<int, int>> kSteps = {{1, 1}, {1, 0}, {0, 1}, {1, 2},
                                                 {2, 1}, {2, 2}, {2, 0}, {0, 2}};

bool one_was_selected() {
  return std::getenv("DLPRIM_TEST_CASE") != nullptr;
}

}  // namespace

TEST_CASE("pointwise: every inner stride, aligned and not, by each length of vectors", "[small]") {
  Reached reached;
  // Rows with gaps stay rows; by their lengths and gaps vectors have 8, 4 and 1 elements.
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [from_a, from_b] : kSteps)
      for (const int to : {1, 2}) {
        const Layout a{dtype, from_a, true, 8}, b{dtype, from_b, true, 8}, y{dtype, to, true, 8};
        check(PointwiseCase{{3, 16}, a, b, y}, reached);
      }
  const Layout plain{DType::f32, 1, true, 8};
  for (const int which : {0, 1, 2})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Layout dense{dtype, 1, true, 8};
      for (const Layout& other :
           {Layout{dtype, 1, false, 8}, Layout{dtype, 2, false, 8}, Layout{dtype, 1, true, 1},
            Layout{dtype, 1, true, 4}, Layout{dtype, 2, true, 1}})
        check(
            PointwiseCase{
                {3, 16}, which == 0 ? other : dense, which == 1 ? other : dense, which == 2 ? other : dense},
            reached);
    }
  for (const int64_t columns : {1, 3, 10, 12, 16})
    check(PointwiseCase{{5, columns}, plain, plain, plain}, reached);
  check(PointwiseCase{{5, 10}, {DType::f32, 2}, {DType::f32, 0}, {DType::f32, 2}}, reached);
  if (one_was_selected()) return;
  for (const char* vector : {"vector=1", "vector=4", "vector=8"}) {
    for (const char* step : {"step 1 ", "step 2 "}) {
      reached.require(std::string("in ") + step + vector);
      reached.require(std::string("out ") + step + vector);
    }
    if (std::string(vector) != "vector=1") reached.require(std::string("in step 0 ") + vector);
  }
}

TEST_CASE("pointwise: every dtype read and written, by each length of vectors") {
  Reached reached;
  const size_t n = dtypes().size();
  for (size_t i = 0; i < n; i++) {
    const DType from = dtypes()[i], to = dtypes()[(i + 1) % n];
    for (const DType other : {from, to})
      for (const int step : {1, 2}) {
        check(PointwiseCase{{3, 16}, {from}, {from, 2, true, 8}, {other, step, true, 8}}, reached);
        check(PointwiseCase{{3, 16}, {from, step, true, 8}, {from, 0}, {other}}, reached);
      }
    check(PointwiseCase{{3, 10}, {from}, {to}, {from, 1, true, 3}}, reached);
  }
  if (one_was_selected()) return;
  for (const DType dtype : dtypes())
    for (const char* operand : {"in ", "out "}) {
      reached.require(std::string(operand) + name_of(dtype) + " step 1 " + widest(dtype));
      reached.require(std::string(operand) + name_of(dtype) + " step 1 vector=1");
      if (size_of(dtype) <= 2) reached.require(std::string(operand) + name_of(dtype) + " step 2 vector=8");
    }
}

TEST_CASE("reduce: every inner stride, aligned and not, over rows, columns and both", "[small]") {
  Reached reached;
  // Few reduced elements, so that lanes have outputs alone: a lane's may be stored at once only where they
  // are neighbours.
  for (const Shape& y : {Shape{3, 1, 16}, Shape{3, 5, 1}})
    for (const auto& [from_a, from_b] : kSteps)
      for (const int to : {1, 2})
        check(ReduceCase{{3, 5, 16}, y, {DType::f32, from_a}, {DType::f32, from_b}, {DType::f32, to}},
              reached);
  for (const Shape& y : {Shape{1, 5, 1}, Shape{1, 1, 16}, Shape{1, 5, 16}, Shape{1, 1, 1}})
    for (const int to : {1, 2})
      check(ReduceCase{{3, 5, 16}, y, {DType::f32}, {DType::f32, 0}, {DType::f32, to}}, reached);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Shape& y : {Shape{3, 1, 16}, Shape{3, 5, 1}}) {
      const Layout dense{dtype};
      for (const Layout& other : {Layout{dtype, 1, false}, Layout{dtype, 1, true, 1},
                                  Layout{dtype, 1, true, 4}, Layout{dtype, 2, true, 1}}) {
        check(ReduceCase{{3, 5, 16}, y, other, dense, dense}, reached);
        check(ReduceCase{{3, 5, 16}, y, dense, dense, other}, reached);
      }
      check(ReduceCase{{3, 5, 16}, y, dense, {dtype, 0}, {dtype, 2}, true}, reached);
    }
  if (one_was_selected()) return;
  for (const char* form :
       {"along=kept vector=1 whole=0", "along=kept vector=4 whole=0", "along=kept vector=4 whole=1",
        "along=kept vector=8 whole=0", "along=kept vector=8 whole=1", "along=reduced vector=1 whole=0",
        "along=reduced vector=4 whole=0", "along=reduced vector=8 whole=0"})
    reached.require(form);
  for (const char* along : {"along=kept ", "along=reduced "})
    for (const char* step : {"0", "1", "2"})
      reached.require(std::string(along) + "in step " + step + " vector=4");
  reached.require("out step 2 vector=4 whole=0");
}

TEST_CASE("reduce: every dtype, along outputs and along reduced elements") {
  Reached reached;
  const size_t n = dtypes().size();
  for (size_t i = 0; i < n; i++) {
    const DType from = dtypes()[i], to = dtypes()[(i + 1) % n];
    for (const Shape& y : {Shape{3, 1, 16}, Shape{3, 3, 1}}) {
      check(ReduceCase{{3, 3, 16}, y, {from}, {from, 0}, {from}}, reached);
      check(ReduceCase{{3, 3, 16}, y, {from}, {to, 2}, {to, 2}}, reached);
    }
  }
  if (one_was_selected()) return;
  for (const DType dtype : dtypes()) {
    const std::string name = name_of(dtype), vector = widest(dtype);
    reached.require("along=kept in " + name + " step 1 " + vector);
    reached.require("along=reduced in " + name + " step 1 " + vector);
    reached.require("out " + name + " step 1 " + vector + (vector == "vector=1" ? " whole=0" : " whole=1"));
    reached.require("out " + name + " step 2 " +
                    widest(dtypes()[(std::find(dtypes().begin(), dtypes().end(), dtype) - dtypes().begin() +
                                     static_cast<int64_t>(n) - 1) %
                                    static_cast<int64_t>(n)]) +
                    " whole=0");
  }
}

TEST_CASE("reduce: every share of a group's lanes, and parts") {
  Reached reached;
  const int64_t units = context().device().facts().compute_units;
  const Layout x{DType::f32}, factor{DType::f32, 0};
  for (const int step : {1, 2}) {
    const Layout y{DType::f32, step};
    for (const int64_t columns : {4, 36, 68, 132, 260}) {
      check(ReduceCase{{1, 3, columns}, {1, 1, columns}, x, factor, y}, reached);
      check(ReduceCase{{2, 3, 10 * columns}, {2, 3, 1}, x, factor, y}, reached);
    }
    if (units <= 16)
      check(ReduceCase{{8, 2, 8192 * units / 2}, {8, 1, 8192 * units / 2}, x, factor, y}, reached);
    check(ReduceCase{{1, 30000, 8}, {1, 1, 8}, x, factor, y}, reached);
    check(ReduceCase{{1, 2, 50000}, {1, 2, 1}, x, factor, y}, reached);
  }
  if (one_was_selected()) return;
  for (const char* form :
       {"along=kept parts", "along=kept one part", "along=reduced parts", "along=reduced one part",
        "along=reduced lanes=16x16", "along=reduced lanes=256x1", "along=kept lanes=8x32"})
    reached.require(form);
  if (units <= 16) reached.require("along=kept lanes=256x1");
}
