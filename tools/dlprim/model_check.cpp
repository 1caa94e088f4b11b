// `dlprim check`: a model's outputs against expected ones, or each node's against another device's.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "npy.hpp"
#include "suggestion.hpp"

namespace dlprim::cli {
namespace {

/// How far two tensors are apart.
struct Difference {
  std::string types;         ///< not empty: they cannot be compared
  double largest = 0;        ///< of |a - b|
  double cosine = 1;         ///< of the two as vectors, of what is finite
  int64_t beyond = 0;        ///< elements out of bounds
  int64_t not_a_number = 0;  ///< of the result; where only one is NaN, that is out of bounds, too

  bool fits() const { return types.empty() && beyond == 0; }
};

/// Whether an array of dtype `expected` can say what a result of dtype `result` must be: of whole numbers and
/// truths the same dtype; of floating ones the same or a finer one.
bool comparable(DType result, DType expected) {
  if (!is_floating(result) || !is_floating(expected)) return result == expected;
  return size_of(expected) > size_of(result) || expected == result;
}

/// Whole numbers and truths must be equal, bit for bit.
Difference compare_exactly(const HostTensor& result, const HostTensor& expected) {
  Difference d;
  const std::vector<int64_t> a = integers_of(result), b = integers_of(expected);
  const bool is_unsigned = result.dtype == DType::u64;
  const auto number = [&](int64_t v) {
    return is_unsigned ? static_cast<double>(static_cast<uint64_t>(v)) : static_cast<double>(v);
  };
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); i++) {
    ab += number(a[i]) * number(b[i]), aa += number(a[i]) * number(a[i]), bb += number(b[i]) * number(b[i]);
    if (a[i] == b[i]) continue;
    d.beyond++;
    const auto u = static_cast<uint64_t>(a[i]), v = static_cast<uint64_t>(b[i]);
    const bool above = is_unsigned ? u > v : a[i] > b[i];
    d.largest = std::max(d.largest, static_cast<double>(above ? u - v : v - u));
  }
  if (aa > 0 && bb > 0) d.cosine = ab / std::sqrt(aa * bb);
  return d;
}

Difference compare(const HostTensor& result, const HostTensor& expected, const CheckModelOptions& options) {
  Difference d;
  if (result.shape != expected.shape || !comparable(result.dtype, expected.dtype)) {
    d.types = describe(result.dtype, result.shape) + " for " + describe(expected.dtype, expected.shape);
    return d;
  }
  if (!is_floating(result.dtype)) return compare_exactly(result, expected);
  const std::vector<double> a = numbers_of(result), b = numbers_of(expected);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); i++) {
    if (std::isnan(a[i])) d.not_a_number++;
    const bool finite = std::isfinite(a[i]) && std::isfinite(b[i]);
    if (finite) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    // An infinity fits itself alone: it makes any bound infinite.
    const double apart = std::fabs(a[i] - b[i]);
    if (!finite || !(apart <= options.atol + options.rtol * std::fabs(b[i]))) d.beyond++;
    if (apart > d.largest) d.largest = apart;
  }
  if (aa > 0 && bb > 0) d.cosine = ab / std::sqrt(aa * bb);
  return d;
}

/// Every array of the file must be an input or an output; gives the outputs that it lacks. Throws BadInput.
std::vector<std::string> outputs_without(const HostTensors& expected, const Model& model,
                                         const std::string& file) {
  const std::vector<Model::Port> inputs = model.inputs(), outputs = model.outputs();
  std::vector<std::string> names;
  for (const auto* ports : {&inputs, &outputs})
    for (const Model::Port& port : *ports) names.push_back(port.name);
  for (const auto& [name, tensor] : expected)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw BadInput("'" + file + "' has an array '" + name + "', which is no input or output of the model" +
                     did_you_mean(name, names) + "; its outputs are " + names_of(outputs));
  std::vector<std::string> lacking;
  for (const Model::Port& port : outputs)
    if (expected.count(port.name) == 0) lacking.push_back(port.name);
  if (lacking.size() == outputs.size())
    throw BadInput("'" + file + "' has none of the model's outputs, which are " + names_of(outputs));
  return lacking;
}

void report(const std::string& what, const Difference& d, int64_t count, bool json) {
  if (json) {
    std::cout << nlohmann::json{{"value", what},      {"fits", d.fits()},   {"difference", d.largest},
                                {"cosine", d.cosine}, {"beyond", d.beyond}, {"nan", d.not_a_number},
                                {"shapes", d.types}}
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << std::endl;
    return;
  }
  std::cout << what << ": " << (d.fits() ? "fits" : "DIFFERS");
  if (!d.types.empty())
    std::cout << ", " << d.types;
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
  for (const std::string& name : outputs_without(expected, model, options.expect))
    std::cerr << "output '" << name << "' is not compared: '" << options.expect << "' does not have it"
              << std::endl;
  const ModelRun run(model, with_inputs);
  const Stream& stream = run.stream;
  const Model::Tensors feeds = run.feeds();
  bool fits = true;
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
      const Difference d = compare(to_host(stream, tensor, name), found->second, options);
      report(name + ", " + how, d, tensor.numel(), options.json);
      fits = fits && d.fits();
    }
  }
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
  const Waiting waiting(compiling());
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
