// Runs ONNX's own tests: folders with a model and the outputs that its inputs must give.
//   onnx_nodes --operators          the operators that are imported, a line each
//   onnx_nodes --gradients          what has gradients: the tables of docs/gradients.md
//   onnx_nodes FOLDER [NAME...]     FOLDER/NAME/model.onnx, FOLDER/NAME/test_data_set_*/{input,output}_*.pb
// Without names: every folder there. One line of JSON a test: verdict is passed, wrong, refused (an error
// that says what is not supported) or failed (another error). The last line counts. Bounds are those of
// ONNX's own runner: 1e-3 of the expected number and 1e-7. That is finer than f16 and bf16 where numbers are
// rounded more than once on the way: of these outputs it is two steps of the dtype.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include <dlprim/net_host.hpp>
#include <dlprim/onnx.hpp>

#include "cases/onnx_gradients.hpp"
#include "onnx/file.hpp"
#include "onnx/operators.hpp"
#include "onnx/proto.hpp"
#include "support.hpp"

using namespace dlprim;
namespace fs = std::filesystem;

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

/// The numbers of these are 0, but those in the files are what rounding left in the f32 that made them: up to
/// 2e-7.
bool expects_noise(const std::string& test) {
  return test == "test_dft_inverse" || test == "test_dft_inverse_opset19";
}

/// onnx's reference rounds to 16 bits three times on the way: scores, weights, results. By its f64 self it
/// errs by up to 1.7 steps of the dtype in these tests; dlprim, which rounds results alone, by half a step.
bool rounds_between(const std::string& test) {
  return test.rfind("test_attention_", 0) == 0;
}

/// The distance of 1 and the next number, at most the share by which neighbours differ.
double step_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 0;
}

/// What is compared, and how closely.
struct Bounds {
  bool numbers = true;
  bool steps = false;  ///< the dtype's steps count where they are wider
  double absolute = 1e-7;
};

/// Empty if they agree.
std::string difference(const HostTensor& result, const HostTensor& expected, const Bounds& bounds) {
  std::ostringstream out;
  if (result.dtype != expected.dtype || result.shape != expected.shape) {
    out << name_of(result.dtype) << to_string(result.shape) << " for " << name_of(expected.dtype)
        << to_string(expected.shape);
    return out.str();
  }
  if (!bounds.numbers) return "";
  if (!is_floating(result.dtype)) return result.data == expected.data ? "" : "other numbers";
  const std::vector<double> y = numbers_of(result), e = numbers_of(expected);
  const double share = bounds.steps ? std::max(1e-3, 2 * step_of(result.dtype)) : 1e-3;
  for (size_t i = 0; i < y.size(); i++) {
    if (std::isnan(y[i]) && std::isnan(e[i])) continue;
    if (y[i] == e[i] || std::fabs(y[i] - e[i]) <= bounds.absolute + share * std::fabs(e[i])) continue;
    out << "element " << i << " is " << y[i] << " for " << e[i];
    return out.str();
  }
  return "";
}

/// Runs one data set; gives what is wrong.
std::string check(const Model& model, const fs::path& folder, const Bounds& bounds) {
  Model::Tensors feeds;
  const auto file = [&](const char* kind, size_t k) { return folder / (kind + std::to_string(k) + ".pb"); };
  const std::vector<Model::Port> inputs = model.inputs(), outputs = model.outputs();
  for (size_t k = 0; k < inputs.size(); k++) {
    feeds[inputs[k].name] = to_device(test::stream(), onnx::load_tensor(file("input_", k).string()));
  }
  for (const char* run : {"first", "recorded", "replayed"}) {
    const Model::Tensors results = model.run(test::stream(), feeds);
    for (size_t k = 0; k < outputs.size(); k++) {
      const HostTensor expected = onnx::load_tensor(file("output_", k).string());
      const std::string wrong =
          difference(to_host(test::stream(), results.at(outputs[k].name)), expected, bounds);
      if (!wrong.empty()) return "'" + outputs[k].name + "' of the " + run + " run: " + wrong;
    }
  }
  return "";
}

bool draws_numbers(const NetGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const NetGraph::Node& node) {
    return node.kind == "random" || node.kind == "bernoulli" || node.kind == "multinomial";
  });
}

struct Verdict {
  std::string name = "passed", reason;
};

Verdict judge(const fs::path& folder) {
  try {
    const Model model = onnx::load((folder / "model.onnx").string());
    Bounds bounds;
    if (expects_noise(folder.filename().string())) bounds.absolute = 1e-6;
    bounds.steps = rounds_between(folder.filename().string());
    bounds.numbers = !draws_numbers(model.graph());
    size_t sets = 0;
    for (; fs::exists(folder / ("test_data_set_" + std::to_string(sets))); sets++)
      if (std::string wrong = check(model, folder / ("test_data_set_" + std::to_string(sets)), bounds);
          !wrong.empty())
        return {"wrong", wrong};
    return sets != 0 ? Verdict() : Verdict{"refused", "there is no data"};
  } catch (const ValidationError& error) {
    return {"refused", error.what()};
  } catch (const std::exception& error) {
    return {"failed", error.what()};
  }
}

std::string operators_of(const fs::path& folder) {
  std::string list;
  try {
    const onnx::MappedFile file((folder / "model.onnx").string());
    for (const auto& node : onnx::parse_model(file.bytes()).graph.nodes)
      list += (list.empty() ? "" : ",") + quoted(node.op_type);
  } catch (const std::exception&) {  // the verdict says it
  }
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "onnx_nodes FOLDER [NAME...]\n";
    return 2;
  }
  if (std::string(argv[1]) == "--operators") {
    std::set<std::string> names;
    for (const onnx::OperatorEntry* entry : onnx::all_operators())
      names.insert((*entry->domain ? std::string(entry->domain) + "." : "") + entry->name);
    for (const std::string& name : names) std::cout << name << "\n";
    return 0;
  }
  if (std::string(argv[1]) == "--gradients") {
    std::cout << test::gradient_tables();
    return 0;
  }
  const fs::path folder = argv[1];
  if (!fs::is_directory(folder)) {
    std::cerr << "onnx_nodes: '" << folder.string() << "' is no folder\nonnx_nodes FOLDER [NAME...]\n";
    return 2;
  }
  std::vector<std::string> names(argv + 2, argv + argc);
  if (names.empty())
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::map<std::string, int> counts;
  for (const std::string& name : names) {
    const Verdict verdict = judge(folder / name);
    counts[verdict.name]++;
    std::cout << "{\"test\":" << quoted(name) << ",\"operators\":[" << operators_of(folder / name)
              << "],\"verdict\":" << quoted(verdict.name) << ",\"reason\":" << quoted(verdict.reason) << "}"
              << std::endl;
  }
  std::cout << "{\"tests\":" << names.size();
  for (const auto& [name, count] : counts) std::cout << "," << quoted(name) << ":" << count;
  std::cout << "}" << std::endl;
  return counts["wrong"] + counts["failed"] == 0 ? 0 : 1;
}
