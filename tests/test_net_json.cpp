// Models as JSON: a graph that is saved is loaded as it was, and saved again as the same bytes; loaded models
// give the same bits; the example of docs/model_format.md runs. What is refused is in
// test_net_json_refusals.cpp.
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include <dlprim/net_host.hpp>
#include <dlprim/net_json.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/net_networks.hpp>
#include <dlprim/onnx.hpp>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
namespace fs = std::filesystem;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

HostTensor named(HostTensor tensor, const std::string& name) {
  tensor.name = name;
  return tensor;
}
HostTensor whole(const Shape& shape, const std::vector<int64_t>& elements, DType dtype = DType::i64) {
  return host_tensor(dtype, shape, elements);
}
HostTensor real(const Shape& shape, const std::vector<double>& elements, DType dtype = DType::f32) {
  return host_tensor(dtype, shape, elements);
}

/// Says where two graphs differ but for the numbers of values, and those that nothing writes.
class Difference {
 public:
  static std::string of(const NetGraph& a, const NetGraph& b) {
    Difference d;
    d.compare(a, b, "");
    return d.found_;
  }

 private:
  void expect(bool same, const std::string& what) {
    if (!same && found_.empty()) found_ = what;
  }

  void compare(const NetGraph& a, const NetGraph& b, const std::string& place) {
    std::map<int, int> values = {{NetGraph::kNone, NetGraph::kNone}};
    const auto pair = [&](int x, int y, const std::string& what) {
      expect(values.emplace(x, y).first->second == y, what);
      if (x == NetGraph::kNone || y == NetGraph::kNone) return expect(x == y, what);
      const NetGraph::Value &v = a.values[static_cast<size_t>(x)], &w = b.values[static_cast<size_t>(y)];
      expect(v.name == w.name, what + " name");
      expect(v.dtype == w.dtype, what + " dtype");
      expect(v.shape.has_value() == w.shape.has_value(), what + " shape");
      if (!v.shape || !w.shape) return;
      expect(v.shape->size() == w.shape->size(), what + " rank");
      for (size_t i = 0; i < std::min(v.shape->size(), w.shape->size()); i++)
        expect((*v.shape)[i].size == (*w.shape)[i].size && (*v.shape)[i].symbol == (*w.shape)[i].symbol,
               what + " size");
    };
    const auto pairs = [&](const std::vector<int>& x, const std::vector<int>& y, const std::string& what) {
      expect(x.size() == y.size(), what + " count");
      for (size_t i = 0; i < std::min(x.size(), y.size()); i++)
        pair(x[i], y[i], what + "[" + std::to_string(i) + "]");
    };
    expect(a.metadata == b.metadata, place + "metadata");
    pairs(a.inputs, b.inputs, place + "inputs");
    expect(a.constants.size() == b.constants.size(), place + "constants");
    for (auto x = a.constants.begin(), y = b.constants.begin();
         x != a.constants.end() && y != b.constants.end(); ++x, ++y) {
      const std::string what = place + "constant " + x->second->name;
      pair(x->first, y->first, what);
      expect(x->second->dtype == y->second->dtype && x->second->shape == y->second->shape, what + " type");
      expect(x->second->data == y->second->data, what + " data");
      expect(tensors_.emplace(x->second.get(), y->second.get()).first->second == y->second.get(),
             what + " shared");
    }
    expect(a.nodes.size() == b.nodes.size(), place + "nodes");
    for (size_t i = 0; i < std::min(a.nodes.size(), b.nodes.size()); i++) {
      const NetGraph::Node &n = a.nodes[i], &m = b.nodes[i];
      const std::string what = place + "nodes[" + std::to_string(i) + "]";
      expect(n.kind == m.kind && n.name == m.name, what);
      pairs(n.inputs, m.inputs, what + ".inputs");
      pairs(n.outputs, m.outputs, what + ".outputs");
      compare(n.attributes, m.attributes, what);
      expect(n.bodies.size() == m.bodies.size(), what + ".bodies");
      for (size_t k = 0; k < std::min(n.bodies.size(), m.bodies.size()); k++)
        compare(*n.bodies[k], *m.bodies[k], what + ".bodies[" + std::to_string(k) + "].");
    }
    pairs(a.outputs, b.outputs, place + "outputs");
  }

