// Passes: parts of a tensor become views, rotary embeddings that are written out one node, sizes constants.
// Graphs are written as exporters write them; with a pass and without it they must give the same.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kRest = INT64_MAX;  // an end that exporters write

/// A graph that is run with and without passes.
struct Case {
  NetGraph g;
  std::map<std::string, HostTensor> fed;
  Rng rng{7};

  int input(const Shape& shape) {
    const std::string name = "x" + std::to_string(fed.size());
    std::vector<double> numbers;
    for (int64_t i = 0; i < element_count(shape); i++) numbers.push_back(rng.real(-1, 1));
    fed[name] = host_tensor(DType::f32, shape, numbers);
    return g.add_input(name, DType::f32, std::vector<Dimension>(static_cast<size_t>(shape.size())));
  }
  int places(const Shape& shape) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < element_count(shape); i++) numbers.push_back((5 * i + 3) % 11);
    fed["places"] = host_tensor(DType::i64, shape, numbers);
    return g.add_input("places", DType::i64, std::vector<Dimension>(static_cast<size_t>(shape.size())));
  }
  int whole_constant(const Shape& shape, const std::vector<int64_t>& numbers) {
    return g.add_constant(whole(shape, numbers));
  }
  int row(const std::vector<int64_t>& numbers) {
    return whole_constant({static_cast<int64_t>(numbers.size())}, numbers);
  }
  int number(double value) { return g.add_constant(test::number(value)); }
  int apply(const char* function, std::vector<int> inputs) {
    return g.add("elementwise", std::move(inputs), {{"function", function}});
  }
  int gather(int x, int64_t axis, int64_t place) {
    return g.add("gather", {x, whole_constant({}, {place})}, {{"axis", axis}});
  }
  int slice(int x, int64_t axis, int64_t start, int64_t end, int64_t step = 1) {
    return g.add("slice", {x, row({start}), row({end}), row({axis}), row({step})});
  }
  /// A size of the value, half of it, as one number along an axis: what exporters compute.
  int half_size(int x, int64_t axis) {
    const int size = g.add("gather", {g.add("shape", {x}), whole_constant({}, {axis})}, {{"axis", 0}});
    const int half = g.add("elementwise", {size, whole_constant({}, {2})},
                           {{"function", "div"}, {"whole", "trunc_divide"}});
    return g.add("unsqueeze", {half, row({0})});
  }
  void output(int value) { g.add_output("y" + std::to_string(g.outputs.size()), value); }

  using Numbers = std::map<std::string, std::vector<float>>;
  Numbers run(const Model& model) const {
    Model::Tensors feeds;
    for (const auto& [name, host] : fed) feeds[name] = to_device(stream(), host);
    Numbers numbers;
    for (const auto& [name, tensor] : model.run(stream(), feeds)) numbers[name] = host_values(tensor);
    return numbers;
  }

  /// The nodes that are left, and how many kernels they launch: "rotary:1". What is computed is the same, to
  /// `bound`, in each of three runs: node by node, recorded, replayed.
  std::string left(double bound = 0, const std::vector<std::string>& without = {}) const {
    const Numbers expected = run(Model(g, graph_passes()));
    const Model model(g, without);
    for (int i = 0; i < 3; i++) {
      Numbers numbers = run(model);
      REQUIRE(numbers.size() == expected.size());
      for (const auto& [name, wanted] : expected) {
        REQUIRE(numbers[name].size() == wanted.size());
        float apart = 0;
        for (size_t k = 0; k < wanted.size(); k++)
          apart = std::max(apart, std::fabs(wanted[k] - numbers[name][k]));
        CHECK(apart <= bound);
      }
    }
    Model::Tensors feeds;
    for (const auto& [name, host] : fed) feeds[name] = to_device(stream(), host);
    std::string text;
    for (const Model::Plan::Step& step : model.explain(stream(), feeds).steps)
      text += (text.empty() ? "" : " ") + step.node.kind + ":" + std::to_string(step.kernels.size());
    return text;
  }
  /// How many of the nodes that are left are of that kind.
  int count(const std::string& kind, double bound, const std::vector<std::string>& without = {}) const {
    const std::string text = " " + left(bound, without);
    int found = 0;
    for (size_t at = 0; (at = text.find(" " + kind + ":", at)) != std::string::npos; at++) found++;
    return found;
  }
};

