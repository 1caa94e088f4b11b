// From a recogniser's probabilities to text, for networks that were trained with the CTC loss: class 0 says
// "nothing here", and a class that several steps repeat stands once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlprim::cli {

/// The text of each class: nothing for class 0, the lines of `characters`, and a space.
std::vector<std::string> ctc_alphabet(const std::string& characters);

struct ReadText {
  std::string text;
  double score = 0;  ///< the mean probability of its characters; 0 if there is none
};
/// `probabilities`: `steps` rows of alphabet.size() each. Takes the most probable class of each step, of
/// equal ones the first.
ReadText ctc_read(const float* probabilities, int64_t steps, const std::vector<std::string>& alphabet);

}  // namespace dlprim::cli
