// Backward data of a window of one tap with a stride: y, dx, is x where the tap meets it and 0 elsewhere.

// What moves an element: ushort, uint, ulong.
#ifndef ELEMENT
#define ELEMENT uint
#endif
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_spread.h"

// y has any strides, x is row-major.
// Launch: W x rows, rounded up to groups of 64 x 4.
__kernel __attribute__((reqd_work_group_size(64, 4, 1))) void conv_spread(
    SpreadShape p, __global const ELEMENT* restrict x, long x_offset, __global ELEMENT* restrict y, long y_offset) {
  const int w = (int)get_global_id(0), row = (int)get_global_id(1);
  if (w >= p.w.d || row >= p.rows) return;
  const int planes = divided(row, p.h), volumes = divided(planes, p.d), image = divided(volumes, p.c);
  const int c = volumes - image * p.c.d, h = row - planes * p.h.d, d = planes - volumes * p.d.d;
  const int from_d = divided(d, p.stride_d), from_h = divided(h, p.stride_h), from_w = divided(w, p.stride_w);
  const bool met = from_d * p.stride_d.d == d && from_h * p.stride_h.d == h && from_w * p.stride_w.d == w &&
                   from_d < p.x.d && from_h < p.x.h && from_w < p.x.w;
  const long at = (((long)volumes * p.x.d + from_d) * p.x.h + from_h) * p.x.w + from_w;
  y[y_offset + image * p.y.n + c * p.y.c + d * p.y.d + h * p.y.h + w * p.y.w] = met ? x[x_offset + at] : 0;
}
