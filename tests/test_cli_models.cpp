// `dlprim info`, `run`, `check`, `bench` and `convert`, run as a user runs them, on models and files written
// here: what they print, what they read, and what they say of broken input.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "cli.hpp"
#include "core/device_probe.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
using namespace dlprim::test::onnx_writer;

namespace {

using Sizes = std::vector<onnx_writer::Dimension>;

/// y = relu(x w + b), x [n, 3], y [n, 2].
std::string linear_model() {
  onnx_writer::Graph g;
  g.nodes = {node("MatMul", {"x", "w"}, {"h"}), node("Add", {"h", "b"}, {"s"}), node("Relu", {"s"}, {"y"})};
  g.initializers = {tensor("w", ElementType::f32, {3, 2}, raw_bytes<float>({1, -1, 2, -2, 3, -3})),
                    tensor("b", ElementType::f32, {2}, raw_bytes<float>({10, 20}))};
  g.inputs = {value("x", ElementType::f32, {"n", 3})};
  g.outputs = {value("y", ElementType::f32, {"n", 2})};
  return model(graph(g)).bytes();
}

/// A picture's mean, [1, 3, H, W] to [1, 3, 1, 1].
std::string mean_model() {
  onnx_writer::Graph g;
  g.nodes = {node("GlobalAveragePool", {"x"}, {"y"})};
  g.inputs = {value("x", ElementType::f32, {1, 3, "h", "w"})};
  g.outputs = {value("y", ElementType::f32, {1, 3, 1, 1})};
  return model(graph(g)).bytes();
}

std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) +
         static_cast<char>(header.size() >> 8) + header + data;
}

/// A zip archive whose entries are stored.
std::string npz(const std::vector<std::pair<std::string, std::string>>& arrays) {
  std::string bytes, list;
  const auto number = [](std::string& to, uint64_t v, int size) {
    for (int i = 0; i < size; i++) to += static_cast<char>(v >> (8 * i));
  };
  for (const auto& [name, data] : arrays) {
    const size_t at = bytes.size();
    const std::string file = name + ".npy";
    bytes += "PK\x03\x04";
    list += "PK\x01\x02";
    number(list, 20, 2);
    for (std::string* to : {&bytes, &list}) {
      number(*to, 20, 2);
      number(*to, 0, 12);  // flags, method, time, date, sum
      number(*to, data.size(), 4);
      number(*to, data.size(), 4);
      number(*to, file.size(), 2);
      number(*to, 0, 2);
    }
    number(list, 0, 10);  // comment, disk, attributes
    number(list, at, 4);
    bytes += file + data;
    list += file;
  }
  const size_t at = bytes.size();
  bytes += list + "PK\x05\x06";
  number(bytes, 0, 4);
  number(bytes, arrays.size(), 2);
  number(bytes, arrays.size(), 2);
  number(bytes, list.size(), 4);
  number(bytes, at, 4);
  number(bytes, 0, 2);
  return bytes;
}

struct Files : TempDir {
  Files() {
    put(*this / "linear.onnx", linear_model());
    put(*this / "mean.onnx", mean_model());
    put(*this / "x.npy", npy("<f4", "(2, 3)", raw_bytes<float>({1, 0, 0, 0, 1, 1})));
  }
  std::string model(const char* name = "linear.onnx") const { return "'" + (*this / name) + "'"; }
};

nlohmann::json record(const Result& result) {
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.out.substr(0, result.out.find('\n')));
}

}  // namespace

TEST_CASE("info says what a model takes, gives and holds") {
  const Files files;
  const Result text = run("info " + files.model());
  CHECK(text.code == 0);
  CHECK_THAT(text.out,
             Catch::Contains("x  f32[n, 3]") && Catch::Contains("y  f32[n, 2]") && Catch::Contains("matmul"));
  const nlohmann::json json = record(run("info --json " + files.model()));
  CHECK(json["inputs"][0]["type"] == "f32[n, 3]");
  CHECK(json["constant_bytes"] == 32);
  CHECK(json["kinds"]["elementwise relu"] == 1);
}

TEST_CASE("run reads arrays, shows the largest numbers with their names, and writes outputs") {
  const Files files;
  put(files / "names", "cat\ndog\n");
  const std::string arguments = "run " + files.model() + device_option() + " --input x='" +
                                (files / "x.npy") + "' --topk 1 --labels '" + (files / "names") +
                                "' --save '" + (files / "out") + "'";
  const nlohmann::json json = record(run(arguments + " --json"));
  CHECK(json["output"] == "y");
  CHECK(json["type"] == "f32[2, 2]");
  CHECK(json["top"][0][0]["label"] == "dog");  // 11, 19
  CHECK(json["top"][1][0]["value"] == 15);     // 15, 15: the first of equals
  CHECK(json["top"][1][0]["label"] == "cat");
  const std::string saved = bytes_of(files / "out/y.npy");
  CHECK(saved.substr(saved.size() - 16) == raw_bytes<float>({11, 19, 15, 15}));
  CHECK_THAT(run(arguments).out, Catch::Contains("f32[2, 2]") && Catch::Contains("dog"));
}

