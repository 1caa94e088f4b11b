// Traces as the Trace Event Format has them.
#include <nlohmann/json.hpp>

#include "node_text.hpp"
#include "trace_report.hpp"

namespace dlprim::cli {
namespace {

using nlohmann::json;

constexpr int kNodes = 1, kOperators = 2, kKernels = 3;  // tracks

/// The value of a field of an operator's text; empty if it has none.
std::string field_of(const std::string& text, const std::string& name) {
  const std::string padded = " " + text + " ";
  const size_t at = padded.find(" " + name + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 2;
  return padded.substr(begin, padded.find(' ', begin) - begin);
}

json event(int track, const std::string& name, double start, double end, json args) {
  return {{"ph", "X"},
          {"name", name},
          {"pid", 1},
          {"tid", track},
          {"ts", rounded(start)},
          {"dur", rounded(rounded(end) - rounded(start))},
          {"args", std::move(args)}};
}

json label(const char* what, int track, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}};
}

void add_measured(json& args, const TraceSum& sum) {
  args["launches"] = sum.launches;
  args["us"] = rounded(sum.us);
  if (sum.flops > 0) args["flops"] = sum.flops, args["gflops"] = sum.gflops();
  if (sum.bytes > 0) args["bytes"] = sum.bytes, args["gbytes"] = sum.gbytes();
}

void add_operator(json& events, const OperatorTime& op, const std::string& node) {
  const std::string name = field_of(op.text, "op");
  json args{{"operator", op.text}, {"node", node}};
  if (const std::string engine = field_of(op.text, "engine"); !engine.empty()) args["engine"] = engine;
  TraceSum sum;
  sum.add(op);
  add_measured(args, sum);
  events.push_back(event(kOperators, name, op.kernels.front().start, op.kernels.back().end, args));
  for (const KernelTime& kernel : op.kernels)
    events.push_back(
        event(kKernels, kernel.name, kernel.start, kernel.end, {{"operator", op.text}, {"node", node}}));
}

void add_step(json& events, const Model::Trace::Step& step) {
  const std::string name =
      kind_of(step.node) + " " + (step.node.name.empty() ? outputs_of(step.outputs) : step.node.name);
  const KernelTime *first = nullptr, *last = nullptr;
  for (const OperatorTime& op : step.operators) {
    if (op.kernels.empty()) continue;
    add_operator(events, op, name);
    if (!first) first = &op.kernels.front();
    last = &op.kernels.back();
  }
  if (!first) return;
  json args{{"attributes", attributes_of(step.node)}, {"outputs", outputs_of(step.outputs)}};
  add_measured(args, sum_of(step));
  events.push_back(event(kNodes, name, first->start, last->end, args));
}

}  // namespace

std::string trace_json(const TraceReport& report) {
  json events = json::array();
  events.push_back(label("process_name", 0, report.model + " on " + report.device));
  for (const auto& [track, name] :
       {std::pair{kNodes, "nodes"}, {kOperators, "operators"}, {kKernels, "kernels"}}) {
    events.push_back(label("thread_name", track, name));
    events.push_back({{"ph", "M"},
                      {"name", "thread_sort_index"},
                      {"pid", 1},
                      {"tid", track},
                      {"args", {{"sort_index", track}}}});
  }
  for (const Model::Trace::Step& step : report.trace.steps) add_step(events, step);
  const json file{
      {"traceEvents", events},
      {"displayTimeUnit", "ms"},
      {"otherData",
       {{"model", report.model}, {"device", report.device}, {"replayed", report.trace.replayed}}}};
  return file.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace dlprim::cli
