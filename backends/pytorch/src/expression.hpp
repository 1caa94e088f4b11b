// Expressions over an iterator's operands, as rows of a list, and their way into dlprim's generator.
#pragma once

#include <string>

#include <ATen/TensorIterator.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>

namespace ocl {

/// What an elementwise operator computes. Inputs are x, or a and b, or x, a and b; scalars p, q, r, t.
struct Row {
  const char* name = nullptr;          ///< of a function in dlprim's list, whose names for scalars hold
  const char* text = nullptr;          ///< or an expression
  const char* integer_text = nullptr;  ///< where the common dtype is an integer, if that differs
  const char* bool_text = nullptr;     ///< where it is bool, if that differs
  const char* before = nullptr;        ///< statements in front of these
  bool of_output = false;              ///< computed in the output's dtype: the iterator has no common one

  constexpr Row integers(const char* expression) const {
    Row row = *this;
    row.integer_text = expression;
    return row;
  }
  constexpr Row truths(const char* expression) const {
    Row row = *this;
    row.bool_text = expression;
    return row;
  }
  constexpr Row in_output_dtype() const {
    Row row = *this;
    row.of_output = true;
    return row;
  }
};

constexpr Row listed(const char* name) {
  return {.name = name};
}
constexpr Row expression(const char* text) {
  return {.text = text};
}
/// Statements that leave the result in `value`.
constexpr Row statements(const char* text) {
  return {.text = "value", .before = text};
}

/// The row's statements for dlprim's generator, in the common dtype. Inputs and scalars are what they are
/// read from.
std::string body_of(const Row& row, at::ScalarType common, c10::ArrayRef<std::string> inputs,
                    c10::ArrayRef<std::string> scalars);

/// Computes the row's expression into the iterator's output, in the current stream of its device. Scalars are
/// converted to the common dtype.
void run_pointwise(const Row& row, at::TensorIteratorBase& iter, c10::ArrayRef<at::Scalar> scalars);

}  // namespace ocl
