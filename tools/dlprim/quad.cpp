// A smallest rectangle has a side on an edge of the convex hull (Freeman and Shapira, 1975): all edges are
// tried.
#include "quad.hpp"

#include <algorithm>
#include <cmath>

namespace dlprim::cli {
namespace {

double cross(Point origin, Point a, Point b) {
  return (a.x - origin.x) * (b.y - origin.y) - (a.y - origin.y) * (b.x - origin.x);
}

/// Adds a point at the end of a chain that turns clockwise, as seen, and takes away what then lies inside.
void extend(std::vector<Point>& chain, size_t first, Point p) {
  while (chain.size() >= first + 2 && cross(chain[chain.size() - 2], chain.back(), p) <= 0) chain.pop_back();
  chain.push_back(p);
}

/// The rectangle around the points whose upper side has the direction (x, y) of length 1.
Quad rectangle_along(const std::vector<Point>& points, Point along) {
  const Point down{-along.y, along.x};
  double left = INFINITY, right = -INFINITY, top = INFINITY, bottom = -INFINITY;
  for (Point p : points) {
    const double a = p.x * along.x + p.y * along.y, d = p.x * down.x + p.y * down.y;
    left = std::min(left, a), right = std::max(right, a);
    top = std::min(top, d), bottom = std::max(bottom, d);
  }
  const auto corner = [&](double a, double d) {
    return Point{a * along.x + d * down.x, a * along.y + d * down.y};
  };
  return {corner(left, top), corner(right, top), corner(right, bottom), corner(left, bottom)};
}

double area(const Quad& rectangle) {
  return distance(rectangle[0], rectangle[1]) * distance(rectangle[0], rectangle[3]);
}

}  // namespace

double distance(Point a, Point b) {
  return std::hypot(a.x - b.x, a.y - b.y);
}

std::vector<Point> convex_hull(std::vector<Point> points) {
  const auto before = [](Point a, Point b) { return a.x != b.x ? a.x < b.x : a.y < b.y; };
  const auto same = [](Point a, Point b) { return a.x == b.x && a.y == b.y; };
  std::sort(points.begin(), points.end(), before);
  points.erase(std::unique(points.begin(), points.end(), same), points.end());
  if (points.size() < 3) return points;
  std::vector<Point> hull;  // along the upper side to the right, then back along the lower one
  for (Point p : points) extend(hull, 0, p);
  const size_t upper = hull.size() - 1;
  for (size_t i = points.size() - 1; i-- > 0;) extend(hull, upper, points[i]);
  hull.pop_back();  // the first point once more
  return hull;
}

Quad smallest_rectangle(const std::vector<Point>& points) {
  const std::vector<Point> hull = convex_hull(points);
  Quad best = rectangle_along(hull, {1, 0});
  for (size_t i = 0; i < hull.size(); i++) {
    const Point from = hull[i], to = hull[(i + 1) % hull.size()];
    const double length = distance(from, to);
    if (length == 0) continue;  // the only point
    Point along{(to.x - from.x) / length, (to.y - from.y) / length};
    while (std::fabs(along.y) > along.x) along = {-along.y, along.x};  // by quarters, to within 45 degrees
    const Quad rectangle = rectangle_along(hull, along);
    if (area(rectangle) < area(best)) best = rectangle;
  }
  return best;
}

Quad enlarged(const Quad& rectangle, double by) {
  const double width = distance(rectangle[0], rectangle[1]), height = distance(rectangle[0], rectangle[3]);
  if (width == 0 || height == 0) return rectangle;
  const Point along{(rectangle[1].x - rectangle[0].x) / width * by,
                    (rectangle[1].y - rectangle[0].y) / width * by};
  const Point down{(rectangle[3].x - rectangle[0].x) / height * by,
                   (rectangle[3].y - rectangle[0].y) / height * by};
  Quad result = rectangle;
  for (size_t i = 0; i < 4; i++) {
    const double a = i == 1 || i == 2 ? 1 : -1, d = i >= 2 ? 1 : -1;
    result[i].x += a * along.x + d * down.x;
    result[i].y += a * along.y + d * down.y;
  }
  return result;
}

}  // namespace dlprim::cli
