// Rectangles that may lie askew, as text does on a photograph.
#pragma once

#include <array>
#include <vector>

namespace dlprim::cli {

/// In pixels from the picture's upper left corner; y points down. The first pixel covers 0 to 1.
struct Point {
  double x = 0, y = 0;
};
double distance(Point a, Point b);

/// The corners of a parallelogram, clockwise: from the one where text in it begins, above.
using Quad = std::array<Point, 4>;

/// The corners of the smallest convex shape around the points, clockwise as seen; none lies between others.
std::vector<Point> convex_hull(std::vector<Point> points);
/// The rectangle of the smallest area around the points. Its upper side is the one that is most nearly
/// horizontal. There must be a point.
Quad smallest_rectangle(const std::vector<Point>& points);
/// The rectangle with each side moved outward.
Quad enlarged(const Quad& rectangle, double by);

}  // namespace dlprim::cli
