// Two-dimensional pooling, forward and backward, on a GPU: a work-item makes one element. The backward
// direction gathers: an element of dx adds up, in a fixed order, what the windows over it hand back. The CPU
// form is in pool_cpu.cl; what both share is in pool_common.cl.
// CHANNELS_LAST says along which axis neighbouring work-items run: then the grid is (C, N * P * Q), with H
// and W in place of P and Q backward; else (P * Q, N * C).

#include "pool_common.cl"

#ifndef KERNEL_H  // the window and its steps, where they are small; 0: they come as arguments
#define KERNEL_H 0
#define KERNEL_W 0
#define STRIDE_H 1
#define STRIDE_W 1
#endif
// With constant bounds the window's loops unroll, and its loads are issued together.
#define KH (KERNEL_H ? KERNEL_H : kernel_h)
#define KW (KERNEL_H ? KERNEL_W : kernel_w)
#define SH (KERNEL_H ? STRIDE_H : stride_h)
#define SW (KERNEL_H ? STRIDE_W : stride_w)

// This work-item's plane (n, c) and its element (row, column) of the HEIGHT x WIDTH that are written.
#define PLACE(HEIGHT, WIDTH)                                              \
  const long a = (long)get_global_id(0), b = (long)get_global_id(1);      \
  const long c = CHANNELS_LAST ? a : b % C;                               \
  const long n = CHANNELS_LAST ? b / ((long)(HEIGHT) * (WIDTH)) : b / C;  \
  const long flat = CHANNELS_LAST ? b % ((long)(HEIGHT) * (WIDTH)) : a;   \
  if (c >= C || n >= N || flat >= (long)(HEIGHT) * (WIDTH)) return;       \
  const int row = (int)(flat / (WIDTH)), column = (int)(flat % (WIDTH));  \
  x += x_o + n * x_n + c * x_c;                                           \
  y += y_o + n * y_n + c * y_c;                                           \
  i += i_o + n * i_n + c * i_c;

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(int, i), SIZES) {
  PLACE(P, Q)
  const int h0 = row * SH - top, w0 = column * SW - left;
  float result = AVERAGE ? 0 : -INFINITY;
  int where = max(h0, 0) * W + max(w0, 0);
  for (int r = 0; r < KH; r++)
    for (int s = 0; s < KW; s++) {
      const int h = h0 + r, w = w0 + s;
      if (h < 0 || h >= H || w < 0 || w >= W) continue;
      TAKE(LOAD(x, h * x_h + w * x_w), h * W + w, 1, result, where)
    }
  if (AVERAGE) result /= (float)(divisor(h0, KH, H, bottom) * divisor(w0, KW, W, right));
  STORE(y, row * y_h + column * y_w, result);
  if (INDICES) i[row * i_h + column * i_w] = where;
}

// x stands for dx, y for dy.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const int, i), SIZES) {
  PLACE(H, W)
  const int p1 = min((row + top) / SH, P - 1), q1 = min((column + left) / SW, Q - 1);
  float sum = 0;
  for (int p = first_window(row + top, KH, SH); p <= p1; p++)
    for (int q = first_window(column + left, KW, SW); q <= q1; q++) {
      const float d = LOAD(y, p * y_h + q * y_w);
#if AVERAGE
      sum += d / (float)(divisor(p * SH - top, KH, H, bottom) * divisor(q * SW - left, KW, W, right));
#else
      sum += i[p * i_h + q * i_w] == row * W + column ? d : 0;
#endif
    }
  STORE(x, row * x_h + column * x_w, sum);
}
