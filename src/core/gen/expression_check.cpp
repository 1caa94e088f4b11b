#include "core/gen/expression_check.hpp"

#include <algorithm>
#include <cctype>
#include <regex>
#include <vector>

#include "core/check.hpp"
#include "core/gen/expression.hpp"

namespace dlprim::detail {
namespace {

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

struct Word {
  size_t begin;
  std::string text;
};

/// Names and numbers, without members ("v.x0") and suffixes of numbers.
std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> words;
  for (size_t i = 0; i < text.size();) {
    if (!is_letter(text[i])) {
      i++;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_letter(text[end])) end++;
    const bool member = i > 0 && (text[i - 1] == '.' || (i > 1 && text[i - 1] == '>' && text[i - 2] == '-'));
    if (!member && std::isdigit(static_cast<unsigned char>(text[i])) == 0)
      words.push_back({i, text.substr(i, end - i)});
    i = end;
  }
  return words;
}

/// The number of a word such as x3; -1 if it is none of that letter.
int number_of(const std::string& word, char letter) {
  const bool fits = word.size() > 1 && word.size() < 6 && word[0] == letter &&
                    word.find_first_not_of("0123456789", 1) == std::string::npos &&
                    (word[1] != '0' || word.size() == 2);
  return fits ? std::stoi(word.substr(1)) : -1;
}

[[noreturn]] void refuse(const char* argument, const std::string& text, size_t at, const std::string& what) {
  throw ValidationError(argument, cat("'", text, "': at ", at + 1, ": ", what));
}

void check_parentheses(const char* argument, const std::string& text) {
  constexpr const char *kOpen = "([{", *kClose = ")]}";
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size(); i++) {
    if (std::string(kOpen).find(text[i]) != std::string::npos) open.push_back(i);
    const size_t kind = std::string(kClose).find(text[i]);
    if (kind == std::string::npos) continue;
    if (open.empty() || text[open.back()] != kOpen[kind])
      refuse(argument, text, i, cat("'", text[i], "' closes nothing"));
    open.pop_back();
  }
  if (!open.empty()) refuse(argument, text, open.back(), cat("'", text[open.back()], "' is not closed"));
}

std::string list_of(const ExpressionNames& names) {
  if (names.count == 0) return cat("there is no ", names.of);
  const std::string first = cat(names.letter, names.first);
  return names.count == 1
             ? cat("the only ", names.of, " is ", first)
             : cat("the ", names.of, "s are ", first, " to ", names.letter, names.first + names.count - 1);
}

/// "y0 = ...", "&y0": not "y0 == ...", and not "y0 += ...", which reads what nobody has written.
bool is_assigned(const std::string& text, const Word& word) {
  size_t before = word.begin;
  while (before > 0 && text[before - 1] == ' ') before--;
  if (before > 0 && text[before - 1] == '&' && (before == 1 || text[before - 2] != '&')) return true;
  size_t after = word.begin + word.text.size();
  while (after < text.size() && std::isspace(static_cast<unsigned char>(text[after])) != 0) after++;
  return after < text.size() && text[after] == '=' && (after + 1 == text.size() || text[after + 1] != '=');
}

/// The names behind a type that ends at `at`: "real a = f(b, c), d;" declares a and d; "(float)x" nothing.
void add_declared(const std::string& text, size_t at, std::vector<std::string>& names) {
  bool name_follows = true;
  for (int depth = 0; at < text.size() && depth >= 0 && !(depth == 0 && text[at] == ';');) {
    const char c = text[at];
    if (name_follows && is_letter(c)) {
      size_t end = at;
      while (end < text.size() && is_letter(text[end])) end++;
      names.push_back(text.substr(at, end - at));
      name_follows = false;
      at = end;
      continue;
    }
    depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if (c == ',' && depth == 0)
      name_follows = true;
    else if (std::isspace(static_cast<unsigned char>(c)) == 0 && c != '*')
      name_follows = false;
    at++;
  }
}

}  // namespace

void check_expression(const char* argument, const std::string& text,
                      std::initializer_list<ExpressionNames> names, bool assigns) {
  statement(argument, text);  // empty, or with what no expression may hold
  check_parentheses(argument, text);
  static const std::vector<std::string> types = {"real",   "float", "double", "half", "bool",
                                                 "char",   "short", "int",    "long", "uchar",
                                                 "ushort", "uint",  "ulong",  "REAL"};
  const std::vector<Word> words = words_of(text);
  std::vector<std::string> declared;
  for (const Word& word : words)
    if (std::find(types.begin(), types.end(), word.text) != types.end())
      add_declared(text, word.begin + word.text.size(), declared);
  for (const ExpressionNames& known : names) {
    std::vector<bool> assigned(known.count);
    for (const Word& word : words) {
      const int number = number_of(word.text, known.letter);
      if (number < 0 || std::find(declared.begin(), declared.end(), word.text) != declared.end()) continue;
      const auto place = static_cast<size_t>(number);
      if (place < known.first || place >= known.first + known.count)
        refuse(argument, text, word.begin, cat("there is no ", word.text, "; ", list_of(known)));
      if (is_assigned(text, word)) assigned[place - known.first] = true;
    }
    for (size_t k = 0; assigns && known.letter == 'y' && k < known.count; k++)
      require(assigned[k], argument, "'", text, "': output y", k, " is not assigned");
  }
}

void throw_expression_error(const std::string& log, const std::string& source,
                            const std::vector<ExpressionText>& expressions) {
  // "file:12:34: error: what", and PoCL's "error: file:12:34: what". Some compilers only warn of a function
  // that does not exist, and their linkers fail without a place.
  static const std::regex place(
      "(error: )?[^\\s:]*:([0-9]{1,7}):([0-9]{1,7}): *(fatal error: |error: )?(warning: (?=implicit "
      "declaration))?([^\n]*)");
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= source.size();) {
    const size_t end = std::min(source.find('\n', begin), source.size());
    lines.push_back(source.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto refuse_if_inside = [&](const std::smatch& found) {
    const auto line = static_cast<size_t>(std::stoul(found[2]));
    const auto column = static_cast<size_t>(std::stoul(found[3]));
    if (line < 1 || line > lines.size() || column < 1) return;
    for (const ExpressionText& expression : expressions) {
      std::string shown = statement(expression.argument, expression.text);
      shown.resize(shown.size() - 2);  // ";\n"
      const size_t begin = lines[line - 1].find(shown);
      if (begin == std::string::npos || column - 1 < begin || column - 1 > begin + shown.size()) continue;
      refuse(expression.argument, expression.text, column - 1 - begin, found[6]);
    }
  };
  for (const bool warnings : {false, true})
    for (std::sregex_iterator at(log.begin(), log.end(), place), end; at != end; ++at)
      if (warnings ? (*at)[5].matched : (*at)[1].matched || (*at)[4].matched) refuse_if_inside(*at);
}

Kernel compiled_expression(ProgramCache& programs, const std::string& name, const std::string& form,
                           const std::function<std::string()>& make_source, const std::string& kernel,
                           const std::vector<ExpressionText>& expressions) {
  try {
    return programs.generated(name, form, make_source, kernel);
  } catch (const BuildError& error) {
    throw_expression_error(error.log(), make_source(), expressions);
    throw;
  }
}

}  // namespace dlprim::detail
