// Models bound to tensors that stay.
#include <dlprim/copy.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/rehearsal.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

/// exp(x) w, and x again.
NetGraph small() {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1, "rows"}, {3}});
  const int w = g.add_constant(host_tensor(DType::f32, {3, 2}, std::vector<double>{1, -2, 0.5, 3, -1, 0.25}));
  g.add_output("y", g.add("matmul", {g.add("elementwise", {x}, {{"function", "exp"}}), w}));
  g.add_output("same", g.add("identity", {x}));
  return g;
}
Floats numbers(int64_t rows, uint64_t seed) {
  Rng rng(seed);
  Floats values;
  for (int64_t i = 0; i < rows * 3; i++) values.push_back(static_cast<float>(rng.real(-1, 1)));
  return values;
}

}  // namespace

TEST_CASE("a bound model computes what the model does, on the same tensors each time") {
  const Model model{small()};
  auto bound = model.bind(stream(), {{"x", device_tensor({4, 3}, numbers(4, 1))}});
  REQUIRE(bound);
  CHECK(bound->launches() > 0);
  const Tensor x = bound->inputs().at("x"), y = bound->outputs().at("y");
  for (uint64_t seed = 1; seed < 4; seed++) {
    const Tensor fed = device_tensor({4, 3}, numbers(4, seed));
    if (seed > 1) copy(stream(), fed, x);  // the first it was bound with
    bound->run();
    const Floats got = host_values(y);
    const Model::Tensors expected = model.run(stream(), {{"x", fed}});
    const Floats of_model = host_values(expected.at("y"));
    for (size_t i = 0; i < got.size(); i++) CHECK(got[i] == Approx(of_model[i]));
    CHECK(host_values(bound->outputs().at("same")) == numbers(4, seed));
    CHECK(host_values(y) == got);  // runs of the model are not seen
  }
}

TEST_CASE("a bound model outlives its model, and others of its kind") {
  std::optional<Model::Bound> first, second;
  {
    const Model model{small()};
    first = model.bind(stream(), {{"x", device_tensor({2, 3}, numbers(2, 5))}});
    second = model.bind(stream(), {{"x", device_tensor({2, 3}, numbers(2, 6))}});
  }
  REQUIRE((first && second));
  first->run();
  second->run();
  CHECK(host_values(first->outputs().at("same")) == numbers(2, 5));
  CHECK(host_values(second->outputs().at("same")) == numbers(2, 6));
}

TEST_CASE("settings keep the values that they were bound with") {
  NetGraph g;
  const int n = g.add_input("n", DType::i64, {}), x = g.add_input("x", DType::f32, {{3}});
  const int condition = g.add("elementwise", {n, g.add_constant(host_tensor(DType::i64, {}, Integers{3}))},
                              {{"function", "greater"}});
  const int y = g.add("if", {condition, x, x});
  for (const char* function : {"neg", "abs"}) {
    NetGraph body;
    body.inputs = {body.add_value()};
    body.add_output("r", body.add("elementwise", body.inputs, {{"function", function}}));
    g.nodes.back().bodies.push_back(std::make_shared<const NetGraph>(body));
  }
  g.add_output("y", y);
  const Model model(g);
  for (const int64_t value : {2, 5}) {
    auto bound =
        model.bind(stream(), {{"n", to_device(stream(), host_tensor(DType::i64, {}, Integers{value}))},
                              {"x", device_tensor({3}, {-1, 2, -3})}});
    REQUIRE(bound);
    CHECK(bound->inputs().count("n") == 0);
    bound->run();
    CHECK(host_values(bound->outputs().at("y")) == (value > 3 ? Floats{1, -2, 3} : Floats{1, 2, 3}));
  }
}

TEST_CASE("random numbers of a bound model are others in each run, and those that the model would draw") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{7}});
  const int truth = g.add_constant(host_tensor(DType::boolean, {}, std::vector<double>{1}));
  const int ratio = g.add_constant(host_tensor(DType::f32, {}, std::vector<double>{0.5}));
  g.add_output("u", g.add("random", {x}, {{"distribution", "uniform"}}));
  g.add_output("dropped", g.add("dropout", {x, ratio, truth}));
  const Model model(g), by_nodes(g);
  const Model::Tensors feeds{{"x", device_tensor({7}, {1, 1, 1, 1, 1, 1, 1})}};
  const auto values = [&](const Model::Tensors& outputs) {
    Floats all = host_values(outputs.at("u"));
    const Floats dropped = host_values(outputs.at("dropped"));
    all.insert(all.end(), dropped.begin(), dropped.end());
    return all;
  };
  std::vector<Floats> expected;
  const Model::Watch watch = [](const NetGraph::Node&, const Model::Tensors&) {};  // node by node
  for (int i = 0; i < 6; i++) expected.push_back(values(by_nodes.run(stream(), feeds, {}, watch)));
  for (size_t i = 0; i + 1 < expected.size(); i++) CHECK(expected[i] != expected[i + 1]);
  for (int i = 0; i < 3; i++) CHECK(values(model.run(stream(), feeds)) == expected[static_cast<size_t>(i)]);
  CHECK(model.explain(stream(), feeds).replayed);
  CHECK(values(model.run(stream(), feeds)) == expected[3]);  // explain() took none
  auto bound = Model(g).bind(stream(), feeds);
  REQUIRE(bound);
  for (size_t i = 0; i < 4; i++) {
    bound->run();
    CHECK(values(bound->outputs()) == expected[i]);
  }
}

TEST_CASE("a model that is rehearsed tells its outputs' shapes, and runs as if it had not been") {
  const Model model{small()};
  const Tensor x = device_tensor({4, 3}, numbers(4, 1));
  for (int i = 0; i < 2; i++) {
    const Rehearsal rehearsal;
    CHECK(model.run(stream(), {{"x", x}}).at("y").shape() == Shape{4, 2});
  }
  const Model other{small()};
  for (int i = 0; i < 3; i++)
    CHECK(host_values(model.run(stream(), {{"x", x}}).at("y")) ==
          host_values(other.run(stream(), {{"x", x}}).at("y")));
}

TEST_CASE("what elements decide is not bound") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{4}});
  g.add_output("y", g.add("nonzero", {x}));
  const Model model(g);
  const Model::Tensors feeds{{"x", device_tensor({4}, {0, 1, 0, 2})}};
  CHECK(!model.bind(stream(), feeds));
  CHECK(model.run(stream(), feeds).at("y").shape() == Shape{1, 2});
  CHECK_THROWS_WITH(model.bind(stream(), {}), Catch::Contains("input 'x' is missing"));
}
