// Passes that transformers meet: attention that is written out, joined products, what is computed twice.
#include <dlprim/net_host.hpp>

#include "cases/rewriting.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Integers = std::vector<int64_t>;
constexpr double kBound = 2e-6;  // of the largest number: products and softmax in f32

size_t count(const std::string& kinds, const std::string& kind) {
  size_t found = 0;
  std::istringstream words(kinds);
  for (std::string word; words >> word;) found += word == kind ? 1 : 0;
  return found;
}

/// softmax(q k^T / 8 + mask) v, with changes.
struct Written {
  int64_t batch = 2, heads = 3, kv = 3, rows = 5, columns = 7, depth = 4, width = 6;
  bool masked = true, guarded = false, three_axes = false, divides = false, factors_in_front = false;
  bool turned_at_once = false;  ///< k as [B, D, S] per head from [B, S, H, D] by one node
  int softmax_axis = -1;

  RewriteCase c;
  int scores = 0, weights = 0;

  Shape shape(int64_t h, int64_t a, int64_t b) const {
    return three_axes ? Shape{batch * h, a, b} : Shape{batch, h, a, b};
  }
  int scalar(double value) { return c.constant(number(value)); }
  int turn(int x) {
    return c.g.add("transpose", {x}, {{"axes", three_axes ? Integers{0, 2, 1} : Integers{0, 1, 3, 2}}});
  }
  int repeated(int x, int64_t a, int64_t b) {
    if (kv == heads) return x;
    const auto n = [](int64_t size) { return static_cast<double>(size); };
    x = c.g.add("unsqueeze", {x}, {{"axes", Integers{2}}});
    x = c.g.add("expand", {x, c.constant(sizes({n(batch), n(kv), n(heads / kv), n(a), n(b)}))});
    return c.g.add("reshape", {x, c.constant(sizes({n(batch), n(heads), n(a), n(b)}))});
  }
  int build() {
    int q = c.input(shape(heads, rows, depth));
    int k = turned_at_once ? c.input({batch, columns, heads, depth}) : c.input(shape(kv, columns, depth));
    const int v = repeated(c.input(shape(kv, columns, width)), columns, width);
    k = turned_at_once ? c.g.add("transpose", {k}, {{"axes", Integers{0, 2, 3, 1}}})
                       : turn(repeated(k, columns, depth));
    const double root = std::sqrt(0.125);
    if (factors_in_front) q = c.apply("mul", {q, scalar(root)}), k = c.apply("mul", {scalar(root), k});
    scores = c.g.add("matmul", {q, k});
    if (divides) scores = c.apply("div", {scores, scalar(8)});
    if (!divides && !factors_in_front) scores = c.apply("mul", {scores, scalar(0.125)});
    if (masked) {
      std::vector<double> mask(static_cast<size_t>(rows * columns));
      for (size_t i = 0; i < mask.size(); i += 3) mask[i] = i % 2 == 0 ? -INFINITY : -0.5;
      scores = c.apply("add", {scores, c.constant(host_tensor(DType::f32, {rows, columns}, mask))});
    }
    weights = c.g.add("softmax", {scores}, {{"axis", softmax_axis}});
    if (guarded) {
      const int nan = c.apply("is_nan", {weights});
      weights = c.apply("where", {nan, scalar(0), weights});
    }
    const int y = c.g.add("matmul", {weights, v});
    c.g.add_output("y", y);
    return y;
  }
  std::string kinds() { return c.rewritten(kBound); }
};

}  // namespace

TEST_CASE("passes: attention that is written out is one node") {
  const auto becomes = [](const char* what, Written w, const std::string& kinds = "attention") {
    INFO(what);
    w.build();
    CHECK(w.kinds() == kinds);
    CHECK(count(w.c.rewritten(0, {"attention"}), "softmax") == 1);
  };
  Written w;
  becomes("a factor behind the product, a mask", w);
  w.divides = true;
  becomes("a quotient", w);
  w.masked = false;
  becomes("no mask", w);
  w.guarded = true;
  becomes("a guard against rows of nothing", w);
  w.factors_in_front = true, w.divides = false;
  becomes("factors on q and k", w);
  w.turned_at_once = true;
  becomes("k turned at once", w, "transpose transpose attention");
  Written three;
  three.three_axes = true;
  becomes("samples and heads on one axis", three, "unsqueeze unsqueeze unsqueeze attention squeeze");
  Written few;  // many samples: copies instead of many launches
  few.batch = 5, few.heads = 4, few.kv = 4;
  becomes("many samples", few);
  Written groups;
  groups.heads = groups.kv * 2;
  becomes("heads that share k and v", groups);
  groups.batch = 1, groups.masked = false;
  becomes("the same of one sample", groups);
}

