// Expressions of lists (elementwise_list.cpp, reduction_list.cpp): C over names of their own, which become
// the names that tensors and parameters have in a kernel.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <dlprim/elementwise.hpp>

namespace dlprim::detail {

class ExpressionNames {
 public:
  /// `word` of the list's is `in_kernel` in the kernel.
  void add(std::string word, std::string in_kernel) {
    names_.emplace_back(std::move(word), std::move(in_kernel));
  }
  /// The expression in a kernel's words; constants with a point have the type that it computes in.
  std::string in_kernel(const std::string& expression) const;

 private:
  std::vector<std::pair<std::string, std::string>> names_;
};

/// The given parameters of the function called `name`, or if there are none the standard ones.
std::vector<Scalar> parameters_of(const std::string& name,
                                  const std::vector<ElementwiseFunction::Parameter>& parameters,
                                  const std::vector<Scalar>& given);

/// Whether `word` is one of the expression's words.
bool uses(const std::string& expression, const std::string& word);

}  // namespace dlprim::detail