/// What rotary embeddings are made of, as transformers writes them.
struct Embedding : Case {
  static constexpr double kBound = 2e-6;

  /// cos and sin [B, 1, L, width], of the angles of places.
  std::pair<int, int> tables(int64_t batch, int64_t length, int64_t width, bool pairs = false,
                             int64_t unsqueezed = 1) {
    std::vector<double> rates;
    for (int64_t i = 0; i < width / 2; i++) rates.push_back(1 / (1.0 + static_cast<double>(i)));
    int angles = g.add("cast", {g.add("unsqueeze", {places({batch, length}), row({2})})}, {{"dtype", "f32"}});
    angles = apply("mul", {angles, g.add_constant(host_tensor(DType::f32, {width / 2}, rates))});
    if (pairs) {
      const int columns = g.add("unsqueeze", {angles, row({-1})});
      const int wide = g.add("tile", {columns, row({1, 1, 1, 2})});
      angles = g.add("reshape", {wide, row({batch, length, width})});
    } else {
      angles = g.add("concat", {angles, angles}, {{"axis", -1}});
    }
    return finished(angles, unsqueezed);
  }
  std::pair<int, int> finished(int angles, int64_t unsqueezed = 1) {
    const auto table = [&](const char* function) {
      const int scaled = apply("mul", {apply(function, {angles}), number(0.5)});
      return g.add("unsqueeze", {scaled, row({unsqueezed})});
    };
    const int cos = table("cos");
    return {cos, table("sin")};
  }

  /// concat(-second, first), halves by constants, or by what follows from x's shape.
  int turned(int x, int64_t width, bool by_shape = false) {
    const auto middle = [&] { return by_shape ? half_size(x, 3) : row({width / 2}); };
    const int first = g.add("slice", {x, row({0}), middle(), row({3}), row({1})});
    const int second = g.add("slice", {x, middle(), row({kRest}), row({3}), row({1})});
    return g.add("concat", {apply("neg", {second}), first}, {{"axis", -1}});
  }
  /// The same of pairs: -odd and even in turn.
  int turned_pairs(int x, const Shape& shape) {
    const int even = slice(x, 3, 0, kRest, 2), odd = slice(x, 3, 1, kRest, 2);
    const int stack =
        g.add("concat",
              {g.add("unsqueeze", {apply("neg", {odd}), row({-1})}), g.add("unsqueeze", {even, row({-1})})},
              {{"axis", -1}});
    return g.add("reshape", {stack, row({shape.begin(), shape.end()})});
  }
  int sum(int x, int turned, const std::pair<int, int>& tables) {
    return apply("add", {apply("mul", {x, tables.first}), apply("mul", {turned, tables.second})});
  }
  /// x as a product gives it: [B, L, H, D] with the axes of heads and places exchanged.
  int heads(const Shape& shape) {
    return g.add("transpose", {input({shape[0], shape[2], shape[1], shape[3]})},
                 {{"axes", std::vector<int64_t>{0, 2, 1, 3}}});
  }
};

}  // namespace

TEST_CASE("splits: gathers that take an axis apart are one split") {
  for (const int64_t last : {2, -1}) {
    Case c;
    const int x = c.apply("relu", {c.input({2, 5, 3, 4})});
    for (const int64_t place : {int64_t{0}, last, int64_t{1}})
      c.output(c.apply("exp", {c.gather(x, 2, place)}));
    CHECK(c.left() ==
          "elementwise:1 split:0 squeeze:0 elementwise:1 squeeze:0 elementwise:1 squeeze:0 elementwise:1");
    CHECK(c.left(0, {"splits"}) ==
          "elementwise:1 gather:1 elementwise:1 gather:1 elementwise:1 gather:1 elementwise:1");
  }
}

