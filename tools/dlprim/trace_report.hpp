// What `dlprim trace` shows of a traced run: sums by kernel and by kind of node, and the two files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/net_model.hpp>

namespace dlprim::cli {

struct TraceReport {
  std::string model, device;
  Model::Trace trace;
};

/// A row of a table. Times are of kernels, in microseconds; NaN where the device tells none.
struct TraceSum {
  std::string name;
  int64_t launches = 0;
  double us = 0, flops = 0, bytes = 0;

  void add(const OperatorTime& op);
  double gflops() const { return us > 0 ? flops / us * 1e-3 : us; }
  double gbytes() const { return us > 0 ? bytes / us * 1e-3 : us; }
};

/// Of all nodes.
TraceSum total_of(const Model::Trace& trace);
TraceSum sum_of(const Model::Trace::Step& step);
/// Those of one name together, the most expensive first.
std::vector<TraceSum> by_kernel(const Model::Trace& trace);
std::vector<TraceSum> by_kind(const Model::Trace& trace);
/// When the last kernel ended, in microseconds after the first began.
double span_of(const Model::Trace& trace);

/// To nanoseconds, which devices count in.
double rounded(double us);
/// "12.34 ms", "812.3 us", "an unknown time"
std::string time_text(double us);

/// In the Trace Event Format, which chrome://tracing and Perfetto open: a track of nodes, one of operators
/// and one of kernels. A node, and an operator, lasts from its first kernel's start to its last one's end.
/// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
std::string trace_json(const TraceReport& report);
/// A bar of the run from left to right in a colour for each of the most expensive kinds of nodes, with a
/// legend.
std::string trace_svg(const TraceReport& report);

}  // namespace dlprim::cli
