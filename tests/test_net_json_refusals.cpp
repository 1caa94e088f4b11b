// Files of JSON models that say something wrong, are damaged, too large, or none: each is refused with its
// place and what stands there, before it takes memory.
#include <sys/stat.h>

#include <filesystem>
#include <limits>

#include <dlprim/net_host.hpp>
#include <dlprim/net_json.hpp>

#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
namespace fs = std::filesystem;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// y = x + one, x of any size.
NetGraph small() {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{-1, "n"}});
  const int one = g.add_constant(host_tensor(DType::f32, {1}, std::vector<double>{1}));
  g.add_output("y", g.add("elementwise", {x, one}, {{"function", "add"}}));
  return g;
}

/// Why a file of this text is refused, without what names the file.
std::string refused(const std::string& text, const HostTensor* weights = nullptr) {
  const TempDir folder;
  const std::string path = folder / "m.json";
  put(path, text);
  if (weights) save_safetensors(folder / "w.safetensors", {*weights});
  const std::string what = refusal([&] { load_json(path); });
  const std::string head = "path: '" + path + "': ";
  return what.substr(0, head.size()) == head ? what.substr(head.size()) : what;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  INFO(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

constexpr const char* kGood = R"({
  "format": "dlprim-model",
  "version": 1,
  "weights": "w.safetensors",
  "metadata": {"by": "hand"},
  "inputs": ["x"],
  "outputs": ["y"],
  "values": {"x": {"dtype": "f32", "shape": ["n", null, 3, {"size": 2, "symbol": "two"}]}},
  "constants": {
    "w": {"dtype": "f32", "shape": [2]},
    "k": {"dtype": "u8", "shape": [2], "elements": [0, 255]}
  },
  "nodes": [
    {"kind": "elementwise", "name": "sum", "inputs": ["x", "w"], "outputs": ["s"], "attributes": {"function": "add"}},
    {"kind": "if", "inputs": ["s", "k"], "outputs": ["y", null], "bodies": [
      {"inputs": [], "outputs": ["a"], "nodes": [{"kind": "identity", "inputs": ["a"], "outputs": ["b"]}]}
    ]}
  ]
}
)";

/// kGood, whose body is right.
std::string good() {
  return changed(kGood, R"("inputs": [], "outputs": ["a"])", R"("inputs": ["a"], "outputs": ["b"])");
}

const HostTensor& weights() {
  static const HostTensor w = [] {
    HostTensor made = host_tensor(DType::f32, {2}, std::vector<double>{1, 2});
    made.name = "w";
    return made;
  }();
  return w;
}

}  // namespace

TEST_CASE("a file that is right is read, with everything that people may write differently") {
  CHECK(refused(good(), &weights()) == "(nothing was thrown)");
  const TempDir folder;
  const std::string path = folder / "hand.json";
  put(path, R"({"version": 1, "format": "dlprim-model", "nodes": [
    {"inputs": ["a"], "outputs": ["b"], "kind": "identity", "attributes":
      {"truth": true, "lie": false, "mixed": [1, 0.5], "exponent": 1e2, "list": [1, 2], "number": {"number": 3},
       "numbers": {"numbers": [1, "inf"]}, "strings": {"strings": ["x"]}}}],
    "constants": {"half": {"shape": [2], "dtype": "f16", "elements": [1, "nan"]}},
    "outputs": ["b"], "inputs": ["a"]})");
  const NetGraph g = load_json(path);
  const Attributes& a = g.nodes.at(0).attributes;
  CHECK(std::get<int64_t>(a.at("truth").value) == 1);
  CHECK(std::get<int64_t>(a.at("lie").value) == 0);
  CHECK(std::get<Attribute::Numbers>(a.at("mixed").value) == Attribute::Numbers{1, 0.5});
  CHECK(std::get<double>(a.at("exponent").value) == 100);
  CHECK(std::get<Attribute::Integers>(a.at("list").value) == Attribute::Integers{1, 2});
  CHECK(std::get<double>(a.at("number").value) == 3);
  CHECK(std::get<Attribute::Numbers>(a.at("numbers").value) == Attribute::Numbers{1, kInf});
  CHECK(std::get<Attribute::Strings>(a.at("strings").value) == Attribute::Strings{"x"});
  CHECK(numbers_of(*g.constants.begin()->second)[0] == 1);
  CHECK(!g.values[static_cast<size_t>(g.inputs[0])].dtype);
}