TEST_CASE("passes: repeated heads are not repeated in attention") {
  Written w;
  w.heads = 2 * w.kv;
  w.build();
  w.kinds();
  for (const NetGraph::Node& node : w.c.graph.nodes)
    for (int k : {1, 2})
      CHECK(node.inputs.at(static_cast<size_t>(k)) == w.c.graph.inputs.at(static_cast<size_t>(k)));
}

TEST_CASE("passes: what only looks like attention stays") {
  const auto stays = [](const char* what, Written w, const auto& change) {
    INFO(what);
    const int y = w.build();
    change(w, y);
    CHECK(count(w.kinds(), "attention") == 0);
  };
  const auto nothing = [](Written&, int) {};
  Written columns;
  columns.softmax_axis = 2, columns.masked = false;
  stays("softmax over rows", columns, nothing);
  stays("scores are an output, too", {}, [](Written& w, int) { w.c.g.add_output("scores", w.scores); });
  stays("weights are an output, too", {}, [](Written& w, int) { w.c.g.add_output("weights", w.weights); });
  stays("a factor of each head", {}, [](Written& w, int) {
    for (NetGraph::Node& node : w.c.g.nodes)
      if (node.kind == "elementwise" && std::get<std::string>(node.attributes.at("function").value) == "mul")
        node.inputs[1] = w.c.constant(whole_numbers({3, 1, 1}, 5));
  });
  stays("two masks", {}, [](Written& w, int) {
    for (NetGraph::Node& node : w.c.g.nodes)
      if (node.kind == "elementwise" && std::get<std::string>(node.attributes.at("function").value) == "mul")
        node.attributes = {{"function", "add"}};
  });
  stays("an activation in the product", {}, [](Written& w, int) {
    for (NetGraph::Node& node : w.c.g.nodes)
      if (node.kind == "matmul") node.attributes = {{"activation", "relu"}};
  });
}

TEST_CASE("passes: causal attention nodes share one mask") {
  for (const int64_t batch : {1, 3})
    for (const int64_t kv : {4, 2}) {
      RewriteCase c;
      const int q = c.input({batch, 6, 4 * 8}), k = c.input({batch, 6, kv * 8}),
                v = c.input({batch, 6, kv * 8});
      const Attributes attributes{{"heads", 4}, {"kv_heads", kv}, {"causal", 1}, {"scale", 0.1}};
      const int h = c.g.add("attention", {q, k, v}, attributes);
      c.g.add_output("y", c.g.add("attention", {h, k, v}, attributes));
      CHECK(c.rewritten(kBound) == "attention attention");
      CHECK(c.graph.constants.size() == 1);
      CHECK(c.graph.nodes[0].inputs.at(3) == c.graph.nodes[1].inputs.at(3));
      CHECK(c.graph.nodes[0].attributes.count("causal") == 0);
    }
}

TEST_CASE("passes: q, k and v of one tensor are copied together, and right") {
  for (const int64_t batch : {1, 2, 3, 5}) {
    RewriteCase c;
    const int x = c.input({batch, 5, 3 * 3 * 4});
    const std::vector<int> parts = c.g.add_many("split", {x}, 3, {{"axis", -1}});
    const Attributes attributes{{"heads", 3}, {"kv_heads", 3}, {"scale", 0.1}};
    c.g.add_output("y", c.g.add("attention", {parts[0], parts[1], parts[2]}, attributes));
    // The same of parts that lie each for themselves.
    std::vector<int> own;
    for (int part : parts) own.push_back(c.apply("add", {part, c.constant(number(0))}));
    c.g.add_output("z", c.g.add("attention", {own[0], own[1], own[2]}, attributes));
    const RewriteCase::Outputs outputs = RewriteCase::run(c.g, c.fed);
    REQUIRE(outputs[0].size() == outputs[1].size());
    for (size_t i = 0; i < outputs[0].size(); i++) CHECK(outputs[0][i] == Approx(outputs[1][i]).margin(1e-5));
  }
}

