// `dlprim trace`, run as a user runs it: its two files and its records agree with one another and with
// `dlprim explain`.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "cli.hpp"
#include "core/device_probe.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
using namespace dlprim::test::onnx_writer;
using nlohmann::json;

namespace {

/// softmax(x w) w + x, x [n, 48]: several kernels of several kinds.
std::string chain_model() {
  onnx_writer::Graph g;
  g.nodes = {node("MatMul", {"x", "w"}, {"h"}), node("Softmax", {"h"}, {"s"}),
             node("MatMul", {"s", "w"}, {"t"}), node("Add", {"t", "x"}, {"y"})};
  const std::vector<float> w(48 * 48, 0.5f);
  g.initializers = {tensor("w", ElementType::f32, {48, 48},
                           std::string(reinterpret_cast<const char*>(w.data()), w.size() * sizeof(float)))};
  g.inputs = {value("x", ElementType::f32, {"n", 48})};
  g.outputs = {value("y", ElementType::f32, {"n", 48})};
  return model(graph(g)).bytes();
}

/// Where x is not 0: how many outputs depends on elements.
std::string places_model() {
  onnx_writer::Graph g;
  g.nodes = {node("Relu", {"x"}, {"r"}), node("NonZero", {"r"}, {"y"})};
  g.inputs = {value("x", ElementType::f32, {64})};
  g.outputs = {value("y", ElementType::i64, {1, "k"})};
  return model(graph(g)).bytes();
}

std::vector<json> records(const Result& result) {
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  std::vector<json> list;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) list.push_back(json::parse(line));
  return list;
}

struct Slice {
  std::string name;
  double start, end;
  json args;
};

/// The complete events of a track, by its name, in order of time.
std::vector<Slice> track(const json& trace, const std::string& name) {
  int id = 0;
  for (const json& e : trace["traceEvents"])
    if (e["name"] == "thread_name" && e["args"]["name"] == name) id = e["tid"];
  REQUIRE(id != 0);
  std::vector<Slice> events;
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "X" && e["tid"] == id) {
      CHECK(e["pid"] == 1);
      const double start = e["ts"];
      events.push_back({e["name"], start, start + e["dur"].get<double>(), e["args"]});
    }
  std::stable_sort(events.begin(), events.end(),
                   [](const Slice& a, const Slice& b) { return a.start < b.start; });
  return events;
}

constexpr double kNanosecond = 1.1e-3;  // times are rounded to one

void check_apart(const std::vector<Slice>& events) {
  for (size_t i = 0; i < events.size(); i++) {
    INFO(i << " " << events[i].name);
    CHECK(events[i].start >= 0);
    CHECK(events[i].end >= events[i].start);
    if (i > 0) CHECK(events[i].start + kNanosecond >= events[i - 1].end);
  }
}

/// Each of `inner` lies in exactly one of `outer`, whose ends are ends of those in it.
void check_inside(const std::vector<Slice>& inner, const std::vector<Slice>& outer) {
  size_t found = 0;
  for (const Slice& o : outer) {
    double first = 1e30, last = 0;
    for (const Slice& i : inner)
      if (i.start + kNanosecond >= o.start && i.end <= o.end + kNanosecond) {
        first = std::min(first, i.start), last = std::max(last, i.end);
        found++;
      }
    INFO(o.name);
    CHECK(first == Approx(o.start).margin(kNanosecond));
    CHECK(last == Approx(o.end).margin(kNanosecond));
  }
  CHECK(found == inner.size());
}

double sum_of(const std::vector<Slice>& events) {
  double sum = 0;
  for (const Slice& e : events) sum += e.end - e.start;
  return sum;
}

/// An element with its attributes and its own text.
struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;
  double number(const char* attribute) const { return std::stod(attributes.at(attribute)); }
};

