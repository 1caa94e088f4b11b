// The elementwise functions computed again, in double and in other words than the library's list.
#pragma once

#include <dlprim/elementwise.hpp>

namespace dlprim::test {

struct ElementwiseReference {
  const char* name;
  double low, high;  ///< inputs to test with: where the function is smooth enough for differences
  double (*f)(const double* x, const double* p);
};

/// Throws std::runtime_error if a function of the list has none.
const ElementwiseReference& elementwise_reference(const std::string& name);
/// docs/elementwise.md, made of the list.
std::string elementwise_page();

}  // namespace dlprim::test