TEST_CASE("run says what it guesses") {
  const Files files;
  const Result guessed = run("run " + files.model() + device_option());
  CHECK(guessed.code == 0);
  CHECK_THAT(guessed.err, Catch::Contains("'x' is f32[n, 3]: [1, 3] is taken") && Catch::Contains("random"));
  const nlohmann::json shaped =
      record(run("run --json --shape x=5x3 --input x=random " + files.model() + device_option()));
  CHECK(shaped["type"] == "f32[5, 2]");
}

TEST_CASE("run reads pictures, each by the rule that --pixels names") {
  const Files files;
  // 2 x 1 pixels, pure red and pure blue, as PNG without compression.
  const unsigned char png[] = {0x89, 'P',  'N',  'G', 0x0d, 0x0a, 0x1a, 0x0a, 0,    0,    0,    0x0d,
                               'I',  'H',  'D',  'R', 0,    0,    0,    2,    0,    0,    0,    1,
                               8,    2,    0,    0,   0,    0x7b, 0x40, 0xe8, 0xdd, 0,    0,    0,
                               0x0f, 'I',  'D',  'A', 'T',  0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0xc0,
                               0xf0, 0x9f, 0x01, 0,   0x07, 0x00, 0x02, 0xfe};
  put(files / "broken.png", std::string(reinterpret_cast<const char*>(png), sizeof png));
  const Result broken =
      run("run " + files.model("mean.onnx") + device_option() + " --input '" + (files / "broken.png") + "'");
  CHECK(broken.code == 1);
  CHECK_THAT(complaint(broken), Catch::Contains("broken.png' is no picture"));
  put(files / "text.png", "hello");
  CHECK_THAT(complaint(run("run " + files.model("mean.onnx") + device_option() + " --input '" +
                           (files / "text.png") + "'")),
             Catch::Contains("neither PNG nor JPEG"));
}

TEST_CASE("check compares with expected arrays and with another device") {
  const Files files;
  const std::string x = npy("<f4", "(2, 3)", raw_bytes<float>({1, 0, 0, 0, 1, 1}));
  put(files / "right.npz", npz({{"x", x}, {"y", npy("<f4", "(2, 2)", raw_bytes<float>({11, 19, 15, 15}))}}));
  put(files / "wrong.npz", npz({{"x", x}, {"y", npy("<f4", "(2, 2)", raw_bytes<float>({11, 19, 15, 16}))}}));
  const auto check = [&](const std::string& options) {
    return run("check " + files.model() + device_option() + " " + options);
  };
  const Result right = check("--expect '" + (files / "right.npz") + "'");
  CHECK(right.code == 0);
  CHECK_THAT(right.out, Catch::Contains("replayed run: fits"));
  const Result wrong = check("--expect '" + (files / "wrong.npz") + "'");
  CHECK(wrong.code == 1);
  CHECK_THAT(wrong.out, Catch::Contains("DIFFERS") && Catch::Contains("1 of 4 elements"));
  const Result devices = check("--against 0");
  CHECK(devices.code == 0);
  CHECK_THAT(devices.out, Catch::Contains("all 4 values of nodes: fits"));
  CHECK(check("").code == 2);
  const Result lower = check("--against 0 --dtype bf16");
  CHECK(lower.code == 2);
  CHECK_THAT(complaint(lower), Catch::Contains("--dtype bf16 has no effect"));
}

TEST_CASE("a network's name is a model") {
  const Result listed = run("networks --json");
  CHECK(listed.code == 0);
  CHECK_THAT(listed.out, Catch::Contains("\"name\":\"resnet50\"") && Catch::Contains("\"image\":299"));
  const Result info = run("info squeezenet1_0");
  CHECK(info.code == 0);
  CHECK_THAT(info.out, Catch::Contains("input  f32[batch, 3, 224, 224]"));
  const Result explained =
      run("explain squeezenet1_0" + device_option() + " --batch 2 --shape input=2x3x48x48 --json");
  CHECK(explained.code == 0);
  CHECK_THAT(explained.out, Catch::Contains("f32[2, 1000]"));
  const Files files;
  CHECK_THAT(complaint(run("info " + files.model() + " --weights w.safetensors")),
             Catch::Contains("--weights is for networks by name"));
  CHECK_THAT(complaint(run("info squeezenet1_0 --weights '" + (files / "no.safetensors") + "'")),
             Catch::Contains("no.safetensors"));
}

