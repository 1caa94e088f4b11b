// The report of `dlprim doctor`: a page that is complete in itself, and the same as JSON.
#include <map>
#include <nlohmann/json.hpp>

#include "doctor.hpp"
#include "format.hpp"

namespace dlprim::cli {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '<'   ? "&lt;"
              : c == '>' ? "&gt;"
              : c == '&' ? "&amp;"
              : c == '"' ? "&quot;"
                         : std::string(1, c);
  return result;
}

std::string row(const std::vector<std::string>& cells, const char* kind = "td", const char* style = "") {
  std::string text = std::string("<tr") + style + ">";
  for (const std::string& cell : cells)
    text += "<" + std::string(kind) + ">" + escaped(cell) + "</" + kind + ">";
  return text + "</tr>\n";
}

std::string table(const std::vector<std::string>& head, const std::string& rows) {
  return "<table>\n" + row(head, "th") + rows + "</table>\n";
}

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>dlprim doctor</title>\n<style>"
    "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:0 0 1.5em}td,th{border:1px solid #ddd;padding:3px "
    "9px;text-align:left;"
    "vertical-align:top}th{background:#f4f4f4}.bad{background:#fbe3e1}.verdict{font-size:1.2em;padding:.6em "
    "1em;"
    "border-left:6px solid #2e8b57;background:#eef7f1}.verdict.bad{border-color:#c0392b;background:#fbe3e1}"
    "</style></head><body>\n";

nlohmann::ordered_json entries_json(const std::vector<EngineOff>& entries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EngineOff& e : entries)
    list.push_back({{"op", e.op}, {"engine", e.engine}, {"reason", e.reason}});
  return list;
}

std::string entries_table(const char* title, const std::vector<EngineOff>& entries) {
  if (entries.empty()) return "";
  std::string rows;
  for (const EngineOff& e : entries) rows += row({e.op, e.engine, e.reason});
  return std::string("<h2>") + title + "</h2>\n" + table({"operator", "engine", "reason"}, rows);
}

}  // namespace

std::string doctor_html(const Diagnosis& d) {
  const int64_t wrong = d.wrong();
  const bool good = wrong == 0 && d.troubles.empty();
  std::string text = kHead;
  text += "<h1>dlprim doctor</h1>\n<p class=\"verdict" + std::string(good ? "" : " bad") + "\">" +
          (good ? format("All %zu cases were right, each time.", d.results.size())
                : format("%lld of %zu cases were wrong.", static_cast<long long>(wrong), d.results.size())) +
          "</p>\n";
  std::string rows;
  for (const std::string& trouble : d.troubles) rows += row({trouble}, "td", " class=\"bad\"");
  if (!rows.empty()) text += "<h2>Troubles</h2>\n<table>\n" + rows + "</table>\n";
  text +=
      entries_table("Switched off now", d.switched_off) + entries_table("Switched off before", d.off_before);
  rows.clear();
  for (const auto& [name, value] : d.facts) rows += row({name, value});
  text += "<h2>Device</h2>\n<table>\n" + rows + "</table>\n";
  rows.clear();
  for (const DoctorTime& t : d.times) rows += row({t.what, format("%.4g ", t.value) + t.unit});
  text += "<h2>Times</h2>\n<table>\n" + rows + "</table>\n";
  rows.clear();
  for (const CaseResult& r : d.results)
    rows += row({r.family, r.name, r.op + " " + r.engine + (r.automatic ? " (chosen)" : ""),
                 std::to_string(r.runs), r.wrong == 0 ? "right" : r.failure},
                "td", r.wrong == 0 ? "" : " class=\"bad\"");
  text += "<h2>Cases</h2>\n" + table({"family", "case", "engine", "runs", "result"}, rows);
  return text + "</body></html>\n";
}

std::string doctor_json(const Diagnosis& d) {
  nlohmann::ordered_json json{
      {"format", "dlprim-doctor"}, {"version", 1}, {"cases", d.results.size()}, {"wrong", d.wrong()}};
  for (const auto& [name, value] : d.facts) json["facts"][name] = value;
  json["troubles"] = d.troubles;
  json["switched_off"] = entries_json(d.switched_off);
  json["switched_off_before"] = entries_json(d.off_before);
  json["times"] = nlohmann::ordered_json::array();
  for (const DoctorTime& t : d.times)
    json["times"].push_back({{"what", t.what}, {"value", t.value}, {"unit", t.unit}});
  json["results"] = nlohmann::ordered_json::array();
  for (const CaseResult& r : d.results)
    json["results"].push_back({{"family", r.family},
                               {"case", r.name},
                               {"op", r.op},
                               {"engine", r.engine},
                               {"chosen", r.automatic},
                               {"runs", r.runs},
                               {"wrong", r.wrong},
                               {"failure", r.failure}});
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace dlprim::cli
