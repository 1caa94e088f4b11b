#include "trace_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "format.hpp"
#include "node_text.hpp"

namespace dlprim::cli {
namespace {

std::vector<TraceSum> sorted(const std::map<std::string, TraceSum>& sums) {
  std::vector<TraceSum> list;
  for (const auto& [name, sum] : sums) {
    list.push_back(sum);
    list.back().name = name;
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const TraceSum& a, const TraceSum& b) { return a.us > b.us; });
  return list;
}

}  // namespace

void TraceSum::add(const OperatorTime& op) {
  launches += static_cast<int64_t>(op.kernels.size());
  us += op.microseconds();
  flops += op.flops;
  bytes += op.bytes;
}

TraceSum sum_of(const Model::Trace::Step& step) {
  TraceSum sum;
  for (const OperatorTime& op : step.operators) sum.add(op);
  return sum;
}

TraceSum total_of(const Model::Trace& trace) {
  TraceSum sum;
  for (const Model::Trace::Step& step : trace.steps)
    for (const OperatorTime& op : step.operators) sum.add(op);
  return sum;
}

std::vector<TraceSum> by_kernel(const Model::Trace& trace) {
  std::map<std::string, TraceSum> sums;
  for (const Model::Trace::Step& step : trace.steps)
    for (const OperatorTime& op : step.operators)
      for (const KernelTime& kernel : op.kernels) {
        TraceSum& sum = sums[kernel.name];
        sum.launches++;
        sum.us += kernel.microseconds();
      }
  return sorted(sums);
}

std::vector<TraceSum> by_kind(const Model::Trace& trace) {
  std::map<std::string, TraceSum> sums;
  for (const Model::Trace::Step& step : trace.steps)
    for (const OperatorTime& op : step.operators) sums[kind_of(step.node)].add(op);
  return sorted(sums);
}

double span_of(const Model::Trace& trace) {
  double end = 0;
  for (const Model::Trace::Step& step : trace.steps)
    for (const OperatorTime& op : step.operators)
      for (const KernelTime& kernel : op.kernels) end = std::max(end, kernel.end);
  return end;
}

double rounded(double us) {
  return std::round(us * 1e3) / 1e3;
}

std::string time_text(double us) {
  if (std::isnan(us)) return "an unknown time";
  return us >= 1000 ? format("%.4g ms", us * 1e-3) : format("%.4g us", us);
}

}  // namespace dlprim::cli
