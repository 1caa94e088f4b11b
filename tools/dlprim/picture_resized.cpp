// Pictures of another size.
#include <algorithm>
#include <cmath>

#include "picture.hpp"

namespace dlprim::cli {
namespace {

/// For each place of an axis of `to` places, how much of each of the `from` places goes into it.
struct Share {
  int64_t first;
  std::vector<double> weights;
};
std::vector<Share> shares(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(1.0, scale);
  std::vector<Share> all;
  for (int64_t i = 0; i < to; i++) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(centre - reach - 0.5)));
    const int64_t last = std::min<int64_t>(from - 1, static_cast<int64_t>(std::floor(centre + reach - 0.5)));
    Share share{first, {}};
    double sum = 0;
    for (int64_t k = first; k <= last; k++) {
      share.weights.push_back(std::max(0.0, 1 - std::fabs(static_cast<double>(k) + 0.5 - centre) / reach));
      sum += share.weights.back();
    }
    for (double& weight : share.weights) weight /= sum;
    all.push_back(std::move(share));
  }
  return all;
}

}  // namespace

Picture resized(const Picture& picture, int64_t width, int64_t height) {
  if (picture.width == width && picture.height == height) return picture;
  const std::vector<Share> columns = shares(picture.width, width), rows = shares(picture.height, height);
  // Rows first become as long as they must, then as many.
  std::vector<double> wide(static_cast<size_t>(picture.height * width * 3));
  for (int64_t y = 0; y < picture.height; y++)
    for (int64_t x = 0; x < width; x++)
      for (int64_t c = 0; c < 3; c++) {
        const Share& share = columns[static_cast<size_t>(x)];
        double sum = 0;
        for (size_t k = 0; k < share.weights.size(); k++)
          sum += share.weights[k] * picture.rgb[static_cast<size_t>(
                                        (y * picture.width + share.first + static_cast<int64_t>(k)) * 3 + c)];
        wide[static_cast<size_t>((y * width + x) * 3 + c)] = sum;
      }
  Picture result{width, height, {}};
  result.rgb.resize(static_cast<size_t>(width * height * 3));
  for (int64_t y = 0; y < height; y++)
    for (int64_t i = 0; i < width * 3; i++) {
      const Share& share = rows[static_cast<size_t>(y)];
      double sum = 0;
      for (size_t k = 0; k < share.weights.size(); k++)
        sum += share.weights[k] *
               wide[static_cast<size_t>((share.first + static_cast<int64_t>(k)) * width * 3 + i)];
      result.rgb[static_cast<size_t>(y * width * 3 + i)] =
          static_cast<unsigned char>(std::clamp(sum + 0.5, 0.0, 255.0));
    }
  return result;
}

}  // namespace dlprim::cli
