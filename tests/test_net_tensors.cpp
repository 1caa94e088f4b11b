// Tensors by name: what a model gives says which names there are.
#include <dlprim/net_model.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

TEST_CASE("a name that there is not is told with those there are", "[small]") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{2}});
  g.add_output("double", g.add("elementwise", {x, x}, {{"function", "add"}}));
  g.add_output("minus", g.add("elementwise", {x}, {{"function", "neg"}}));
  const Model model(g);
  Model::Tensors outputs = model.run(stream(), {{"x", device_tensor({2}, {1, 2})}});
  CHECK(host_values(outputs.at("double")) == std::vector<float>{2, 4});
  const Model::Tensors& constant = outputs;
  CHECK(host_values(constant.at("minus")) == std::vector<float>{-1, -2});
  const std::string said = "name: there is no 'nope'; there are 'double', 'minus'";
  CHECK(error_of<ValidationError>([&] { outputs.at("nope"); }) == said);
  CHECK(error_of<ValidationError>([&] { constant.at("nope"); }) == said);
  CHECK(error_of<ValidationError>([&] { Model::Tensors().at("x"); }) ==
        "name: there is no 'x'; there are none");
  const auto bound = model.bind(stream(), {{"x", device_tensor({2}, {1, 2})}});
  REQUIRE(bound);
  CHECK(error_of<ValidationError>([&] { bound->outputs().at("y"); }) ==
        "name: there is no 'y'; there are 'double', 'minus'");
}
