// Branches of models: which are known before a run, how they become part of the graph, and that those which
// a run decides are decided in each run.
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>

#include <functional>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Floats = std::vector<float>;

std::shared_ptr<const NetGraph> body(size_t inputs,
                                     const std::function<int(NetGraph&, const std::vector<int>&)>& make) {
  NetGraph g;
  for (size_t i = 0; i < inputs; i++) g.inputs.push_back(g.add_value());
  g.add_output("r", make(g, g.inputs));
  return std::make_shared<const NetGraph>(g);
}
int constant(NetGraph& g, double value) {
  return g.add_constant(host_tensor(DType::f32, {}, std::vector<double>{value}));
}
int apply(NetGraph& g, const char* function, std::vector<int> inputs) {
  return g.add("elementwise", std::move(inputs), {{"function", function}});
}

/// relu(n > 3 ? x + 1 : x * 2)
NetGraph by_number() {
  NetGraph g;
  const int n = g.add_input("n", DType::i64, {}), x = g.add_input("x", DType::f32, {{3}});
  const int condition =
      apply(g, "greater", {n, g.add_constant(host_tensor(DType::i64, {}, std::vector<int64_t>{3}))});
  const int y = g.add("if", {condition, x, x});
  g.nodes.back().bodies = {body(1,
                                [](NetGraph& b, const auto& in) {
                                  return apply(b, "add", {in[0], constant(b, 1)});
                                }),
                           body(1, [](NetGraph& b, const auto& in) {
                             return apply(b, "mul", {in[0], constant(b, 2)});
                           })};
  g.add_output("y", apply(g, "relu", {y}));
  return g;
}
Floats expected(int64_t n, const Floats& x) {
  Floats y;
  for (float v : x) y.push_back(std::max(n > 3 ? v + 1 : v * 2, 0.0F));
  return y;
}
Model::Tensors feeds(int64_t n, const Floats& x) {
  return {{"n", to_device(stream(), host_tensor(DType::i64, {}, std::vector<int64_t>{n}))},
          {"x", device_tensor({3}, x)}};
}

/// Whether x has more than `least` rows.
int has_rows(NetGraph& g, int x, int64_t least) {
  const auto whole = [&](const Shape& shape, int64_t v) {
    return g.add_constant(host_tensor(DType::i64, shape, std::vector<int64_t>{v}));
  };
  const int rows = g.add("gather", {g.add("shape", {x}), whole({}, 0)}, {{"axis", 0}});
  return apply(g, "greater", {rows, whole({}, least)});
}

/// relu(rows > 4 ? (rows > 6 ? x - 1 : x) : -5) * 2: a branch in a branch, one that is an input, and one that
/// is a constant.
NetGraph by_rows() {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1, "rows"}});
  const int y = g.add("if", {has_rows(g, x, 4), x});
  g.nodes.back().bodies = {body(1,
                                [](NetGraph& b, const auto& in) {
                                  const int r = b.add("if", {has_rows(b, in[0], 6), in[0], in[0]});
                                  b.nodes.back().bodies = {
                                      body(1,
                                           [](NetGraph& c, const auto& inner) {
                                             return apply(c, "sub", {inner[0], constant(c, 1)});
                                           }),
                                      body(1, [](NetGraph&, const auto& inner) { return inner[0]; })};
                                  return r;
                                }),
                           body(0, [](NetGraph& b, const auto&) { return constant(b, -5); })};
  g.add_output("y", apply(g, "mul", {apply(g, "relu", {y}), constant(g, 2)}));
  return g;
}

std::string kinds_of(const Model::Plan& plan) {
  std::string kinds;
  for (const Model::Plan::Step& step : plan.steps) kinds += (kinds.empty() ? "" : " ") + step.node.kind;
  return kinds;
}

}  // namespace

TEST_CASE("values of a setting make kinds of their own, which are replayed") {
  const Model model(by_number());
  for (int run = 0; run < 24; run++) {
    INFO("run " << run);
    const int64_t n = run % 3 == 0 ? 7 : run % 5;
    const Floats x = {static_cast<float>(run), -3, 0.5F};
    CHECK(host_values(model.run(stream(), feeds(n, x)).at("y")) == expected(n, x));
  }
  for (int64_t n : {7, 2}) {
    const Model::Plan plan = model.explain(stream(), feeds(n, {1, 2, 3}));
    CHECK(plan.replayed);
    CHECK(kinds_of(plan) == "pointwise");
  }
}

TEST_CASE("ever new numbers are no setting") {
  const Model model(by_number());
  for (int64_t run = 0; run < 40; run++) {
    const Floats x = {static_cast<float>(run), -3, 0.5F};
    CHECK(host_values(model.run(stream(), feeds(run % 20, x)).at("y")) == expected(run % 20, x));
  }
  CHECK_FALSE(model.explain(stream(), feeds(30, {1, 2, 3})).replayed);
}

