// The reductions of the library's list computed again, in double and in other words than the list's.
#pragma once

#include <string>
#include <vector>

#include <dlprim/reduction.hpp>

namespace dlprim::test {

struct ReductionReference {
  const char* name;
  double low, high;  ///< elements to test with
  /// All results of the elements v with parameters p.
  std::vector<double> (*f)(const std::vector<double>& v, const double* p);
};

/// Throws std::runtime_error if a function of the list has none.
const ReductionReference& reduction_reference(const std::string& name);

/// Calls f(flat index into shape `x`, flat index into shape `y`) for every element; y has size 1 on reduced
/// axes.
template <class F>
void for_each_reduced(const Shape& x, const Shape& y, F f) {
  const Strides sy = contiguous_strides(y);
  const int64_t count = element_count(x);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, at = 0;
    for (int d = x.size() - 1; d >= 0; d--) {
      if (y[d] != 1) at += rest % x[d] * sy[d];
      rest /= x[d];
    }
    f(static_cast<size_t>(i), static_cast<size_t>(at));
  }
}

/// docs/reductions.md, made of the list.
std::string reductions_page();

}  // namespace dlprim::test
