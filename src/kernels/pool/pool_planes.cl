// The gradient of maxima on a CPU, plane by plane: each element of dy goes where its window's maximum lies. A work-group of one item has
// `block` planes of an image, so that nothing meets but in its order, which is pool.cl's. The grid is (blocks of planes, N).

#include "pool/pool_common.cl"

// Where the sums of a plane are until they are rounded: in an array of HELD elements, in a workspace of one plane a work-group, or in
// dx itself, whose elements then belong to a window alone or are REAL.
#ifndef HELD
#define HELD 0
#endif
#ifndef SPACE
#define SPACE 0
#endif

// Whether the window with these taps holds a place along the axis.
static bool takes(PoolWindows a, struct Taps taps, int place) {
  const int tap = place - taps.start;
  return tap >= 0 && tap < taps.end * a.dilation && tap % a.dilation == 0;
}

// x stands for dx, y for dy.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const PLACE_TYPE, i), TENSOR(const T, s),
                            TENSOR(const T, t), AXES, int block, __global REAL* space, long space_o) {
  MAKE_AXES
  BRING_CONSTANTS_IN
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, axes.channels);
  const long n = (long)get_global_id(1);
  const int size = D.size * H.size * W.size;
  for (int c = begin; c < end; c++) {
    __global T* x_to = x + x_o + n * x_n + c * x_c;
#if HELD || SPACE
#if HELD
    REAL sums[HELD];
#else
    __global REAL* sums = space + space_o + (n * (long)get_global_size(0) + (long)get_global_id(0)) * size;
#endif
    for (int e = 0; e < size; e++) sums[e] = 0;
#else
    for (int d = 0; d < D.size; d++)
      for (int h = 0; h < H.size; h++)
        for (int w = 0; w < W.size; w++) STORE(x_to, d * x_d + h * x_h + w * x_w, 0);
#endif
    for (int line = 0; line < D.out * H.out; line++) {
      const int o = line / H.out, p = line % H.out;
      const struct Taps td = taps_of(D, o), th = taps_of(H, p);
      __global const T* y_from = y + y_o + n * y_n + c * y_c + o * y_d + p * y_h;
      __global const PLACE_TYPE* i_from = i + i_o + n * i_n + c * i_c + o * i_d + p * i_h;
      for (int q = 0; q < W.out; q++) {
        const int place = (int)i_from[q * i_w];
        if (place < 0 || place >= size) continue;
        const int row = place / W.size, at_w = place - row * W.size;
        const int at_d = D.size > 1 ? row / H.size : 0, at_h = row - at_d * H.size;
        if (!takes(D, td, at_d) || !takes(H, th, at_h) || !takes(W, taps_of(W, q), at_w)) continue;
#if HELD || SPACE
        sums[place] += LOAD(y_from, q * y_w);
#else
        __global T* to = x_to + at_d * x_d + at_h * x_h + at_w * x_w;
        const REAL sum = LOAD(to, 0) + LOAD(y_from, q * y_w);
        STORE(to, 0, sum);
#endif
      }
    }
#if HELD || SPACE
    for (int d = 0; d < D.size; d++)
      for (int h = 0; h < H.size; h++)
        for (int w = 0; w < W.size; w++)
          STORE(x_to, d * x_d + h * x_h + w * x_w, sums[(d * H.size + h) * W.size + w]);
#endif
  }
}
