// How a picture is to be turned: the EXIF orientation (CIPA DC-008, tag 0x0112) of JPEG's APP1 and PNG's
// eXIf. It reads nothing else of EXIF, and what it cannot read counts as upright.
#include <cstdint>

#include "picture.hpp"

namespace dlprim::cli {
namespace {

/// An integer of `size` bytes at `at`; 0 beyond the end.
uint32_t number_at(std::string_view bytes, size_t at, size_t size, bool big_endian) {
  if (at > bytes.size() || bytes.size() - at < size) return 0;
  uint32_t value = 0;
  for (size_t i = 0; i < size; i++)
    value = value << 8 | static_cast<unsigned char>(bytes[at + (big_endian ? i : size - 1 - i)]);
  return value;
}

/// Of a TIFF structure: the entry 0x0112 of its first directory.
int orientation_of_tiff(std::string_view tiff) {
  const bool big_endian = tiff.substr(0, 4) == std::string_view("MM\0*", 4);
  if (!big_endian && tiff.substr(0, 4) != std::string_view("II*\0", 4)) return 1;
  const auto number = [&](size_t at, size_t size) { return number_at(tiff, at, size, big_endian); };
  const size_t directory = number(4, 4);
  const size_t entries = number(directory, 2);
  for (size_t i = 0; i < entries; i++) {
    const size_t entry = directory + 2 + 12 * i;
    if (number(entry, 2) != 0x0112) continue;
    const uint32_t value = number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

int orientation_of_jpeg(std::string_view bytes) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (size_t at = 2; at + 4 <= bytes.size();) {
    if (static_cast<unsigned char>(bytes[at]) != 0xff) return 1;
    const uint32_t marker = number_at(bytes, at + 1, 1, true);
    if (marker == 0xff) {  // filling
      at++;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) return 1;  // what follows is the image
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      at += 2;
      continue;
    }
    const size_t length = number_at(bytes, at + 2, 2, true);
    if (length < 2 || length > bytes.size() - at - 2) return 1;
    const std::string_view body = bytes.substr(at + 4, length - 2);
    if (marker == 0xe1 && body.substr(0, kExif.size()) == kExif)
      return orientation_of_tiff(body.substr(kExif.size()));
    at += 2 + length;
  }
  return 1;
}

int orientation_of_png(std::string_view bytes) {
  for (size_t at = 8; at + 12 <= bytes.size();) {
    const size_t length = number_at(bytes, at, 4, true);
    if (length > bytes.size() - at - 12) return 1;
    if (bytes.substr(at + 4, 4) == "eXIf") return orientation_of_tiff(bytes.substr(at + 8, length));
    at += 12 + length;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::string_view bytes) {
  return bytes.substr(0, 4) == "\x89PNG" ? orientation_of_png(bytes) : orientation_of_jpeg(bytes);
}

Picture upright(Picture stored, int orientation) {
  if (orientation <= 1) return stored;
  // 2, 4, 5, 7 are mirrored; 5 to 8 have rows for columns.
  const bool swapped = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Picture seen{swapped ? stored.height : stored.width, swapped ? stored.width : stored.height, {}};
  seen.rgb.resize(stored.rgb.size());
  size_t to = 0;
  for (int64_t y = 0; y < seen.height; y++)
    for (int64_t x = 0; x < seen.width; x++) {
      const int64_t row = swapped ? x : y, column = swapped ? y : x;
      const int64_t stored_row = from_below ? stored.height - 1 - row : row;
      const int64_t stored_column = from_right ? stored.width - 1 - column : column;
      const unsigned char* from =
          &stored.rgb[static_cast<size_t>((stored_row * stored.width + stored_column) * 3)];
      for (int c = 0; c < 3; c++) seen.rgb[to++] = from[c];
    }
  return seen;
}

}  // namespace dlprim::cli