/// A strict reader of XML without entities of its own, comments or prologues. Fails on what is not
/// well-formed.
class Xml {
 public:
  explicit Xml(const std::string& text) : text_(text) {
    while (at_ < text_.size()) {
      if (text_[at_] == '<')
        tag();
      else
        content();
    }
    REQUIRE(open_.empty());
  }
  std::vector<Element> elements;

 private:
  void tag() {
    const size_t end = text_.find('>', at_);
    REQUIRE(end != std::string::npos);
    std::string inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    INFO("<" << inside << ">");
    REQUIRE(inside.find('<') == std::string::npos);
    if (inside[0] == '/') {
      REQUIRE(!open_.empty());
      REQUIRE(elements[open_.back()].name == inside.substr(1));
      open_.pop_back();
      return;
    }
    REQUIRE((elements.empty() || !open_.empty()));  // one root
    const bool closed = inside.back() == '/';
    if (closed) inside.pop_back();
    Element element;
    std::istringstream words(inside);
    words >> element.name;
    size_t i = element.name.size();
    while ((i = inside.find_first_not_of(" \n", i)) != std::string::npos) {
      const size_t equals = inside.find("=\"", i);
      REQUIRE(equals != std::string::npos);
      const size_t quote = inside.find('"', equals + 2);
      REQUIRE(quote != std::string::npos);
      const bool is_new =
          element.attributes
              .emplace(inside.substr(i, equals - i), inside.substr(equals + 2, quote - equals - 2))
              .second;
      REQUIRE(is_new);
      i = quote + 1;
    }
    if (!closed) open_.push_back(elements.size());
    elements.push_back(element);
  }

  void content() {
    const size_t end = std::min(text_.find('<', at_), text_.size());
    std::string content = text_.substr(at_, end - at_);
    at_ = end;
    if (open_.empty()) {
      REQUIRE(content.find_first_not_of(" \n") == std::string::npos);
      return;
    }
    for (size_t i = content.find('&'); i != std::string::npos; i = content.find('&', i + 1)) {
      const std::string entity = content.substr(i, content.find(';', i) - i);
      REQUIRE((entity == "&amp" || entity == "&lt" || entity == "&gt"));
    }
    for (unsigned char c : content) REQUIRE((c >= 32 || c == '\n'));
    elements[open_.back()].text += content;
  }

  const std::string& text_;
  size_t at_ = 0;
  std::vector<size_t> open_;  ///< places in `elements`
};

/// No text lies on another, by a generous width of characters.
void check_texts_apart(const std::vector<Element>& elements) {
  struct Box {
    double left, right, y;
    std::string text;
  };
  std::vector<Box> boxes;
  for (const Element& e : elements) {
    if (e.name != "text") continue;
    const bool head = e.attributes.count("class") && e.attributes.at("class") == "head";
    const double width = static_cast<double>(e.text.size()) * (head ? 11 : 8), x = e.number("x");
    const auto anchor = e.attributes.find("text-anchor");
    const double left = anchor == e.attributes.end() ? x
                        : anchor->second == "end"    ? x - width
                                                     : x - width / 2;
    boxes.push_back({left, left + width, e.number("y"), e.text});
    INFO(e.text);
    CHECK(left >= 0);
    CHECK(left + width <= 960);
    for (size_t i = 0; i + 1 < boxes.size(); i++) {
      INFO(boxes[i].text);
      CHECK((std::abs(boxes[i].y - boxes.back().y) >= 13 || boxes[i].right <= left ||
             boxes.back().right <= boxes[i].left));
    }
  }
}

struct Traced {
  json file;
  std::string svg;
  std::vector<json> records;
  json total;
};

Traced trace(const TempDir& folder, const std::string& arguments) {
  Traced t;
  t.records = records(run("trace --json --out '" + (folder / "t.json") + "' --svg '" + (folder / "t.svg") +
                          "' " + arguments + device_option()));
  t.file = json::parse(bytes_of(folder / "t.json"));
  t.svg = bytes_of(folder / "t.svg");
  t.total = t.records.back();
  REQUIRE(t.total["record"] == "total");
  return t;
}

