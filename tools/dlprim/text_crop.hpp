// A line of text, cut out of a picture and brought into the form that networks take.
#pragma once

#include <cstdint>

#include "picture.hpp"
#include "quad.hpp"

namespace dlprim::cli {

/// What the quad covers, upright: as wide and high as its sides. Beyond the picture's edge its outermost
/// pixels go on. A box that is 1.5 times as high as wide, or more, holds text that runs down: it is turned to
/// the left by a quarter. Throws ValidationError if a side is shorter than half a pixel.
Picture cut_out(const Picture& picture, const Quad& corners);
/// Upside down.
Picture turned(const Picture& picture);

/// Writes bytes v of a picture as (v / 255 - 0.5) / 0.5 into planes of B, G and R (the order of these
/// networks), each `height` rows of `width` numbers, at the upper left; the rest stays as it is. The picture
/// must fit.
void put_planes(const Picture& picture, int64_t width, int64_t height, float* planes);

}  // namespace dlprim::cli
