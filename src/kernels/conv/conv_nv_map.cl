// Maps of pixels for bulk tensor copies in im2col mode, as 16 words: the instructions that make maps know other modes only. The
// words were read off what the driver makes of the same parameters.
#ifndef DEPTH
#define DEPTH 0
#endif

// A tensor of pixels: sizes, strides in bytes, and of what is copied the place of the first window from the first pixel, of
// the last window from the last one, and from a window to the next, along each axis.
struct PixelMap {
  int channels, images;
  int size_d, size_h, size_w;
  long stride_n, stride_d, stride_h, stride_w;
  int lower_d, lower_h, lower_w, upper_d, upper_h, upper_w, step_d, step_h, step_w;
};
#define FIELD(value, bits, at) (((ulong)(value) & ((1ul << (bits)) - 1)) << (at))
// Boxes have 128 bytes of channels, `box` elements, of `pixels`. `type` is the element type's number: 6 f16, 7 f32, 10 bf16;
// with 0x200 f32 is rounded to tf32 on the way. Coordinates outside give 0.
static void make_pixel_map(__local ulong* words, ulong address, int type, int box, int pixels, const struct PixelMap* m) {
  words[0] = address;
  words[1] = FIELD(m->stride_w / 16, 32, 32) | (ulong)type << 7 | (ulong)(DEPTH ? 4 : 3) << 4 | 0x6001;
#if DEPTH
  words[2] = FIELD(m->stride_h / 16, 32, 0) | FIELD(m->stride_d / 16, 32, 32);
  words[3] = FIELD(m->stride_n / 16, 32, 0);
  words[5] = FIELD(m->size_h - 1, 32, 0) | FIELD(m->size_d - 1, 32, 32);
  words[6] = FIELD(m->images - 1, 32, 0) | FIELD(m->step_d - 1, 3, 41);
  words[7] = FIELD(m->lower_w, 5, 0) | FIELD(m->lower_h, 5, 5) | FIELD(m->lower_d, 5, 10) | FIELD(m->upper_w, 5, 16) |
             FIELD(m->upper_h, 5, 21) | FIELD(m->upper_d, 5, 26);
#else
  words[2] = FIELD(m->stride_h / 16, 32, 0) | FIELD(m->stride_n / 16, 32, 32);
  words[5] = FIELD(m->size_h - 1, 32, 0) | FIELD(m->images - 1, 32, 32);
  words[7] = FIELD(m->lower_w, 8, 0) | FIELD(m->lower_h, 8, 8) | FIELD(m->upper_w, 8, 16) | FIELD(m->upper_h, 8, 24);
#endif
  words[4] = FIELD(m->channels - 1, 32, 0) | FIELD(m->size_w - 1, 32, 32);
  words[6] |= FIELD(m->step_w - 1, 3, 35) | FIELD(m->step_h - 1, 3, 38) | FIELD(box - 1, 8, 56);
  words[7] |= FIELD(pixels - 1, 16, 32);
  words[8] = pixels * 128;
  words[9] = 1024;
}

// Copies, of the pixels from window (image, d, h, w) on, what lies (od, oh, ow) from there.
static void copy_pixels(uint to, __global const ulong* map, int channel, int image, int d, int h, int w, int od, int oh, int ow,
                        uint bar) {
#if DEPTH
  __asm__ volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], "
      "[%7], {%8, %9, %10};"
      :
      : "r"(to), "l"(map), "r"(channel), "r"(w), "r"(h), "r"(d), "r"(image), "r"(bar), "h"((ushort)ow), "h"((ushort)oh),
        "h"((ushort)od)
      : "memory");
#else
  __asm__ volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], "
      "{%7, %8};"
      :
      : "r"(to), "l"(map), "r"(channel), "r"(w), "r"(h), "r"(image), "r"(bar), "h"((ushort)ow), "h"((ushort)oh)
      : "memory");
#endif
}
