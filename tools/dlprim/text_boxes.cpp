#include "text_boxes.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace dlprim::cli {
namespace {

/// A region's pixels: of each row the first and the last, which are all that its hull needs.
struct Region {
  std::map<int64_t, std::pair<int64_t, int64_t>> rows;
  double sum = 0;
  int64_t pixels = 0;

  std::vector<Point> corners() const {
    std::vector<Point> points;
    for (const auto& [row, ends] : rows)
      for (int64_t y : {row, row + 1})
        for (int64_t x : {ends.first, ends.second + 1})
          points.push_back({static_cast<double>(x), static_cast<double>(y)});
    return points;
  }
};

/// The pixels that may be text and are in no region yet.
class Pending {
 public:
  Pending(const ProbabilityMap& map, double threshold) : map_(map), open_(map.values.size()) {
    for (size_t i = 0; i < open_.size(); i++) open_[i] = map.values[i] > threshold;
  }
  bool at(size_t i) const { return open_[i]; }

  /// Takes away the region that pixel i is in.
  Region take(size_t i) {
    std::vector<int64_t> stack{static_cast<int64_t>(i)};
    open_[i] = false;
    Region region;
    while (!stack.empty()) {
      const int64_t y = stack.back() / map_.width, x = stack.back() % map_.width;
      region.sum += static_cast<double>(map_.values[static_cast<size_t>(stack.back())]);
      region.pixels++;
      stack.pop_back();
      auto& [first, last] = region.rows.emplace(y, std::pair(x, x)).first->second;
      first = std::min(first, x), last = std::max(last, x);
      for (int64_t ny = std::max<int64_t>(0, y - 1); ny <= std::min(map_.height - 1, y + 1); ny++)
        for (int64_t nx = std::max<int64_t>(0, x - 1); nx <= std::min(map_.width - 1, x + 1); nx++) {
          const int64_t next = ny * map_.width + nx;
          if (!open_[static_cast<size_t>(next)]) continue;
          open_[static_cast<size_t>(next)] = false;
          stack.push_back(next);
        }
    }
    return region;
  }

 private:
  const ProbabilityMap& map_;
  std::vector<bool> open_;
};

}  // namespace

std::vector<TextBox> find_text(const ProbabilityMap& map, const BoxRules& rules) {
  std::vector<TextBox> boxes;
  Pending pending(map, rules.threshold);
  for (size_t i = 0; i < map.values.size(); i++) {
    if (!pending.at(i)) continue;
    const Region region = pending.take(i);
    const double score = region.sum / static_cast<double>(region.pixels);
    const Quad box = smallest_rectangle(region.corners());
    const double width = distance(box[0], box[1]), height = distance(box[0], box[3]);
    if (score < rules.least_score || std::min(width, height) < rules.least_side) continue;
    boxes.push_back({enlarged(box, rules.growth * width * height / (2 * (width + height))), score});
  }
  return boxes;
}

std::vector<size_t> reading_order(const std::vector<Quad>& boxes) {
  const auto middle = [&](size_t i) { return (boxes[i][0].y + boxes[i][2].y) / 2; };
  const auto left = [&](size_t i) { return (boxes[i][0].x + boxes[i][3].x) / 2; };
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return middle(a) < middle(b); });
  for (auto row = order.begin(); row != order.end();) {
    const double reach = distance(boxes[*row][0], boxes[*row][3]) / 2, first = middle(*row);
    const auto end =
        std::find_if(row, order.end(), [&](size_t i) { return i != *row && middle(i) - first >= reach; });
    std::stable_sort(row, end, [&](size_t a, size_t b) { return left(a) < left(b); });
    row = end;
  }
  return order;
}

}  // namespace dlprim::cli
