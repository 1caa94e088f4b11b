// Where text stands: from a detector's map of probabilities to boxes. The detectors are those of
// "Real-time Scene Text Detection with Differentiable Binarization" (Liao and others, 2019), whose map is
// high along the middle of each line: boxes are what is high, enlarged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quad.hpp"

namespace dlprim::cli {

/// Row-major, from the upper left.
struct ProbabilityMap {
  int64_t width = 0, height = 0;
  std::vector<float> values;
};

struct BoxRules {
  double threshold = 0.3;    ///< a pixel above it may be text
  double least_score = 0.5;  ///< of a region's mean; its box would hold much around a bent line
  double least_side = 3;     ///< of a region's rectangle, in pixels
  double growth = 1.6;       ///< sides move outward by growth * area / perimeter
};

struct TextBox {
  Quad corners;      ///< in the map's pixels; may reach over the map's edge
  double score = 0;  ///< the mean of the map where the region is
};

/// A box for each connected region (over corners too), in the order of their first pixels. NaN is no text.
std::vector<TextBox> find_text(const ProbabilityMap& map, const BoxRules& rules = {});

/// The order in which the boxes are read, as places in `boxes`: rows from top to bottom, each from left to
/// right. A box stands in a row if its middle is within half the height of the row's first one.
std::vector<size_t> reading_order(const std::vector<Quad>& boxes);

}  // namespace dlprim::cli
