// Products by an equation (Einstein's sums), determinants.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/reduction.hpp>

#include "net/einsum.hpp"
#include "net/nodes/families.hpp"

namespace dlprim::detail {

std::vector<std::string> einsum_terms(std::string equation) {
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  const std::string inputs = equation.substr(0, arrow);
  std::vector<std::string> terms{""};
  for (const char c : inputs) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (arrow != std::string::npos) {
    terms.push_back(equation.substr(arrow + 2));
    return terms;
  }
  std::string implied = inputs.find("...") == std::string::npos ? "" : "...";
  for (int c = 0; c < 128; c++)
    if (std::isalpha(c) && std::count(inputs.begin(), inputs.end(), c) == 1) implied += static_cast<char>(c);
  terms.push_back(implied);
  return terms;
}

namespace {

/// Names of axes: a letter, or -1, -2, ... for those of an ellipsis, from the last one on.
using Labels = std::vector<int>;

bool holds(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// An equation for the shapes at hand.
struct Equation {
  std::vector<Labels> terms;
  Labels output;
  std::map<int, int64_t> sizes;
  int ellipsis = 0;  ///< axes of the longest one
};

/// The labels of one term; `ellipsis` is how many axes "..." stands for.
Labels labels_of(const std::string& term, int ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); i++) {
    if (term.compare(i, 3, "...") == 0) {
      for (int k = ellipsis; k > 0; k--) labels.push_back(-k);
      i += 2;
      continue;
    }
    require(std::isalpha(static_cast<unsigned char>(term[i])) != 0, "equation", "has '", term[i], "' in '",
            term, "'");
    labels.push_back(static_cast<unsigned char>(term[i]));
  }
  return labels;
}

void read_term(Equation& equation, const std::string& term, const Shape& x) {
  const size_t dots = term.find("...");
  const int letters = static_cast<int>(term.size()) - (dots == std::string::npos ? 0 : 3);
  require(dots == std::string::npos ? letters == x.size()
                                    : letters <= x.size() && term.find("...", dots + 3) == std::string::npos,
          "equation", "'", term, "' does not fit an input of shape ", x);
  const int ellipsis = dots == std::string::npos ? 0 : x.size() - letters;
  equation.ellipsis = std::max(equation.ellipsis, ellipsis);
  equation.terms.push_back(labels_of(term, ellipsis));
  for (int i = 0; i < x.size(); i++) {
    int64_t& size = equation.sizes.emplace(equation.terms.back()[static_cast<size_t>(i)], 1).first->second;
    require(size == x[i] || size == 1 || x[i] == 1, "equation", "'", term, "' of shape ", x,
            " does not fit the other inputs: one of its axes is ", size, " there");
    if (x[i] != 1) size = x[i];
  }
}

Equation equation_of(const NodeStep& step) {
  const std::string text = step.text("equation");
  std::vector<std::string> terms = einsum_terms(text);
  const std::string output = terms.back();
  terms.pop_back();
  require(terms.size() == static_cast<size_t>(step.input_count()), "equation", "'", text, "' has ",
          terms.size(), " terms for ", step.input_count(), " inputs");
  Equation equation;
  for (size_t k = 0; k < terms.size(); k++) read_term(equation, terms[k], step.shape(static_cast<int>(k)));
  const size_t dots = output.find("...");
  require(dots == std::string::npos || output.find("...", dots + 3) == std::string::npos, "equation", "'",
          text, "': the output has two ellipses");
  equation.output = labels_of(output, equation.ellipsis);
  for (size_t i = 0; i < equation.output.size(); i++) {
    const int label = equation.output[i];
    require(equation.sizes.count(label) != 0, "equation", "'", text, "': an output's axis is in no input");
    require(std::count(equation.output.begin(), equation.output.end(), label) == 1, "equation", "'", text,
            "': an output's axis stands twice");
  }
  for (int k = 1; k <= equation.ellipsis; k++)
    require(holds(equation.output, -k), "equation", "'", text, "': the output has no ellipsis");
  return equation;
}

/// A tensor and the names of its axes, each once.
struct Operand {
  Tensor x;
  Labels labels;
};

Dims places_of(const Operand& a, const Labels& labels) {
  Dims places;
  for (int label : labels)
    places.push_back(std::find(a.labels.begin(), a.labels.end(), label) - a.labels.begin());
  return places;
}

/// Axes of one name become the diagonal; those of size 1 stretch.
Operand diagonal(const Equation& equation, const Tensor& x, const Labels& labels) {
  Operand a{x, {}};
  Shape shape, strides;
  for (int i = 0; i < x.rank(); i++) {
    const int label = labels[static_cast<size_t>(i)];
    const int64_t stride = x.size(i) == 1 ? 0 : x.strides()[i];
    if (holds(a.labels, label)) {
      strides[static_cast<int>(places_of(a, {label})[0])] += stride;
      continue;
    }
    a.labels.push_back(label);
    shape.push_back(equation.sizes.at(label));
    strides.push_back(stride);
  }
  a.x = x.as_strided(shape, strides);
  return a;
}

/// The sum over the axes that are not among `kept`.
Operand summed(const NodeStep& step, const Operand& a, const Labels& kept) {
  Operand y;
  Shape shape = a.x.shape(), rest;
  for (size_t i = 0; i < a.labels.size(); i++) {
    const auto axis = static_cast<int>(i);
    if (holds(kept, a.labels[i])) {
      y.labels.push_back(a.labels[i]);
      rest.push_back(shape[axis]);
    } else {
      shape[axis] = 1;
    }
  }
  if (y.labels.size() == a.labels.size()) return a;
  const Tensor sums = step.scratch(shape, a.x.dtype());
  if (a.x.numel() == 0)
    fill(step.stream, 0, sums, step.options);
  else
    reduction(step.stream, "sum", a.x, {}, {sums}, step.options);
  y.x = sums.reshape(rest);
  return y;
}

Labels joined_labels(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}
int64_t product_of(const Equation& equation, const Labels& labels) {
  int64_t product = 1;
  for (int label : labels) product *= equation.sizes.at(label);
  return product;
}

/// [batch, rows, columns] of an operand, each of several axes; a view where it lies so, or transposed.
Tensor folded(const NodeStep& step, const Equation& equation, const Operand& a, const Labels& batch,
              const Labels& rows, const Labels& columns) {
  const int64_t n = product_of(equation, batch), r = product_of(equation, rows),
                c = product_of(equation, columns);
  const Tensor transposed = a.x.permute(places_of(a, joined_labels(batch, columns, rows)));
  if (transposed.is_contiguous()) return transposed.reshape({n, c, r}).transpose(1, 2);
  return step.dense(a.x.permute(places_of(a, joined_labels(batch, rows, columns)))).reshape({n, r, c});
}

/// y[n, r, c] = sum over k of a[n, r, k] b[n, k, c].
void multiply(const NodeStep& step, const Tensor& a, const Tensor& b, bool matrices, const Tensor& y) {
  if (y.numel() == 0) return;
  const int64_t n = y.size(0), r = y.size(1), c = y.size(2), k = a.size(2);
  if (k == 0) return fill(step.stream, 0, y, step.options);
  if (matrices) return gemm(step.stream, a, b, {}, {}, y, step.options);
  const Strides &s = a.strides(), &t = b.strides();
  reduce(
      step.stream,
      {a.as_strided({n, r, 1, k}, {s[0], s[1], 0, s[2]}), b.as_strided({n, 1, c, k}, {t[0], 0, t[2], t[1]})},
      {y.reshape({n, r, c, 1})}, {}, sum_of("x0 * x1"), step.options);
}

/// The product of two, without the axes that are not among `kept`.
Operand contracted(const NodeStep& step, const Equation& equation, const Operand& first,
                   const Operand& second, const Labels& kept) {
  const Operand a = summed(step, first, joined_labels(kept, second.labels, {})),
                b = summed(step, second, joined_labels(kept, first.labels, {}));
  Labels batch, inner, rows, columns;
  for (int label : a.labels)
    (!holds(b.labels, label) ? rows : holds(kept, label) ? batch : inner).push_back(label);
  for (int label : b.labels)
    if (!holds(a.labels, label)) columns.push_back(label);
  // Whole numbers, and products of which each stands for itself, are no work for matrix products.
  const bool matrices = is_floating(a.x.dtype()) && !inner.empty() && (!rows.empty() || !columns.empty());
  Operand y{{}, joined_labels(batch, rows, columns)};
  Shape shape;
  for (int label : y.labels) shape.push_back(equation.sizes.at(label));
  const Tensor product = step.scratch(
      {product_of(equation, batch), product_of(equation, rows), product_of(equation, columns)}, a.x.dtype());
  multiply(step, folded(step, equation, a, batch, rows, inner),
           folded(step, equation, b, batch, inner, columns), matrices, product);
  y.x = product.reshape(shape);
  return y;
}

/// Inputs: any number. equation: as NumPy's einsum: letters, "..." (which must be in the output, too), and
/// "->" or not. Whole numbers are computed in 64 bits; f16 and bf16 of other than two inputs in f32.
void infer_einsum(NodeStep& step) {
  const Equation equation = equation_of(step);
  for (int k = 0; k < step.input_count(); k++)
    require(step.dtype(k) == step.dtype(0) && step.dtype(k) != DType::boolean, "inputs", "input ", k, " is ",
            name_of(step.dtype(k)), ", input 0 ", name_of(step.dtype(0)), ": must be one dtype, of numbers");
  Shape shape;
  for (int label : equation.output) shape.push_back(equation.sizes.at(label));
  step.output(0, step.dtype(0), shape);
}
void run_einsum(NodeStep& step) {
  const Equation equation = equation_of(step);
  const DType dtype = step.dtype(0);
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  const DType computed = !is_floating(dtype)                    ? DType::i64
                         : narrow && equation.terms.size() != 2 ? DType::f32
                                                                : dtype;
  Operand y;
  for (size_t k = 0; k < equation.terms.size(); k++) {
    Tensor x = step.x(static_cast<int>(k));
    if (x.dtype() != computed) x = cast(step.stream, x, computed, step.options);
    Labels kept = equation.output;
    for (size_t later = k + 1; later < equation.terms.size(); later++)
      kept = joined_labels(kept, equation.terms[later], {});
    const Operand a = diagonal(equation, x, equation.terms[k]);
    y = k == 0 ? summed(step, a, kept) : contracted(step, equation, y, a, kept);
  }
  const Tensor result = y.x.permute(places_of(y, equation.output));
  if (computed == dtype) return step.set(0, result);
  if (result.numel() != 0) copy(step.stream, result, step.y(), step.options);
  step.y();
}

/// By elimination, with the largest pivot of each column.
double determinant(double* a, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; k++) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; i++)
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + k * n + n, a + pivot * n);
      product = -product;
    }
    product *= a[k * n + k];
    if (a[k * n + k] == 0) return product;
    for (int64_t i = k + 1; i < n; i++) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (int64_t j = k; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

/// Input: x: [..., n, n], floating. On the host, in double.
void infer_det(NodeStep& step) {
  Shape shape;
  const int rank = step.rank(0);
  require(rank >= 2 && step.shape(0)[rank - 1] == step.shape(0)[rank - 2] && is_floating(step.dtype(0)), "x",
          "is ", name_of(step.dtype(0)), step.shape(0), ", must be floating and end in square matrices");
  for (int i = 0; i + 2 < rank; i++) shape.push_back(step.shape(0)[i]);
  step.output(0, step.dtype(0), shape);
}
void run_det(NodeStep& step) {
  const int64_t n = step.shape(0).back();
  std::vector<double> x = step.numbers(0), y;
  for (int64_t i = 0; i < element_count(step.out(0).shape); i++)
    y.push_back(determinant(x.data() + i * n * n, n));
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape, y));
}

constexpr NodeKind kKinds[] = {
    {"einsum", 1, 1 << 16, infer_einsum, run_einsum},
    {"det", 1, 1, infer_det, run_det},
};

}  // namespace

KindList algebra_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
