// `dlprim explain`: what is left of a model's nodes once passes rewrote them, and what each launches.
#include <iostream>
#include <nlohmann/json.hpp>

#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "node_text.hpp"

namespace dlprim::cli {
namespace {

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
                                  {"outputs", outputs_of(step.outputs)},
                                  {"kernels", step.kernels}}
                       .dump()
                << "\n";
    else
      std::cout << step.node.kind << "  " << outputs_of(step.outputs) << "  " << step.node.name << "\n    "
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
