// Gradients of graphs: of each kind against differences in double.
#include <cmath>
#include <functional>

#include <dlprim/elementwise.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/net_training.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Integers = Attribute::Integers;

/// A graph whose output is differentiated by its inputs of f64.
struct Case {
  std::string name;
  std::vector<Shape> inputs;
  /// Adds nodes; gives the value whose weighted sum is the loss.
  std::function<int(NetGraph& g, const std::vector<int>& x)> make;
  double low = -1, high = 1;
};

int whole_value(NetGraph& g, const std::vector<int64_t>& numbers) {
  return g.add_constant(whole({static_cast<int64_t>(numbers.size())}, numbers));
}

std::vector<Case> cases() {
  std::vector<Case> list;
  const auto kind = [](const char* name, Attributes attributes, size_t outputs = 1, size_t which = 0) {
    return [=](NetGraph& g, const std::vector<int>& x) {
      return g.add_many(name, x, outputs, attributes)[which];
    };
  };
  const auto function = [&](const char* name, Attributes more = {}) {
    more.emplace("function", name);
    return kind("elementwise", more);
  };
  for (const ElementwiseFunction& f : elementwise_functions()) {
    if (f.truth || f.domain == ElementwiseFunction::Domain::integers || f.name == "where") continue;
    bool any = false;
    for (const std::string& gradient : f.gradients) any = any || (!gradient.empty() && gradient != "0");
    if (!any) continue;
    // Where slopes jump or grow beyond what a difference sees, numbers stay away: 0.2 to 0.9 suits all but
    // these.
    const bool above_one = f.name == "acosh";
    Case c{
        "elementwise " + f.name, {}, function(f.name.c_str()), above_one ? 1.3 : 0.2, above_one ? 2.5 : 0.9};
    for (size_t i = 0; i < f.inputs.size(); i++) c.inputs.push_back({2, 3});
    list.push_back(std::move(c));
  }
  list.push_back({"add, broadcast", {{2, 3, 4}, {3, 1}}, function("add")});
  list.push_back({"mul, broadcast", {{3, 1}, {2, 3, 4}}, function("mul")});
  list.push_back({"relu", {{5, 7}}, function("relu")});
  list.push_back({"one value twice", {{2, 3}}, [](NetGraph& g, const std::vector<int>& x) {
                    const int y = g.add("elementwise", {x[0]}, {{"function", "tanh"}});
                    const int z = g.add("elementwise", {x[0], y}, {{"function", "mul"}});
                    return g.add("elementwise", {z, y}, {{"function", "add"}});
                  }});
  list.push_back({"where", {{2, 3}, {3}}, [](NetGraph& g, const std::vector<int>& x) {
                    const int c = g.add("elementwise", {x[0], x[1]}, {{"function", "greater"}});
                    return g.add("elementwise", {c, x[0], x[1]}, {{"function", "where"}});
                  }});
  list.push_back({"cast and back", {{2, 3}}, [](NetGraph& g, const std::vector<int>& x) {
                    const int y = g.add("elementwise", {x[0]}, {{"function", "tanh"}});
                    return g.add("cast", {y}, {{"dtype", "f64"}});
                  }});
  list.push_back({"reduce sum", {{2, 3, 4}}, kind("reduce", {{"function", "sum"}, {"axes", Integers{1}}})});
  list.push_back({"reduce mean, all", {{2, 3, 4}}, kind("reduce", {{"function", "mean"}})});
  for (const char* name : {"max", "min", "l1", "l2", "sum_square", "log_sum", "log_sum_exp"}) {
    const bool positive = name == std::string("log_sum");
    list.push_back({std::string("reduce ") + name,
                    {{2, 3, 4}},
                    kind("reduce", {{"function", name}, {"axes", Integers{1, -1}}}),
                    positive ? 0.2 : -1});
    list.push_back({std::string("reduce ") + name + ", kept",
                    {{2, 5}},
                    kind("reduce", {{"function", name}, {"axes", Integers{0}}, {"keep_dims", true}}),
                    positive ? 0.2 : -1});
  }
  list.push_back({"reduce mean, kept",
                  {{2, 3, 4}},
                  kind("reduce", {{"function", "mean"}, {"axes", Integers{0, -1}}, {"keep_dims", true}})});
  list.push_back({"reshape", {{2, 6}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("reshape", {x[0], whole_value(g, {3, -1})});
                  }});
  list.push_back({"flatten, transpose", {{2, 3, 4}}, [](NetGraph& g, const std::vector<int>& x) {
                    const int y = g.add("transpose", {x[0]}, {{"axes", Integers{2, 0, 1}}});
                    return g.add("transpose", {g.add("flatten", {y}, {{"axis", 2}})});
                  }});
  list.push_back({"squeeze, unsqueeze, expand", {{2, 1, 3}}, [](NetGraph& g, const std::vector<int>& x) {
                    const int y = g.add("squeeze", {x[0]}, {{"axes", Integers{1}}});
                    const int z = g.add("unsqueeze", {y}, {{"axes", Integers{0}}});
                    return g.add("expand", {z, whole_value(g, {4, 1, 3})});
                  }});
  list.push_back(
      {"concat, split", {{2, 3}, {2, 5}}, [](NetGraph& g, const std::vector<int>& x) {
         const int y = g.add("concat", x, {{"axis", 1}});
         const auto parts = g.add_many("split", {y}, 3, {{"axis", 1}, {"sizes", Integers{1, 4, 3}}});
         return g.add("elementwise", {parts[0], parts[1]}, {{"function", "mul"}});
       }});
  list.push_back({"slice", {{4, 7}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("slice", {x[0], whole_value(g, {3, 1}), whole_value(g, {0, 6}),
                                           whole_value(g, {0, 1}), whole_value(g, {-2, 2})});
                  }});
  list.push_back(
      {"gather", {{5, 3}}, [](NetGraph& g, const std::vector<int>& x) {
         return g.add("gather", {x[0], g.add_constant(whole({2, 2}, {4, 0, 4, -2}))}, {{"axis", 0}});
       }});
  list.push_back({"gather along 1", {{2, 5}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("gather", {x[0], g.add_constant(whole({}, {3}))}, {{"axis", 1}});
                  }});
  list.push_back(
      {"gather elements, repeated, negative", {{4, 3}}, [](NetGraph& g, const std::vector<int>& x) {
         const int places = g.add_constant(whole({3, 2}, {3, 0, 3, -4, -1, 2}));
         return g.add("gather_elements", {x[0], places});
       }});
  list.push_back({"gather elements along the last", {{2, 5}}, [](NetGraph& g, const std::vector<int>& x) {
                    const int places = g.add_constant(whole({2, 3}, {4, 0, 4, -5, 1, -2}));
                    return g.add("gather_elements", {x[0], places}, {{"axis", -1}});
                  }});
  list.push_back(
      {"gather nd, elements, repeated, negative", {{3, 4}}, [](NetGraph& g, const std::vector<int>& x) {
         const int places = g.add_constant(whole({2, 2, 2}, {2, 3, 0, 1, -1, -1, 0, 1}));
         return g.add("gather_nd", {x[0], places});
       }});
  list.push_back({"gather nd, slices", {{3, 2, 4}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("gather_nd", {x[0], g.add_constant(whole({4, 1}, {2, 0, -1, 2}))});
                  }});
  for (int64_t batch : {1, 2})
    list.push_back({batch == 1 ? "gather nd, a batch" : "gather nd, batches of two axes",
                    {{2, 3, 4}},
                    [=](NetGraph& g, const std::vector<int>& x) {
                      const int places = g.add_constant(batch == 1 ? whole({2, 2, 1}, {2, -1, 0, 0})
                                                                   : whole({2, 3, 1}, {3, 1, -4, 0, 2, 2}));
                      return g.add("gather_nd", {x[0], places}, {{"batch", batch}});
                    }});
  for (const bool largest : {true, false})
    list.push_back({largest ? "top k" : "smallest k", {{3, 5}}, [=](NetGraph& g, const std::vector<int>& x) {
                      return g.add("top_k", {x[0], whole_value(g, {2})},
                                   {{"axis", largest ? -1 : 0}, {"largest", largest}});
                    }});
  for (const char* reduce : {"none", "sum"}) {
    list.push_back({std::string("scatter elements, ") + reduce,
                    {{4, 3}, {2, 3}},
                    [=](NetGraph& g, const std::vector<int>& x) {
                      const int places = g.add_constant(whole({2, 3}, {3, 0, -1, 1, 2, 0}));
                      return g.add("scatter_elements", {x[0], places, x[1]}, {{"reduce", reduce}});
                    }});
    list.push_back({std::string("scatter nd, ") + reduce,
                    {{3, 4, 2}, {2, 2}},
                    [=](NetGraph& g, const std::vector<int>& x) {
                      const int places = g.add_constant(whole({2, 2}, {2, -1, 0, 1}));
                      return g.add("scatter_nd", {x[0], places, x[1]}, {{"reduce", reduce}});
                    }});
  }
  list.push_back({"scatter nd, sum, repeated", {{3, 2}, {3}}, [](NetGraph& g, const std::vector<int>& x) {
                    const int places = g.add_constant(whole({3, 2}, {2, 1, 0, 0, -1, -1}));
                    return g.add("scatter_nd", {x[0], places, x[1]}, {{"reduce", "sum"}});
                  }});
  for (const bool channels_first : {false, true}) {
    const Attributes blocks{{"block", 2}, {"channels_first", channels_first}};
    list.push_back({"depth to space", {{2, 8, 2, 3}}, kind("depth_to_space", blocks)});
    list.push_back({"space to depth", {{2, 3, 4, 6}}, kind("space_to_depth", blocks)});
  }
  list.push_back({"tile", {{2, 1, 3}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("tile", {x[0], whole_value(g, {3, 1, 2})});
                  }});
  list.push_back({"tile once", {{2, 3}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("tile", {x[0], whole_value(g, {1, 1})});
                  }});
  list.push_back({"reverse sequence", {{4, 3, 2}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("reverse_sequence", {x[0], whole_value(g, {3, 1, 4})});
                  }});
  for (const bool upper : {false, true})
    list.push_back({upper ? "upper triangle" : "lower triangle",
                    {{2, 3, 4}},
                    [=](NetGraph& g, const std::vector<int>& x) {
                      const int diagonal = g.add_constant(whole({}, {1}));
                      return g.add("triangle", {x[0], diagonal}, {{"upper", upper}});
                    }});
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true})
      list.push_back({"sums up to each", {{3, 4}}, [=](NetGraph& g, const std::vector<int>& x) {
                        return g.add("cumulate", {x[0], whole_value(g, {1})},
                                     {{"exclusive", exclusive}, {"reverse", reverse}});
                      }});
  list.push_back({"pad", {{2, 3}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("pad", {x[0], whole_value(g, {1, 0, -1, 2})});
                  }});
  const auto conv = [&](Attributes attributes) { return kind("conv", std::move(attributes)); };
  list.push_back({"conv", {{2, 4, 6, 5}, {3, 4, 3, 3}, {3}}, conv({{"pad_begin", Integers{1, 1}}})});
  list.push_back({"conv, stride, groups",
                  {{2, 4, 7, 6}, {6, 2, 3, 2}},
                  conv({{"stride", Integers{2, 1}}, {"groups", 2}, {"dilation", Integers{1, 2}}})});
  list.push_back(
      {"conv, same", {{1, 2, 5, 5}, {3, 2, 4, 4}}, conv({{"same", "upper"}, {"stride", Integers{2, 2}}})});
  list.push_back({"conv of one axis", {{2, 3, 9}, {4, 3, 3}}, conv({})});
  list.push_back({"conv, transposed",
                  {{2, 3, 4, 3}, {3, 2, 3, 3}},
                  conv({{"transposed", true}, {"stride", Integers{2, 2}}, {"output_pad", Integers{1, 0}}})});
  list.push_back({"conv, residual", {{1, 2, 4, 4}, {3, 2, 1, 1}, {3}, {1, 3, 4, 4}}, conv({})});
  list.push_back({"matmul", {{4, 3}, {3, 5}, {5}}, kind("matmul", {{"alpha", 1.5}})});
  list.push_back({"matmul, batches", {{2, 1, 4, 3}, {5, 3, 2}}, kind("matmul", {})});
  list.push_back({"matmul, one matrix", {{2, 2, 4, 3}, {3, 2}}, kind("matmul", {})});
  list.push_back({"matmul, one matrix in front", {{4, 3}, {2, 3, 2}}, kind("matmul", {})});
  for (const Shape& rows : {Shape{5, 3}, Shape{2, 5, 3}})
    list.push_back({"matmul, a turned matrix", {rows, {4, 3}}, [](NetGraph& g, const std::vector<int>& x) {
                      return g.add("matmul", {x[0], g.add("transpose", {x[1]}, {{"axes", Integers{1, 0}}})});
                    }});
  list.push_back({"matmul, row", {{3}, {2, 3, 4}}, kind("matmul", {})});
  list.push_back({"matmul, column", {{2, 4, 3}, {3}}, kind("matmul", {})});
  list.push_back({"matmul, numbers", {{3}, {3}}, kind("matmul", {})});
  const auto einsum = [&](const char* equation, std::vector<Shape> inputs) {
    Case c{std::string("einsum ") + equation, std::move(inputs), kind("einsum", {{"equation", equation}})};
    list.push_back(std::move(c));
  };
  einsum("ij,jk->ik", {{2, 3}, {3, 4}});
  einsum("B G H I D, B G H J D -> B G H I J", {{2, 1, 2, 3, 2}, {2, 1, 2, 4, 2}});
  einsum("bij,kjb", {{2, 3, 4}, {5, 4, 2}});       // implied: ik
  einsum("ij,kl->jl", {{2, 3}, {2, 4}});           // i and k are summed alone
  einsum("i,ij,j->", {{2}, {2, 3}, {3}});          // one number
  einsum("...ij,jk->...ik", {{2, 2, 3}, {3, 2}});  // an ellipsis that one input has
  einsum("...i,...i->...", {{3, 1, 2}, {4, 2}});   // two that broadcast
  einsum("ij,ij->ij", {{2, 3}, {1, 3}});           // an axis that stretches
  einsum("ijk->ki", {{2, 3, 4}});
  list.push_back(
      {"a factor from a shape", {{2, 3}}, [](NetGraph& g, const std::vector<int>& x) {
         const int y = g.add("elementwise", {x[0]}, {{"function", "tanh"}});
         const int sizes = g.add("slice", {g.add("shape", {y}), whole_value(g, {1}), whole_value(g, {2})});
         const int root = g.add("elementwise", {g.add("cast", {sizes, y})}, {{"function", "sqrt"}});
         return g.add("elementwise", {y, root}, {{"function", "mul"}});
       }});
  list.push_back({"max pool",
                  {{2, 3, 7, 6}},
                  kind("pool", {{"mode", "max"},
                                {"kernel", Integers{3, 2}},
                                {"stride", Integers{2, 2}},
                                {"pad_begin", Integers{1, 0}}})});
  for (const char* counted : {"flat", "column_major"})
    for (size_t outputs : {1, 2})  // the second output has its indices as the attribute asks
      list.push_back(
          {std::string("max pool, ") + counted + (outputs == 2 ? ", indices" : ""),
           {{2, 3, 5, 4}},
           kind("pool",
                {{"mode", "max"}, {"kernel", Integers{3, 2}}, {"stride", Integers{1, 2}}, {counted, true}},
                outputs)});
  list.push_back({"global max", {{2, 3, 4, 5}}, kind("global_pool", {{"mode", "max"}})});
  list.push_back({"an expression with its slope",
                  {{3, 5}},
                  kind("pointwise", {{"body", "y0 = x0 > s0 ? s1 * x0 : x0 * x0"},
                                     {"slope", "y0 = x1 > s0 ? s1 * x0 : 2 * x0 * x1"},
                                     {"scalars", std::vector<double>{0.25, 3}}})});
  list.push_back({"average pool",
                  {{2, 3, 7, 6}},
                  kind("pool", {{"mode", "average"},
                                {"kernel", Integers{3, 3}},
                                {"ceil_mode", true},
                                {"stride", Integers{2, 2}},
                                {"count_include_pad", false}})});
  list.push_back({"lp pool",
                  {{1, 2, 6}},
                  kind("pool", {{"mode", "lp"}, {"kernel", Integers{2}}, {"norm", 3.0}}),
                  0.3,
                  1});
  list.push_back({"global average", {{2, 3, 4, 5}}, kind("global_pool", {{"mode", "average"}})});
  for (const char* activation : {"", "relu"}) {
    Attributes attributes{{"training", true}, {"epsilon", 1e-3}};
    if (*activation) attributes.emplace("activation", activation);
    list.push_back(
        {std::string("batch norm ") + activation,
         {{3, 2, 4, 3}, {2}, {2}},
         [=](NetGraph& g, const std::vector<int>& x) {
           const int zero = g.add_constant(host_tensor(DType::f64, {2}, std::vector<double>{0, 0}));
           const int one = g.add_constant(host_tensor(DType::f64, {2}, std::vector<double>{1, 1}));
           return g.add("batch_norm", {x[0], x[1], x[2], zero, one}, attributes);
         }});
    list.push_back(
        {std::string("batch norm, residual ") + activation,
         {{3, 2, 4}, {2}, {2}, {3, 2, 4}},
         [=](NetGraph& g, const std::vector<int>& x) {
           const int zero = g.add_constant(host_tensor(DType::f64, {2}, std::vector<double>{0, 0}));
           const int one = g.add_constant(host_tensor(DType::f64, {2}, std::vector<double>{1, 1}));
           return g.add("batch_norm", {x[0], x[1], x[2], zero, one, x[3]}, attributes);
         }});
  }
  list.push_back({"layer norm", {{4, 5}, {5}, {5}}, kind("layer_norm", {{"epsilon", 1e-3}})});
  list.push_back(
      {"layer norm, two axes, plain", {{3, 2, 4}}, kind("layer_norm", {{"axis", 1}, {"epsilon", 1e-3}})});
  list.push_back({"rms norm", {{4, 5}, {5}}, kind("layer_norm", {{"rms", true}, {"epsilon", 1e-3}})});
  for (int64_t groups : {2, 0})
    list.push_back({groups == 0 ? "instance norm" : "group norm",
                    {{2, 4, 3, 2}, {4}, {4}},
                    kind("group_norm", {{"groups", groups}, {"epsilon", 1e-3}})});
  list.push_back({"softmax", {{3, 4, 2}}, kind("softmax", {{"axis", 1}})});
  list.push_back(
      {"log softmax, to end", {{3, 2, 2}}, kind("softmax", {{"axis", 1}, {"to_end", true}, {"log", true}})});
  for (const char* reduction : {"mean", "sum", "none"})
    list.push_back(
        {std::string("class loss ") + reduction, {{3, 4, 2}}, [=](NetGraph& g, const std::vector<int>& x) {
           const int target = g.add_constant(whole({3, 2}, {0, 3, -1, 2, 1, 1}));
           return g.add("class_loss", {x[0], target},
                        {{"logits", true}, {"reduction", reduction}, {"label_smoothing", 0.1}});
         }});
  list.push_back({"class loss of logarithms", {{3, 4}}, [](NetGraph& g, const std::vector<int>& x) {
                    return g.add("class_loss", {x[0], g.add_constant(whole({3}, {0, 3, 1}))});
                  }});
  list.push_back(
      {"attention", {{2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}}, kind("attention", {{"scale", 0.7}})});
  list.push_back({"attention, causal, heads shared",
                  {{2, 3, 4 * 2}, {2, 3, 2 * 2}, {2, 3, 2 * 3}},
                  kind("attention", {{"causal", true}, {"heads", 4}, {"kv_heads", 2}})});
  list.push_back({"attention, windows",
                  {{2, 2, 4, 3}, {2, 2, 6, 3}, {2, 2, 6, 3}},
                  kind("attention", {{"left_window", 1}, {"right_window", 2}})});
  list.push_back({"attention, causal, lengths",
                  {{2, 1, 3, 4}, {2, 1, 5, 4}, {2, 1, 5, 2}},
                  [](NetGraph& g, const std::vector<int>& x) {
                    const int none = NetGraph::kNone;
                    return g.add("attention",
                                 {x[0], x[1], x[2], none, none, none, g.add_constant(whole({2}, {4, 2}))},
                                 {{"causal", true}});
                  }});
  return list;
}

