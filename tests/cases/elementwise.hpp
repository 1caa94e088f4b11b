// The elementwise functions computed again, in double and in other words than the library's list.
#pragma once

#include <functional>

#include <dlprim/elementwise.hpp>

namespace dlprim::test {

struct ElementwiseReference {
  const char* name;
  double low, high;  ///< inputs to test with: where the function is smooth enough for differences
  double (*f)(const double* x, const double* p);
};

/// In 64 bits: the derivative of lgamma, and the number whose erf is x.
long double digamma_reference(long double x);
long double erfinv_reference(long double x);
/// Throws std::runtime_error if a function of the list has none.
const ElementwiseReference& elementwise_reference(const std::string& name);
/// A function with operands to time, all of one dtype but a truth. Backward: all gradients that there are.
class ElementwiseCase {
 public:
  /// Makes a tensor to be read or to be written: that of an input, named as in the list, or its gradient; "y"
  /// is the result or dy.
  using Make = std::function<Tensor(const std::string& name, DType dtype, bool written)>;

  ElementwiseCase(const ElementwiseFunction& f, bool backward, DType dtype, const Make& make);
  void run(const Stream& stream) const;
  /// Of all tensors that have to be read or written: a gradient that does not name an input does not read it.
  double bytes() const;

 private:
  const ElementwiseFunction& f_;
  const bool backward_;
  std::vector<Tensor> inputs_, gradients_;
  Tensor y_;
};

/// docs/elementwise.md, made of the list.
std::string elementwise_page();

}  // namespace dlprim::test