TEST_CASE("branches that shapes decide are taken, and passes see them") {
  const auto run = [](const Model& model, int64_t rows, int turn) {
    Floats x;
    for (int64_t i = 0; i < rows; i++) x.push_back(static_cast<float>(i + turn) - 2);
    const Tensor y = model.run(stream(), {{"x", device_tensor({rows}, x)}}).at("y");
    Floats wanted;
    for (float v : x) wanted.push_back(2 * std::max(rows > 6 ? v - 1 : v, 0.0F));
    if (rows <= 4) wanted = {0};
    CHECK(host_values(y) == wanted);
  };
  const Model model(by_rows()), without(by_rows(), {"branches"});
  for (int turn = 0; turn < 5; turn++)
    for (int64_t rows : {5, 9, 2}) {
      INFO("turn " << turn << ", " << rows << " rows");
      run(model, rows, turn);
      run(without, rows, turn);
    }
  for (int64_t rows : {5, 9}) {
    const Model::Tensors x = {{"x", device_tensor({rows}, Floats(static_cast<size_t>(rows), 1))}};
    CHECK(kinds_of(model.explain(stream(), x)).find("if") == std::string::npos);
    CHECK(model.explain(stream(), x).replayed);
    CHECK(kinds_of(without.explain(stream(), x)).find("if") != std::string::npos);
  }
}

TEST_CASE("what the device decides is decided in each run") {
  // Two branches by one condition: the host has it when the second is asked.
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{1}});
  const int condition = apply(g, "less", {x, constant(g, 0)});
  for (const char* name : {"y", "z"}) {
    const int r = g.add("if", {condition, x, x});
    g.nodes.back().bodies = {body(1, [](NetGraph& b, const auto& in) { return apply(b, "neg", {in[0]}); }),
                             body(1, [](NetGraph& b, const auto& in) {
                               return apply(b, "add", {in[0], constant(b, 1)});
                             })};
    g.add_output(name, r);
  }
  const Model model(g);
  for (int turn = 0; turn < 8; turn++) {
    const float v = turn % 2 == 0 ? -4.0F : 3.0F;
    const Model::Tensors y = model.run(stream(), {{"x", device_tensor({1}, {v})}});
    for (const char* name : {"y", "z"}) CHECK(host_values(y.at(name)) == Floats{4});
  }
  CHECK_FALSE(model.explain(stream(), {{"x", device_tensor({1}, {1})}}).replayed);
}

TEST_CASE("what a loop hands on changes, though it begins as a constant and constants are added") {
  // s = 0; n times: s = s + 2. Then relu(s * x). With n a setting all of the loop is of constants.
  NetGraph turn;
  for (int i = 0; i < 4; i++) turn.inputs.push_back(turn.add_value());  // turn, condition, s, two
  turn.add_output("go_on", turn.add("identity", {turn.inputs[1]}));
  turn.add_output("next", apply(turn, "add", {turn.inputs[2], turn.inputs[3]}));
  for (bool setting : {false, true}) {
    INFO((setting ? "n an input" : "n a constant"));
    NetGraph g;
    const int x = g.add_input("x", DType::f32, {{2}});
    const auto whole = [&](int64_t v) {
      return g.add_constant(host_tensor(DType::i64, {}, std::vector<int64_t>{v}));
    };
    const int n = setting ? g.add_input("n", DType::i64, {}) : whole(3);
    const int s = g.add("loop", {n, NetGraph::kNone, whole(0), whole(2)}, {{"carried", 1}});
    g.nodes.back().bodies = {std::make_shared<const NetGraph>(turn)};
    const int real = g.add("cast", {s}, {{"dtype", "f32"}});
    g.add_output("y", apply(g, "relu", {apply(g, "mul", {real, x})}));
    const Model model(g);
    for (int run = 0; run < 10; run++) {
      const int64_t count = setting ? 1 + run % 3 : 3;
      Model::Tensors in = {{"x", device_tensor({2}, {1, -1})}};
      if (setting) in["n"] = to_device(stream(), host_tensor(DType::i64, {}, std::vector<int64_t>{count}));
      CHECK(host_values(model.run(stream(), in).at("y")) == Floats{2.0F * static_cast<float>(count), 0});
    }
  }
}

TEST_CASE("a branch by how often a loop turned is decided in each run") {
  // s = s + 1 while s < x. After more than two turns -x, else x + 1.
  NetGraph turn;
  for (int i = 0; i < 5; i++) turn.inputs.push_back(turn.add_value());  // turn, condition, s, one, x
  const int next = apply(turn, "add", {turn.inputs[2], turn.inputs[3]});
  turn.add_output("go_on", apply(turn, "less", {next, turn.inputs[4]}));
  turn.add_output("next", next);
  turn.add_output("part", turn.add("identity", {next}));
  NetGraph g;
  const auto whole = [&](int64_t v) {
    return g.add_constant(host_tensor(DType::i64, {}, std::vector<int64_t>{v}));
  };
  const int x = g.add_input("x", DType::f32, {});
  const std::vector<int> ends = g.add_many(
      "loop", {NetGraph::kNone, NetGraph::kNone, constant(g, 0), constant(g, 1), x}, 2, {{"carried", 1}});
  g.nodes.back().bodies = {std::make_shared<const NetGraph>(turn)};
  const int turns = g.add("gather", {g.add("shape", {ends[1]}), whole(0)}, {{"axis", 0}});
  const int y = g.add("if", {apply(g, "greater", {turns, whole(2)}), x, x});
  g.nodes.back().bodies = {body(1, [](NetGraph& b, const auto& in) { return apply(b, "neg", {in[0]}); }),
                           body(1, [](NetGraph& b, const auto& in) {
                             return apply(b, "add", {in[0], constant(b, 1)});
                           })};
  g.add_output("y", y);
  const Model model(g);
  for (int run = 0; run < 6; run++) {
    const float value = run % 2 == 0 ? 5.0F : 1.5F;
    const Tensor result = model.run(stream(), {{"x", device_tensor({}, {value})}}).at("y");
    CHECK(host_values(result) == Floats{value > 2 ? -value : value + 1});
  }
}
