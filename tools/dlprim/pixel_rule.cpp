#include "pixel_rule.hpp"

#include <dlprim/error.hpp>

#include "format.hpp"

namespace dlprim::cli {
namespace {

constexpr const char* kNames[] = {"imagenet", "unit", "centred", "bytes"};
constexpr const char* kTexts[] = {"(v / 255 - mean) / deviation of ImageNet's colours", "v / 255",
                                  "v / 127.5 - 1", "v"};
constexpr double kMean[] = {0.485, 0.456, 0.406}, kDeviation[] = {0.229, 0.224, 0.225};
constexpr double kOfBytes = 1 / 255.0;  ///< the deviation with which v stays v

std::string text_of(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += (text.empty() ? "" : ", ") + format("%g", number);
  return "[" + text + "]";
}

}  // namespace

Pixels parse_pixels(const std::string& name) {
  for (size_t i = 0; i < 4; i++)
    if (name == kNames[i]) return static_cast<Pixels>(i);
  throw ValidationError("pixels", "'" + name + "' must be imagenet, unit, centred or bytes");
}

PixelRule::PixelRule(Pixels pixels, int64_t colours) {
  for (size_t c = 0; c < static_cast<size_t>(colours); c++) {
    mean_.push_back(pixels == Pixels::imagenet ? kMean[c] : pixels == Pixels::centred ? 0.5 : 0);
    deviation_.push_back(pixels == Pixels::imagenet  ? kDeviation[c]
                         : pixels == Pixels::centred ? 0.5
                         : pixels == Pixels::bytes   ? kOfBytes
                                                     : 1);
  }
}

double PixelRule::operator()(unsigned char v, size_t colour) const {
  const double mean = mean_[colour], deviation = deviation_[colour];
  if (mean == 0 && deviation == kOfBytes) return v;  // exactly
  return (v / 255.0 - mean) / deviation;
}

std::string PixelRule::text() const {
  for (size_t i = 0; i < 4; i++) {
    const PixelRule named(static_cast<Pixels>(i), static_cast<int64_t>(mean_.size()));
    if (named.mean_ == mean_ && named.deviation_ == deviation_) return kTexts[i];
  }
  return "(v / 255 - " + text_of(mean_) + ") / " + text_of(deviation_);
}

}  // namespace dlprim::cli
