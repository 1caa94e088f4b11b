// NetGraph and Model: graphs made by hand, the checks they pass, what runs give, sizes that follow from
// feeds, branches and loops, and errors after which everything still works.
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>

#include <set>

#include "catch.hpp"
#include "core/device_probe.hpp"
#include "net/nodes/families.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

HostTensor whole(const Shape& shape, const std::vector<int64_t>& elements) {
  return host_tensor(DType::i64, shape, elements);
}
HostTensor real(const Shape& shape, const std::vector<double>& elements) {
  return host_tensor(DType::f32, shape, elements);
}
HostTensor truth(bool value) {
  return host_tensor(DType::boolean, {}, std::vector<int64_t>{value});
}

std::string complaint(const NetGraph& graph) {
  try {
    graph.check();
  } catch (const ValidationError& error) {
    return error.what();
  }
  return "";
}

std::string complaint(const Model& model, const Model::Tensors& feeds) {
  try {
    model.run(stream(), feeds);
  } catch (const ValidationError& error) {
    return error.what();
  }
  return "";
}

int named(NetGraph& graph, const std::string& name, int value) {
  graph.nodes.back().name = name;
  return value;
}

/// x[batch, 6] -> y[batch * 2, 3], by a shape that the graph computes from x's.
NetGraph reshaping() {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1, "batch"}, {6}});
  const int batch = g.add("gather", {g.add("shape", {x}), g.add_constant(whole({}, {0}))}, {{"axis", 0}});
  const int rows = g.add("elementwise", {batch, g.add_constant(whole({}, {2}))}, {{"function", "mul"}});
  const int sizes = g.add(
      "concat",
      {g.add("unsqueeze", {rows}, {{"axes", std::vector<int64_t>{0}}}), g.add_constant(whole({1}, {3}))},
      {{"axis", 0}});
  g.add_output("y", named(g, "last", g.add("reshape", {x, sizes})));
  return g;
}

/// condition ? x + 1 : x * factor, both branches with a value of the graph around them.
NetGraph branching() {
  const auto branch = [](const char* function) {
    NetGraph body;
    const int x = body.add_value("x"), other = body.add_value("other");
    body.inputs = {x, other};
    body.add_output("r", body.add("elementwise", {x, other}, {{"function", function}}));
    return std::make_shared<const NetGraph>(body);
  };
  NetGraph g;
  const int condition = g.add_input("condition", DType::boolean, {});
  const int x = g.add_input("x", DType::f32, {{2}}), factor = g.add_input("factor", DType::f32, {});
  const int one = g.add_constant(real({}, {1}));
  const int y = g.add("if", {condition, x, one, x, factor});
  g.nodes.back().bodies = {branch("add"), branch("mul")};
  g.add_output("y", y);
  return g;
}

/// Turns of s = s + x; each leaves s. Goes on while s[0] < limit.
NetGraph looping() {
  NetGraph body;
  const int turn = body.add_value("turn"), condition = body.add_value("condition"), s = body.add_value("s");
  const int x = body.add_value("x"), limit = body.add_value("limit");
  body.inputs = {turn, condition, s, x, limit};
  const int next = body.add("elementwise", {s, x}, {{"function", "add"}});
  const int first = body.add("gather", {next, body.add_constant(whole({}, {0}))}, {{"axis", 0}});
  body.add_output("go_on", body.add("elementwise", {first, limit}, {{"function", "less"}}));
  body.add_output("next", next);
  body.add_output("part", body.add("identity", {next}));
  NetGraph g;
  const int most = g.add_input("most", DType::i64, {}), start = g.add_input("s", DType::f32, {{2}});
  const int step = g.add_input("x", DType::f32, {{2}}), end = g.add_input("limit", DType::f32, {});
  const auto y = g.add_many("loop", {most, NetGraph::kNone, start, step, end}, 2, {{"carried", 1}});
  g.nodes.back().bodies = {std::make_shared<const NetGraph>(body)};
  g.add_output("s_end", y[0]);
  g.add_output("all", y[1]);
  return g;
}

