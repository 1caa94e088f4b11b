// The list of reductions: what they compute, and what their gradients are. The operators, their tests,
// benchmarks and documentation are made of it.
#include <algorithm>
#include <cmath>
#include <limits>

#include <dlprim/reduction.hpp>

#include "core/check.hpp"

namespace dlprim {

using namespace detail;

namespace {

using Function = ReductionFunction;
using Parameters = std::vector<ElementwiseFunction::Parameter>;
constexpr auto kNumber = Function::Result::number, kExtreme = Function::Result::extreme,
               kTruth = Function::Result::truth, kCount = Function::Result::count;

struct Statistics {
  std::vector<std::string> names;
  Reduction reduction;
};

Function base(const char* name, Function::Result result, bool floating, Reduction reduction) {
  Function f;
  f.name = name;
  f.result = result, f.floating = floating;
  f.results = {"y"};
  f.reduction = std::move(reduction);
  return f;
}

Function number(const char* name, Reduction reduction, const char* gradient) {
  Function f = base(name, kNumber, false, std::move(reduction));
  f.gradient = gradient;
  return f;
}

Function floating(const char* name, const Parameters& parameters, Reduction reduction, const char* gradient,
                  Statistics statistics = {}) {
  Function f = base(name, kNumber, true, std::move(reduction));
  f.parameters = parameters;
  f.gradient = gradient;
  f.statistics = std::move(statistics.names), f.statistics_reduction = std::move(statistics.reduction);
  return f;
}

Function extreme(const char* name, bool of_floats, Reduction reduction, const char* tie,
                 const char* gradient) {
  Function f = base(name, kExtreme, of_floats, std::move(reduction));
  f.statistics = {"ties"};
  f.statistics_reduction = sum_of(tie, "ties = a0");
  f.gradient = gradient;
  return f;
}

/// The first of the largest (">") or smallest ("<") elements, and where it is. A NaN comes before all
/// numbers.
Reduction first_of(const char* order, const char* finish) {
  const std::string better = std::string("v_ ") + order + " a0 || (v_ != v_ && a0 == a0)",
                    same = "v_ == a0 || (v_ != v_ && a0 != a0)",
                    take = "const int t_ = " + better + " || ((" + same +
                           ") && i_ < a1); a0 = t_ ? v_ : a0; a1 = t_ ? i_ : a1";
  return {2,
          std::string("a0 = ") + (*order == '>' ? "REAL_LOWEST" : "REAL_HIGHEST") + "; a1 = -1",
          "const real v_ = x; const INDEX i_ = index; " + take,
          "const real v_ = b0; const INDEX i_ = b1; " + take,
          finish,
          1,
          true};
}

Function indexed(const char* name, const char* order, bool with_value) {
  Function f = base(name, with_value ? kExtreme : kCount, false,
                    first_of(order, with_value ? "y = a0; index = a1" : "y = a1"));
  if (with_value) f.results = {"y", "index"};
  f.selects = with_value;
  return f;
}

Function truth(const char* name, const char* init, const char* accumulate, const char* combine) {
  return base(name, kTruth, false, {1, init, accumulate, combine, "y = a0"});
}

Function var_mean() {
  Function f =
      floating("var_mean", {{"correction", 1}},
               welford("x", "y = a2 / (n > correction ? n - correction : 0); mean = n > 0 ? a1 : NAN"),
               "2 / (n - correction) * dy * (x - mean) + dmean / n");
  f.results = {"y", "mean"};
  return f;
}

std::vector<Function> sums() {
  return {
      number("sum", sum_of("x", "y = a0"), "dy"),
      floating("mean", {}, sum_of("x", "y = a0 / n"), "dy / n"),
      number("nansum", sum_of("(x != x ? 0 : x)", "y = a0"), "x != x ? 0 : dy"),
      [] {
        // Of the elements that are not 0 the product, and how many others there are.
        Function f = number("prod", {1, "a0 = 1", "a0 *= x", "a0 *= b0", "y = a0"},
                            "zeros == 0 ? dy * (p / x) : zeros == 1 && x == 0 ? dy * p : 0");
        f.statistics = {"p", "zeros"};
        f.statistics_reduction = {2, "a0 = 1; a1 = 0", "a0 *= x == 0 ? 1 : x; a1 += x == 0",
                                  "a0 *= b0; a1 += b1", "p = a0; zeros = a1"};
        return f;
      }(),
      base("count_nonzero", kCount, false, {1, "a0 = 0", "a0 += x != 0", "a0 += b0", "y = a0", 1}),
      truth("any", "a0 = 0", "a0 = x != 0 ? 1 : a0", "a0 = b0 != 0 ? 1 : a0"),
      truth("all", "a0 = 1", "a0 = x == 0 ? 0 : a0", "a0 = b0 == 0 ? 0 : a0"),
  };
}

std::vector<Function> extremes() {
  return {
      extreme("amax", false, max_of("x", "y = a0"), "(x == y)", "dy * (x == y) / ties"),
      extreme("amin", false, min_of("x", "y = a0"), "(x == y)", "dy * (x == y) / ties"),
      indexed("max", ">", true),
      indexed("min", "<", true),
      indexed("argmax", ">", false),
      indexed("argmin", "<", false),
  };
}

std::vector<Function> norms() {
  const char *tie = "(fabs((real)x) == y || x != x)",
             *shared = "dy * ((fabs((real)x) == y || x != x) * ((x > 0) - (x < 0))) / ties";
  return {
      floating("l0", {}, sum_of("(x != 0)", "y = a0"), "0"),
      floating("l1", {}, sum_of("fabs((real)x)", "y = a0"), "x > 0 ? dy : x < 0 ? -dy : 0"),
      floating("l2", {}, sum_of("(real)x * x", "y = sqrt(a0)"), "y == 0 ? 0 : x * (dy / y)"),
      floating("lp", {{"p", 3}}, sum_of("pow(fabs((real)x), p)", "y = pow(a0, 1 / p)"),
               "x == 0 || y == 0 ? 0 : dy * copysign(pow(fabs((real)x) / y, p - 1), (real)x)"),
      extreme("linf", true, max_of("fabs((real)x)", "y = a0"), tie, shared),
      extreme("lminf", true, min_of("fabs((real)x)", "y = a0"), tie, shared),
  };
}

std::vector<Function> moments() {
  const char* divided = "a2 / (n > correction ? n - correction : 0)";
  const Statistics mean = {{"mean"}, sum_of("x", "mean = a0 / n")};
  return {
      floating("var", {{"correction", 1}}, welford("x", cat("y = ", divided)),
               "2 / (n - correction) * dy * (x - mean)", mean),
      floating("std", {{"correction", 1}}, welford("x", cat("y = sqrt(", divided, ")")),
               "y == 0 ? 0 : dy / (y * (n - correction)) * (x - mean)", mean),
      var_mean(),
  };
}

}  // namespace

const std::vector<ReductionFunction>& reduction_functions() {
  static const std::vector<ReductionFunction> list = [] {
    std::vector<ReductionFunction> all;
    const auto add = [&](const char* topic, std::vector<Function> functions) {
      for (Function& f : functions) {
        f.topic = topic;
        all.push_back(std::move(f));
      }
    };
    add("Sums and products, counts and truths", sums());
    add("Extremes", extremes());
    add("Norms", norms());
    add("Variances, by Welford's method", moments());
    return all;
  }();
  return list;
}

const ReductionFunction& reduction_function(std::string_view name) {
  const std::vector<ReductionFunction>& list = reduction_functions();
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const ReductionFunction& f) { return f.name == name; });
  require(found != list.end(), "function", "there is no '", name, "'; docs/reductions.md lists them");
  return *found;
}

std::string norm_function(double p) {
  if (std::isinf(p)) return p > 0 ? "linf" : "lminf";
  return p == 0 ? "l0" : p == 1 ? "l1" : p == 2 ? "l2" : "lp";
}

}  // namespace dlprim
