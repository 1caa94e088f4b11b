// Pictures as files, for tests of the command line.
#pragma once

#include <array>
#include <functional>
#include <string>

namespace dlprim::test {

using Colour = std::array<unsigned char, 3>;

/// A PNG file with the colour that `at(x, y)` says for each pixel. `orientation` 1 to 8: with an eXIf chunk.
std::string png_picture(int width, int height, const std::function<Colour(int x, int y)>& at,
                        int orientation = 0);
/// A JPEG file of the best quality, whose EXIF is big-endian; `progressive`: in several scans.
std::string jpeg_picture(int width, int height, const std::function<Colour(int x, int y)>& at,
                         int orientation = 0, bool progressive = false);

}  // namespace dlprim::test
