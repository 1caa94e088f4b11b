// Gradients of what takes elements by place, exact: each place gets the sum of the gradients of what was
// taken there.
#include <dlprim/net_host.hpp>
#include <dlprim/net_training.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Gathered {
  std::string kind;
  Attributes attributes;
  Shape x;
  HostTensor places;
};

std::vector<Gathered> cases() {
  const HostTensor none = whole({0, 2}, {}), row = whole({1, 2}, {1, -3});
  return {
      {"gather", {{"axis", 1}}, {3, 4}, whole({2, 2}, {3, 0, 3, -1})},
      {"gather", {{"axis", 0}}, {3, 4}, none},
      {"gather_elements", {{"axis", 0}}, {4, 3}, whole({3, 2}, {3, 0, 3, -4, -1, 2})},
      {"gather_elements", {{"axis", -1}}, {2, 5}, whole({1, 7}, {4, 0, 4, -5, -1, 4, 2})},
      {"gather_elements", {{"axis", 1}}, {2, 1, 3}, whole({1, 3, 2}, {0, -1, 0, 0, -1, 0})},
      {"gather_elements", {{"axis", 1}}, {3, 4}, none},
      {"gather_nd", {}, {3, 4}, whole({2, 2, 2}, {2, 3, 0, 1, -1, -1, 0, 1})},
      {"gather_nd", {}, {3, 2, 4}, whole({4, 1}, {2, 0, -1, 2})},
      {"gather_nd", {}, {3, 4}, row},
      {"gather_nd", {}, {3, 4}, none},
      {"gather_nd", {{"batch", 1}}, {2, 3, 4}, whole({2, 2, 1}, {2, -1, 0, 0})},
      {"gather_nd", {{"batch", 1}}, {2, 3, 4}, whole({2, 3, 2}, {2, 3, -1, -1, 0, 0, 1, 2, 1, -2, 1, 2})},
      {"gather_nd", {{"batch", 2}}, {2, 3, 4}, whole({2, 3, 1}, {3, 1, -4, 0, 2, 2})},
      {"gather_nd", {{"batch", 2}}, {2, 1, 4, 2}, whole({2, 1, 3, 1}, {3, -1, 3, 0, -4, 1})},
  };
}

std::string text_of(const Gathered& c) {
  std::string text = c.kind + " x=" + to_string(c.x) + " places=" + to_string(c.places.shape);
  for (const char* name : {"axis", "batch"})
    if (const auto found = c.attributes.find(name); found != c.attributes.end())
      text += std::string(" ") + name + "=" + std::to_string(std::get<int64_t>(found->second.value));
  return text;
}

/// dx of a gather whose result has gradients 1, 2, 3, ... Elements of x are 0, 1, 2, ...: what y has says
/// where each was taken.
void check_case(const Gathered& c) {
  NetGraph g;
  std::vector<Dimension> sizes(c.x.begin(), c.x.end());
  const int x = g.add_input("x", DType::f32, sizes);
  const int y = g.add(c.kind, {x, g.add_constant(c.places)}, c.attributes);
  NetGraph plain = g;
  plain.add_output("y", y);
  std::vector<float> numbers;
  for (int64_t i = 0; i < element_count(c.x); i++) numbers.push_back(static_cast<float>(i));
  const Model::Tensors fed{{"x", device_tensor(c.x, numbers)}};
  const HostTensor taken = to_host(stream(), Model(plain).run(stream(), fed).at("y"));

  std::vector<double> dy, dx(numbers.size(), 0);
  for (const double place : numbers_of(taken)) {
    dy.push_back(static_cast<double>(dy.size()) + 1);
    dx[static_cast<size_t>(place)] += dy.back();
  }
  const int seed = g.add_constant(host_tensor(DType::f32, taken.shape, dy));
  const std::vector<int> gradients = add_gradients(g, y, {x}, seed);
  REQUIRE(gradients[0] != NetGraph::kNone);
  g.add_output("dx", gradients[0]);
  const Model model(g);
  for (int run = 0; run < 3; run++) {  // node by node, recorded, replayed
    const HostTensor given = to_host(stream(), model.run(stream(), fed).at("dx"));
    CHECK(given.shape == c.x);
    CHECK(numbers_of(given) == dx);
  }
}

}  // namespace

TEST_CASE("gradients of gathers are the sums of what was taken at each place", "[small]") {
  for (const Gathered& c : cases()) {
    INFO(text_of(c));
    check_case(c);
  }
}

TEST_CASE("parts of a split that nobody reads have gradient 0, whatever is in them", "[small]") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{2}, {3}});
  const std::vector<int> parts =
      g.add_many("split", {x}, 3, {{"axis", 1}, {"sizes", Attribute::Integers{1, 1, 1}}});
  const int seed = g.add_constant(host_tensor(DType::f32, {2, 1}, std::vector<double>{5, -7}));
  g.add_output("dx", add_gradients(g, parts[1], {x}, seed)[0]);
  const Tensor numbers = device_tensor({2, 3}, {INFINITY, 1, NAN, 2, 3, -INFINITY});
  const Model model(g);
  for (int run = 0; run < 3; run++)
    CHECK(host_values(model.run(stream(), {{"x", numbers}}).at("dx")) ==
          std::vector<float>{0, 5, 0, 0, -7, 0});
}

TEST_CASE("scatters that multiply or take extremes have no gradient, which their error says") {
  for (const char* kind : {"scatter_elements", "scatter_nd"})
    for (const char* reduce : {"prod", "max", "min"}) {
      NetGraph g;
      const int x = g.add_input("x", DType::f32, {{3}}), src = g.add_input("src", DType::f32, {{1}});
      const bool nd = kind == std::string("scatter_nd");
      const int places = g.add_constant(nd ? whole({1, 1}, {2}) : whole({1}, {2}));
      const int y = g.add(kind, {x, places, src}, {{"reduce", reduce}});
      CHECK_THROWS_WITH(add_gradients(g, y, {x}), Catch::Contains("of its reductions only sum has one"));
    }
}