  void compare(const Attributes& a, const Attributes& b, const std::string& place) {
    expect(a.size() == b.size(), place + " attributes");
    for (const auto& [name, attribute] : a) {
      const auto found = b.find(name);
      const std::string what = place + " attribute " + name;
      if (found == b.end()) return expect(false, what);
      expect(attribute.value.index() == found->second.value.index(), what + " type");
      if (!found_.empty()) return;
      const auto bits = [](const std::vector<double>& x) {
        return std::string(reinterpret_cast<const char*>(x.data()), 8 * x.size());
      };
      if (const auto* x = std::get_if<double>(&attribute.value))
        expect(bits({*x}) == bits({std::get<double>(found->second.value)}), what);
      else if (const auto* list = std::get_if<Attribute::Numbers>(&attribute.value))
        expect(bits(*list) == bits(std::get<Attribute::Numbers>(found->second.value)), what);
      else
        expect(attribute.value == found->second.value, what);
    }
  }

  std::string found_;
  std::map<const HostTensor*, const HostTensor*> tensors_;
};

/// The graph as it comes back; it is the same, and saved again it is the same bytes.
NetGraph round_trip(const NetGraph& graph) {
  const TempDir first, second;
  const std::vector<std::string> files = save_json(first / "m.json", graph);
  CHECK(files.size() == (fs::exists(first / "m.safetensors") ? 2 : 1));
  CHECK(files[0] == first / "m.json");
  NetGraph loaded = load_json(first / "m.json");
  CHECK(Difference::of(graph, loaded) == "");
  loaded.check();
  save_json(second / "m.json", loaded);
  CHECK(bytes_of(first / "m.json") == bytes_of(second / "m.json"));
  CHECK(bytes_of(first / "m.safetensors") == bytes_of(second / "m.safetensors"));
  return loaded;
}

/// The JSON of a graph.
std::string text_of(const NetGraph& graph) {
  const TempDir folder;
  save_json(folder / "m.json", graph);
  return bytes_of(folder / "m.json");
}

/// y = x + one, x of any size.
NetGraph small() {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1, "n"}});
  const int one = g.add_constant(named(real({1}, {1}), "one"));
  g.add_output("y", g.add("elementwise", {x, one}, {{"function", "add"}}));
  return g;
}

/// condition ? x + w : x * w, where w is large; each branch has it as a constant, the graph too.
NetGraph branching() {
  Rng rng(3);
  const std::vector<float> numbers = reals(40, rng);
  const auto w = std::make_shared<const HostTensor>(
      named(real({40}, std::vector<double>(numbers.begin(), numbers.end())), "w"));
  const auto branch = [&](const char* function) {
    NetGraph body;
    const int x = body.add_value("x"), weights = body.add_value("w");
    body.inputs = {x};
    body.constants[weights] = w;
    body.add_output("r", body.add("elementwise", {x, weights}, {{"function", function}}));
    return std::make_shared<const NetGraph>(body);
  };
  NetGraph g;
  const int condition = g.add_input("condition", DType::boolean, {}),
            x = g.add_input("x", DType::f32, {{40}});
  const int weights = g.add_value("w");
  g.constants[weights] = w;
  const int scaled = g.add("elementwise", {x, weights}, {{"function", "sub"}});
  const int y = g.add("if", {condition, scaled, scaled});
  g.nodes.back().bodies = {branch("add"), branch("mul")};
  g.add_output("y", y);
  return g;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  INFO(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("graphs come back as they were: attributes of every type, exactly") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1, "n"}, {}, {7}, {2, "two"}, {0}});
  g.metadata = {{"labels", "cat\ndog \"x\" \xc3\xa9"}, {"", ""}};
  g.add_output("y", g.add("identity", {x},
                          {{"zero", 0},
                           {"least", INT64_MIN},
                           {"most", INT64_MAX},
                           {"odd", int64_t{(int64_t{1} << 53) + 1}},
                           {"one", 1.0},
                           {"minus", -0.0},
                           {"tenth", 0.1},
                           {"float", static_cast<double>(0.1F)},
                           {"tiny", 5e-324},
                           {"normal", std::numeric_limits<double>::min()},
                           {"huge", std::numeric_limits<double>::max()},
                           {"third", -1.0 / 3},
                           {"e300", 1e300},
                           {"inf", kInf},
                           {"minus_inf", -kInf},
                           {"nan", kNan},
                           {"text", "a \"b\"\\\n\t\x01 \xe2\x82\xac"},
                           {"empty", ""},
                           {"inf_text", "inf"},
                           {"integers", Attribute::Integers{INT64_MIN, -1, 0, INT64_MAX}},
                           {"no_integers", Attribute::Integers{}},
                           {"numbers", Attribute::Numbers{1, -0.0, 2.5, 1e-7}},
                           {"odd_numbers", Attribute::Numbers{kInf, 1, -kInf, kNan}},
                           {"infinite", Attribute::Numbers{kInf}},
                           {"no_numbers", Attribute::Numbers{}},
                           {"texts", Attribute::Strings{"", "b", "inf"}},
                           {"no_texts", Attribute::Strings{}},
                           {"a \"name\"", 1}}));
  g.nodes.back().name = "node \"1\"";
  round_trip(g);
}