/// Noted if not.
bool tells_times() {
  const bool told = detail::driver_limits(context().device()).measures_time;
  if (!told) note_skipped("the device tells no times");
  return told;
}

/// What holds of every trace.
void check_consistent(const Traced& t) {
  const std::vector<Slice> nodes = track(t.file, "nodes"), operators = track(t.file, "operators"),
                           kernels = track(t.file, "kernels");
  for (const auto* events : {&nodes, &operators, &kernels}) {
    CHECK(!events->empty());
    check_apart(*events);
  }
  check_inside(kernels, operators);
  check_inside(operators, nodes);
  const double total = t.total["us"], rounding = kNanosecond * static_cast<double>(kernels.size());
  CHECK(total > 0);
  CHECK(sum_of(kernels) == Approx(total).margin(rounding));
  CHECK(kernels.front().start == 0);
  CHECK(kernels.back().end == Approx(t.total["span_us"].get<double>()).margin(kNanosecond));
  CHECK(t.total["launches"] == kernels.size());
  CHECK(t.total["nodes"] == nodes.size());
  for (const char* kind : {"node", "kernel"}) {
    double us = 0, share = 0;
    size_t launches = 0;
    for (const json& r : t.records)
      if (r["record"] == kind)
        us += r["us"].get<double>(), share += r["share"].get<double>(),
            launches += r["launches"].get<size_t>();
    INFO(kind);
    CHECK(us == Approx(total).margin(rounding));
    CHECK(share == Approx(1));
    CHECK(launches == kernels.size());
  }
}

}  // namespace

TEST_CASE("trace: kernels lie in their operators, operators in their nodes, and times add up") {
  if (!tells_times()) return;
  const TempDir folder;
  put(folder / "chain.onnx", chain_model());
  const std::string model = " '" + (folder / "chain.onnx") + "' --shape x=24x48 ";
  const Traced t = trace(folder, model);
  check_consistent(t);
  CHECK(t.total["replayed"] == true);
  CHECK(t.file["otherData"]["replayed"] == true);

  // The kernels are those that explain tells of, node by node.
  std::vector<std::string> expected, found;
  for (const json& step : records(run("explain --json" + model + device_option())))
    if (step.contains("kernels"))
      for (const json& kernel : step["kernels"])
        expected.push_back(step["kind"].get<std::string>() + " " + kernel.get<std::string>());
  for (const Slice& kernel : track(t.file, "kernels")) {
    const std::string node = kernel.args["node"];
    found.push_back(node.substr(0, node.find(' ')) + " " + kernel.name);
  }
  CHECK(found == expected);

  // Arguments: the product's operations by its shape, and the rate by its time.
  const std::vector<Slice> operators = track(t.file, "operators");
  const auto gemm =
      std::find_if(operators.begin(), operators.end(), [](const Slice& e) { return e.name == "gemm"; });
  REQUIRE(gemm != operators.end());
  const double flops = 2.0 * 24 * 48 * 48;
  CHECK(gemm->args["flops"] == flops);
  CHECK(gemm->args["gflops"].get<double>() ==
        Approx(flops / gemm->args["us"].get<double>() * 1e-3).epsilon(1e-3));
  CHECK_THAT(gemm->args["operator"].get<std::string>(), Catch::Contains("m=24 n=48 k=48"));
  CHECK(!gemm->args["engine"].get<std::string>().empty());
}

// The chain's gradients by x are not asked for: that of w alone.
TEST_CASE("trace: a step of training has the nodes of its gradients") {
  if (!tells_times()) return;
  const TempDir folder;
  put(folder / "chain.onnx", chain_model());
  const Traced t = trace(folder, " --train '" + (folder / "chain.onnx") + "' --shape x=24x48 ");
  check_consistent(t);
  CHECK(t.total["replayed"] == true);
  int losses = 0, gradients = 0;
  for (const json& r : t.records) {
    if (r["record"] != "node") continue;
    const std::string kind = r["kind"];
    losses += kind.find("class_loss") == 0;
    gradients += kind.find("matmul_backward") == 0;
  }
  CHECK(losses >= 2);
  CHECK(gradients >= 3);  // of w twice, of what stands between
}

