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

/// PNG (transparent parts on white) or JPEG, turned as its EXIF orientation says. Throws ValidationError that
/// names the file: neither, damaged, cut off, or larger than 2^28 pixels.
Picture parse_picture(const std::string& name, std::string_view bytes);
Picture read_picture(const std::string& path);

/// The EXIF orientation of a PNG or JPEG file, 1 to 8; 1 if it has none, or one that cannot be read.
int exif_orientation(std::string_view bytes);
/// The picture as it is to be seen, from one stored with that orientation.
Picture upright(Picture stored, int orientation);

/// Throws Error with the reason if the file cannot be written.
void write_png(const std::string& path, const Picture& picture);

/// Another size, each pixel by linear interpolation; where it becomes smaller by the mean of what it covers.
Picture resized(const Picture& picture, int64_t width, int64_t height);

}  // namespace dlprim::cli