Tensor scalar(const HostTensor& host) {
  return to_device(stream(), host);
}

}  // namespace

TEST_CASE("a graph's check names the node and what is wrong") {
  NetGraph good = reshaping();
  CHECK(complaint(good).empty());
  NetGraph g = good;
  std::swap(g.nodes.front(), g.nodes.back());
  CHECK_THAT(complaint(g), Catch::Contains("'last'") && Catch::Contains("nothing has written"));
  g = good;
  g.nodes.back().kind = "teleport";
  CHECK_THAT(complaint(g), Catch::Contains("'last' (teleport)") && Catch::Contains("no kind"));
  g = good;
  g.nodes.back().inputs.pop_back();
  CHECK_THAT(complaint(g), Catch::Contains("'last'") && Catch::Contains("has 1 inputs, must have 2 to 2"));
  g = good;
  g.nodes.back().inputs[1] = NetGraph::kNone;
  CHECK_THAT(complaint(g), Catch::Contains("'last'") && Catch::Contains("lacks input 1"));
  g = good;
  g.nodes.back().outputs = {g.inputs[0]};
  CHECK_THAT(complaint(g), Catch::Contains("'last'") && Catch::Contains("written before"));
  g = good;
  g.nodes.back().inputs[0] = 1000;
  CHECK_THAT(complaint(g), Catch::Contains("1000"));
  g = good;
  g.outputs = {-7};
  CHECK_THAT(complaint(g), Catch::Contains("-7"));
  CHECK_THROWS_AS(Model(g), ValidationError);
}

TEST_CASE("each kind has a name of its own") {
  std::set<std::string> names;
  for (const detail::NodeKind* kind : detail::all_kinds()) {
    INFO(kind->name);
    CHECK(names.insert(kind->name).second);
    CHECK(kind->fewest <= kind->most);
    CHECK(kind->run != nullptr);
  }
  CHECK(node_kinds() == std::vector<std::string>(names.begin(), names.end()));
}

TEST_CASE("sizes follow from what is fed, batch by batch") {
  const Model model(reshaping());
  REQUIRE(model.inputs().size() == 1);
  CHECK(model.inputs()[0].shape->at(0).symbol == "batch");
  for (int64_t batch : {1, 4, 3, 1}) {
    std::vector<float> x(static_cast<size_t>(batch) * 6);
    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i);
    const Model::Tensors y = model.run(stream(), {{"x", device_tensor({batch, 6}, x)}});
    REQUIRE(y.size() == 1);
    CHECK(y.at("y").shape() == Shape{batch * 2, 3});
    CHECK(host_values(y.at("y")) == x);
  }
}

TEST_CASE("feeds that do not fit are refused by name, and the model still runs") {
  const Model model(reshaping());
  const Tensor x = device_tensor({2, 6}, std::vector<float>(12, 1));
  CHECK_THAT(complaint(model, {}), Catch::Contains("'x' is missing"));
  CHECK_THAT(complaint(model, {{"x", x}, {"z", x}}), Catch::Contains("'z' is no input"));
  CHECK_THAT(complaint(model, {{"x", Tensor()}}), Catch::Contains("'x' is undefined"));
  CHECK_THAT(complaint(model, {{"x", device_tensor({2, 5}, std::vector<float>(10, 1))}}),
             Catch::Contains("'x'") && Catch::Contains("must be 6"));
  CHECK_THAT(complaint(model, {{"x", device_tensor({12}, std::vector<float>(12, 1))}}),
             Catch::Contains("rank 2"));
  CHECK_THAT(complaint(model, {{"x", device_tensor({2, 6}, std::vector<float>(12, 1), DType::f16)}}),
             Catch::Contains("must be f32"));
  const Context other(context().device());
  CHECK_THAT(complaint(model, {{"x", Tensor(other, {2, 6})}}), Catch::Contains("another context"));
  CHECK(host_values(model.run(stream(), {{"x", x}}).at("y")) == std::vector<float>(12, 1));
}

