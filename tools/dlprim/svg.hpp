// What pictures that are written as SVG have in common: texts, and where ticks go.
#pragma once

#include <string>

namespace dlprim::cli {

/// As the content of an element: markup is escaped; what XML cannot hold, control characters and bytes that
/// are no UTF-8, is left out.
std::string escaped(const std::string& text);
/// A text element at a place, with more attributes.
std::string text_at(double x, double y, const char* attributes, const std::string& text);
/// The first `most` characters; where some are left out, the last is an ellipsis.
std::string shortened(const std::string& text, size_t most);

/// A distance between ticks that reads well: 1, 2 or 5 times a power of ten, about `wanted` of them in
/// `range`.
double tick_step(double range, int wanted);
/// The first multiple of `step` from `low` on; 0 without a sign.
double first_tick(double low, double step);

}  // namespace dlprim::cli