TEST_CASE("splits: slices, and indices in a row, of any widths") {
  Case c;
  const int x = c.apply("relu", {c.input({2, 7, 3})});
  c.output(c.apply("exp", {c.slice(x, 1, 0, 2)}));
  c.output(c.apply("exp", {c.g.add("gather", {x, c.row({2, 3, -3})}, {{"axis", -2}})}));
  c.output(c.apply("exp", {c.slice(x, -2, -2, kRest)}));
  c.output(c.apply("exp", {c.slice(x, 1, 0, 2)}));      // one of them twice
  c.output(c.apply("exp", {c.slice(x, 1, 0, kRest)}));  // and all
  CHECK(c.left() ==
        "elementwise:1 split:0 elementwise:1 elementwise:1 elementwise:1 elementwise:1 elementwise:1");
}

TEST_CASE("splits: one place alone is a slice") {
  Case c;
  const int x = c.apply("relu", {c.input({2, 5, 3})});
  c.output(c.apply("exp", {c.gather(x, 1, -2)}));
  c.output(c.apply("exp", {c.g.add("gather", {x, c.row({1, 2})}, {{"axis", 1}})}));
  CHECK(c.left() == "elementwise:1 slice:0 squeeze:0 elementwise:1 slice:0 elementwise:1");
}

TEST_CASE("splits: what overlaps, leaves a gap or is in another order is none") {
  struct Ends {
    std::vector<std::pair<int64_t, int64_t>> of;
  };
  for (const Ends& ends : {Ends{{{0, 3}, {2, 6}}}, Ends{{{0, 2}, {3, 6}}}, Ends{{{0, 2}, {2, 5}}},
                           Ends{{{1, 3}, {3, 6}}}, Ends{{{0, 3}, {3, 6}, {1, 2}}}}) {
    Case c;
    const int x = c.apply("relu", {c.input({2, 6})});
    for (const auto& [start, end] : ends.of) c.output(c.apply("exp", {c.slice(x, 1, start, end)}));
    CHECK(c.count("split", 0) == 0);
    CHECK(c.count("slice", 0) == static_cast<int>(ends.of.size()));
  }
  Case c;
  const int x = c.apply("relu", {c.input({2, 4})});
  c.output(c.apply("exp", {c.g.add("gather", {x, c.row({1, 0})}, {{"axis", 1}})}));
  c.output(c.apply("exp", {c.g.add("gather", {x, c.row({0, 2})}, {{"axis", 1}})}));
  c.output(c.apply("exp", {c.slice(x, 1, 0, 4, 2)}));
  c.output(c.apply("exp", {c.slice(x, 1, 1, 4, 2)}));
  CHECK(c.count("gather", 0) == 2);
  CHECK(c.count("slice", 0) == 2);
}

TEST_CASE("splits: an index that is out of range is refused") {
  Case c;
  const int x = c.apply("relu", {c.input({2, 3})});
  c.output(c.apply("exp", {c.gather(x, 1, 0)}));
  c.output(c.apply("exp", {c.gather(x, 1, 3)}));
  for (const std::vector<std::string>& without : {std::vector<std::string>{}, {"splits"}})
    CHECK_THAT(refusal([&] {
                 Model(c.g, without).run(stream(), {{"x0", to_device(stream(), c.fed["x0"])}});
               }),
               Catch::Contains("(gather)") && Catch::Contains("input 1: element 0 is 3, must be -3 to 2"));
}

