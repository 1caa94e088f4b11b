// Memory and time of a model that is fed many shapes in turn, beside the same shapes one after the other.
//
//   model_shapes matmul|conv|FILE.onnx [--shapes N] [--rounds N] [--limit MB] [--widths FIRST,STEP]
//
// matmul: four products with constant weights of 1024 x 1024 (16.8 MB), for 1 to N rows. conv: four
// convolutions of 3x3 with 256 channels, whose pictures grow. FILE: a network whose only input is [1, 3, 48,
// width], as PaddleOCR's recogniser. Prints a line of JSON. `alone`: ms a run where each shape runs several
// times in a row; `in_turn`: where the next run has the next shape. Both are means over all shapes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/onnx.hpp>

using namespace dlprim;

namespace {

struct Arguments {
  std::string model = "matmul";
  int shapes = 150, rounds = 3;
  double limit_mb = 0;
  int first = 40, step = 8;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  if (argc > 1) a.model = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--shapes") a.shapes = std::stoi(value);
    if (name == "--rounds") a.rounds = std::stoi(value);
    if (name == "--limit") a.limit_mb = std::stod(value);
    if (name == "--widths") std::sscanf(value.c_str(), "%d,%d", &a.first, &a.step);
  }
  return a;
}

HostTensor weights(const Shape& shape, double scale) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); i++)
    values[i] = (static_cast<double>(i * 2654435761U % 1000) / 500 - 1) * scale;
  return host_tensor(DType::f32, shape, values);
}

NetGraph chain(const char* kind, const Shape& x, const Shape& w, double scale, const Attributes& attributes) {
  NetGraph graph;
  std::vector<Dimension> sizes;
  for (int64_t size : x) sizes.emplace_back(size);
  int value = graph.add_input("x", DType::f32, sizes);
  for (int i = 0; i < 4; i++)
    value = graph.add(kind, {value, graph.add_constant(weights(w, scale))}, attributes);
  graph.add_output("y", value);
  return graph;
}

NetGraph graph_of(const std::string& model) {
  if (model == "matmul") return chain("matmul", {-1, 1024}, {1024, 1024}, 0.03, {});
  const Attribute::Integers one{1, 1};
  return chain("conv", {1, 256, -1, -1}, {256, 256, 3, 3}, 0.02, {{"pad_begin", one}, {"pad_end", one}});
}

Shape shape_of(const Arguments& a, int i) {
  if (a.model == "matmul") return {i + 1, 1024};
  if (a.model == "conv") return {1, 256, 8 + i % 16, 8 + i / 16};
  return {1, 3, 48, a.first + a.step * i};
}

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096e-6;
}

double ms_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Usage {
  double held_mb, live_mb, resident_mb;
};

Usage usage(const Context& context) {
  return {static_cast<double>(context.memory_stats().held) * 1e-6,
          static_cast<double>(context.memory_stats().allocated) * 1e-6, resident_mb()};
}

void print(const char* name, const Usage& u) {
  std::cout << ", \"" << name << "_held_mb\": " << u.held_mb << ", \"" << name << "_live_mb\": " << u.live_mb
            << ", \"" << name << "_resident_mb\": " << u.resident_mb;
}

int run(const Arguments& a) {
  const Context context(std::getenv("DLPRIM_TEST_DEVICE"));
  if (a.limit_mb > 0) context.set_memory_limit(static_cast<uint64_t>(a.limit_mb * 1e6));
  const Stream stream(context);
  const bool file = a.model != "matmul" && a.model != "conv";
  const Model model = file ? onnx::load(a.model) : Model(graph_of(a.model));
  const std::string input = model.inputs()[0].name;
  const auto run_shape = [&](int i) {
    const Tensor x(stream, shape_of(a, i));
    fill(stream, 0.5, x);
    const Model::Tensors y = model.run(stream, {{input, x}});
    stream.finish();
  };
  const auto warm = [&](int i) {
    for (int k = 0; k < 3; k++) run_shape(i);
  };
  warm(a.shapes - 1);
  const Usage one = usage(context);
  double alone = 0, in_turn = 0;
  for (int i = 0; i < a.shapes; i++) {
    warm(i);
    for (int k = 0; k < a.rounds; k++) alone += ms_of([&] { run_shape(i); });
  }
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < a.shapes; i++) run_shape(i);
  for (int k = 0; k < a.rounds; k++)
    for (int i = 0; i < a.shapes; i++) in_turn += ms_of([&] { run_shape(i); });
  const Usage all = usage(context);
  const double runs = static_cast<double>(a.rounds) * a.shapes;
  std::cout << "{\"model\": \"" << a.model << "\", \"shapes\": " << a.shapes
            << ", \"alone_ms\": " << alone / runs << ", \"in_turn_ms\": " << in_turn / runs;
  print("one", one);
  print("all", all);
  context.empty_cache();
  print("emptied", usage(context));
  std::cout << "}\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "model_shapes: " << error.what() << "\n";
    return 1;
  }
}