TEST_CASE("one name stands for one size") {
  NetGraph g;
  const int a = g.add_input("a", DType::f32, {{-1, "n"}}), b = g.add_input("b", DType::f32, {{-1, "n"}});
  g.add_output("y", g.add("concat", {a, b}, {{"axis", 0}}));
  const Model model(g);
  const Tensor two = device_tensor({2}, {1, 2}), three = device_tensor({3}, {1, 2, 3});
  CHECK_THAT(complaint(model, {{"a", two}, {"b", three}}),
             Catch::Contains("'n'") && Catch::Contains("is 2 elsewhere"));
  CHECK(host_values(model.run(stream(), {{"a", three}, {"b", three}}).at("y")) ==
        std::vector<float>{1, 2, 3, 1, 2, 3});
}

TEST_CASE("an error in a node names it, and leaves the model as it was") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1}, {-1}});
  g.add_output("y", named(g, "product", g.add("matmul", {x, g.add_constant(real({3, 1}, {1, 2, 3}))})));
  const Model model(g);
  CHECK_THAT(
      complaint(model, {{"x", device_tensor({1, 2}, {1, 1})}}),
      Catch::Contains("node 'product' (matmul)") && Catch::Contains("[1, 2]") && Catch::Contains("[3, 1]"));
  CHECK(host_values(model.run(stream(), {{"x", device_tensor({1, 3}, {1, 1, 1})}}).at("y")) ==
        std::vector<float>{6});
}

TEST_CASE("constants are put on a device once") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1}, {64}});
  g.add_output("y",
               g.add("matmul", {x, g.add_constant(real({64, 4096}, std::vector<double>(64 * 4096, 0.5)))}));
  const Context own(context().device());
  const Stream own_stream(own);
  const Model model(g);
  const auto run = [&] {
    Tensor ones(own_stream, {1, 64});
    fill(own_stream, 1, ones);
    CHECK(read<float>(own_stream, model.run(own_stream, {{"x", ones}}).at("y"))[7] == 32);
    own_stream.finish();
    return own.memory_stats().allocated;
  };
  const auto first = run(), recorded = run();
  CHECK(first >= 64 * 4096 * 4);
  CHECK(recorded < first + 64 * 4096);  // what a run needs beside the weights
  CHECK(run() == recorded);
}

TEST_CASE("runs of one kind give the same, the first, the recorded and the replayed") {
  // Weights by way of nodes that are computed once; an output that is an input; outputs that stay the
  // caller's.
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1}, {4}});
  std::vector<double> w;
  for (int i = 0; i < 12; i++) w.push_back(i % 5 - 2);
  const int turned = g.add("transpose", {g.add_constant(real({3, 4}, w))});
  const int shifted = g.add("elementwise", {turned, g.add_constant(real({}, {1}))}, {{"function", "add"}});
  const int h = g.add("matmul", {x, shifted});
  g.add_output("y", g.add("elementwise", {h}, {{"function", "relu"}}));
  g.add_output("same", g.add("identity", {x}));
  g.add_output("w", g.add("identity", {shifted}));
  const Model model(g);
  Rng rng(5);
  std::vector<std::pair<Model::Tensors, std::vector<float>>> results;
  for (int run = 0; run < 12; run++) {
    const int64_t rows = run % 3 + 1;  // three kinds in turns
    const std::vector<float> values = integers(rows * 4, rng);
    std::vector<float> expected;
    for (int64_t r = 0; r < rows; r++)
      for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
          sum += values[static_cast<size_t>(r * 4 + k)] * (w[static_cast<size_t>(c * 4 + k)] + 1);
        expected.push_back(static_cast<float>(sum > 0 ? sum : 0));
      }
    const Tensor fed = device_tensor({rows, 4}, values);
    const Model::Tensors y = model.run(stream(), {{"x", fed}});
    CHECK(host_values(y.at("y")) == expected);
    CHECK(host_values(y.at("same")) == values);
    fill(stream(), -7, fed);  // neither inputs nor earlier outputs are anybody else's
    results.emplace_back(y, expected);
  }
  for (const auto& [y, expected] : results) CHECK(host_values(y.at("y")) == expected);
  for (const auto& [y, expected] : results) fill(stream(), 1e6, y.at("w"));
  CHECK(host_values(model.run(stream(), {{"x", device_tensor({1, 4}, {1, 0, 0, 0})}}).at("w"))[0] == -1);
}

