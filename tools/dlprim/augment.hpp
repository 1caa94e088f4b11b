// Training images as they might have been: mirrored, moved.
#pragma once

#include <cstdint>
#include <vector>

#include "labelled_images.hpp"

namespace dlprim::cli {

struct Augmentation {
  bool flip = false;  ///< half of the images, left to right
  int64_t shift = 0;  ///< each by up to so many pixels along both axes
  uint64_t seed = 1;
  std::vector<float> black;  ///< what comes in, for each colour

  bool any() const { return flip || shift > 0; }
};

/// Changes `x`, [colours, height, width], in a way that depends on the seed, the epoch and the image alone.
void augment(const Augmentation& by, const ImageForm& form, uint64_t epoch, uint64_t image, float* x);

}  // namespace dlprim::cli