TEST_CASE("graphs come back as they were: constants of every dtype, each bit of them") {
  NetGraph g;
  std::vector<int> all = {};
  const auto add = [&](HostTensor tensor, const std::string& name) {
    all.push_back(g.add_constant(named(std::move(tensor), name)));
  };
  const DType wholes[] = {DType::i8,  DType::u8,  DType::i16, DType::u16,    DType::i32,
                          DType::u32, DType::i64, DType::u64, DType::boolean};
  const DType reals[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
  for (DType dtype : wholes) {
    const std::string name = name_of(dtype);
    const bool truth = dtype == DType::boolean;
    const int bits = truth ? 1 : static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
    const int64_t most = bits == 64   ? -1  // of u64, all bits
                         : bits == 63 ? INT64_MAX
                                      : (int64_t{1} << bits) - 1;
    add(whole({2}, {is_signed_integer(dtype) ? -most - 1 : 0, most}, dtype), name);
    add(whole({}, {1}, dtype), name + " scalar");
    add(whole({3, 0}, std::vector<int64_t>{}, dtype), name + " empty");
    add(whole({17}, std::vector<int64_t>(17, 1), dtype), name + " many");
  }
  for (DType dtype : reals) {
    const std::string name = name_of(dtype);
    for (double number : {0.1, -0.0, 1.0, 3e-8, 60000.0, 1.0 / 3, kInf, -kInf, kNan})
      add(real({}, {number}, dtype), name + " " + std::to_string(number) + std::to_string(all.size()));
    add(real({1, 1}, {2}, dtype), name + " one");
    add(real({0}, std::vector<double>{}, dtype), name + " empty");
    add(real({3}, {1, kNan, -kInf}, dtype), name + " many");
    HostTensor patterns{name + " bits", dtype, {64}, {}};
    for (size_t i = 0; i < 64 * size_of(dtype); i++)
      patterns.data.push_back(static_cast<unsigned char>(i * 97));
    add(patterns, patterns.name);
  }
  HostTensor odd_nan{"odd nan", DType::f32, {}, {1, 2, 0x80, 0xff}};
  add(odd_nan, "odd nan");
  HostTensor odd_truth{"odd truth", DType::boolean, {2}, {1, 2}};
  add(odd_truth, "odd truth");
  // The shortest text of this float is another's by way of a double: 7.038531e-26.
  add({"", DType::f32, {}, {0xfd, 0x43, 0xae, 0x15}}, "double rounding");
  // Each f16 and bf16 that there is, and floats over all exponents, one by one: as short texts they are
  // exact.
  for (uint32_t i = 0; i < 0x10000; i += 13)
    for (DType dtype : {DType::f16, DType::bf16}) {
      HostTensor tensor{"", dtype, {}, {static_cast<unsigned char>(i), static_cast<unsigned char>(i >> 8)}};
      all.push_back(g.add_constant(tensor));
    }
  Rng rng(5);
  for (int i = 0; i < 2000; i++) {
    HostTensor tensor{"", i % 2 ? DType::f32 : DType::f64, {}, {}};
    for (size_t k = 0; k < size_of(tensor.dtype); k++)
      tensor.data.push_back(static_cast<unsigned char>(rng.next()));
    all.push_back(g.add_constant(tensor));
  }
  g.add_output("y", g.add("identity", {all[0]}));
  round_trip(g);
  const std::string text = text_of(g);
  CHECK_THAT(text, Catch::Contains(
                       R"("u64": {"dtype": "u64", "shape": [2], "elements": [0, 18446744073709551615]})"));
  CHECK_THAT(text, Catch::Contains(R"("bool": {"dtype": "bool", "shape": [2], "elements": [false, true]})"));
  CHECK_THAT(text, Catch::Contains(R"("i64 many": {"dtype": "i64", "shape": [17]})"));
  CHECK_THAT(text, Catch::Contains(R"("shape": [], "elements": [0.1]})"));
  CHECK_THAT(text, Catch::Contains(R"("shape": [], "elements": ["-inf"]})"));
  CHECK_THAT(text, Catch::Contains(R"("odd nan": {"dtype": "f32", "shape": []})"));
}

TEST_CASE("graphs come back as they were: names that are missing, odd, or another's") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{2}}), unnamed = g.add_input("", DType::f32, {{2}});
  const int percent = g.add_input("%relu", DType::f32, {}),
            odd = g.add_input(std::string("\0 \"", 3), DType::i8, {});
  const int typeless = g.add_value("typeless");
  g.inputs.push_back(typeless);
  g.add_value("nothing writes it");
  int y = x;
  for (int i = 0; i < 3; i++) y = g.add("elementwise", {y}, {{"function", "relu"}});
  g.values[static_cast<size_t>(y)].name = "x";  // another's
  const std::vector<int> many = g.add_many("top_k", {y, g.add_constant(whole({}, {1}))}, 2);
  g.nodes.back().name = "largest";
  g.nodes.back().outputs[0] = NetGraph::kNone;
  g.add_constant(named(whole({1}, {1}), "__metadata__"));
  g.add_constant(named(real({2}, {1, 2}), "__metadata__"));
  g.add_output("y", g.add("concat", {unnamed, percent, odd, typeless, many[1], y}));
  g.outputs.push_back(g.inputs[0]);  // an input at once, and one output twice
  g.outputs.push_back(g.outputs[0]);
  round_trip(g);
  const std::string text = text_of(g);
  CHECK_THAT(text, Catch::Contains(R"("%%relu": {"name": "%relu", "dtype": "f32", "shape": []})"));
  CHECK_THAT(text,
             Catch::Contains(R"("outputs": ["%relu"])") && Catch::Contains(R"("outputs": ["%relu_2"])"));
  CHECK_THAT(text, Catch::Contains(R"("outputs": [null, "%largest.1"])"));
  CHECK_THAT(text, Catch::Contains(R"("outputs": ["y", "x", "y"])"));
  CHECK_THAT(text, !Catch::Contains("nothing writes it"));
}

