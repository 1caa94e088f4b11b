// The run as a bar. Kernels of one kind that follow one another closely are one piece of it.
#include <algorithm>
#include <map>

#include "format.hpp"
#include "node_text.hpp"
#include "svg.hpp"
#include "trace_report.hpp"

namespace dlprim::cli {
namespace {

/// Okabe and Ito's, which the colour-blind tell apart (https://jfly.uni-koeln.de/color/), and grey for the
/// rest.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f"};
constexpr size_t kRest = std::size(kColours) - 1;

constexpr double kLeft = 30, kWidth = 900, kTop = 84, kHeight = 56, kRow = 22;

struct Piece {
  size_t colour = 0;
  std::string kind;
  double start = 0, end = 0, us = 0;
  int64_t launches = 0;
};

/// Pieces nearer than half a pixel are one.
std::vector<Piece> pieces_of(const Model::Trace& trace, const std::map<std::string, size_t>& colours,
                             double span) {
  std::vector<Piece> pieces;
  for (const Model::Trace::Step& step : trace.steps)
    for (const OperatorTime& op : step.operators)
      for (const KernelTime& kernel : op.kernels) {
        const std::string kind = kind_of(step.node);
        if (pieces.empty() || pieces.back().kind != kind ||
            (kernel.start - pieces.back().end) * kWidth > span / 2)
          pieces.push_back({colours.at(kind), kind, kernel.start, kernel.end});
        Piece& piece = pieces.back();
        piece.end = kernel.end;
        piece.us += kernel.microseconds();
        piece.launches++;
      }
  return pieces;
}

std::string bar(const std::vector<Piece>& pieces, double span) {
  std::string out = format("<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" fill=\"#ececec\"/>\n", kLeft,
                           kTop, kWidth, kHeight);
  for (const Piece& p : pieces)
    out +=
        format("<rect x=\"%.3f\" y=\"%g\" width=\"%.3f\" height=\"%g\" fill=\"%s\">",
               kLeft + kWidth * p.start / span, kTop, std::max(0.02, kWidth * (p.end - p.start) / span),
               kHeight, kColours[p.colour]) +
        "<title>" +
        escaped(p.kind + format(": %lld launches, ", static_cast<long long>(p.launches)) + time_text(p.us)) +
        "</title></rect>\n";
  return out;
}

/// The axis below the bar, in milliseconds or microseconds.
std::string axis(double span) {
  const bool ms = span >= 1000;
  const double length = ms ? span * 1e-3 : span, step = tick_step(length, 12), bottom = kTop + kHeight;
  std::string out;
  for (double t = 0; t <= length * (1 + 1e-9); t += step) {
    const double x = kLeft + kWidth * t / length;
    out += format("<line x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\" stroke=\"#333333\"/>\n", x, bottom, x,
                  bottom + 5);
    out += text_at(x, bottom + 20, "text-anchor=\"middle\"", format("%g", t));
  }
  return out + text_at(kLeft + kWidth / 2, bottom + 40, "text-anchor=\"middle\" class=\"note\"",
                       ms ? "milliseconds; grey: nothing runs" : "microseconds; grey: nothing runs");
}

std::string legend(const std::vector<TraceSum>& rows, double total) {
  double y = kTop + kHeight + 80;
  const auto columns = [&](const char* attributes, const std::string& kind, const std::string& share,
                           const std::string& time, const std::string& launches) {
    const std::string right = std::string("text-anchor=\"end\" ") + attributes;
    std::string out = text_at(kLeft + 24, y, attributes, shortened(kind, 48));
    out += text_at(kLeft + 510, y, right.c_str(), share);
    out += text_at(kLeft + 630, y, right.c_str(), time);
    out += text_at(kLeft + 730, y, right.c_str(), launches);
    y += kRow;
    return out;
  };
  std::string out = columns("class=\"note\"", "kind of node", "share", "time", "launches");
  TraceSum all;
  for (size_t i = 0; i < rows.size(); i++) {
    out += format("<rect x=\"%g\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", kLeft, y - 12,
                  kColours[i]);
    out += columns("", rows[i].name, format("%.1f %%", 100 * rows[i].us / total), time_text(rows[i].us),
                   std::to_string(rows[i].launches));
    all.us += rows[i].us, all.launches += rows[i].launches;
  }
  return out + columns("class=\"sum\"", "all", "100 %", time_text(all.us), std::to_string(all.launches));
}

}  // namespace

std::string trace_svg(const TraceReport& report) {
  std::vector<TraceSum> rows = by_kind(report.trace);
  std::map<std::string, size_t> colours;
  for (size_t i = 0; i < rows.size(); i++) colours[rows[i].name] = std::min(i, kRest);
  if (rows.size() > kRest + 1) {
    TraceSum rest;
    rest.name = format("%zu other kinds", rows.size() - kRest);
    for (size_t i = kRest; i < rows.size(); i++) rest.us += rows[i].us, rest.launches += rows[i].launches;
    rows.resize(kRest);
    rows.push_back(rest);
  }
  const double span = std::max(span_of(report.trace), 1e-3),
               total = std::max(total_of(report.trace).us, 1e-3);
  const double height = kTop + kHeight + 90 + kRow * static_cast<double>(rows.size() + 2);
  const std::string size = format("%g", height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 " + size +
         "\" width=\"960\" height=\"" + size +
         "\" role=\"img\">\n"
         "<style>text{font:13px system-ui,'Helvetica Neue',Arial,sans-serif;fill:#333333}"
         ".head{font-size:18px;font-weight:600}.note{fill:#606060}.sum{font-weight:600}</style>\n"
         "<rect width=\"960\" height=\"" +
         size + "\" fill=\"#ffffff\"/>\n" +
         text_at(kLeft, 34, "class=\"head\"",
                 shortened(report.model, 80) + ": " + time_text(span) + " on the device") +
         text_at(kLeft, 58, "class=\"note\"",
                 shortened(report.device, 110) + format("; busy for %.1f %%", 100 * total / span)) +
         bar(pieces_of(report.trace, colours, span), span) + axis(span) + legend(rows, total) + "</svg>\n";
}

}  // namespace dlprim::cli