TEST_CASE("what a file says wrong is refused with its place and what stands there") {
  const struct {
    const char *from, *to, *refusal;
  } cases[] = {
      {"dlprim-model", "onnx", "format: 'onnx' must be 'dlprim-model'"},
      {"\"format\": \"dlprim-model\",", "", "lacks 'format'"},
      {"\"version\": 1,", "", "lacks 'version'"},
      {"\"version\": 1", "\"version\": 2, \"news\": 1", "version: 2 is newer than what this dlprim reads, 1"},
      {"\"version\": 1", "\"version\": 0", "version: 0 is no version"},
      {"\"version\": 1", "\"version\": \"1\"", "version: '1' must be an integer"},
      {"\"version\": 1", "\"version\": 1.0", "version: 1.0 must be an integer"},
      {"\"metadata\"", "\"meta\"",
       "unknown key 'meta'; there are format, version, weights, metadata, inputs, outputs, values, "
       "constants, defaults, nodes"},
      {"\"hand\"", "7", "metadata.by: 7 must be a text"},
      {"\"weights\": \"w", "\"weights\": \"../w",
       "weights: '../w.safetensors' must be the name of a file in the model's folder, without '/'"},
      {"w.safetensors", "/etc/passwd",
       "weights: '/etc/passwd' must be the name of a file in the model's folder, without '/'"},
      {"w.safetensors", "..", "weights: '..' must be the name of a file in the model's folder, without '/'"},
      {"w.safetensors", "", "weights: '' must be the name of a file in the model's folder, without '/'"},
      {"w.safetensors", "w.safetensors\\u0000x",
       "weights: 'w.safetensors?x' must be the name of a file in the model's folder, without '/'"},
      {"w.safetensors", "v.safetensors", "weights: there is no file 'v.safetensors' beside the model"},
      {"\"w.safetensors\"", "null", "weights: null must be a text"},
      {"\"inputs\": [\"x\"],", "", "lacks 'inputs'"},
      {"\"inputs\": [\"x\"],", "\"inputs\": \"x\",", "inputs: 'x' must be a list"},
      {"\"inputs\": [\"x\"],", "\"inputs\": [\"x\", null],", "inputs[1]: null must be a text"},
      {"\"inputs\": [\"x\"],", "\"inputs\": [\"x\", \"\"],", "inputs[1]: a value's name must not be empty"},
      {"\"inputs\": [\"x\"],", "\"inputs\": [\"x\", \"x\"],", "inputs[1]: 'x' is given twice"},
      {"\"outputs\": [\"y\"],", "\"outputs\": [\"z\"],", "outputs[0]: there is no value 'z'"},
      {"\"values\": {\"x\"", "\"values\": {\"z\"", "values.z: there is no such value"},
      {"\"values\": {", "\"values\": {\"y\": 1, ", "values.y: 1 must be an object"},
      {"\"f32\", \"shape\": [\"n\"", "\"f33\", \"shape\": [\"n\"",
       "values.x.dtype: 'f33' is no dtype; there are f32, f16, bf16, f64, i8, u8, i16, i32, i64, bool, u16, "
       "u32, u64"},
      {"\"n\", null, 3", "\"n\", null, -1", "values.x.shape[2]: -1 is no size"},
      {"\"n\", null, 3", "\"n\", null, 3.5", "values.x.shape[2]: 3.5 must be an integer"},
      {"\"n\", null, 3", "\"\", null, 3", "values.x.shape[0]: a symbol must not be empty; null is any size"},
      {"{\"size\": 2, ", "{", "values.x.shape[3]: lacks 'size'"},
      {"\"n\", null, 3", "\"n\", null, 9223372036854775808",
       "values.x.shape[2]: 9223372036854775808 is larger than 9223372036854775807"},
      {"\"n\", null, 3", "\"n\", null, 18446744073709551616",
       "values.x.shape[2]: 64 bits do not hold '18446744073709551616'"},
      {"\"w\": {\"dtype\": \"f32\"", "\"w\": {\"dtype\": \"f16\"",
       "constants.w: the weights have 'w' as f32[2], the model as f16[2]"},
      {"\"w\": {\"dtype\": \"f32\", \"shape\": [2]", "\"w\": {\"dtype\": \"f32\", \"shape\": [3]",
       "constants.w: the weights have 'w' as f32[2], the model as f32[3]"},
      {"\"w\": {\"dtype\"", "\"v\": {\"dtype\"", "constants.v: the weights have no tensor 'v'"},
      {"\"w\": {", "\"w\": {\"tensor\": \"q\", ", "constants.w: the weights have no tensor 'q'"},
      {"\"weights\": \"w.safetensors\",", "", "constants.w: has no 'elements', and the model no 'weights'"},
      {"\"k\": {", "\"k\": {\"tensor\": \"q\", ", "constants.k: has both 'elements' and 'tensor'"},
      {"\"k\": {", "\"k\": {\"data\": \"q\", ",
       "constants.k: unknown key 'data'; there are dtype, shape, elements, tensor"},
      {"\"k\": {\"dtype\": \"u8\", ", "\"k\": {", "constants.k: lacks 'dtype'"},
      {"\"k\": {", "\"x\": {", "constants.x: 'x' is given twice"},
      {"[0, 255]", "[0, 255, 1]", "constants.k.elements: there are 3 elements, u8[2] has 2"},
      {"[0, 255]", "[0, 256]", "constants.k.elements[1]: u8 does not hold 256"},
      {"[0, 255]", "[-1, 255]", "constants.k.elements[0]: u8 does not hold -1"},
      {"[0, 255]", "[0, 1.5]", "constants.k.elements[1]: 1.5 must be an integer"},
      {"[0, 255]", "[0, true]", "constants.k.elements[1]: true must be an integer"},
      {"\"u8\", \"shape\": [2], \"elements\": [0, 255]", "\"bool\", \"shape\": [2], \"elements\": [true, 1]",
       "constants.k.elements[1]: 1 must be true or false"},
      {"\"u8\", \"shape\": [2], \"elements\": [0, 255]", "\"i8\", \"shape\": [2], \"elements\": [-128, 128]",
       "constants.k.elements[1]: i8 does not hold 128"},
      {"\"u8\", \"shape\": [2], \"elements\": [0, 255]", "\"u64\", \"shape\": [1], \"elements\": [-1]",
       "constants.k.elements[0]: u64 does not hold -1"},
      {"\"u8\", \"shape\": [2], \"elements\": [0, 255]", "\"f32\", \"shape\": [1], \"elements\": [1e39]",
       "constants.k.elements[0]: f32 does not hold 1e+39"},
      {"\"u8\", \"shape\": [2], \"elements\": [0, 255]",
       "\"f16\", \"shape\": [2], \"elements\": [0, \"Inf\"]",
       "constants.k.elements[1]: 'Inf' must be a number, \"inf\", \"-inf\" or \"nan\""},
      {"\"u8\", \"shape\": [2], ", "\"u8\", \"shape\": [4294967296, 4294967296], ",
       "constants.k.shape: [4294967296, 4294967296] is too large"},
      {"\"u8\", \"shape\": [2], ", "\"u8\", \"shape\": [1, 1, 1, 1, 1, 1, 1, 1, 2], ",
       "constants.k.shape: rank 9 is more than 8"},
      {"\"u8\", \"shape\": [2], ", "\"u8\", \"shape\": [1000000000000], ",
       "constants.k.elements: there are 2 elements, u8[1000000000000] has 1000000000000"},
      {"\"elementwise\"", "\"teleport\"",
       "nodes[0].kind: 'teleport' is no kind of node; docs/nodes.md lists them"},
      {"\"kind\": \"elementwise\",", "", "nodes[0]: lacks 'kind'"},
      {"\"name\": \"sum\"", "\"nmae\": \"sum\"",
       "nodes[0]: unknown key 'nmae'; there are kind, name, inputs, outputs, attributes, bodies"},
      {"\"name\": \"sum\"", "\"kind\": \"sum\"", "nodes[0]: 'kind' stands twice"},
      {"[\"x\", \"w\"]", "[\"x\", \"v\"]", "nodes[0].inputs[1]: there is no value 'v'"},
      {"[\"x\", \"w\"]", "[\"x\", [\"w\"]]", "nodes[0].inputs[1]: a list must be a text"},
      {"[\"x\", \"w\"]", "[\"y\", \"w\"]",
       "nodes[0].inputs[0]: 'y' is read here, but nodes[1] writes it: a node stands behind those whose "
       "outputs "
       "it reads"},
      {"[\"x\", \"w\"]", "[\"s\", \"w\"]",
       "nodes[0].inputs[0]: 's' is read here, but nodes[0] writes it: a node stands behind those whose "
       "outputs "
       "it reads"},
      {"[\"y\", null]", "[\"y\", \"s\"]", "nodes[1].outputs[1]: 's' is given twice"},
      {"[\"y\", null]", "[\"y\", 3]", "nodes[1].outputs[1]: 3 must be a text"},
      {"\"kind\": \"identity\", \"inputs\": [\"a\"]", "\"kind\": \"identity\", \"inputs\": [\"a\", \"a\"]",
       "nodes[1].bodies[0].nodes[0].inputs: there are 2, 'identity' must have 1 to 1"},
      {"\"kind\": \"identity\", \"inputs\": [\"a\"]", "\"kind\": \"identity\", \"inputs\": [null]",
       "nodes[1].bodies[0].nodes[0].inputs[0]: null: 'identity' must have this input"},
      {"\"kind\": \"identity\", \"inputs\": [\"a\"]", "\"kind\": \"identity\", \"inputs\": [\"x\"]",
       "nodes[1].bodies[0].nodes[0].inputs[0]: there is no value 'x'"},
      {"{\"function\": \"add\"}", "{\"a\": null}", "nodes[0].attributes.a: null must be an integer"},
      {"{\"function\": \"add\"}", "[]", "nodes[0].attributes: an empty list must be an object"},
      {"{\"function\": \"add\"}", "{\"a\": 9223372036854775808}",
       "nodes[0].attributes.a: 9223372036854775808 is larger than 9223372036854775807"},
      {"{\"function\": \"add\"}", "{\"a\": [0, -9223372036854775809]}",
       "nodes[0].attributes.a[1]: 64 bits do not hold '-9223372036854775809'"},
      {"{\"function\": \"add\"}", "{\"a\": [1, \"x\"]}",
       "nodes[0].attributes.a: a list must be of integers, of numbers or of texts"},
      {"{\"function\": \"add\"}", "{\"a\": {\"numbers\": [1, \"x\"]}}",
       "nodes[0].attributes.a.numbers[1]: 'x' must be a number, \"inf\", \"-inf\" or \"nan\""},
      {"{\"function\": \"add\"}", "{\"a\": {}}",
       "nodes[0].attributes.a: must be one of number, numbers, strings"},
      {"{\"function\": \"add\"}", "{\"a\": {\"number\": 1, \"strings\": []}}",
       "nodes[0].attributes.a: must be one of number, numbers, strings"},
      {"{\"function\": \"add\"}", "{\"a\": {\"integers\": [1]}}",
       "nodes[0].attributes.a: unknown key 'integers'; there are number, numbers, strings"},
      {"\"bodies\": [\n      {", "\"bodies\": [\n      {\"version\": 1, ",
       "nodes[1].bodies[0]: unknown key 'version'; there are metadata, inputs, outputs, values, constants, "
       "defaults, nodes"},
      {"\"bodies\": [\n      {", "\"bodies\": [3, {", "nodes[1].bodies[0]: 3 must be an object"},
      {"\"nodes\": [\n    {", "\"nodes\": [\n    true, {", "nodes[0]: true must be an object"},
  };
  for (const auto& c : cases) {
    INFO(c.from << " -> " << c.to);
    CHECK(refused(changed(good(), c.from, c.to), &weights()) == c.refusal);
  }
  CHECK(refused(kGood, &weights()) == "nodes[1].bodies[0].nodes[0].inputs[0]: there is no value 'a'");
  CHECK(refused("[]") == "an empty list must be an object");
  CHECK_THAT(refused(""), Catch::Contains("is not JSON: "));
  CHECK_THAT(refused("{\"format\": \"dlprim-model\",\n \"version\" 1}"),
             Catch::Contains("is not JSON: ") && Catch::Contains("line 2, column 12"));
  CHECK_THAT(refused(good() + "x", &weights()), Catch::Contains("is not JSON: "));
  CHECK_THAT(refused(changed(good(), "255", "1e999"), &weights()), Catch::Contains("is not JSON: "));
  CHECK_THAT(refused(changed(good(), "\"by\"", "\"\xff\""), &weights()), Catch::Contains("is not JSON: "));
  CHECK(refused(changed(good(), "\"sum\"", "\"" + std::string(1 << 20, 'x') + "\\"), &weights()).size() <
        500);
}