TEST_CASE("what graphs share is written once, and shared again") {
  const NetGraph loaded = round_trip(branching());
  const HostTensor* const w = loaded.constants.begin()->second.get();
  CHECK(w->name == "w");
  REQUIRE(loaded.nodes[1].bodies.size() == 2);
  for (const auto& body : loaded.nodes[1].bodies) CHECK(body->constants.begin()->second.get() == w);
  // A short one, too.
  NetGraph g = small();
  g.constants[g.add_value("again")] = g.constants.begin()->second;
  const NetGraph again = round_trip(g);
  CHECK(again.constants.begin()->second == again.constants.rbegin()->second);
  const TempDir folder;
  save_json(folder / "m.json", branching());
  CHECK(SafetensorsReader(folder / "m.safetensors").entries().size() == 1);
}

TEST_CASE("loaded models run as the originals do, bit for bit") {
  const auto compare = [](const NetGraph& graph, const Model::Tensors& feeds) {
    const Model a(graph), b(round_trip(graph));
    for (int run = 0; run < 3; run++) {
      const Model::Tensors x = a.run(stream(), feeds), y = b.run(stream(), feeds);
      REQUIRE(x.size() == y.size());
      for (const auto& [name, tensor] : x) CHECK(host_bytes(tensor) == host_bytes(y.at(name)));
    }
  };
  Rng rng(8);
  compare(small(), {{"x", device_tensor({3}, {1, 2, 3})}});
  for (int truth : {0, 1})
    compare(branching(), {{"condition", to_device(stream(), whole({}, {truth}, DType::boolean))},
                          {"x", device_tensor({40}, reals(40, rng))}});
  compare(networks::make("squeezenet1_0"),
          {{"input", device_tensor({1, 3, 64, 64}, reals(3 * 64 * 64, rng))}});
}

TEST_CASE("networks by name come back as they were") {
  for (const char* name : {"shufflenet_v2_x1_0", "mobilenet_v3_large", "googlenet"}) {
    INFO(name);
    round_trip(networks::make(name));
  }
}

