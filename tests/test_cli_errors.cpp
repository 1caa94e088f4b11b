// What `dlprim` says of mistakes: words that it does not know, disks that are full, expectations that are
// none of the model's; and where its output goes.
#include <filesystem>
#include <nlohmann/json.hpp>

#include <dlprim/device.hpp>

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
      number(*to, 0, 12);
      number(*to, data.size(), 4);
      number(*to, data.size(), 4);
      number(*to, file.size(), 2);
      number(*to, 0, 2);
    }
    number(list, 0, 10);
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

/// y of the same dtype as x, which it is.
std::string same_model(ElementType type) {
  onnx_writer::Graph g;
  g.nodes = {node("Identity", {"x"}, {"y"})};
  g.inputs = {value("x", type, {4})};
  g.outputs = {value("y", type, {4})};
  return model(graph(g)).bytes();
}

struct Checked {
  TempDir folder;
  /// `dlprim check` of y = x against y: x and y as .npy.
  Result operator()(ElementType type, const std::string& x, const std::string& y,
                    const std::string& name = "y", const std::string& options = "") {
    put(folder / "m.onnx", same_model(type));
    put(folder / "e.npz", npz({{"x", x}, {name, y}}));
    return run("check '" + (folder / "m.onnx") + "' --expect '" + (folder / "e.npz") + "'" + device_option() +
               options);
  }
};

std::string i64(int64_t last) {
  return npy("<i8", "(4,)", raw_bytes<int64_t>({1, 2, 3, last}));
}
std::string f32(float last) {
  return npy("<f4", "(4,)", raw_bytes<float>({1, 2, 3, last}));
}

}  // namespace

TEST_CASE("check: whole numbers must be equal, dtypes and names must be right", "[cli_errors]") {
  Checked check;
  const auto fits = [&](ElementType type, const std::string& x, const std::string& y) {
    return check(type, x, y).code == 0;
  };
  CHECK(fits(ElementType::i64, i64(100000), i64(100000)));
  CHECK(!fits(ElementType::i64, i64(100000), i64(100090)));
  CHECK(!fits(ElementType::i64, i64((int64_t{1} << 53) + 1), i64(int64_t{1} << 53)));
  const Result other = check(ElementType::i64, i64(4), f32(4));
  CHECK(other.code == 1);
  CHECK_THAT(other.out, Catch::Contains("DIFFERS, i64[4] for f32[4]"));
  CHECK(!fits(ElementType::i64, i64(4), npy("<i4", "(4,)", raw_bytes<int32_t>({1, 2, 3, 4}))));
  CHECK(!fits(ElementType::i64, i64(4), npy("<i8", "(4, 1)", raw_bytes<int64_t>({1, 2, 3, 4}))));
  CHECK(!fits(ElementType::i64, i64(4), npy("<i8", "(2, 2)", raw_bytes<int64_t>({1, 2, 3, 4}))));

  const std::string truths("\1\0\1\1", 4), others("\1\0\1\0", 4);
  CHECK(fits(ElementType::boolean, npy("|b1", "(4,)", truths), npy("|b1", "(4,)", truths)));
  CHECK(!fits(ElementType::boolean, npy("|b1", "(4,)", truths), npy("|b1", "(4,)", others)));
  CHECK(!fits(ElementType::boolean, npy("|b1", "(4,)", truths), npy("|u1", "(4,)", truths)));

  CHECK(fits(ElementType::f32, f32(1000), f32(1000.5f)));  // --rtol
  CHECK(!fits(ElementType::f32, f32(1000), f32(1002)));
  CHECK(fits(ElementType::f32, f32(NAN), f32(NAN)));
  CHECK(!fits(ElementType::f32, f32(NAN), f32(4)));
  CHECK(!fits(ElementType::f32, f32(4), f32(NAN)));
  CHECK(fits(ElementType::f32, f32(INFINITY), f32(INFINITY)));
  CHECK(!fits(ElementType::f32, f32(4), f32(INFINITY)));
  CHECK(!fits(ElementType::f32, f32(INFINITY), f32(-INFINITY)));
  CHECK(!fits(ElementType::f32, f32(INFINITY), f32(4)));
  // A finer array says what a coarser result must be, not the other way round.
  const std::string half = npy("<f2", "(4,)", raw_bytes<uint16_t>({0x3c00, 0x4000, 0x4200, 0x4400}));
  CHECK(fits(ElementType::f16, half, half));
  CHECK(fits(ElementType::f16, half, f32(4)));
  CHECK(!fits(ElementType::f16, half, f32(5)));
  CHECK(!fits(ElementType::f32, f32(4), half));

  const Result misspelt = check(ElementType::f32, f32(4), f32(4), "Y1");
  CHECK(misspelt.code == 2);
  CHECK_THAT(complaint(misspelt),
             Catch::Contains("an array 'Y1', which is no input or output of the model") &&
                 Catch::Contains("its outputs are 'y'"));
  put(check.folder / "x.npz", npz({{"x", f32(4)}}));
  const Result none = run("check '" + (check.folder / "m.onnx") + "' --expect '" + (check.folder / "x.npz") +
                          "'" + device_option());
  CHECK(none.code == 2);
  CHECK_THAT(complaint(none), Catch::Contains("none of the model's outputs, which are 'y'"));
  put(check.folder / "z.npz", npz({{"z", f32(4)}}));
  const Result input = run("run '" + (check.folder / "m.onnx") + "' --input '" + (check.folder / "z.npz") +
                           "'" + device_option());
  CHECK(input.code == 1);
  CHECK_THAT(complaint(input),
             Catch::Contains("'z', which is no input or output of the model; its inputs are 'x'"));
}