TEST_CASE("what is too large or too deep is refused before it takes memory") {
  const std::string head =
      R"({"format": "dlprim-model", "version": 1, "inputs": [], "outputs": [], "nodes": [)";
  const auto nested = [](int depth) {
    std::string text = R"({"inputs": ["x"], "outputs": ["x"], "nodes": []})";
    for (int i = 0; i < depth; i++)
      text =
          R"({"inputs": ["x"], "outputs": ["y"], "nodes": [{"kind": "if", "inputs": ["x"], "outputs": ["y"], )"
          "\"bodies\": [" +
          text + "]}]}";
    return changed(text, "{", R"({"format": "dlprim-model", "version": 1, )");
  };
  CHECK(refused(nested(32)) == "(nothing was thrown)");
  CHECK_THAT(refused(nested(33)), Catch::Contains("bodies lie more than 32 deep in one another"));
  CHECK_THAT(refused(nested(10000)),
             Catch::Contains("lists and objects lie more than 160 deep in one another"));
  CHECK_THAT(refused(std::string(60'000'000, '[')),
             Catch::Contains("lists and objects lie more than 160 deep"));
  std::string many = head;
  for (int i = 0; i < (1 << 21); i++) many += "0,";
  CHECK_THAT(refused(many), Catch::Contains("there are more than 2097152 values"));
  std::string nodes = head;
  for (int i = 0; i <= (1 << 18); i++)
    nodes += std::string(i == 0 ? "" : ",") + R"({"kind":"random","inputs":[],"outputs":[]})";
  CHECK(refused(nodes + "]}") == "nodes[262144]: there are more than 262144 nodes");
  const TempDir folder;
  put(folder / "large.json", "{}");
  fs::resize_file(folder / "large.json", uint64_t{1} << 40);  // has no blocks on the disk
  CHECK_THAT(refusal([&] { load_json(folder / "large.json"); }),
             Catch::Contains("has 1099511627776 bytes, more than the 67108864"));
  // What is not read is not written.
  NetGraph deep = small();
  for (int i = 0; i < 33; i++) {
    NetGraph outer;
    outer.add_output("y", outer.add("if", {outer.add_input("c", DType::boolean, {})}));
    outer.nodes.back().bodies = {std::make_shared<const NetGraph>(deep)};
    deep = outer;
  }
  CHECK_THAT(refusal([&] { save_json(folder / "deep.json", deep); }), Catch::Contains("more than 32 deep"));
  NetGraph wide = small();
  wide.nodes[0].attributes.emplace("a", Attribute::Integers((size_t{1} << 21) + 1));
  CHECK_THAT(refusal([&] { save_json(folder / "wide.json", wide); }),
             Catch::Contains("more than 2097152 values"));
  CHECK(!fs::exists(folder / "deep.json"));
  CHECK(!fs::exists(folder / "wide.json"));
}

