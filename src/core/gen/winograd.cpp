// Matrices of Winograd's filtering by interpolation, and statements of products with them.
#include "core/gen/winograd.hpp"

#include <cstdio>
#include <numeric>
#include <utility>

#include "core/check.hpp"
#include "core/gen/slots.hpp"
#include "core/text.hpp"

namespace dlprim::detail {

Fraction::Fraction(int64_t over, int64_t under) {
  const int64_t common = std::gcd(over, under) * (under < 0 ? -1 : 1);
  numerator = over / common, denominator = under / common;
}
Fraction operator+(Fraction a, Fraction b) {
  return {a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator};
}
Fraction operator-(Fraction a, Fraction b) {
  return a + -b;
}
Fraction operator*(Fraction a, Fraction b) {
  return {a.numerator * b.numerator, a.denominator * b.denominator};
}
Fraction operator/(Fraction a, Fraction b) {
  return {a.numerator * b.denominator, a.denominator * b.numerator};
}
bool operator==(Fraction a, Fraction b) {
  return a.numerator == b.numerator && a.denominator == b.denominator;
}

std::vector<Fraction> winograd_points(int products) {
  const Fraction half(1, 2), low(3, 4), high(3, 2);
  switch (products) {
    case 1:
      return {};
    case 3:
      return {1, -1};
    case 4:
      return {0, 1, -1};
    case 6:
      // Half the error of the usual 0, 1, -1, 2, -2: see docs/decisions.md.
      return {0, low, -low, high, -high};
    case 8:
      return {0, half, -half, 1, -1, 2, -2};
    default:
      require(false, "winograd", "no points for ", products, " products");
      return {};
  }
}

namespace {

/// The coefficients of the product of x - root, lowest first.
std::vector<Fraction> polynomial(const std::vector<Fraction>& roots) {
  std::vector<Fraction> result = {1};
  for (const Fraction& root : roots) {
    result.insert(result.begin(), 0);
    for (size_t i = 0; i + 1 < result.size(); i++) result[i] = result[i] - root * result[i + 1];
  }
  return result;
}

}  // namespace

WinogradMatrices winograd_matrices(int m, int r, const std::vector<Fraction>& points) {
  require(m >= 1 && r >= 1 && points.size() + 2 == static_cast<size_t>(m + r), "winograd", points.size(),
          " finite points do not make F(", m, ", ", r, ")");
  const size_t count = points.size() + 1;
  WinogradMatrices result;
  result.target.assign(static_cast<size_t>(m), std::vector<Fraction>(count));
  for (size_t j = 0; j < points.size(); j++) {
    std::vector<Fraction> others = points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(j));
    Fraction scale = 1;
    for (const Fraction& other : others) scale = scale * (points[j] - other);
    const Fraction sign = scale.numerator < 0 ? -1 : 1;  // kept out of G
    std::vector<Fraction> row = polynomial(others), taps;
    for (Fraction& entry : row) entry = entry * sign;
    row.resize(count);
    result.source.push_back(row);
    Fraction power = 1;
    for (int i = 0; i < std::max(m, r); i++, power = power * points[j]) {
      if (i < m) result.target[static_cast<size_t>(i)][j] = power;
      if (i < r) taps.push_back(power / (scale * sign));
    }
    result.filter.push_back(taps);
  }
  result.source.push_back(polynomial(points));
  result.filter.emplace_back(static_cast<size_t>(r), 0);
  result.filter.back().back() = 1;
  result.target.back().back() = 1;
  return result;
}

WinogradMatrices winograd_matrices(int m, int r) {
  return winograd_matrices(m, r, winograd_points(m + r - 1));
}

