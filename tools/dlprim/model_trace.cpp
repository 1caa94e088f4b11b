// `dlprim trace`: what a run of a model takes on the device, by node and by kernel: tables, and files to look
// at.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "node_text.hpp"
#include "output_folder.hpp"
#include "random_trainer.hpp"
#include "trace_report.hpp"

namespace dlprim::cli {
namespace {

double share_of(double part, double all) {
  return all > 0 ? 100 * part / all : 0;
}

std::string row(const TraceSum& sum, double all) {
  return format("%6.1f %%  %6lld  %12.3f", share_of(sum.us, all), static_cast<long long>(sum.launches),
                sum.us * 1e-3);
}

/// Those behind the first `top` together.
TraceSum rest_of(const std::vector<TraceSum>& list, size_t top) {
  TraceSum rest;
  for (size_t i = top; i < list.size(); i++) rest.us += list[i].us, rest.launches += list[i].launches;
  return rest;
}

struct NodeRow {
  const Model::Trace::Step* step;
  TraceSum sum;
};

/// Nodes that launch something, the most expensive first.
std::vector<NodeRow> nodes_of(const Model::Trace& trace) {
  std::vector<NodeRow> rows;
  for (const Model::Trace::Step& step : trace.steps)
    if (const TraceSum sum = sum_of(step); sum.launches > 0) rows.push_back({&step, sum});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const NodeRow& a, const NodeRow& b) { return a.sum.us > b.sum.us; });
  return rows;
}

std::string rate(double value) {
  return value > 0 ? format("%8.1f", value) : "        ";
}

void print_nodes(const std::vector<NodeRow>& rows, const TraceSum& total, size_t top) {
  std::cout << "   share  launches          ms   GFLOP/s     GB/s  node\n";
  TraceSum rest;
  for (size_t i = 0; i < rows.size(); i++) {
    const auto& [step, sum] = rows[i];
    if (i >= top) {
      rest.us += sum.us, rest.launches += sum.launches;
      continue;
    }
    std::cout << row(sum, total.us) << "  " << rate(sum.gflops()) << " " << rate(sum.gbytes()) << "  "
              << kind_of(step->node) << "  " << outputs_of(step->outputs)
              << (step->node.name.empty() ? "" : "  " + step->node.name) << "\n";
  }
  if (rows.size() > top)
    std::cout << row(rest, total.us) << format("  %17s  %zu others\n", "", rows.size() - top);
  std::cout << row(total, total.us) << "  " << rate(total.gflops()) << " " << rate(total.gbytes())
            << format("  all %zu\n", rows.size());
}

void print_kernels(const std::vector<TraceSum>& kernels, const TraceSum& total, size_t top) {
  std::cout << "   share  launches          ms    us each  kernel\n";
  const auto print = [&](const TraceSum& sum, const std::string& name) {
    std::cout << row(sum, total.us)
              << format("  %9.1f  ", sum.us / static_cast<double>(std::max<int64_t>(1, sum.launches))) << name
              << "\n";
  };
  for (size_t i = 0; i < std::min(top, kernels.size()); i++) print(kernels[i], kernels[i].name);
  if (kernels.size() > top) print(rest_of(kernels, top), format("%zu others", kernels.size() - top));
  print(total, format("all %zu", kernels.size()));
}

void print_records(const TraceReport& report, const std::vector<NodeRow>& rows, const TraceSum& total) {
  const auto print = [](const nlohmann::json& record) {
    std::cout << record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  };
  for (const auto& [step, sum] : rows) {
    std::vector<std::string> operators;
    for (const OperatorTime& op : step->operators) operators.push_back(op.text);
    print({{"record", "node"},
           {"node", step->node.name},
           {"kind", kind_of(step->node)},
           {"outputs", outputs_of(step->outputs)},
           {"operators", operators},
           {"launches", sum.launches},
           {"us", rounded(sum.us)},
           {"share", share_of(sum.us, total.us) / 100},
           {"gflops", sum.gflops()},
           {"gbytes", sum.gbytes()}});
  }
  for (const TraceSum& kernel : by_kernel(report.trace))
    print({{"record", "kernel"},
           {"kernel", kernel.name},
           {"launches", kernel.launches},
           {"us", rounded(kernel.us)},
           {"share", share_of(kernel.us, total.us) / 100}});
  print({{"record", "total"},
         {"model", report.model},
         {"device", report.device},
         {"replayed", report.trace.replayed},
         {"nodes", rows.size()},
         {"launches", total.launches},
         {"us", rounded(total.us)},
         {"span_us", rounded(span_of(report.trace))},
         {"gflops", total.gflops()},
         {"gbytes", total.gbytes()}});
}

}  // namespace

int run_trace(const TraceModelOptions& options) {
  require_writable(options.out);
  require_writable(options.svg);
  const NetGraph graph = load_graph(options);
  const Model model(graph, options.without, options.precision());
  const ModelRun run(model, options, true);
  Model::Tensors feeds = run.feeds();
  const auto trace = [&] {
    if (!options.train) return model.trace(run.stream, feeds, run.options);
    Trainer trainer = random_trainer(graph, options, run, feeds);
    return trainer.trace(feeds);
  };
  const TraceReport report{options.model, describe(run.device), trace()};
  const TraceSum total = total_of(report.trace);
  const std::vector<NodeRow> rows = nodes_of(report.trace);
  if (!options.out.empty()) write_file(options.out, trace_json(report));
  if (!options.svg.empty()) write_file(options.svg, trace_svg(report));
  if (options.json) {
    print_records(report, rows, total);
    return 0;
  }
  const double span = span_of(report.trace);
  const auto top = static_cast<size_t>(options.top);
  std::cout << report.device << "\n"
            << format(
                   "%lld launches of %zu nodes, %s: busy for %.3f ms of the %.3f ms from the first to the "
                   "last (%.1f %%)\n\n",
                   static_cast<long long>(total.launches), rows.size(),
                   report.trace.replayed ? "replayed" : "node by node", total.us * 1e-3, span * 1e-3,
                   share_of(total.us, span));
  print_nodes(rows, total, top);
  std::cout << "\n";
  print_kernels(by_kernel(report.trace), total, top);
  if (!options.out.empty())
    std::cout << "\nwrote " << options.out << ": chrome://tracing or ui.perfetto.dev opens it\n";
  if (!options.svg.empty()) std::cout << (options.out.empty() ? "\n" : "") << "wrote " << options.svg << "\n";
  return 0;
}

}  // namespace dlprim::cli
