// Direct convolution: one work-item computes one element of the output, by the definition. It serves every
// valid problem and is the form to compare others with. It is slow.

#include "gemm/gemm_types.cl"

// What counts elements: long, or int where that is enough.
#ifndef INDEX
#define INDEX long
#endif
// 1: sums of parts of the batch go to `partial`, one result after the other, instead of dw.
#ifndef PARTS
#define PARTS 0
#endif

#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_naive.h"

static INDEX place(LongStrides s, int n, int c, INDEX d, INDEX h, INDEX w) {
  return n * (INDEX)s.n + c * (INDEX)s.c + d * (INDEX)s.d + h * (INDEX)s.h + w * (INDEX)s.w;
}

// Where along an axis tap `tap` of y's position `output` is in x.
#define IN_X(output, tap, axis) ((INDEX)(output) * g.stride.axis - g.pad.axis + (INDEX)(tap) * g.dilation.axis)

__kernel void conv_forward(__global const AB_STORAGE* x, long x_offset, __global const AB_STORAGE* w,
                           long w_offset, __global C_STORAGE* y, long y_offset, NaiveGeometry g, EPILOGUE_PARAMETERS) {
  const INDEX item = (INDEX)get_global_id(0);
  const int filters = g.group_k * g.groups;
  const AxisSizes size = g.y_space;
  if (item >= (INDEX)g.n * filters * size.d * size.h * size.w) return;
  INDEX rest = item;
  const int q = (int)(rest % size.w);
  rest /= size.w;
  const int p = (int)(rest % size.h);
  rest /= size.h;
  const int o = (int)(rest % size.d);
  rest /= size.d;
  const int k = (int)(rest % filters), n = (int)(rest / filters);
  x += x_offset + n * g.x.n + (long)(k / g.group_k) * g.group_c * g.x.c;
  w += w_offset + k * g.w.n;
  REAL sum = 0;
  for (int c = 0; c < g.group_c; c++)
    for (int t = 0; t < g.w_space.d; t++) {
      const INDEX d = IN_X(o, t, d);
      if (d < 0 || d >= g.x_space.d) continue;
      for (int r = 0; r < g.w_space.h; r++) {
        const INDEX h = IN_X(p, r, h);
        if (h < 0 || h >= g.x_space.h) continue;
        for (int s = 0; s < g.w_space.w; s++) {
          const INDEX v = IN_X(q, s, w);
          if (v < 0 || v >= g.x_space.w) continue;
          sum = MULTIPLY_ADD((REAL)LOAD_AB(x, place(g.x, 0, c, d, h, v)), (REAL)LOAD_AB(w, place(g.w, 0, c, t, r, s)), sum);
        }
      }
    }
  const long at = place(g.y, n, k, o, p, q);
  STORE_C(y + y_offset, at, FINISH(SCALED(sum, k, n), k, n, at));
}

// Sets `output` to the position along an axis of y whose window has tap `tap` at x's `input`; continues if there is none.
#define MEET(output, input, tap, axis)                                                     \
  const INDEX output##_times = (INDEX)(input) + g.pad.axis - (INDEX)(tap)*g.dilation.axis; \
  const INDEX output = output##_times / g.stride.axis;                                     \
  if (output##_times < 0 || output >= g.y_space.axis || output * g.stride.axis != output##_times) continue;

__kernel void conv_backward_data(__global const AB_STORAGE* y, long y_offset, __global const AB_STORAGE* w,
                                 long w_offset, __global C_STORAGE* x, long x_offset, NaiveGeometry g, EPILOGUE_PARAMETERS) {
  const INDEX item = (INDEX)get_global_id(0);
  const int channels = g.group_c * g.groups;
  const AxisSizes size = g.x_space;
  if (item >= (INDEX)g.n * channels * size.d * size.h * size.w) return;
  INDEX rest = item;
  const int v = (int)(rest % size.w);
  rest /= size.w;
  const int h = (int)(rest % size.h);
  rest /= size.h;
  const int d = (int)(rest % size.d);
  rest /= size.d;
  const int c = (int)(rest % channels), n = (int)(rest / channels), group = c / g.group_c;
  y += y_offset + n * g.y.n + (long)group * g.group_k * g.y.c;
  w += w_offset + (long)group * g.group_k * g.w.n + c % g.group_c * g.w.c;
  REAL sum = 0;
  for (int k = 0; k < g.group_k; k++)
    for (int t = 0; t < g.w_space.d; t++) {
      MEET(o, d, t, d)
      for (int r = 0; r < g.w_space.h; r++) {
        MEET(p, h, r, h)
        for (int s = 0; s < g.w_space.w; s++) {
          MEET(q, v, s, w)
          sum = MULTIPLY_ADD((REAL)LOAD_AB(y, place(g.y, 0, k, o, p, q)), (REAL)LOAD_AB(w, place(g.w, k, 0, t, r, s)), sum);
        }
      }
    }
  const long at = place(g.x, n, c, d, h, v);
  STORE_C(x + x_offset, at, FINISH(SCALED(sum, c, n), c, n, at));
}

// get_global_id(1) sums over `images` of the batch.
__kernel void conv_backward_filter(__global const AB_STORAGE* x, long x_offset, __global const AB_STORAGE* y,
                                   long y_offset, __global C_STORAGE* w, long w_offset, __global REAL* partial,
                                   long partial_offset, int images, NaiveGeometry g) {
  const AxisSizes size = g.w_space;
  const INDEX item = (INDEX)get_global_id(0), items = (INDEX)g.group_k * g.groups * g.group_c * size.d * size.h * size.w;
  const int part = (int)get_global_id(1), begin = part * images;
  const int end = images < g.n - begin ? begin + images : g.n;
  if (item >= items) return;
  INDEX rest = item;
  const int s = (int)(rest % size.w);
  rest /= size.w;
  const int r = (int)(rest % size.h);
  rest /= size.h;
  const int t = (int)(rest % size.d);
  rest /= size.d;
  const int c = (int)(rest % g.group_c), k = (int)(rest / g.group_c);
  x += x_offset + ((long)(k / g.group_k) * g.group_c + c) * g.x.c;
  y += y_offset + k * g.y.c;
  REAL total = 0;
  for (int n = begin; n < end; n++)
    for (int o = 0; o < g.y_space.d; o++) {
      const INDEX d = IN_X(o, t, d);
      if (d < 0 || d >= g.x_space.d) continue;
      for (int p = 0; p < g.y_space.h; p++) {
        const INDEX h = IN_X(p, r, h);
        if (h < 0 || h >= g.x_space.h) continue;
        // A chain per row, and one of rows: the error grows with their lengths' sum, not product.
        REAL sum = 0;
        for (int q = 0; q < g.y_space.w; q++) {
          const INDEX v = IN_X(q, s, w);
          if (v < 0 || v >= g.x_space.w) continue;
          sum = MULTIPLY_ADD((REAL)LOAD_AB(x, place(g.x, n, 0, d, h, v)), (REAL)LOAD_AB(y, place(g.y, n, 0, o, p, q)), sum);
        }
        total += sum;
      }
    }
#if PARTS
  partial[partial_offset + (long)part * items + item] = total;
#else
  STORE_C(w + w_offset, place(g.w, k, c, t, r, s), total);
#endif
}