namespace {

/// A number or variable times a factor.
struct Term {
  Fraction factor;
  std::string name;
};
using Sum = std::vector<Term>;

bool is_zero(Fraction f) {
  return f.numerator == 0;
}
bool is_unit(Fraction f) {
  return f == Fraction(1) || f == Fraction(-1);
}

std::string literal(Fraction f) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", f.value());
  std::string text = digits;
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

/// Factors of 1 and -1 first, so that what is added up comes before what is multiplied.
std::string expression(const Sum& sum) {
  std::string text;
  for (const Term& t : sum)
    if (is_unit(t.factor)) {
      const bool minus = t.factor.numerator < 0;
      text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
      text += t.name;
    }
  for (const Term& t : sum)
    if (!is_unit(t.factor))
      text = text.empty() ? cat(literal(t.factor), " * ", t.name)
                          : cat("MULTIPLY_ADD((Lanes)(", literal(t.factor), "), ", t.name, ", ", text, ")");
  return text.empty() ? "0" : text;
}

/// Whether b is a with other signs in some places and not in all: then each has a part of its own.
bool differ_in_signs(const std::vector<Fraction>& a, const std::vector<Fraction>& b) {
  bool same = false, opposite = false;
  for (size_t i = 0; i < a.size(); i++) {
    if (is_zero(a[i]) && is_zero(b[i])) continue;
    if (a[i] == b[i])
      same = true;
    else if (a[i] == -b[i])
      opposite = true;
    else
      return false;
  }
  return same && opposite;
}

std::vector<Fraction> column(const FractionMatrix& matrix, size_t j) {
  std::vector<Fraction> result;
  for (const auto& row : matrix) result.push_back(row[j]);
  return result;
}

/// d[j] + d[j + 1] and d[j] - d[j + 1] take the places of d[j] and d[j + 1] where that leaves one of them in
/// each row.
std::string pair_columns(FractionMatrix& matrix, std::vector<std::string>& names) {
  std::string text;
  for (size_t j = 0; j + 1 < names.size(); j++) {
    if (!differ_in_signs(column(matrix, j), column(matrix, j + 1))) continue;
    text += cat("const Lanes sum", j, " = ", names[j], " + ", names[j + 1], ", difference", j, " = ",
                names[j], " - ", names[j + 1], ";\n");
    for (auto& row : matrix) {
      const bool equal = row[j] == row[j + 1];
      row[j + 1] = equal ? Fraction(0) : row[j];
      if (!equal) row[j] = 0;
    }
    names[j] = cat("sum", j);
    names[j + 1] = cat("difference", j);
    j++;
  }
  return text;
}

Sum terms(const std::vector<Fraction>& row, const std::vector<std::string>& names) {
  Sum result;
  for (size_t j = 0; j < row.size(); j++)
    if (!is_zero(row[j])) result.push_back({row[j], names[j]});
  return result;
}

}  // namespace

std::string winograd_statements(const FractionMatrix& original) {
  FractionMatrix matrix = original;
  std::vector<std::string> names;
  for (size_t j = 0; j < matrix[0].size(); j++) names.push_back(cat("d[", j, "]"));
  std::string text = pair_columns(matrix, names);
  for (size_t i = 0; i < matrix.size(); i++) {
    if (i + 1 == matrix.size() || !differ_in_signs(matrix[i], matrix[i + 1])) {
      text += cat("t[", i, "] = ", expression(terms(matrix[i], names)), ";\n");
      continue;
    }
    std::vector<Fraction> same = matrix[i], opposite = matrix[i];
    for (size_t j = 0; j < same.size(); j++) (matrix[i + 1][j] == same[j] ? opposite[j] : same[j]) = 0;
    text += cat("const Lanes same", i, " = ", expression(terms(same, names)), ";\n");
    text += cat("const Lanes other", i, " = ", expression(terms(opposite, names)), ";\n");
    text += cat("t[", i, "] = same", i, " + other", i, ";\nt[", i + 1, "] = same", i, " - other", i, ";\n");
    i++;
  }
  return text;
}

std::string fill_winograd_slots(const std::string& text, const FractionMatrix& along_height,
                                const FractionMatrix& along_width) {
  return fill_slots(text, {{"ALONG_HEIGHT", winograd_statements(along_height)},
                           {"ALONG_WIDTH", winograd_statements(along_width)}});
}

}  // namespace dlprim::detail