TEST_CASE("trace: what cannot be replayed is traced node by node") {
  if (!tells_times()) return;
  const TempDir folder;
  put(folder / "places.onnx", places_model());
  const Traced t = trace(folder, " '" + (folder / "places.onnx") + "'");
  check_consistent(t);
  CHECK(t.total["replayed"] == false);
  std::set<std::string> kinds;
  for (const json& r : t.records)
    if (r["record"] == "node") kinds.insert(r["kind"]);
  CHECK(kinds.size() == 2);
}

TEST_CASE("trace: the bar is well-formed, its pieces lie side by side, its legend adds up") {
  if (!tells_times()) return;
  const TempDir folder;
  const std::string name = "a<b>&c.onnx";
  put(folder / name, chain_model());
  const Traced t = trace(folder, " '" + (folder / name) + "' --shape x=24x48");
  const Xml svg(t.svg);
  REQUIRE(!svg.elements.empty());
  CHECK(svg.elements[0].name == "svg");
  CHECK(svg.elements[0].attributes.at("xmlns") == "http://www.w3.org/2000/svg");
  check_texts_apart(svg.elements);

  std::map<std::string, std::string> colours;  // of the pieces' kinds
  double last = 30, shares = 0;
  size_t pieces = 0;
  std::set<std::string> swatches;
  for (size_t i = 0; i < svg.elements.size(); i++) {
    const Element& e = svg.elements[i];
    if (e.name == "title") {
      const Element& piece = svg.elements[i - 1];
      INFO(e.text);
      CHECK(piece.number("x") >= last - 0.03);
      last = piece.number("x") + piece.number("width");
      pieces++;
      const std::string kind = e.text.substr(0, e.text.find(':'));
      CHECK(colours.emplace(kind, piece.attributes.at("fill")).first->second == piece.attributes.at("fill"));
    }
    if (e.name == "rect" && e.attributes.at("width") == "14") swatches.insert(e.attributes.at("fill"));
    const bool share = e.attributes.count("text-anchor") && e.text.size() > 2 &&
                       e.text.substr(e.text.size() - 2) == " %" && e.text != "100 %";
    if (share) shares += std::stod(e.text);
  }
  CHECK(pieces >= 3);
  CHECK(last == Approx(930).margin(0.1));
  CHECK(shares == Approx(100).margin(0.05 * static_cast<double>(swatches.size()) + 0.01));
  std::set<std::string> used;
  for (const auto& [kind, colour] : colours) used.insert(colour);
  CHECK(used == swatches);
  CHECK(used.size() == colours.size());
}

TEST_CASE("trace: a table for people, and clear errors") {
  if (!tells_times()) return;
  const TempDir folder;
  put(folder / "chain.onnx", chain_model());
  const std::string model = " '" + (folder / "chain.onnx") + "'" + device_option();
  const Result text = run("trace --top 1" + model);
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::Contains("share") && Catch::Contains("others") && Catch::Contains("100.0 %") &&
                           Catch::Contains("replayed"));
  const std::string nowhere = folder / "no/such/t.json";
  for (const char* option : {"--out", "--svg"}) {
    const Result refused = run(std::string("trace ") + option + " '" + nowhere + "'" + model);
    CHECK(refused.code == 1);
    CHECK_THAT(complaint(refused), Catch::Contains("cannot write") && Catch::Contains(nowhere));
  }
  const Result none = run("trace --top 0" + model);
  CHECK(none.code > 100);
  CHECK_THAT(none.err, Catch::Contains("--top"));
  const Result help = run("trace --help");
  CHECK_THAT(help.out, Catch::Contains("--out") && Catch::Contains("--svg") && Catch::Contains("--train") &&
                           Catch::Contains("perfetto"));
}