TEST_CASE("passes: products of one tensor are one") {
  for (const bool bias : {false, true})
    for (const bool turned : {false, true}) {
      RewriteCase c;
      const int x = c.input({2, 3, 5});
      const auto product = [&](int64_t columns, uint64_t seed, bool with_bias) {
        int w = c.constant(whole_numbers(turned ? Shape{columns, 5} : Shape{5, columns}, seed));
        if (turned) w = c.g.add("transpose", {w}, {{"axes", Integers{1, 0}}});
        const int y = c.g.add("matmul", {x, w});
        return with_bias ? c.apply("add", {c.constant(whole_numbers({columns}, seed + 9)), y}) : y;
      };
      for (const int64_t columns : {4, 1, 6})
        c.g.add_output("y" + std::to_string(columns),
                       product(columns, 3 + static_cast<uint64_t>(columns), bias));
      const std::string one = turned ? "transpose matmul split" : "matmul split";
      CHECK(c.rewritten() == one);
      CHECK(c.graph.nodes[turned ? 1 : 0].inputs.size() == (bias ? 3 : 2));
      c.g.add_output("other", product(7, 5, !bias));  // stays alone
      CHECK(count(c.rewritten(), "matmul") == 2);
      CHECK(count(c.rewritten(0, {"products"}), "matmul") == 4);
    }
}

TEST_CASE("passes: products that are not of one kind stay apart") {
  RewriteCase c;
  const int x = c.input({3, 5});
  const int w = c.constant(whole_numbers({5, 4}, 1)), v = c.constant(whole_numbers({5, 4}, 2));
  c.g.add_output("a", c.g.add("matmul", {x, w}));
  c.g.add_output("b", c.g.add("matmul", {x, v}, {{"activation", "relu"}}));
  c.g.add_output("c", c.g.add("matmul", {x, c.g.add("transpose", {c.constant(whole_numbers({4, 5}, 3))},
                                                    {{"axes", Integers{1, 0}}})}));
  c.g.add_output("d", c.g.add("matmul", {x, c.constant(whole_numbers({5}, 4))}));
  CHECK(count(c.rewritten(), "matmul") == 4);
}

TEST_CASE("passes: what is computed twice is computed once") {
  RewriteCase c;
  const int x = c.input({2, 6});
  const auto half = [&](double by, int64_t axis) {
    const int y = c.apply("mul", {x, c.constant(number(by))});
    return c.g.add("softmax", {y}, {{"axis", axis}});
  };
  const int a = half(0.5, 1), b = half(0.5, 1), other = half(0.5, 0), third = half(0.25, 1);
  c.g.add_output("y", c.g.add("concat", {a, b, other, third}, {{"axis", 0}}));
  CHECK(c.rewritten() == "elementwise softmax softmax elementwise softmax concat");
  CHECK(count(c.rewritten(0, {"repeats"}), "softmax") == 4);
  c.g.add_output("b", b);  // an output has its own name
  CHECK(count(c.rewritten(), "softmax") == 4);
}

TEST_CASE("passes: random numbers are drawn as often as before") {
  NetGraph g;
  const int shape = g.add_constant(sizes({2000}));
  std::vector<int> drawn;
  for (int i = 0; i < 2; i++) drawn.push_back(g.add("random", {shape}, {{"distribution", "uniform"}}));
  g.add_output("y", g.add("elementwise", {drawn[0], drawn[1]}, {{"function", "sub"}}));
  detail::Rewritten r;
  r.graph = g;
  r.facts.resize(g.values.size());
  detail::remove_repeats(r);
  CHECK(r.graph.nodes.size() == g.nodes.size());
}