TEST_CASE("a model that is fed ever new sizes keeps no more and no more memory") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1}, {8}});
  const int h = g.add("matmul", {x, g.add_constant(real({8, 4096}, std::vector<double>(8 * 4096, 1)))});
  const int bias = g.add_constant(real({1, 4096}, std::vector<double>(4096, 2)));  // becomes another constant
  g.add_output("y", g.add("elementwise", {h, bias}, {{"function", "add"}}));
  const Context own(context().device());
  const Stream own_stream(own);
  const Model model(g);
  const auto run_all = [&] {
    for (int64_t rows = 1; rows <= 24; rows++) {
      const Tensor ones(own_stream, {rows, 8});
      fill(own_stream, 1, ones);
      for (int i = 0; i < 3; i++)
        CHECK(read<float>(own_stream, model.run(own_stream, {{"x", ones}}).at("y"))[5] == 10);
    }
    own_stream.finish();
    return own.memory_stats().allocated;
  };
  const auto first = run_all();
  CHECK(run_all() == first);
  CHECK(run_all() == first);
}

TEST_CASE("what a loop reads from the device is read in each run") {
  const Model model(looping());
  for (int64_t most : {3, 2, 5, 1, 4}) {
    const Model::Tensors y = model.run(stream(), {{"most", scalar(whole({}, {most}))},
                                                  {"s", device_tensor({2}, {0, 100})},
                                                  {"x", device_tensor({2}, {1, 2})},
                                                  {"limit", scalar(real({}, {50}))}});
    CHECK(host_values(y.at("s_end"))[0] == static_cast<float>(most));
  }
}

TEST_CASE("a branch is taken, and uses what is around it") {
  const Model model(branching());
  const Tensor x = device_tensor({2}, {3, 4}), factor = scalar(real({}, {10}));
  const auto y = [&](bool condition) {
    return host_values(
        model.run(stream(), {{"condition", scalar(truth(condition))}, {"x", x}, {"factor", factor}}).at("y"));
  };
  CHECK(y(true) == std::vector<float>{4, 5});
  CHECK(y(false) == std::vector<float>{30, 40});
}

TEST_CASE("a loop ends by its count or its condition, and stacks what turns leave") {
  const Model model(looping());
  const auto run = [&](int64_t most, double limit) {
    return model.run(stream(), {{"most", scalar(whole({}, {most}))},
                                {"s", device_tensor({2}, {0, 100})},
                                {"x", device_tensor({2}, {1, 2})},
                                {"limit", scalar(real({}, {limit}))}});
  };
  const Model::Tensors by_count = run(3, 50);
  CHECK(host_values(by_count.at("s_end")) == std::vector<float>{3, 106});
  CHECK(by_count.at("all").shape() == Shape{3, 2});
  CHECK(host_values(by_count.at("all")) == std::vector<float>{1, 102, 2, 104, 3, 106});
  CHECK(host_values(run(100, 2).at("s_end")) == std::vector<float>{2, 104});
  const Model::Tensors none = run(0, 50);
  CHECK(host_values(none.at("s_end")) == std::vector<float>{0, 100});
  CHECK(none.at("all").shape()[0] == 0);
}

TEST_CASE("a watch sees every node's outputs") {
  std::vector<std::string> kinds;
  int64_t tensors = 0;
  Model(reshaping())
      .run(stream(), {{"x", device_tensor({1, 6}, std::vector<float>(6, 2))}}, {},
           [&](const NetGraph::Node& node, const Model::Tensors& outputs) {
             kinds.push_back(node.kind);
             tensors += static_cast<int64_t>(outputs.size());
           });
  CHECK(kinds ==
        std::vector<std::string>{"shape", "gather", "elementwise", "unsqueeze", "concat", "reshape"});
  CHECK(tensors == 1);  // the others stay on the host
}

