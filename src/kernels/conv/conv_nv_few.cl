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

// An axis of backward data in blocks: `stride` pixels of a block, `taps` of its window in dy, which begins `lower` from the
// block's place. Pixel a meets w's tap (a + pad - (lower + u * apart) * stride) / dilation at window tap u, if there is one.
#define BLOCK_AXIS(x) int stride_##x, int taps_##x, int lower_##x, int apart_##x, int pad_##x, int dilation_##x, int w_taps_##x
#define TAP(x, a, u)                                                                             \
  const int number_##x = (a) + pad_##x - (lower_##x + (u)*apart_##x) * stride_##x;               \
  const int tap_##x = number_##x / dilation_##x;                                                 \
  const bool met_##x = number_##x >= 0 && tap_##x < w_taps_##x;

// w for blocks: y[column][window tap][k], 0 where no tap is met; pixel f of a block's channel c is column f * f_step + c * c_step.
// Launch: K x (columns * window taps), rounded up to groups of 64 x 4.
__kernel __attribute__((reqd_work_group_size(64, 4, 1))) void conv_nv_block_weights(
    int K, int C, int f_step, int c_step, BLOCK_AXIS(d), BLOCK_AXIS(h), BLOCK_AXIS(w), __global const ELEMENT* restrict x,
    long x_offset, long x_k, long x_c, long x_d, long x_h, long x_w, __global ELEMENT* restrict y, long y_offset) {
  const int k = (int)get_global_id(0), row = (int)get_global_id(1), taps = taps_d * taps_h * taps_w;
  if (k >= K || row >= stride_d * stride_h * stride_w * C * taps) return;
  const int column = row / taps, u = row - column * taps;
  const int f = f_step == 1 ? column % c_step : column / f_step, c = f_step == 1 ? column / c_step : column % f_step;
  TAP(d, f / (stride_h * stride_w), u / (taps_h * taps_w))
  TAP(h, f / stride_w % stride_h, u / taps_w % taps_h)
  TAP(w, f % stride_w, u % taps_w)
  y[y_offset + (long)row * K + k] =
      met_d && met_h && met_w ? x[x_offset + k * x_k + c * x_c + tap_d * x_d + tap_h * x_h + tap_w * x_w] : 0;
}
