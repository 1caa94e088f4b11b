// What conv_nv_few.cpp rearranges for convolutions of few channels.

// What moves elements of 2 or 4 bytes: ushort, uint.
#ifndef ELEMENT
#define ELEMENT uint
#endif
// Elements of a pixel in y, and the type of as many bytes.
#ifndef PIXEL
#define PIXEL 4
#endif
#ifndef WORD
#define WORD uint4
#endif
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_nv_few.h"

// Pixels with their C channels side by side and zeros behind: y[image][d][h][w][PIXEL], pixel w of a row being x's w - pad, or
// 0 outside. x has any strides, rows in all: images * D * H.
// Launch: `width` x rows, rounded up to groups of 64 x 4.
__kernel __attribute__((reqd_work_group_size(64, 4, 1))) void conv_nv_pixels(
    int C, DIVISOR(D), DIVISOR(H), int W, int pad, int width, int rows, __global const ELEMENT* restrict x, long x_offset,
    long x_n, long x_c, long x_d, long x_h, long x_w, __global ELEMENT* restrict y, long y_offset) {
  const int w = (int)get_global_id(0), row = (int)get_global_id(1);
  if (w >= width || row >= rows) return;
  const int planes = QUOTIENT(row, H), image = QUOTIENT(planes, D), from = w - pad;
  x += x_offset + image * x_n + (planes - image * D) * x_d + (row - planes * H) * x_h + from * x_w;
  union {
    ELEMENT elements[PIXEL];
    WORD word;
  } pixel;
#pragma unroll
  for (int c = 0; c < PIXEL; c++) pixel.elements[c] = c < C && from >= 0 && from < W ? x[c * x_c] : 0;
  ((__global WORD*)(y + y_offset))[(long)row * width + w] = pixel.word;
}

#define TAP(x, a, u)                                                       \
  const int number_##x = (a) + x.pad - (x.lower + (u)*x.apart) * x.stride; \
  const int tap_##x = number_##x / x.dilation;                             \
  const bool met_##x = number_##x >= 0 && tap_##x < x.w_taps;

// w for blocks: y[column][window tap][k], 0 where no tap is met; pixel f of a block's channel c is column f * f_step + c * c_step.
// Launch: K x (columns * window taps), rounded up to groups of 64 x 4.
__kernel __attribute__((reqd_work_group_size(64, 4, 1))) void conv_nv_block_weights(
    int K, int C, int f_step, int c_step, BlockAxis d, BlockAxis h, BlockAxis w, __global const ELEMENT* restrict x,
    long x_offset, LongStrides x_step, __global ELEMENT* restrict y, long y_offset) {
  const int k = (int)get_global_id(0), row = (int)get_global_id(1), taps = d.taps * h.taps * w.taps;
  if (k >= K || row >= d.stride * h.stride * w.stride * C * taps) return;
  const int column = row / taps, u = row - column * taps;
  const int f = f_step == 1 ? column % c_step : column / f_step, c = f_step == 1 ? column / c_step : column % f_step;
  TAP(d, f / (h.stride * w.stride), u / (h.taps * w.taps))
  TAP(h, f / w.stride % h.stride, u / w.taps % h.taps)
  TAP(w, f % w.stride, u % w.taps)
  y[y_offset + (long)row * K + k] =
      met_d && met_h && met_w
          ? x[x_offset + k * x_step.n + c * x_step.c + tap_d * x_step.d + tap_h * x_step.h + tap_w * x_step.w]
          : 0;
}
