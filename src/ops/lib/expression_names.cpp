// Taking expressions apart into words, and putting them together with others.
#include "ops/lib/expression_names.hpp"

#include <algorithm>
#include <cctype>

#include "core/check.hpp"

namespace dlprim::detail {
namespace {

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool in_word(char c) {
  return starts_word(c) || std::isdigit(static_cast<unsigned char>(c));
}

/// The words, numbers and other characters of an expression.
std::vector<std::string> tokens(const std::string& text) {
  std::vector<std::string> result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (in_word(text[i]))
      while (end < text.size() && (in_word(text[end]) || (text[end] == '.' && !starts_word(text[i])))) end++;
    result.push_back(text.substr(i, end - i));
    i = end;
  }
  return result;
}

}  // namespace

std::string ExpressionNames::in_kernel(const std::string& expression) const {
  std::string text;
  for (const std::string& token : tokens(expression)) {
    const auto name =
        std::find_if(names_.begin(), names_.end(), [&](const auto& n) { return n.first == token; });
    const bool constant = token.find('.') != std::string::npos;
    text += name != names_.end() ? name->second : constant ? "(real)" + token : token;
  }
  return text;
}

std::vector<Scalar> parameters_of(const std::string& name,
                                  const std::vector<ElementwiseFunction::Parameter>& parameters,
                                  const std::vector<Scalar>& given) {
  require(given.empty() || given.size() == parameters.size(), "parameters", name, " takes ",
          parameters.size(), " or none, not ", given.size());
  std::vector<Scalar> values = given;
  if (given.empty())
    for (const ElementwiseFunction::Parameter& p : parameters) values.push_back(p.standard);
  return values;
}

bool uses(const std::string& expression, const std::string& word) {
  const std::vector<std::string> all = tokens(expression);
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace dlprim::detail
