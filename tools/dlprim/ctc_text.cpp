#include "ctc_text.hpp"

#include <algorithm>
#include <sstream>

namespace dlprim::cli {

std::vector<std::string> ctc_alphabet(const std::string& characters) {
  std::vector<std::string> alphabet{""};
  std::istringstream lines(characters);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    alphabet.push_back(line);
  }
  alphabet.emplace_back(" ");
  return alphabet;
}

ReadText ctc_read(const float* probabilities, int64_t steps, const std::vector<std::string>& alphabet) {
  ReadText read;
  const auto classes = static_cast<std::ptrdiff_t>(alphabet.size());
  std::ptrdiff_t before = 0;
  int64_t characters = 0;
  for (int64_t step = 0; step < steps; step++) {
    const float* row = probabilities + step * classes;
    const std::ptrdiff_t best = std::max_element(row, row + classes) - row;
    if (best != 0 && best != before) {
      read.text += alphabet[static_cast<size_t>(best)];
      read.score += static_cast<double>(row[best]);
      characters++;
    }
    before = best;
  }
  if (characters != 0) read.score /= static_cast<double>(characters);
  return read;
}

}  // namespace dlprim::cli
