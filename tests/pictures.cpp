#include "pictures.hpp"

#include <cstdint>
#include <stdexcept>
#include <vector>

#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

namespace dlprim::test {
namespace {

std::vector<unsigned char> rgb_of(int width, int height, const std::function<Colour(int x, int y)>& at) {
  std::vector<unsigned char> rgb;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (const unsigned char c : at(x, y)) rgb.push_back(c);
  return rgb;
}

std::string number(uint32_t value, int bytes, bool big_endian) {
  std::string text;
  for (int i = 0; i < bytes; i++)
    text += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)) & 255);
  return text;
}

/// A TIFF structure of two entries, the second of which is the orientation.
std::string exif(int orientation, bool big) {
  const auto n = [&](uint32_t value, int bytes) { return number(value, bytes, big); };
  const auto entry = [&](uint32_t tag, uint32_t value) {
    return n(tag, 2) + n(3, 2) + n(1, 4) + n(value, 2) + n(0, 2);
  };
  return (big ? "MM" : "II") + n(42, 2) + n(8, 4) + n(2, 2) + entry(0x0100, 77) +
         entry(0x0112, static_cast<uint32_t>(orientation)) + n(0, 4);
}

}  // namespace

std::string png_picture(int width, int height, const std::function<Colour(int x, int y)>& at,
                        int orientation) {
  const std::vector<unsigned char> rgb = rgb_of(width, height, at);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, rgb.data(), 0, nullptr))
    throw std::runtime_error(image.message);
  bytes.resize(size);
  if (orientation == 0) return bytes;
  const std::string body = "eXIf" + exif(orientation, false);
  const auto sum = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  const std::string chunk =
      number(static_cast<uint32_t>(body.size() - 4), 4, true) + body + number(sum, 4, true);
  return bytes.insert(33, chunk);  // behind the header
}

std::string jpeg_picture(int width, int height, const std::function<Colour(int x, int y)>& at,
                         int orientation, bool progressive) {
  const std::vector<unsigned char> rgb = rgb_of(width, height, at);
  const tjhandle writer = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int)
  const int failed = tjCompress2(writer, rgb.data(), width, 0, height, TJPF_RGB, &data, &size, TJSAMP_444,
                                 100, progressive ? TJFLAG_PROGRESSIVE : 0);
  std::string bytes(reinterpret_cast<char*>(data), size);
  tjFree(data);
  tjDestroy(writer);
  if (failed != 0) throw std::runtime_error("no JPEG");
  if (orientation == 0) return bytes;
  const std::string body = std::string("Exif\0\0", 6) + exif(orientation, true);
  return bytes.insert(2, "\xff\xe1" + number(static_cast<uint32_t>(body.size() + 2), 2, true) + body);
}

}  // namespace dlprim::test