TEST_CASE("reshape: what lies apart is read where it lies, if it can be") {
  struct Kind {
    std::vector<int64_t> shape;
    int copies;
  };
  // A slice of 8 of 12 numbers.
  for (const Kind& kind : {Kind{{3, 4, 2, 4}, 0}, Kind{{12, 8}, 0}, Kind{{1, 2, 6, 2, 2, 2}, 0},
                           Kind{{3, 1, 4, 8, 1}, 0}, Kind{{96}, 1}, Kind{{6, 16}, 1}, Kind{{24, 4}, 1}}) {
    Case c;
    const int x = c.apply("relu", {c.input({3, 4, 12})});
    c.output(c.apply("exp", {c.g.add("reshape", {c.slice(x, 2, 2, 10), c.row(kind.shape)})}));
    CHECK(c.left() == "elementwise:1 slice:0 reshape:" + std::to_string(kind.copies) + " elementwise:1");
  }
  Case c;  // the same number again and again, and axes exchanged
  const int wide = c.g.add("expand", {c.apply("relu", {c.input({3, 1, 2})}), c.row({3, 4, 2})});
  c.output(c.apply("exp", {c.g.add("reshape", {wide, c.row({3, 2, 2, 2})})}));
  const int turned = c.g.add("transpose", {wide}, {{"axes", std::vector<int64_t>{2, 1, 0}}});
  c.output(c.apply("exp", {c.g.add("reshape", {turned, c.row({2, 2, 2, 3})})}));
  c.output(c.apply("exp", {c.g.add("reshape", {turned, c.row({2, 12})})}));
  CHECK(c.left() ==
        "elementwise:1 expand:0 reshape:0 elementwise:1 transpose:0 reshape:0 elementwise:1 reshape:1 "
        "elementwise:1");
}

TEST_CASE("constants: sizes that follow from shapes are constants, those that follow from elements are not") {
  Case c;
  const int x = c.apply("relu", {c.input({2, 6})});
  const int half = c.half_size(x, 1);
  c.output(c.apply("exp", {c.g.add("slice", {x, half, c.row({kRest}), c.row({1})})}));
  CHECK(c.left() == "elementwise:1 slice:0 elementwise:1");

  // How many elements are not 0, and how long what is filled is, another time is another number. Each alone:
  // a run that reads elements for one of them is not replayed, which would hide what becomes of the other.
  for (const bool counted : {true, false}) {
    NetGraph g;
    const auto of_elements = [&] {
      if (counted) return g.add("nonzero", {g.add_input("x", DType::i64, {{2}})});
      const int zero = g.add_constant(host_tensor(DType::f32, {1}, std::vector<double>{0}));
      return g.add("fill", {g.add_input("x", DType::i64, {{2}}), zero});
    };
    g.add_output("y", g.add("cast", {g.add("shape", {of_elements()})}, {{"dtype", "f32"}}));
    const Model model(g);
    for (int64_t i = 0; i < 5; i++) {
      const auto outputs = model.run(stream(), {{"x", to_device(stream(), whole({2}, {3, i % 3}))}});
      const auto count = static_cast<float>(i % 3 != 0 ? 2 : 1), size = static_cast<float>(i % 3);
      CHECK(host_values(outputs.at("y")) ==
            (counted ? std::vector<float>{1, count} : std::vector<float>{3, size}));
    }
  }
}

TEST_CASE("rotary: as transformers' Llama writes it") {
  for (const bool by_shape : {false, true}) {
    Embedding c;
    const auto tables = c.tables(2, 5, 8);
    for (const Shape& shape : {Shape{2, 4, 5, 8}, Shape{2, 2, 5, 8}}) {
      const int x = c.heads(shape);
      c.output(c.sum(x, c.turned(x, 8, by_shape), tables));
    }
    CHECK(c.left(Embedding::kBound) ==
          "unsqueeze:0 pointwise:1 transpose:0 pointwise:1 pointwise:1 rotary:1 transpose:0 rotary:1");
    CHECK(c.count("concat", Embedding::kBound, {"rotary"}) == 3);
    // Without splits the slices are found all the same.
    CHECK(c.count("rotary", Embedding::kBound, {"splits"}) == 2);
  }
}

