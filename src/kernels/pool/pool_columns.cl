// The gradient of averages on a GPU where columns lie side by side: a work-item makes V columns of dx. It reads each element of
// dy whose window holds one of them once, in pool.cl's order, so that the bits are the same. get_global_id(1) is N.

#ifndef V
#define V 4
#endif
#ifndef MODE
#define MODE 1
#endif
#include "pool/pool_common.cl"

// Whether column `place` lies in window q, whose taps are t.
#if ADAPTIVE
#define COVERS(q, t, place) ((place) >= (t).start && (place) < (t).start + (t).end)
#else
#define COVERS(q, t, place) ((place) + W.pad >= (q)*W.stride && holds(W, q, place))
#endif

// x stands for dx, y for dy. `items` blocks of V columns an image, ACROSS to a row.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const PLACE_TYPE, i), TENSOR(const T, s),
                            TENSOR(const T, t), AXES, PoolGrid grid) {
  MAKE_AXES
  const int item = (int)get_global_id(0);
  const long n = (long)get_global_id(1);
  if (item >= grid.items || n >= grid.images) return;
  const int line = divided(item, grid.across), column = (item - line * grid.across.d) * V;
  const int sheet = divided(line, grid.down), row = line - sheet * grid.down.d;
  const int c = divided(sheet, grid.deep), depth = sheet - c * grid.deep.d;
  const struct Windows in_d = windows_of(D, depth), in_h = windows_of(H, row);
  const struct Windows first_w = windows_of(W, column), last_w = windows_of(W, column + V - 1);
  y += y_o + n * y_n + c * y_c;
  REAL sum[V];
  for (int k = 0; k < V; k++) sum[k] = 0;
  for (int o = in_d.first; o < in_d.first + in_d.count; o++) {
    if (!holds(D, o, depth)) continue;
    for (int p = in_h.first; p < in_h.first + in_h.count; p++) {
      if (!holds(H, p, row)) continue;
      for (int q = max(first_w.first, 0); q < min(last_w.first + last_w.count, W.out); q++) {
        const struct Taps taps = taps_of(W, q);
        REAL handed = LOAD(y, o * y_d + p * y_h + q * y_w);
        if (!UNIFORM) handed /= (REAL)elements_of(taps_of(D, o), taps_of(H, p), taps);
#pragma unroll
        for (int k = 0; k < V; k++) sum[k] += COVERS(q, taps, column + k) ? handed : 0;
      }
    }
  }
  if (UNIFORM)
    for (int k = 0; k < V; k++) sum[k] /= (REAL)axes.divided;
  x += x_o + n * x_n;
  JOIN(VSTORE_, DTYPE)(x, c * x_c + depth * x_d + row * x_h + column, sum);
}
