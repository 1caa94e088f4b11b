// The word that somebody may have meant.
#pragma once

#include <string>
#include <vector>

namespace dlprim::cli {

/// "; did you mean 'resnet18'?" for the candidate that the fewest insertions, removals, exchanges and swaps
/// of neighbours lead to; "" if none takes at most a third of the word's letters.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace dlprim::cli