TEST_CASE("rotary: operands in any order, and tables that are constants or rows of one") {
  for (const bool equal : {true, false}) {
    for (const int form : {0, 1, 2}) {
      Embedding c;
      std::vector<double> cos, sin;
      const int64_t rows = form == 1 ? 11 : 5;
      for (int64_t i = 0; i < rows * 6; i++) {
        const double angle = static_cast<double>(i / 6 * 3 + i % 3);
        cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
      }
      if (!equal) sin.back() += 0.5;
      const auto table = [&](const std::vector<double>& numbers, int places) {
        const Shape shape = form == 0 ? Shape{1, 1, 5, 6} : Shape{rows, 6};
        const int constant = c.g.add_constant(host_tensor(DType::f32, shape, numbers));
        if (form != 1) return constant;
        return c.g.add("unsqueeze", {c.g.add("gather", {constant, places}, {{"axis", 0}}), c.row({1})});
      };
      const int places = form == 1 ? c.places({2, 5}) : NetGraph::kNone;
      const int x = c.heads({2, 3, 5, 6}), across = c.turned(x, 6);
      const int a = c.apply("mul", {table(cos, places), x}), b = c.apply("mul", {table(sin, places), across});
      c.output(c.apply("add", {b, a}));
      CHECK(c.count("rotary", Embedding::kBound) == (equal ? 1 : 0));
    }
  }
}

TEST_CASE("rotary: some numbers are turned, the others follow them") {
  Embedding c;
  const auto tables = c.tables(2, 5, 4);
  const int x = c.heads({2, 3, 5, 10});
  const int front = c.slice(x, 3, 0, 4), back = c.slice(x, 3, 4, kRest);
  c.output(c.g.add("concat", {c.sum(front, c.turned(front, 4), tables), back}, {{"axis", -1}}));
  CHECK(c.left(Embedding::kBound) == "unsqueeze:0 pointwise:1 transpose:0 pointwise:1 pointwise:1 rotary:2");
  Embedding other;  // behind them stands something else
  const auto same = other.tables(2, 5, 4);
  const int y = other.heads({2, 3, 5, 10}), start = other.slice(y, 3, 0, 4);
  other.output(other.g.add(
      "concat", {other.sum(start, other.turned(start, 4), same), other.slice(y, 3, 3, 9)}, {{"axis", -1}}));
  CHECK(other.count("concat", Embedding::kBound) == 1);
  CHECK(other.count("rotary", Embedding::kBound) == 1);
}

TEST_CASE("rotary: pairs side by side, with heads behind places") {
  for (const bool behind : {false, true}) {
    Embedding c;
    const Shape shape = behind ? Shape{2, 5, 3, 8} : Shape{2, 3, 5, 8};
    const auto tables = c.tables(2, 5, 8, true, behind ? 2 : 1);
    const int x = c.input(shape);
    c.output(c.sum(x, c.turned_pairs(x, shape), tables));
    CHECK(c.left(Embedding::kBound) ==
          (behind ? "unsqueeze:0 pointwise:1 unsqueeze:0 pointwise:1 reshape:0 pointwise:1 reshape:0 "
                    "transpose:0 rotary:1 transpose:0"
                  : "unsqueeze:0 pointwise:1 unsqueeze:0 pointwise:1 reshape:0 pointwise:1 reshape:0 "
                    "rotary:1"));
  }
}

