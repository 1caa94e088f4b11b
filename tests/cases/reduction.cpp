#include "cases/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace dlprim::test {
namespace {

using Values = std::vector<double>;

template <class F>
double sum(const Values& v, F f) {
  double result = 0;
  for (double x : v) result += f(x);
  return result;
}

/// The place of the first element that is NaN, or else of the first `best` one.
size_t first(const Values& v, bool largest) {
  for (size_t i = 0; i < v.size(); i++)
    if (std::isnan(v[i])) return i;
  const auto at = largest ? std::max_element(v.begin(), v.end()) : std::min_element(v.begin(), v.end());
  return static_cast<size_t>(at - v.begin());
}

Values magnitudes(const Values& v) {
  Values result;
  for (double x : v) result.push_back(std::fabs(x));
  return result;
}

double mean(const Values& v) {
  return sum(v, [](double x) { return x; }) / static_cast<double>(v.size());
}

double variance(const Values& v, double correction) {
  const double m = mean(v);
  const double squares = sum(v, [&](double x) { return (x - m) * (x - m); });
  return squares / std::fmax(static_cast<double>(v.size()) - correction, 0);
}

#define REFERENCE(name, low, high, value)                                                                  \
  {                                                                                                        \
    name, low, high,                                                                                       \
        []([[maybe_unused]] const Values& v, [[maybe_unused]] const double* p) -> Values { return value; } \
  }

const ReductionReference kReferences[] = {
    REFERENCE("sum", -2, 2, {sum(v, [](double x) { return x; })}),
    REFERENCE("mean", -2, 2, {mean(v)}),
    REFERENCE("nansum", -2, 2, {sum(v, [](double x) { return std::isnan(x) ? 0 : x; })}),
    REFERENCE("prod", 0.9, 1.1, {std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<>())}),
    REFERENCE("count_nonzero", -2, 2, {sum(v, [](double x) { return x == 0 ? 0 : 1; })}),
    REFERENCE("any", -2, 2, {sum(v, [](double x) { return x == 0 ? 0 : 1; }) > 0 ? 1.0 : 0.0}),
    REFERENCE("all", -2, 2, {sum(v, [](double x) { return x == 0 ? 1 : 0; }) > 0 ? 0.0 : 1.0}),
    REFERENCE("amax", -2, 2, {v[first(v, true)]}),
    REFERENCE("amin", -2, 2, {v[first(v, false)]}),
    REFERENCE("max", -2, 2, (Values{v[first(v, true)], static_cast<double>(first(v, true))})),
    REFERENCE("min", -2, 2, (Values{v[first(v, false)], static_cast<double>(first(v, false))})),
    REFERENCE("argmax", -2, 2, {static_cast<double>(first(v, true))}),
    REFERENCE("argmin", -2, 2, {static_cast<double>(first(v, false))}),
    REFERENCE("l0", -2, 2, {sum(v, [](double x) { return x == 0 ? 0 : 1; })}),
    REFERENCE("l1", -2, 2, {sum(v, [](double x) { return std::fabs(x); })}),
    REFERENCE("l2", -2, 2, {std::sqrt(sum(v, [](double x) { return x * x; }))}),
    REFERENCE("lp", -2, 2,
              {std::pow(sum(v, [&](double x) { return std::pow(std::fabs(x), p[0]); }), 1 / p[0])}),
    REFERENCE("linf", -2, 2, {magnitudes(v)[first(magnitudes(v), true)]}),
    REFERENCE("lminf", -2, 2, {magnitudes(v)[first(magnitudes(v), false)]}),
    REFERENCE("var", -2, 2, {variance(v, p[0])}),
    REFERENCE("std", -2, 2, {std::sqrt(variance(v, p[0]))}),
    REFERENCE("var_mean", -2, 2, (Values{variance(v, p[0]), mean(v)})),
};

#undef REFERENCE

/// For a cell of a table; a fault here would show in the page.
std::string code(const std::string& text) {
  std::string result;
  for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return "`" + result + "`";
}

std::string result_cell(const ReductionFunction& f) {
  using Result = ReductionFunction::Result;
  switch (f.result) {
    case Result::truth:
      return "0 or 1, any dtype";
    case Result::count:
      return "i32 or i64";
    case Result::extreme:
      return std::string("x's dtype, or wider") + (f.floating ? "; floating" : "");
    default:
      return f.floating ? "floating" : "floating; integer, if x is no floating one";
  }
}

}  // namespace

const ReductionReference& reduction_reference(const std::string& name) {
  const auto found = std::find_if(std::begin(kReferences), std::end(kReferences),
                                  [&](const ReductionReference& r) { return r.name == name; });
  if (found == std::end(kReferences)) throw std::runtime_error("no reference for '" + name + "'");
  return *found;
}

std::string reductions_page() {
  std::ostringstream out;
  out << "# Reductions\n\n"
         "`reduction(stream, \"mean\", x, {}, {y})` and `reduction_backward(stream, \"amax\", {dy}, x, {y}, "
         "{}, dx)`, or the "
         "plans `ReductionForward`\nand `ReductionBackward` (`dlprim/reduction.hpp`). The results' shape "
         "says which "
         "axes are reduced: those where it is 1, and those in\nfront that it lacks; n is the number of "
         "elements "
         "that become one. Parameters are given in this order, or not at all.\n\n"
         "An element x goes into accumulators a0, a1, ...; `index` is its place among the n. Backward, dy "
         "(dmean) is "
         "the gradient of y (of mean);\nx and results are needed where the gradient or its statistics name "
         "them. NaN "
         "is larger and smaller than all numbers.\n\n"
         "This page is made of the library's list (`src/ops/reduce/reduction_list.cpp`); "
         "`DLPRIM_UPDATE_GOLDEN=1 "
         "test_reduction` writes it.\n";
  std::string topic;
  for (const ReductionFunction& f : reduction_functions()) {
    if (f.topic != topic)
      out << "\n## " << f.topic
          << "\n\n| function | results | parameters | first, for each x, and last | gradient | its "
             "statistics of x "
             "|\n|---|---|---|---|---|---|\n";
    topic = f.topic;
    const Reduction &r = f.reduction, &s = f.statistics_reduction;
    out << "| `" << f.name << "` | ";
    for (size_t i = 0; i < f.results.size(); i++)
      out << (i ? ", " : "") << f.results[i]
          << (i == 0                    ? ": " + result_cell(f)
              : f.results[i] == "index" ? ": i32 or i64"
                                        : "");
    out << " | ";
    for (const auto& p : f.parameters) out << p.name << " = " << p.standard;
    out << " | " << code(r.init) << "<br>" << code(r.accumulate) << "<br>" << code(r.finish) << " | "
        << (f.selects            ? "dy at `index`, else 0"
            : f.gradient.empty() ? "-"
                                 : code(f.gradient))
        << " | "
        << (f.statistics.empty() ? "" : code(s.init) + "<br>" + code(s.accumulate) + "<br>" + code(s.finish))
        << " |\n";
  }
  return out.str();
}

}  // namespace dlprim::test