TEST_CASE("ONNX models come back as they were, with bodies that use what is around them") {
  namespace writer = onnx_writer;
  writer::Graph inner, g;
  inner.nodes = {writer::node("Mul", {"x", "w"}, {"r"})};
  inner.outputs = {writer::value("r", onnx::ElementType::f32, {2})};
  g.nodes = {writer::node("If", {"c"}, {"y"},
                          {writer::graph_attribute("then_branch", writer::graph(inner)),
                           writer::graph_attribute("else_branch", writer::graph(inner))})};
  g.initializers = {writer::tensor("w", onnx::ElementType::f32, {2}, writer::raw_bytes<float>({3, -4}))};
  g.inputs = {writer::value("c", onnx::ElementType::boolean, {}),
              writer::value("x", onnx::ElementType::f32, {"n"})};
  g.outputs = {writer::value("y", onnx::ElementType::f32, {2})};
  const NetGraph loaded = round_trip(onnx::parse_graph(writer::model(writer::graph(g)).bytes()));
  const Model model(loaded);
  const Model::Tensors y = model.run(stream(), {{"c", to_device(stream(), whole({}, {1}, DType::boolean))},
                                                {"x", device_tensor({2}, {2, 5})}});
  CHECK(host_values(y.at("y")) == std::vector<float>{6, -20});
}

TEST_CASE("the example of the page is a model, and the text that its graph is saved as") {
  const std::string page = bytes_of(source_file("docs/model_format.md"));
  const size_t begin = page.find("```json\n") + 8, end = page.find("```", begin);
  REQUIRE(end < page.size());
  const std::string text = page.substr(begin, end - begin);
  const TempDir folder;
  put(folder / "classifier.json", text);
  save_safetensors(folder / "classifier.safetensors",
                   {named(real({3, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1}), "fc.weight"),
                    named(real({3}, {0, 0, -1}), "fc.bias")});
  const NetGraph graph = load_json(folder / "classifier.json");
  const Model::Tensors y = Model(graph).run(stream(), {{"x", device_tensor({1, 2, 2}, {5, 7, -1, 9})}});
  CHECK(host_values(y.at("scores")) == std::vector<float>{5, 7, 8});
  CHECK(host_values(y.at("best")) == std::vector<float>{2});
  save_json(folder / "again.json", graph);
  CHECK(changed(bytes_of(folder / "again.json"), "again.safetensors", "classifier.safetensors") == text);
  // The limits that another case tries.
  for (const char* part : {"64 MiB", "2,097,152", "262,144", "32 deep", "`inf`", "`-inf`", "`nan`"})
    CHECK_THAT(page, Catch::Contains(part));
}

TEST_CASE("saving replaces both files whole, or neither") {
  const TempDir folder;
  const std::string path = folder / "m.json";
  NetGraph g = branching();
  save_json(path, g);
  const std::string json = bytes_of(path), tensors = bytes_of(folder / "m.safetensors");
  const auto files = [&] {
    return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
  };
  const auto untouched = [&] {
    return files() == 2 && bytes_of(path) == json && bytes_of(folder / "m.safetensors") == tensors;
  };
  g.metadata["large"] = std::string(1 << 20, 'x');
  rlimit unlimited{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &unlimited) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 16, unlimited.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string text = error_of<Error>([&] { save_json(path, g); });
  setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, handler);
  CHECK(text == "cannot write '" + path + "': File too large");
  CHECK(untouched());
  g = branching();
  g.nodes[0].name = "\xff";
  CHECK_THAT(refusal([&] { save_json(path, g); }), Catch::Contains("is not UTF-8"));
  g = branching();
  g.nodes[0].kind = "teleport";
  CHECK_THAT(refusal([&] { save_json(path, g); }), Catch::Contains("no kind"));
  g = small();
  auto wrong = named(real({2}, {1, 2}), "one");
  wrong.data.pop_back();
  g.constants.begin()->second = std::make_shared<const HostTensor>(wrong);
  CHECK_THAT(refusal([&] { save_json(path, g); }), Catch::Contains("constant 'one' has 7 bytes"));
  CHECK(untouched());
  CHECK(refusal([&] { save_json(folder / "m.onnx", small()); }) ==
        "path: '" + (folder / "m.onnx") + "' must end in .json");
  CHECK(error_of<Error>([&] { save_json(folder / "no/m.json", small()); }) ==
        "cannot write '" + (folder / "no/m.json") + "': No such file or directory");
  CHECK(untouched());
  save_json(path, small());
  CHECK(files() == 2);
  CHECK(load_json(path).nodes.size() == 1);
}