TEST_CASE("convert writes a model as JSON, which every command takes") {
  const Files files;
  const std::string json = files / "linear.json", weights = files / "linear.safetensors";
  const Result converted = run("convert " + files.model() + " '" + json + "'");
  CHECK(converted.code == 0);
  CHECK_THAT(converted.out, Catch::Contains("wrote " + json) && Catch::Contains("wrote " + weights));
  CHECK(record(run("info --json '" + json + "'"))["inputs"][0]["type"] == "f32[n, 3]");
  const std::string model = " '" + json + "'" + device_option();
  CHECK(run("run" + model + " --save '" + (files / "out") + "' --input '" + (files / "x.npy") + "'").code ==
        0);
  const std::string saved = bytes_of(files / "out/y.npy");
  CHECK(saved.substr(saved.size() - 16) == raw_bytes<float>({11, 19, 15, 15}));
  CHECK(run("check --against 0" + model).code == 0);
  CHECK(run("explain" + model).code == 0);
  CHECK(run("bench --seconds 0.1" + model).code == 0);

  const std::string before = bytes_of(json);
  const Result again = run("convert " + files.model("mean.onnx") + " '" + json + "'");
  CHECK(again.code == 2);
  CHECK(complaint(again) == "dlprim: '" + json + "' is there already; --force replaces it\n");
  CHECK(bytes_of(json) == before);
  std::filesystem::remove(json);
  CHECK(complaint(run("convert " + files.model() + " '" + json + "'")) ==
        "dlprim: '" + weights + "' is there already; --force replaces it\n");
  CHECK(run("convert --force " + files.model() + " '" + json + "'").code == 0);
  CHECK(bytes_of(json) == before);
  CHECK(run("convert --force '" + json + "' '" + json + "'").code == 0);
  CHECK(bytes_of(json) == before);
  const Result wrong = run("convert " + files.model() + " '" + (files / "linear.onnx") + "'");
  CHECK(wrong.code == 2);
  CHECK_THAT(complaint(wrong), Catch::Contains("linear.onnx' must end in .json"));
  put(json, before + "x");
  const Result broken = run("info '" + json + "'");
  CHECK(broken.code == 1);
  CHECK_THAT(complaint(broken), Catch::Contains("linear.json' is not JSON"));

  // Sizes that a network leaves open stay open.
  CHECK(record(run("convert --json squeezenet1_0 '" + (files / "net.json") + "'"))["file"] ==
        files / "net.json");
  CHECK_THAT(run("info '" + (files / "net.json") + "'").out,
             Catch::Contains("input  f32[batch, 3, height, width]"));
  CHECK_THAT(run("convert --help").out, Catch::Contains("--force") && Catch::Contains("NAME.safetensors"));
}

TEST_CASE("explain tells each step and what it launches") {
  const Files files;
  const std::string model = files.model() + device_option();
  const auto ran = run("explain --json " + model);
  REQUIRE(ran.code == 0);
  std::vector<nlohmann::json> records;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  REQUIRE(records.size() >= 2);
  size_t launches = 0;
  for (size_t i = 0; i + 1 < records.size(); i++) launches += records[i]["kernels"].size();
  CHECK(records.back()["steps"] == records.size() - 1);
  CHECK(records.back()["launches"] == launches);
  CHECK(records.back()["replayed"] == true);
  CHECK(launches > 0);
  CHECK_THAT(run("explain " + model).out, Catch::Contains("nodes became"));
  CHECK_THAT(run("explain --dtype bf16 --math tf32 " + model).out, Catch::Contains("matmul  bf16["));
  CHECK_THAT(run("explain --dtype i8 " + model).err, Catch::Contains("--dtype"));
}

TEST_CASE("bench measures") {
  const Files files;
  const nlohmann::json json =
      record(run("bench --json --seconds 0.1 --without pointwise " + files.model() + device_option()));
  CHECK(json["runs"] >= 5);
  CHECK(json["p50_ms"] > 0);
  CHECK(json["p99_ms"] >= json["p50_ms"]);
}