double weighted_sum(const HostTensor& y, const std::vector<double>& weights) {
  double sum = 0;
  const std::vector<double> numbers = numbers_of(y);
  for (size_t i = 0; i < numbers.size(); i++) sum += numbers[i] * weights[i % weights.size()];
  return sum;
}

/// The gradients, and the largest difference between them and what the loss says, by the largest gradient.
double worst_difference(const Case& c) {
  Rng rng(11);
  NetGraph g;
  std::vector<int> x;
  std::vector<HostTensor> at;
  for (size_t i = 0; i < c.inputs.size(); i++) {
    std::vector<Dimension> shape;
    for (int64_t size : c.inputs[i]) shape.emplace_back(size);
    x.push_back(g.add_input("x" + std::to_string(i), DType::f64, shape));
    std::vector<double> numbers;
    for (int64_t e = 0; e < element_count(c.inputs[i]); e++) numbers.push_back(rng.real(c.low, c.high));
    at.push_back(host_tensor(DType::f64, c.inputs[i], numbers));
  }
  const int y = c.make(g, x);
  const std::vector<double> weights{0.7, -1.1, 0.4, 1.3, -0.2, 0.9, -0.6};
  NetGraph plain = g;
  plain.add_output("y", y);
  const Model forward(plain);
  const auto feeds = [&](const std::vector<HostTensor>& values) {
    Model::Tensors tensors;
    for (size_t i = 0; i < values.size(); i++)
      tensors["x" + std::to_string(i)] = to_device(stream(), values[i]);
    return tensors;
  };
  const auto loss_at = [&](const std::vector<HostTensor>& values) {
    return weighted_sum(to_host(stream(), forward.run(stream(), feeds(values)).at("y")), weights);
  };
  const auto slope = [&](size_t i, size_t e) {
    constexpr double kStep = 1e-5;
    std::vector<HostTensor> moved = at;
    std::vector<double> shifted = numbers_of(at[i]);
    const double here = shifted[e];
    shifted[e] = here + kStep;
    moved[i] = host_tensor(DType::f64, c.inputs[i], shifted);
    const double above = loss_at(moved);
    shifted[e] = here - kStep;
    moved[i] = host_tensor(DType::f64, c.inputs[i], shifted);
    return (above - loss_at(moved)) / (2 * kStep);
  };
  const HostTensor y_now = to_host(stream(), forward.run(stream(), feeds(at)).at("y"));
  std::vector<double> dy;
  for (int64_t e = 0; e < element_count(y_now.shape); e++)
    dy.push_back(weights[static_cast<size_t>(e) % weights.size()]);
  const int seed = g.add_constant(host_tensor(DType::f64, y_now.shape, dy));
  const std::vector<int> gradients = add_gradients(g, y, x, seed);
  for (size_t i = 0; i < x.size(); i++)
    if (gradients[i] != NetGraph::kNone) g.add_output("d" + std::to_string(i), gradients[i]);
  const Model backward(g);
  double worst = 0, largest = 0;
  std::vector<std::vector<double>> first(x.size());
  for (int run = 0; run < 3; run++) {  // node by node, recorded, replayed
    const Model::Tensors given = backward.run(stream(), feeds(at));
    for (size_t i = 0; i < x.size(); i++) {
      if (gradients[i] == NetGraph::kNone) continue;
      const HostTensor gradient = to_host(stream(), given.at("d" + std::to_string(i)));
      REQUIRE(gradient.shape == c.inputs[i]);
      const std::vector<double> numbers = numbers_of(gradient);
      if (run == 0) first[i] = numbers;
      for (size_t e = 0; e < numbers.size(); e++) {
        const double expected = run == 0 ? slope(i, e) : first[i][e];
        worst = std::max(worst, std::isnan(numbers[e]) ? INFINITY : std::abs(expected - numbers[e]));
        largest = std::max(largest, std::abs(expected));
      }
    }
  }
  REQUIRE(largest > 0);
  return worst / largest;
}

}  // namespace

