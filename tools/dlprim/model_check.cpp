// `dlprim check`: a model's outputs against expected ones, or each node's against another device's.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "npy.hpp"

namespace dlprim::cli {
namespace {

/// How far two tensors are apart.
struct Difference {
  std::string shapes;        ///< not empty: they cannot be compared
  double largest = 0;        ///< of |a - b|
  double cosine = 1;         ///< of the two as vectors
  int64_t beyond = 0;        ///< elements out of bounds
  int64_t not_a_number = 0;  ///< where only one is NaN, too, is out of bounds

  bool fits() const { return shapes.empty() && beyond == 0; }
};

Difference compare(const HostTensor& result, const HostTensor& expected, const CheckModelOptions& options) {
  Difference d;
  if (result.shape != expected.shape) {
    d.shapes = describe(result.dtype, result.shape) + " for " + describe(expected.dtype, expected.shape);
    return d;
  }
  const std::vector<double> a = numbers_of(result), b = numbers_of(expected);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); i++) {
    if (std::isnan(a[i])) d.not_a_number++;
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) {
      if (std::isfinite(a[i])) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
      continue;
    }
    const double apart = std::fabs(a[i] - b[i]);
    if (!(apart <= options.atol + options.rtol * std::fabs(b[i]))) d.beyond++;
    if (apart > d.largest) d.largest = apart;
    ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  }
  if (aa > 0 && bb > 0) d.cosine = ab / std::sqrt(aa * bb);
  return d;
}

void report(const std::string& what, const Difference& d, int64_t count, bool json) {
  if (json) {
    std::cout << nlohmann::json{{"value", what},      {"fits", d.fits()},   {"difference", d.largest},
                                {"cosine", d.cosine}, {"beyond", d.beyond}, {"nan", d.not_a_number},
                                {"shapes", d.shapes}}
                     .dump()
              << std::endl;
    return;
  }
  std::cout << what << ": " << (d.fits() ? "fits" : "DIFFERS");
  if (!d.shapes.empty())
    std::cout << ", " << d.shapes;
  else
    std::cout << format(", largest difference %.3g, cosine %.8f", d.largest, d.cosine);
  if (d.beyond != 0) std::cout << ", " << d.beyond << " of " << count << " elements out of bounds";
  if (d.not_a_number != 0) std::cout << ", " << d.not_a_number << " are NaN";
  std::cout << std::endl;
}

int against_file(const CheckModelOptions& options) {
  const HostTensors expected = read_npz(options.expect);
  CheckModelOptions with_inputs = options;
  with_inputs.inputs.insert(with_inputs.inputs.begin(), options.expect);
  const Model model(load_graph(with_inputs), options.without, options.precision());
  const ModelRun run(model, with_inputs);
  const Stream& stream = run.stream;
  const Model::Tensors feeds = run.feeds();
  bool fits = true;
  size_t compared = 0;
  // Node by node; rewritten, or without branches that are not taken; replayed.
  const std::string ways[] = {"first run", "second run", "replayed run"};
  for (const std::string& how : ways) {
    if (how == ways[2] && !model.explain(stream, feeds, run.options).replayed) {
      if (!options.json) std::cout << "(no run is replayed: 'dlprim explain' says why)\n";
      break;
    }
    for (const auto& [name, tensor] : model.run(stream, feeds, run.options)) {
      const auto found = expected.find(name);
      if (found == expected.end()) continue;
      compared++;
      const Difference d = compare(to_host(stream, tensor, name), found->second, options);
      report(name + ", " + how, d, tensor.numel(), options.json);
      fits = fits && d.fits();
    }
  }
  if (compared == 0) throw BadInput("'" + options.expect + "' has none of the model's outputs");
  return fits ? 0 : 1;
}

/// Every node's outputs, in the order in which nodes ran.
struct Trace {
  std::vector<std::pair<std::string, HostTensor>> values;
};

Trace trace_on(const std::string& device, const Model& model, const HostTensors& inputs,
               const Options& options) {
  const Context context(choose_device(device));
  const Stream stream(context);
  Trace trace;
  model.run(stream, to_device(stream, inputs), options,
            [&](const NetGraph::Node& node, const Model::Tensors& outputs) {
              for (const auto& [name, tensor] : outputs)
                trace.values.emplace_back(
                    "node '" + node.name + "' (" + node.kind + "), output '" + name + "'",
                    to_host(stream, tensor, name));
            });
  return trace;
}

int against_device(const CheckModelOptions& options) {
  const Model model(load_graph(options), options.without, options.precision());
  const HostTensors inputs = gather_inputs(model, options);
  const Trace expected = trace_on(options.against, model, inputs, options_of(options)),
              result = trace_on(options.device, model, inputs, options_of(options));
  if (result.values.size() != expected.values.size())
    throw Error("the devices ran another number of nodes: a branch or a loop went another way");
  size_t fitting = 0;
  for (size_t i = 0; i < result.values.size(); i++) {
    const Difference d = compare(result.values[i].second, expected.values[i].second, options);
    if (d.fits()) {
      fitting++;
      continue;
    }
    report("the first that differs, " + result.values[i].first, d,
           element_count(result.values[i].second.shape), options.json);
    return 1;
  }
  Difference none;
  report("all " + std::to_string(fitting) + " values of nodes", none, 0, options.json);
  return 0;
}

}  // namespace

int run_check(const CheckModelOptions& options) {
  if (options.expect.empty() == options.against.empty())
    throw BadInput("'dlprim check' needs --expect FILE.npz or --against DEVICE");
  if (!options.against.empty() && options.precision() != DType::f32)
    throw BadInput(
        "--dtype " + options.dtype +
        " has no effect beside --against: devices are compared node by node, which is before passes");
  return options.expect.empty() ? against_device(options) : against_file(options);
}

}  // namespace dlprim::cli
