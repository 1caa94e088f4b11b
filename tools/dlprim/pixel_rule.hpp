// How bytes of a picture become numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/net_images.hpp>

namespace dlprim::cli {

/// The rules that have names.
enum class Pixels : uint8_t {
  imagenet,  ///< (v / 255 - mean) / deviation, of ImageNet's colours
  unit,      ///< v / 255
  centred,   ///< v / 127.5 - 1
  bytes      ///< v
};
/// "imagenet", "unit", "centred", "bytes". Throws ValidationError.
Pixels parse_pixels(const std::string& name);

/// (v / 255 - mean) / deviation, for each of 1 or 3 colours.
class PixelRule {
 public:
  PixelRule(Pixels pixels, int64_t colours);  // NOLINT(google-explicit-constructor)
  explicit PixelRule(const ImageInput& images) : mean_(images.mean), deviation_(images.deviation) {}

  double operator()(unsigned char v, size_t colour) const;
  /// "(v / 255 - mean) / deviation of ImageNet's colours", "v / 255", "(v / 255 - [0.1]) / [0.2]"
  std::string text() const;
  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& deviation() const { return deviation_; }

 private:
  std::vector<double> mean_, deviation_;
};

}  // namespace dlprim::cli