TEST_CASE("kinds of devices are selectors", "[cli_errors]") {
  const TempDir folder;
  put(folder / "m.onnx", same_model(ElementType::f32));
  const std::string kind = name_of(Device::find().kind());
  if (kind != std::string("other")) {
    const Result against = run("check '" + (folder / "m.onnx") + "' --against " + kind + device_option());
    INFO(against.err);
    CHECK(against.code == 0);
  }
  bool any = false;
  for (const Device& device : Device::list())
    if (device.kind() == DeviceKind::cpu && device.probes().works) any = true;
  const Result cpu = run("check '" + (folder / "m.onnx") + "' --against cpu" + device_option());
  CHECK(cpu.code == (any ? 0 : 1));
  for (const DeviceKind absent : {DeviceKind::gpu, DeviceKind::accelerator}) {
    bool there = false;
    for (const Device& device : Device::list()) there |= device.kind() == absent;
    if (there) continue;
    CHECK_THAT(error_of<ValidationError>([&] { Device::find(name_of(absent)); }),
               Catch::Contains("no device is of the kind " + std::string(name_of(absent))));
  }
}

TEST_CASE("words that are not known get a suggestion", "[cli_errors]") {
  const auto said = [](const std::string& arguments) {
    const Result result = run(arguments);
    CHECK(result.code != 0);
    return complaint(result);
  };
  CHECK_THAT(said("trian"), Catch::Contains("'trian' is no command; did you mean 'train'?"));
  CHECK_THAT(said("zzzzzzzz"), Catch::Contains("'zzzzzzzz' is no command\n"));
  CHECK_THAT(said("train --epoch 3"),
             Catch::Contains("'train' has no option '--epoch'; did you mean '--epochs'?"));
  CHECK_THAT(said("bench x --secnods=3"), Catch::Contains("did you mean '--seconds'?"));
  CHECK_THAT(said("run resnt18"), Catch::Contains("no network of that name; did you mean 'resnet18'?"));
  CHECK_THAT(said("run resnt18 --weights w"), Catch::Contains("did you mean 'resnet18'?"));
}

TEST_CASE("what cannot be written is an error", "[cli_errors]") {
  if (!std::filesystem::exists("/dev/full")) return;
  const TempDir folder;
  put(folder / "m.onnx", same_model(ElementType::f32));
  const std::string model = " '" + (folder / "m.onnx") + "'";
  put(folder / "p.png", one_pixel_png());
  const auto full = [&](const std::string& arguments) {
    CAPTURE(arguments);
    const std::string command = first_environment() + program() + " " + arguments + " >/dev/full 2>'" +
                                (folder / "err") + "' </dev/null";
    CHECK(std::system(command.c_str()) != 0);
    CHECK_THAT(bytes_of(folder / "err"),
               Catch::Contains("cannot write the standard output: No space left on device"));
  };
  for (const char* arguments :
       {"--help", "--version", "devices", "devices --json", "networks", "networks --json"})
    full(arguments);
  const bool traces = detail::driver_limits(context().device()).measures_time;
  for (const std::string command :
       {"info", "run", "explain", "trace", "bench --seconds 0.1", "check --against 0"})
    for (const char* json : {"", " --json"}) {
      if (command == "trace" && !traces) continue;
      full(command + model + device_option().substr(0, command == "info" ? 0 : std::string::npos) + json);
    }
  full("convert" + model + " '" + (folder / "m.json") + "'");
  full("bench --seconds 0.1 --operator 'op=gemm m=8 n=8 k=8'" + device_option());

  const auto refused = [&](const std::string& arguments) {
    CAPTURE(arguments);
    const Result result = run(arguments + device_option());
    CHECK(result.code == 1);
    CHECK_THAT(complaint(result), Catch::Contains("cannot write '/dev/full': No space left on device"));
    CHECK(std::filesystem::is_character_file("/dev/full"));
  };
  for (const char* file : {" --out", " --svg"})
    if (traces) refused("trace" + model + file + " /dev/full");
  const Result nowhere = run("run" + model + " --save /dev/full" + device_option());
  CHECK(nowhere.code == 1);
  std::filesystem::create_directory(folder / "out");
  std::filesystem::create_symlink("/dev/full", folder / "out/y.npy");
  const Result saved = run("run" + model + " --save '" + (folder / "out") + "'" + device_option());
  CHECK(saved.code == 1);
  CHECK_THAT(complaint(saved), Catch::Contains("cannot write") && Catch::Contains("out/y.npy"));
}
