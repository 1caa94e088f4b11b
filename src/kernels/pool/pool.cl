// Pooling, forward and backward, on a GPU: a work-item makes one element, or V channels where those lie side
// by side. The backward direction gathers: an element of dx adds up, in a fixed order, what the windows over
// it hand back; of maxima in large windows an element of dy goes to its place. pool_wide.cl is for large
// windows, pool_columns.cl for gradients of averages; the CPU forms are in pool_cpu.cl and pool_cpu_last.cl.
// Neighbouring work-items have neighbouring columns, or channels if CHANNELS_LAST. get_global_id(1) is N.

#ifndef V
#define V 1
#endif
#ifndef PLACE_VECTOR  // 16 bytes of indices
#define PLACE_VECTOR int4
#endif
#include "pool/pool_common.cl"

// This item's first channel c and place (depth, row, column).
#define FIND_PLACE                                                                     \
  const int item = (int)get_global_id(0);                                              \
  const long n = (long)get_global_id(1);                                               \
  if (item >= grid.items || n >= grid.images) return;                                  \
  const int outer = CHANNELS_LAST ? divided(item, grid.groups) : item;                 \
  const int line = divided(outer, grid.across), column = outer - line * grid.across.d; \
  const int sheet = divided(line, grid.down), row = line - sheet * grid.down.d;        \
  const int body = divided(sheet, grid.deep), depth = sheet - body * grid.deep.d;      \
  const int c = (CHANNELS_LAST ? item - outer * grid.groups.d : body) * V;

#if V == 1
#define LOAD_V(p, i, d) (d)[0] = LOAD(p, i);
#define STORE_V(p, i, d) STORE(p, i, (d)[0]);
#define LOAD_PLACES(p, i, d) (d)[0] = (int)(p)[i];
#define STORE_PLACES(p, i, d) (p)[i] = (d)[0];
#else
#define LOAD_V(p, i, d) JOIN(VLOAD_, DTYPE)(p, i, d)
#define STORE_V(p, i, d) JOIN(VSTORE_, DTYPE)(p, i, d);
// In pieces of 16 bytes, which is what tensors are known to be aligned to.
#define PIECE (int)(16 / sizeof(PLACE_TYPE))
#define LOAD_PLACES(p, i, d)                                                               \
  for (int piece_ = 0; piece_ < V; piece_ += PIECE) {                                      \
    const PLACE_VECTOR bits_ = WIDE_LOAD(PLACE_VECTOR, (p) + (i) + piece_);                \
    for (int k = 0; k < PIECE; k++) (d)[piece_ + k] = (int)((__private const PLACE_TYPE*)&bits_)[k]; \
  }
#define STORE_PLACES(p, i, d)                                                         \
  for (int piece_ = 0; piece_ < V; piece_ += PIECE) {                                 \
    PLACE_VECTOR bits_;                                                               \
    for (int k = 0; k < PIECE; k++) ((__private PLACE_TYPE*)&bits_)[k] = (d)[piece_ + k]; \
    WIDE_STORE(PLACE_VECTOR, (p) + (i) + piece_, bits_);                              \
  }
#endif
#define LANES for (int k = 0; k < V; k++)

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(PLACE_TYPE, i), AXES, PoolGrid grid) {
  MAKE_AXES
  FIND_PLACE
  const struct Taps td = taps_of(D, depth), th = taps_of(H, row), tw = taps_of(W, column);
  x += x_o + n * x_n + c * x_c;
  const int none = first_place(H, W, D, td, th, tw);
  REAL result[V];
  int where[V];
  LANES {
    result[k] = MAXIMUM ? -INFINITY : 0;
    where[k] = none;
  }
  // With constant bounds the loops unroll, and their loads are issued together.
  for (int a = KERNEL_D ? 0 : td.begin; a < (KERNEL_D ? KERNEL_D : td.end); a++) {
    if (a < td.begin || a >= td.end) continue;
    for (int b = KERNEL_H ? 0 : th.begin; b < (KERNEL_H ? KERNEL_H : th.end); b++) {
      if (b < th.begin || b >= th.end) continue;
      for (int e = KERNEL_W ? 0 : tw.begin; e < (KERNEL_W ? KERNEL_W : tw.end); e++) {
        if (e < tw.begin || e >= tw.end) continue;
        const int at_d = td.start + a * D.dilation, at_h = th.start + b * H.dilation, at_w = tw.start + e * W.dilation;
        REAL v[V];
        LOAD_V(x, at_d * x_d + at_h * x_h + at_w * x_w, v)
        LANES TAKE(v[k], (at_d * H.size + at_h) * W.size + at_w, result[k], where[k])
      }
    }
  }
#if !MAXIMUM
  const int elements = UNIFORM ? axes.divided : elements_of(td, th, tw);
  LANES result[k] = AVERAGE ? result[k] / (REAL)elements
                            : ROOT(result[k] * scale_of(elements, taps_in_all(D, H, W)), norm);
#endif
  y += y_o + n * y_n;
  STORE_V(y, c * y_c + depth * y_d + row * y_h + column * y_w, result)
#if INDICES
  i += i_o + n * i_n;
  STORE_PLACES(i, c * i_c + depth * i_d + row * i_h + column * i_w, where)
#endif
}

