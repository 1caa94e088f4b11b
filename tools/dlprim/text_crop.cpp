#include "text_crop.hpp"

#include <algorithm>
#include <cmath>

#include <dlprim/error.hpp>

namespace dlprim::cli {
namespace {

/// Keys' cubic convolution with a = -0.75, for a distance of up to 2 pixels: letters of few pixels keep their
/// edges.
double cubic(double distance) {
  constexpr double a = -0.75;
  const double d = std::fabs(distance);
  if (d >= 2) return 0;
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/// One pixel of the result: the picture at a point between its pixels.
void sample(const Picture& picture, Point at, unsigned char* rgb) {
  const double x = at.x - 0.5, y = at.y - 0.5;
  const auto x0 = static_cast<int64_t>(std::floor(x)), y0 = static_cast<int64_t>(std::floor(y));
  double sums[3] = {};
  for (int64_t row = y0 - 1; row <= y0 + 2; row++)
    for (int64_t column = x0 - 1; column <= x0 + 2; column++) {
      const double weight = cubic(x - static_cast<double>(column)) * cubic(y - static_cast<double>(row));
      const int64_t place = std::clamp<int64_t>(row, 0, picture.height - 1) * picture.width +
                            std::clamp<int64_t>(column, 0, picture.width - 1);
      for (int64_t c = 0; c < 3; c++) sums[c] += weight * picture.rgb[static_cast<size_t>(place * 3 + c)];
    }
  for (int64_t c = 0; c < 3; c++)
    rgb[c] = static_cast<unsigned char>(std::clamp(std::round(sums[c]), 0.0, 255.0));
}

}  // namespace

Picture cut_out(const Picture& picture, const Quad& corners) {
  const double across = distance(corners[0], corners[1]), down = distance(corners[0], corners[3]);
  const auto& [a, b, c, d] = corners;
  if (down >= 1.5 * across && across >= 0.5) return cut_out(picture, {b, c, d, a});
  const auto width = static_cast<int64_t>(std::round(across)),
             height = static_cast<int64_t>(std::round(down));
  if (width < 1 || height < 1)
    throw ValidationError("corners", "the sides must be half a pixel or longer, but are " +
                                         std::to_string(across) + " and " + std::to_string(down));
  Picture result{width, height, {}};
  result.rgb.resize(static_cast<size_t>(width * height * 3));
  for (int64_t y = 0; y < height; y++)
    for (int64_t x = 0; x < width; x++) {
      const double u = (static_cast<double>(x) + 0.5) / static_cast<double>(width),
                   v = (static_cast<double>(y) + 0.5) / static_cast<double>(height);
      const Point at{a.x + u * (b.x - a.x) + v * (d.x - a.x), a.y + u * (b.y - a.y) + v * (d.y - a.y)};
      sample(picture, at, &result.rgb[static_cast<size_t>((y * width + x) * 3)]);
    }
  return result;
}

Picture turned(const Picture& picture) {
  Picture result = picture;
  const int64_t pixels = picture.width * picture.height;
  for (int64_t i = 0; i < pixels; i++)
    std::copy_n(&picture.rgb[static_cast<size_t>(i * 3)], 3,
                &result.rgb[static_cast<size_t>((pixels - 1 - i) * 3)]);
  return result;
}

void put_planes(const Picture& picture, int64_t width, int64_t height, float* planes) {
  for (int64_t c = 0; c < 3; c++)
    for (int64_t y = 0; y < picture.height; y++)
      for (int64_t x = 0; x < picture.width; x++)
        planes[(c * height + y) * width + x] =
            (static_cast<float>(picture.rgb[static_cast<size_t>((y * picture.width + x) * 3 + 2 - c)]) /
                 255.0F -
             0.5F) /
            0.5F;
}

}  // namespace dlprim::cli