TEST_CASE("a trace tells nodes of a loop's body turn by turn, in order of time") {
  const Model model(looping());
  const Model::Tensors feeds{{"most", scalar(whole({}, {3}))},
                             {"s", device_tensor({2}, {0, 100})},
                             {"x", device_tensor({2}, {1, 2})},
                             {"limit", scalar(real({}, {50}))}};
  CHECK_THROWS_WITH(
      model.trace(Stream(context(), cl::CommandQueue(context().cl(), context().device().cl())), feeds),
      Catch::Contains("measures no time"));
  if (!detail::driver_limits(context().device()).measures_time) {
    CHECK_THROWS_WITH(model.trace(profiling_stream(context()), feeds), Catch::Contains("tells no times"));
    return;
  }
  const Model::Trace trace = model.trace(profiling_stream(context()), feeds);
  CHECK(!trace.replayed);  // the condition is read each turn
  size_t turns = 0, launches = 0;
  double last = 0;
  for (const Model::Trace::Step& step : trace.steps) {
    const auto function = step.node.attributes.find("function");
    const bool adds =
        function != step.node.attributes.end() && std::get<std::string>(function->second.value) == "add";
    turns += adds ? 1 : 0;
    if (adds) CHECK(step.operators.size() == 1);
    for (const OperatorTime& op : step.operators)
      for (const KernelTime& kernel : op.kernels) {
        CHECK(kernel.start >= last);
        last = kernel.end;
        launches++;
      }
  }
  CHECK(turns == 3);
  CHECK(launches >= 6);
  CHECK(trace.steps.back().node.kind == "loop");
  CHECK(!trace.steps.back().operators.empty());  // what turns leave becomes one tensor
}

TEST_CASE("elements on the host convert as they do on devices") {
  CHECK(integers_of(host_tensor(DType::u8, {3}, std::vector<double>{-5, 300, 7.9})) ==
        std::vector<int64_t>{0, 255, 7});
  CHECK(integers_of(host_tensor(DType::boolean, {3}, std::vector<double>{0, 0.5, -2})) ==
        std::vector<int64_t>{0, 1, 1});
  CHECK(numbers_of(host_tensor(DType::f16, {2}, std::vector<double>{1.5, 65504})) ==
        std::vector<double>{1.5, 65504});
  CHECK_THROWS_AS(host_tensor(DType::i64, {3}, std::vector<int64_t>{1}), ValidationError);
}

TEST_CASE("elements of 64 unsigned bits are the same on the host") {
  const std::vector<int64_t> bits = {-1, INT64_MIN, 5};
  const HostTensor large = host_tensor(DType::u64, {3}, bits);
  CHECK(integers_of(large) == bits);
  CHECK(numbers_of(large) == std::vector<double>{0x1p64, 0x1p63, 5});
  CHECK(integers_of(host_tensor(DType::u64, {3}, std::vector<double>{-5, 0x1p63, 1e30})) ==
        std::vector<int64_t>{0, INT64_MIN, -1});
  CHECK(integers_of(host_tensor(DType::u32, {2}, std::vector<double>{1e30, 4294967294.5})) ==
        std::vector<int64_t>{UINT32_MAX, 4294967294});
  CHECK(integers_of(host_tensor(DType::u16, {2}, std::vector<int64_t>{-1, 65538})) ==
        std::vector<int64_t>{65535, 2});
}

