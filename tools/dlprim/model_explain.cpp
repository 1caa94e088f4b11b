// `dlprim explain`: what is left of a model's nodes once passes rewrote them, and what each launches.
#include <iostream>
#include <nlohmann/json.hpp>

#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"

namespace dlprim::cli {
namespace {

template <class T>
std::string joined(const std::vector<T>& list, const char* between) {
  std::string text;
  for (const T& item : list) {
    if (!text.empty()) text += between;
    if constexpr (std::is_arithmetic_v<T>)
      text += format("%g", static_cast<double>(item));
    else
      text += item;
  }
  return text;
}

std::string text_of(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<T>)
          return format("%g", static_cast<double>(value));
        else if constexpr (std::is_same_v<T, std::string>)
          return value;
        else
          return joined(value, ",");
      },
      attribute.value);
}

std::string attributes_of(const NetGraph::Node& node) {
  std::vector<std::string> parts;
  for (const auto& [name, attribute] : node.attributes) parts.push_back(name + "=" + text_of(attribute));
  return joined(parts, " ");
}

std::string outputs_of(const Model::Plan::Step& step) {
  std::vector<std::string> parts;
  for (const auto& [name, desc] : step.outputs) parts.push_back(describe(desc.dtype, desc.shape));
  return joined(parts, ", ");
}

/// "gemm_cpu, 2 pointwise": the kernels in their order, neighbours that are the same counted.
std::string kernels_of(const std::vector<std::string>& kernels) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < kernels.size();) {
    size_t end = i;
    while (end < kernels.size() && kernels[end] == kernels[i]) end++;
    parts.push_back(end - i == 1 ? kernels[i] : format("%zu ", end - i) + kernels[i]);
    i = end;
  }
  return joined(parts, ", ");
}

}  // namespace

int run_explain(const ModelOptions& options) {
  const Model model(load_graph(options), options.without, options.precision());
  const ModelRun run(model, options);
  const Model::Plan plan = model.explain(run.stream, run.feeds(), run.options);
  size_t launches = 0;
  for (const Model::Plan::Step& step : plan.steps) {
    launches += step.kernels.size();
    if (options.json)
      std::cout << nlohmann::json{{"node", step.node.name},
                                  {"kind", step.node.kind},
                                  {"attributes", attributes_of(step.node)},
                                  {"outputs", outputs_of(step)},
                                  {"kernels", step.kernels}}
                       .dump()
                << "\n";
    else
      std::cout << step.node.kind << "  " << outputs_of(step) << "  " << step.node.name << "\n    "
                << attributes_of(step.node) << "\n    -> " << kernels_of(step.kernels) << "\n";
  }
  if (options.json) {
    std::cout << nlohmann::json{{"device", describe(run.device)},
                                {"nodes", model.graph().nodes.size()},
                                {"steps", plan.steps.size()},
                                {"launches", launches},
                                {"bytes", plan.bytes},
                                {"live_bytes", plan.live},
                                {"replayed", plan.replayed}}
                     .dump()
              << std::endl;
    return 0;
  }
  std::cout << "\n"
            << describe(run.device) << "\n"
            << model.graph().nodes.size() << " nodes became " << plan.steps.size() << " steps";
  if (plan.replayed)
    std::cout << format(" of %zu launches, with %.2f MB between inputs and outputs (%.2f MB live at once)\n",
                        launches, static_cast<double>(plan.bytes) / 1e6,
                        static_cast<double>(plan.live) / 1e6);
  else
    std::cout
        << "; nothing is replayed: shapes depend on elements, numbers are random, or DLPRIM_LOG is set\n";
  return 0;
}

}  // namespace dlprim::cli