TEST_CASE("files that are none, or lie elsewhere") {
  const TempDir folder, other;
  const std::string path = folder / "m.json", weights_file = folder / "w.safetensors";
  const auto why = [&] {
    const std::string text = error_of<Error>([&] { load_json(path); });
    const std::string head = "path: '" + path + "': ";
    return text.substr(0, head.size()) == head ? text.substr(head.size()) : text;
  };
  CHECK(why() == "cannot read '" + path + "': No such file or directory");
  fs::create_directory(path);
  CHECK(why() == "cannot read '" + path + "': Is a directory");
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(why() == "path: '" + path + "' is no regular file");
  fs::remove(path);
  fs::create_symlink("/dev/zero", path);
  CHECK(why() == "path: '" + path + "' is no regular file");
  fs::remove(path);
  put(path, good());
  REQUIRE(mkfifo(weights_file.c_str(), 0600) == 0);
  CHECK(why() == "path: '" + fs::canonical(weights_file).string() + "' is no regular file");
  fs::remove(weights_file);
  put(weights_file, "short");
  CHECK_THAT(why(),
             Catch::Contains("'" + fs::canonical(weights_file).string() + "' is no valid safetensors file"));
  fs::remove(weights_file);
  save_safetensors(other / "w.safetensors", {weights()});
  fs::create_symlink(other / "w.safetensors", weights_file);
  CHECK(why() == "weights: 'w.safetensors' leads to '" + fs::canonical(other / "w.safetensors").string() +
                     "', out of the model's folder");
  // As model hubs have it: both are links into a folder of theirs.
  fs::rename(path, other / "blob");
  fs::create_symlink(other / "blob", path);
  CHECK(why() == "(nothing was thrown)");
  // The model is a link, the weights lie with what it leads to.
  fs::remove(weights_file);
  CHECK(why() == "(nothing was thrown)");
  const fs::path before = fs::current_path();
  fs::current_path(other.path());
  fs::copy_file("blob", "here.json");
  CHECK_NOTHROW(load_json("here.json"));
  fs::current_path(before);
}

TEST_CASE("no prefix of a file and no changed byte does harm") {
  const TempDir folder;
  const std::string path = folder / "m.json", text = good();
  save_safetensors(folder / "w.safetensors", {weights()});
  const auto is_read = [&](const std::string& bytes) {
    put(path, bytes);
    try {
      const NetGraph graph = load_json(path);
      graph.check();
      return true;
    } catch (const ValidationError&) {
      return false;
    }
  };
  const size_t end = text.rfind('}');
  for (size_t length = 0; length <= end; length++) CHECK(!is_read(text.substr(0, length)));
  CHECK(is_read(text.substr(0, end + 1)));
  int read = 0, refused = 0;
  for (size_t at = 0; at < text.size(); at++)
    for (char c : {'\0', '"', '0', '9', '-', '[', ']', '{', '}', ',', 'x', 'e', ' ', '\xff'}) {
      std::string changed = text;
      changed[at] = c;
      (is_read(changed) ? read : refused)++;
    }
  CHECK(read > 500);  // in names
  CHECK(refused > 5000);
}
