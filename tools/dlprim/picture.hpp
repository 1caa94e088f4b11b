// Pictures from files, and as what networks take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlprim::cli {

/// Rows of RGB bytes, from the upper left.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<unsigned char> rgb;
};

/// The brightness of an RGB pixel (BT.601).
inline unsigned char grey_of(const unsigned char* rgb) {
  return static_cast<unsigned char>((rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114 + 500) / 1000);
}

/// PNG (transparent parts on white) or JPEG. Throws ValidationError that names the file: neither, damaged, or
/// larger than 2^28 pixels.
Picture parse_picture(const std::string& name, std::string_view bytes);
Picture read_picture(const std::string& path);

/// Throws Error with the reason if the file cannot be written.
void write_png(const std::string& path, const Picture& picture);

/// Another size, each pixel by linear interpolation; where it becomes smaller by the mean of what it covers.
Picture resized(const Picture& picture, int64_t width, int64_t height);

}  // namespace dlprim::cli
