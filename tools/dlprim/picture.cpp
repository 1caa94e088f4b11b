#include "picture.hpp"

#include <memory>

#include <png.h>
#include <turbojpeg.h>

#include <dlprim/error.hpp>

#include "file_bytes.hpp"
#include "output_folder.hpp"

namespace dlprim::cli {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 28;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw ValidationError("input", "'" + name + "' is no picture that dlprim reads: " + why);
}

Picture empty_picture(const std::string& name, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMostPixels / height)
    refuse(name, "it has " + std::to_string(width) + " x " + std::to_string(height) + " pixels");
  Picture picture{width, height, {}};
  picture.rgb.resize(static_cast<size_t>(width * height * 3));
  return picture;
}

Picture parse_png(const std::string& name, std::string_view bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  struct Release {
    png_image& image;
    ~Release() { png_image_free(&image); }
  } release{image};
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) refuse(name, image.message);
  Picture picture = empty_picture(name, image.width, image.height);
  image.format = PNG_FORMAT_RGB;
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&image, &white, picture.rgb.data(), 0, nullptr)) refuse(name, image.message);
  return picture;
}

Picture parse_jpeg(const std::string& name, std::string_view bytes) {
  const std::unique_ptr<void, int (*)(void*)> reader(tjInitDecompress(), tjDestroy);
  if (!reader) refuse(name, "the JPEG library does not start");
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(reader.get(), data, bytes.size(), &width, &height, &sampling, &colours) != 0)
    refuse(name, tjGetErrorStr2(reader.get()));
  Picture picture = empty_picture(name, width, height);
  if (tjDecompress2(reader.get(), data, bytes.size(), picture.rgb.data(), width, 0, height, TJPF_RGB,
                    TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
    refuse(name, tjGetErrorStr2(reader.get()));
  return picture;
}

}  // namespace

Picture parse_picture(const std::string& name, std::string_view bytes) {
  const bool is_png = bytes.substr(0, 4) == "\x89PNG";
  if (!is_png && bytes.substr(0, 2) != "\xff\xd8") refuse(name, "it is neither PNG nor JPEG");
  return upright(is_png ? parse_png(name, bytes) : parse_jpeg(name, bytes), exif_orientation(bytes));
}

Picture read_picture(const std::string& path) {
  return parse_picture(path, file_bytes(path));
}

void write_png(const std::string& path, const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  // libpng's own writer removes what it cannot write, even a device.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.rgb.data(), 0, nullptr))
    throw Error("cannot write '" + path + "': " + image.message);
  bytes.resize(size);
  write_file(path, bytes);
}

}  // namespace dlprim::cli