namespace {

/// What a node gives of constants, which it may compute on the host, and of what is fed.
std::vector<Tensor> both_ways(const char* kind, const std::vector<HostTensor>& inputs,
                              const std::map<std::string, Attribute>& attributes) {
  std::vector<Tensor> results;
  for (bool fed : {false, true}) {
    NetGraph g;
    Model::Tensors feeds;
    std::vector<int> values;
    for (const HostTensor& x : inputs) {
      if (!fed) {
        values.push_back(g.add_constant(x));
        continue;
      }
      const std::string name = "x" + std::to_string(values.size());
      values.push_back(g.add_input(name, x.dtype, std::vector<Dimension>(x.shape.begin(), x.shape.end())));
      feeds[name] = to_device(stream(), x);
    }
    g.add_output("y", g.add(kind, values, attributes));
    results.push_back(Model(g).run(stream(), feeds).at("y"));
  }
  return results;
}

}  // namespace

TEST_CASE("nodes compute with unsigned numbers, on the host too") {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  const HostTensor a = host_tensor(DType::u64, {3}, std::vector<int64_t>{-1, INT64_MIN + 1, 5}),
                   b = host_tensor(DType::u64, {3}, std::vector<int64_t>{2, 3, 7});
  const auto whole_of = [&](const char* kind, const std::vector<HostTensor>& xs,
                            const std::map<std::string, Attribute>& attributes,
                            const std::vector<uint64_t>& expected) {
    for (const Tensor& y : both_ways(kind, xs, attributes)) {
      INFO(kind);
      CHECK(read<uint64_t>(stream(), y) == expected);
    }
  };
  whole_of("elementwise", {a, b}, {{"function", "maximum"}}, {UINT64_MAX, kTop + 1, 7});
  whole_of("elementwise", {a, b}, {{"function", "trunc_divide"}}, {UINT64_MAX / 2, (kTop + 1) / 3, 0});
  whole_of("elementwise", {a, b}, {{"function", "add"}}, {1, kTop + 4, 12});
  for (const Tensor& y : both_ways("elementwise", {a, b}, {{"function", "less"}}))
    CHECK(host_values(y) == std::vector<float>{0, 0, 1});
  for (const Tensor& y : both_ways("cast", {a}, {{"dtype", "f32"}}))
    CHECK(host_values(y) == std::vector<float>{0x1p64f, 0x1p63f, 5});
  const auto reduced = [&](const char* f, uint64_t expected) {
    whole_of("reduce", {a}, {{"function", f}}, {expected});
  };
  reduced("max", UINT64_MAX);
  reduced("min", 5);
  reduced("sum", kTop + 5);
  reduced("mean", (kTop + 5) / 3);
  reduced("l1", kTop + 5);
  // 2^32 - 1 is the root of 2^64 - 2^33 + 1.
  whole_of("reduce", {host_tensor(DType::u64, {1}, std::vector<int64_t>{UINT32_MAX})}, {{"function", "l2"}},
           {UINT32_MAX});
  const HostTensor nothing = host_tensor(DType::u64, {0}, std::vector<int64_t>{});
  whole_of("reduce", {nothing}, {{"function", "min"}}, {UINT64_MAX});
  whole_of("reduce", {nothing}, {{"function", "max"}}, {0});
}

TEST_CASE("one dtype holds two, where there is one") {
  using D = DType;
  constexpr DType kRows[][3] = {
      {D::u8, D::i8, D::i16},       {D::u16, D::i16, D::i32},  {D::u32, D::i32, D::i64},
      {D::u16, D::i8, D::i32},      {D::u8, D::i16, D::i16},   {D::u32, D::u16, D::u32},
      {D::u64, D::u8, D::u64},      {D::u32, D::i64, D::i64},  {D::u64, D::f16, D::f16},
      {D::boolean, D::u64, D::u64}, {D::f16, D::bf16, D::f32}, {D::i8, D::i8, D::i8},
      {D::u32, D::i8, D::i64},      {D::f32, D::f64, D::f64},  {D::boolean, D::i8, D::i8}};
  for (const auto& [a, b, expected] : kRows) {
    INFO(name_of(a) << " and " << name_of(b));
    CHECK(detail::joined(a, b) == expected);
    CHECK(detail::joined(b, a) == expected);
  }
  CHECK(refusal([] { detail::joined(DType::i16, DType::u64); }) ==
        "inputs: u64 and i16 have no type that holds both");
}
