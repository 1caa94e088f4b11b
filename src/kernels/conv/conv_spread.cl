// Backward data of a window of one tap with a stride: y, dx, is x where the tap meets it and 0 elsewhere.

// What moves an element: ushort, uint, ulong.
#ifndef ELEMENT
#define ELEMENT uint
#endif
#include "lib/divisor.cl"

// y has any strides, x is row-major; rows: images * C * D * H, of y.
// Launch: W x rows, rounded up to groups of 64 x 4.
__kernel __attribute__((reqd_work_group_size(64, 4, 1))) void conv_spread(
    int rows, DIVISOR(C), DIVISOR(D), DIVISOR(H), DIVISOR(W), DIVISOR(stride_d), DIVISOR(stride_h), DIVISOR(stride_w), int x_d,
    int x_h, int x_w, __global const ELEMENT* restrict x, long x_offset, __global ELEMENT* restrict y, long y_offset,
    long y_n, long y_c, long y_d, long y_h, long y_w) {
  const int w = (int)get_global_id(0), row = (int)get_global_id(1);
  if (w >= W || row >= rows) return;
  const int planes = QUOTIENT(row, H), volumes = QUOTIENT(planes, D), image = QUOTIENT(volumes, C);
  const int c = volumes - image * C, h = row - planes * H, d = planes - volumes * D;
  const int from_d = QUOTIENT(d, stride_d), from_h = QUOTIENT(h, stride_h), from_w = QUOTIENT(w, stride_w);
  const bool met = from_d * stride_d == d && from_h * stride_h == h && from_w * stride_w == w && from_d < x_d &&
                   from_h < x_h && from_w < x_w;
  const long at = (((long)volumes * x_d + from_d) * x_h + from_h) * x_w + from_w;
  y[y_offset + image * y_n + c * y_c + d * y_d + h * y_h + w * y_w] = met ? x[x_offset + at] : 0;
}