TEST_CASE("gradients of a graph are the slopes of its result", "[net_slopes]") {
  if (!has_doubles()) return;
  for (const Case& c : cases()) {
    INFO(c.name);
    CHECK(worst_difference(c) < 2e-6);
  }
}

TEST_CASE("gradients of layer norm in f64 are as exact as f64", "[net_slopes]") {
  if (!has_doubles()) return;
  constexpr int kRows = 3, kColumns = 5;
  Rng rng(5);
  NetGraph g;
  const int x = g.add_input("x", DType::f64, {{kRows}, {kColumns}});
  std::vector<double> numbers, dy, dx;
  for (int i = 0; i < kRows * kColumns; i++)
    numbers.push_back(rng.real(-1, 1)), dy.push_back(rng.real(-1, 1));
  const int y = g.add("layer_norm", {x}, {{"epsilon", 0.01}});
  const int seed = g.add_constant(host_tensor(DType::f64, {kRows, kColumns}, dy));
  g.add_output("dx", add_gradients(g, y, {x}, seed)[0]);
  for (int r = 0; r < kRows; r++) {
    const double *row = numbers.data() + r * kColumns, *slope = dy.data() + r * kColumns;
    double mean = 0, variance = 0, mean_dy = 0, mean_product = 0;
    for (int c = 0; c < kColumns; c++) mean += row[c] / kColumns, mean_dy += slope[c] / kColumns;
    for (int c = 0; c < kColumns; c++) variance += (row[c] - mean) * (row[c] - mean) / kColumns;
    const double inverse = 1 / std::sqrt(variance + 0.01);
    for (int c = 0; c < kColumns; c++) mean_product += slope[c] * (row[c] - mean) * inverse / kColumns;
    for (int c = 0; c < kColumns; c++)
      dx.push_back(inverse * (slope[c] - mean_dy - (row[c] - mean) * inverse * mean_product));
  }
  const Tensor fed = to_device(stream(), host_tensor(DType::f64, {kRows, kColumns}, numbers));
  const std::vector<double> given =
      numbers_of(to_host(stream(), Model(g).run(stream(), {{"x", fed}}).at("dx")));
  // Some 30 roundings of numbers below 10, by 2^-53 each, on both sides.
  for (size_t i = 0; i < dx.size(); i++) CHECK(std::abs(given[i] - dx[i]) < 60 * 10 * std::ldexp(1, -53));
}