TEST_CASE("rotary: what only looks like it stays") {
  const auto rotaries = [](const std::function<int(Embedding&, int x, std::pair<int, int> tables)>& y) {
    Embedding c;
    const auto tables = c.tables(2, 5, 8);
    const int x = c.heads({2, 4, 5, 8});
    c.output(y(c, x, tables));
    return c.count("rotary", Embedding::kBound);
  };
  using Tables = std::pair<int, int>;
  CHECK(rotaries([](Embedding& c, int x, Tables t) { return c.sum(x, c.turned(x, 8), t); }) == 1);
  // The other sign.
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          const int first = c.slice(x, 3, 0, 4), second = c.slice(x, 3, 4, 8);
          return c.sum(x, c.g.add("concat", {second, c.apply("neg", {first})}, {{"axis", -1}}), t);
        }) == 0);
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          const int first = c.slice(x, 3, 0, 4), second = c.slice(x, 3, 4, 8);
          return c.sum(x, c.g.add("concat", {c.apply("neg", {first}), second}, {{"axis", -1}}), t);
        }) == 0);
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          return c.apply("sub", {c.apply("mul", {x, t.first}), c.apply("mul", {c.turned(x, 8), t.second})});
        }) == 0);
  // Halves that are none, of another tensor.
  for (const int64_t start : {0, 3})
    CHECK(rotaries([start](Embedding& c, int x, Tables t) {
            const int first = c.slice(x, 3, 0, 4), second = c.slice(x, 3, start, start + 4);
            return c.sum(x, c.g.add("concat", {c.apply("neg", {second}), first}, {{"axis", -1}}), t);
          }) == 0);
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          const int first = c.slice(x, 3, 0, 3), second = c.slice(x, 3, 3, 8);
          return c.sum(x, c.g.add("concat", {c.apply("neg", {second}), first}, {{"axis", -1}}), t);
        }) == 0);
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          return c.sum(x, c.turned(c.apply("exp", {x}), 8), t);
        }) == 0);
  // Angles that differ, and tables that were changed on the way.
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          const int angles = c.input({2, 5, 4}), others = c.input({2, 5, 4});
          t = c.finished(c.g.add("concat", {angles, others}, {{"axis", -1}}));
          return c.sum(x, c.turned(x, 8), t);
        }) == 0);
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          t.second = c.apply("mul", {t.second, c.input({8})});
          return c.sum(x, c.turned(x, 8), t);
        }) == 0);
  // Pairs with tables of halves.
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          return c.sum(x, c.turned_pairs(x, {2, 4, 5, 8}), t);
        }) == 0);
  // A table for each head.
  CHECK(rotaries([](Embedding& c, int x, Tables t) {
          const int angles = c.input({2, 4, 5, 4});
          const int both = c.g.add("concat", {angles, angles}, {{"axis", -1}});
          t = {c.apply("cos", {both}), c.apply("sin", {both})};
          return c.sum(x, c.turned(x, 8), t);
        }) == 0);
}

TEST_CASE("rotary: in a model that computes in bf16, behind RMSNorm") {
  Embedding c;
  const auto matrix = [&](int64_t rows, int64_t columns) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < rows * columns; i++) numbers.push_back(c.rng.real(-0.5, 0.5));
    return c.g.add_constant(host_tensor(DType::f32, {rows, columns}, numbers));
  };
  const auto tables = c.tables(2, 5, 8);
  const int first = c.g.add("matmul", {c.input({2, 5, 16}), matrix(16, 16)});
  const int weight = c.g.add_constant(host_tensor(DType::f32, {16}, std::vector<double>(16, 1.5)));
  const int norm = c.g.add("layer_norm", {first, weight}, {{"axis", -1}, {"rms", true}});
  const int rows = c.g.add("reshape", {c.g.add("matmul", {norm, matrix(16, 16)}), c.row({2, 5, 2, 8})});
  const int x = c.g.add("transpose", {rows}, {{"axes", std::vector<int64_t>{0, 2, 1, 3}}});
  c.output(c.sum(x, c.turned(x, 8), tables));

  const Model low(c.g, {}, DType::bf16);
  Model::Tensors feeds;
  for (const auto& [name, host] : c.fed) feeds[name] = to_device(stream(), host);
  const Model::Plan plan = low.explain(stream(), feeds);
  CHECK(plan.replayed);
  CHECK(std::count_if(plan.steps.begin(), plan.steps.end(), [](const auto& step) {
          return step.node.kind == "rotary" && step.kernels.size() == 1;
        }) == 1);
  const std::vector<float> expected = c.run(Model(c.g, graph_passes())).at("y0"),
                           numbers = c.run(low).at("y0");
  float largest = 0, apart = 0;
  for (size_t i = 0; i < expected.size(); i++) {
    largest = std::max(largest, std::fabs(expected[i]));
    apart = std::max(apart, std::fabs(expected[i] - numbers[i]));
  }
  CHECK(apart > 0);
  CHECK(apart < 0.02F * largest);
}