TEST_CASE("bench takes an operator by its line in the log") {
  const Files files;
  const Result logged = run(
      "run " + files.model() + device_option() + " --input x='" + (files / "x.npy") + "'", "DLPRIM_LOG=1");
  const size_t begin = logged.err.find("dlprim: op=gemm");
  REQUIRE(begin != std::string::npos);
  const std::string line = logged.err.substr(begin, logged.err.find('\n', begin) - begin);
  CHECK_THAT(line, Catch::Contains("m=2 n=2 k=3"));
  const bool told = detail::driver_limits(context().device()).measures_time;
  CHECK((line.find(" us=") != std::string::npos) == told);
  const auto bench = [&](const std::string& options) {
    return run("bench --seconds 0.1 " + options + device_option());
  };
  const nlohmann::json json = record(bench("--json --operator '" + line + "'"));
  CHECK(json["flops"] == 2 * 2 * 2 * 3);
  CHECK(json["runs"] >= 5);
  if (told) {
    const double median = json["p50_us"];
    CHECK(median > 0);
    CHECK(json["least_us"] <= median);
    CHECK(json["p90_us"] >= median);
    CHECK(json["with_launch_p50_us"] >= json["least_us"]);
    CHECK(json["gflops"].get<double>() == Approx(24 / median * 1e-3).epsilon(0.01));
    CHECK(json["gbytes"].get<double>() == Approx(4 * (6 + 6 + 4) / median * 1e-3).epsilon(0.01));
  } else {
    for (const char* unknown : {"p50_us", "p90_us", "least_us", "gflops", "gbytes"})
      CHECK(json[unknown].is_null());
    CHECK(json["with_launch_p50_us"] > 0);
  }
  CHECK_THAT(json["operator"].get<std::string>(),
             Catch::StartsWith("op=gemm engine=") && Catch::Contains("m=2 n=2 k=3"));

  // Whose engine serves.
  const std::string naive = "--operator 'op=gemm engine=naive m=64 n=64 k=64'";
  CHECK(record(bench("--json " + naive))["engine"] != "naive");
  CHECK(record(bench("--json " + naive))["line_engine"] == "naive");
  CHECK(record(bench("--json --engine line " + naive))["engine"] == "naive");
  CHECK(record(bench("--json --engine naive --operator 'op=gemm m=64 n=64 k=64'"))["engine"] == "naive");
  const Result text = bench(naive);
  CHECK_THAT(text.out, Catch::Contains(told ? "GFLOP/s" : "an unknown time") &&
                           Catch::Contains("the line's engine is naive"));

  const auto said = [&](const std::string& options) {
    const Result result = bench(options);
    CHECK(result.code == 2);
    return complaint(result);
  };
  CHECK_THAT(said("--operator 'op=unique x=f32[3]'"),
             Catch::Contains("--operator") && Catch::Contains("'unique'") && Catch::Contains("gemm, conv"));
  CHECK_THAT(said("--operator 'op=gemm m=64 n=64'"), Catch::Contains("has no k="));
  CHECK_THAT(said("--operator 'hello'"), Catch::Contains("'hello'"));
  CHECK_THAT(said("--engine magic --operator 'op=gemm m=64 n=64 k=64'"),
             Catch::Contains("--engine") && Catch::Contains("'magic'"));
  CHECK_THAT(said("--engine line --operator 'op=gemm m=64 n=64 k=64'"), Catch::Contains("no engine="));
  for (const std::string& options : {std::string(), "--engine naive " + files.model(),
                                     naive + " " + files.model(), naive + " --batch 2"}) {
    INFO(options);
    const Result result = bench(options);
    CHECK(result.code > 100);
    CHECK_THAT(result.err, Catch::Contains("--operator"));
  }
}

TEST_CASE("models and inputs that are broken get one clear line") {
  const Files files;
  const auto said = [&](const std::string& arguments) {
    const Result result = run(arguments + device_option());
    CHECK(result.code == 1);
    return complaint(result);
  };
  CHECK_THAT(said("run no-such.onnx"), Catch::Contains("no-such.onnx"));
  put(files / "cut.onnx", linear_model().substr(0, 60));
  CHECK_THAT(said("run " + files.model("cut.onnx")), Catch::StartsWith("dlprim: "));
  CHECK_THAT(said("run --input z=random " + files.model()), Catch::Contains("'z' is no input of the model"));
  CHECK_THAT(said("run --input x=x.gif " + files.model()),
             Catch::Contains("'x.gif' must be a file that ends in"));
  CHECK_THAT(said("run --shape x=5xx3 " + files.model()), Catch::Contains("'5xx3' must be sizes"));
  CHECK_THAT(said("run --shape x=5x4 " + files.model()), Catch::Contains("dimension 1 must be 3"));
  put(files / "cut.npy", npy("<f4", "(2, 3)", "1234"));
  CHECK_THAT(said("run --input '" + (files / "cut.npy") + "' " + files.model()),
             Catch::Contains("4 bytes of data for 24"));
  put(files / "odd.npy", npy("<c8", "(1,)", "12345678"));
  CHECK_THAT(said("run --input '" + (files / "odd.npy") + "' " + files.model()),
             Catch::Contains("its type is <c8"));
  put(files / "cut.npz", npz({{"x", "abc"}}).substr(0, 50));
  CHECK_THAT(said("run --input '" + (files / "cut.npz") + "' " + files.model()), Catch::Contains("cut.npz"));
}
