// Looks at an expression before it is compiled, and reads a compiler's complaint about it: whoever wrote it
// is told of the expression and the place in it, not of a line of a file that nobody has seen.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "core/program_cache.hpp"

namespace dlprim::detail {

/// How many of each there are: x0, x1, ... `of`: what they are, for messages.
struct ExpressionNames {
  char letter;
  size_t first, count;  ///< those from `first` on, `count` of them
  const char* of;
};

/// Names such as x3 must be there, unless the expression declares them, and parentheses must match. With
/// `assigns`, each y must be assigned or have its address taken. Throws ValidationError of `argument` with
/// the place.
void check_expression(const char* argument, const std::string& text,
                      std::initializer_list<ExpressionNames> names, bool assigns);

/// An expression in a generated source, where it has a line of its own.
struct ExpressionText {
  const char* argument;
  std::string text;
};
/// ProgramCache::generated(). A BuildError whose log points into one of the expressions becomes a
/// ValidationError of its argument.
Kernel compiled_expression(ProgramCache& programs, const std::string& name, const std::string& form,
                           const std::function<std::string()>& make_source, const std::string& kernel,
                           const std::vector<ExpressionText>& expressions);

/// What compiled_expression() does with a log; nothing if it does not point into an expression.
void throw_expression_error(const std::string& log, const std::string& source,
                            const std::vector<ExpressionText>& expressions);

}  // namespace dlprim::detail
