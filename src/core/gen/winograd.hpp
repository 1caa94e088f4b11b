// Winograd's minimal filtering: F(m, r) gives m results of a correlation with r taps by m + r - 1 products,
//   y = A^T ((G w) * (B^T x)),  in two dimensions  y = A^T ((G w G^T) * (B^T x B)) A,
// after Toom and Cook: polynomials are multiplied through their values at points, one of which is infinity
// (Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, 2015). Here the matrices are made,
// exactly, and the text that applies them. What is done with them is ops/conv_winograd*.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlprim::detail {

/// A rational number in lowest terms, its denominator positive.
struct Fraction {
  int64_t numerator = 0, denominator = 1;

  Fraction() = default;
  Fraction(int64_t whole) : numerator(whole) {}  // NOLINT(google-explicit-constructor)
  Fraction(int64_t over, int64_t under);
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  Fraction operator-() const { return {-numerator, denominator}; }
};
Fraction operator+(Fraction a, Fraction b);
Fraction operator-(Fraction a, Fraction b);
Fraction operator*(Fraction a, Fraction b);
Fraction operator/(Fraction a, Fraction b);
bool operator==(Fraction a, Fraction b);

using FractionMatrix = std::vector<std::vector<Fraction>>;

struct WinogradMatrices {
  FractionMatrix source;  ///< B^T: (m + r - 1) x (m + r - 1)
  FractionMatrix filter;  ///< G: (m + r - 1) x r
  FractionMatrix target;  ///< A^T: m x (m + r - 1)
};

/// The finite points for m + r - 1 products. Throws ValidationError where none were chosen: for other than 1,
/// 3, 4, 6 and 8.
std::vector<Fraction> winograd_points(int products);
/// F(m, r) with `points` and infinity. Entries of B^T are products of points: exact in f32 for those of
/// winograd_points().
WinogradMatrices winograd_matrices(int m, int r, const std::vector<Fraction>& points);
WinogradMatrices winograd_matrices(int m, int r);

/// Statements that set t[0], t[1], ... to `matrix` times d[0], d[1], ...: MULTIPLY_ADD and + of REALs. Rows
/// and columns that differ in signs only share their sums.
std::string winograd_statements(const FractionMatrix& matrix);

/// The text of a kernel with slots ALONG_HEIGHT and ALONG_WIDTH.
std::string fill_winograd_slots(const std::string& text, const FractionMatrix& along_height,
                                const FractionMatrix& along_width);

}  // namespace dlprim::detail