// x stands for dx, y for dy; of norms s is x and t is y.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const PLACE_TYPE, i), TENSOR(const T, s),
                            TENSOR(const T, t), AXES, PoolGrid grid) {
  MAKE_AXES
  FIND_PLACE
  const struct Windows in_d = windows_of(D, depth), in_h = windows_of(H, row), in_w = windows_of(W, column);
  y += y_o + n * y_n + c * y_c;
  REAL sum[V];
  LANES sum[k] = 0;
#if MAXIMUM
  i += i_o + n * i_n + c * i_c;
  const int mine = (depth * H.size + row) * W.size + column;
#elif !AVERAGE
  t += t_o + n * t_n + c * t_c;
  s += s_o + n * s_n;
  REAL from[V];
  LOAD_V(s, c * s_c + depth * s_d + row * s_h + column * s_w, from)
#endif
  for (int a = 0; a < in_d.count; a++) {
    const int o = in_d.first + a;
    if (!holds(D, o, depth)) continue;
    for (int b = 0; b < in_h.count; b++) {
      const int p = in_h.first + b;
      if (!holds(H, p, row)) continue;
      for (int e = 0; e < in_w.count; e++) {
        const int q = in_w.first + e;
        if (!holds(W, q, column)) continue;
        REAL handed[V];
        LOAD_V(y, o * y_d + p * y_h + q * y_w, handed)
#if MAXIMUM
        int place[V];
        LOAD_PLACES(i, o * i_d + p * i_h + q * i_w, place)
        LANES sum[k] += place[k] == mine ? handed[k] : 0;
#else
        const int elements = UNIFORM ? axes.divided : elements_of(taps_of(D, o), taps_of(H, p), taps_of(W, q));
#if AVERAGE
        LANES sum[k] += UNIFORM ? handed[k] : handed[k] / (REAL)elements;
#else
        REAL root[V];
        LOAD_V(t, o * t_d + p * t_h + q * t_w, root)
        const REAL scale = scale_of(elements, taps_in_all(D, H, W));
        LANES sum[k] += root[k] == 0 ? 0 : handed[k] * scale * SLOPE(from[k] / root[k], norm);
#endif
#endif
      }
    }
  }
#if AVERAGE && UNIFORM
  LANES sum[k] /= (REAL)axes.divided;
#endif
  x += x_o + n * x_n;
  STORE_V(x, c * x_c + depth * x_d + row * x_h + column * x_w, sum)
}

// dx of maxima where windows are few: it was filled with zeros, and an item has an element of dy. The first of the windows whose
// maximum lies at one place puts the sum over all of them there, in the order of pool_backward.
__kernel void pool_scatter(TENSOR(T, x), TENSOR(const T, y), TENSOR(const PLACE_TYPE, i), TENSOR(const T, s),
                           TENSOR(const T, t), AXES, PoolGrid grid) {
  MAKE_AXES
  FIND_PLACE
  y += y_o + n * y_n + c * y_c;
  i += i_o + n * i_n + c * i_c;
  const int place = (int)i[depth * i_d + row * i_h + column * i_w];
  if (place < 0 || place >= D.size * H.size * W.size) return;
  const int at_line = place / W.size, at_w = place - at_line * W.size;
  const int at_d = at_line / H.size, at_h = at_line - at_d * H.size;
  const struct Windows in_d = windows_of(D, at_d), in_h = windows_of(H, at_h), in_w = windows_of(W, at_w);
  REAL sum = 0;
  bool found = false;
  for (int o = in_d.first; o < in_d.first + in_d.count; o++) {
    if (!holds(D, o, at_d)) continue;
    for (int p = in_h.first; p < in_h.first + in_h.count; p++) {
      if (!holds(H, p, at_h)) continue;
      for (int q = in_w.first; q < in_w.first + in_w.count; q++) {
        if (!holds(W, q, at_w) || (int)i[o * i_d + p * i_h + q * i_w] != place) continue;
        if (!found && (o != depth || p != row || q != column)) return;
        found = true;
        sum += LOAD(y, o * y_d + p * y_h + q * y_w);
      }
    }
  }
  if (found) STORE(x, x_o + n * x_n + c * x_c + at_d * x_d + at_h * x_h + at_w * x_w, sum);
}
