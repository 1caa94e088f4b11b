// The picture of a training run: loss per step on the left, accuracy per epoch on the right, as one SVG file
// that needs nothing else.
#pragma once

#include <string>
#include <vector>

namespace dlprim::cli {

struct Curves {
  std::string title, subtitle;
  std::vector<double> step_losses;  ///< one for each training step
  // One for each epoch; the accuracies are in [0, 1].
  std::vector<double> test_losses, train_accuracies, test_accuracies;
};

std::string curves_svg(const Curves& curves);

}  // namespace dlprim::cli
