// Resampling on a CPU: a work-group of one item makes a block of rows of y, each along the last mapped axis and the inner one.
// First the taps of the other two axes fold rows of x into one, by loops over contiguous memory; then the last axis is mapped. Its
// places [run_begin, run_end) are neighbours in x, and are copied. The GPU form is in resample.cl.

#include "resample/resample_parts.cl"

#ifndef PACKED  // a row of x has no gaps
#define PACKED 1
#endif
#ifndef Y_PACKED  // a row of y has none
#define Y_PACKED 1
#endif

// A row of x as it is serves if there is one tap, and nothing to convert.
#define IS_f32 1
#define IS_f64 2
#define IS_f16 3
#define IS_bf16 4
#define IS_i16 5
#define REAL_float 1
#define REAL_double 2
#define REAL_short 5
#define AS_IT_IS \
  (TAPS0 == 1 && TAPS1 == 1 && !WEIGHTED0 && !WEIGHTED1 && PACKED && JOIN(IS_, X_DTYPE) == JOIN(REAL_, REAL))

// The range of axis a's taps at place c, as indices k of TAP.
#define RANGE(a, c)                                                                           \
  const int first##a = TAPS##a ? (c) : table[axes.table[a] + (c)];                            \
  const int end##a = TAPS##a ? (c) + TAPS##a * axes.size[a] : table[axes.table[a] + (c) + 1]; \
  const int step##a = TAPS##a ? axes.size[a] : 1;
#define EACH(a) for (int k##a = first##a; k##a < end##a; k##a += step##a)
#define TAP(a) table[axes.table[a] + (TAPS##a ? 0 : axes.size[a] + 1) + k##a]
#define WEIGHT(a) (WEIGHTED##a ? weights[axes.weights[a] + k##a] : (real)1)

// Puts w times a row of x into `row`, or adds it.
static void fold(__global const X_T* x, __global real* row, int n, int inner, long x_2, long x_inner,
                 real w, int fresh) {
#if PACKED || !INNER
  const int all = n * inner;
  const long step = PACKED ? 1 : x_2;
  if (fresh && w == 1) {
    INDEPENDENT_ROUNDS
    for (int i = 0; i < all; i++) row[i] = LOAD_X(x, PACKED ? i : i * step);
  } else if (fresh) {
    INDEPENDENT_ROUNDS
    for (int i = 0; i < all; i++) row[i] = w * LOAD_X(x, PACKED ? i : i * step);
  } else {
    INDEPENDENT_ROUNDS
    for (int i = 0; i < all; i++) row[i] += w * LOAD_X(x, PACKED ? i : i * step);
  }
#else
  for (int j = 0; j < n; j++)
    for (int i = 0; i < inner; i++) {
      const real value = LOAD_X(x, j * x_2 + i * x_inner);
      row[j * inner + i] = fresh ? (w == 1 ? value : w * value) : row[j * inner + i] + w * value;
    }
#endif
}

#if INNER
// `inner` elements at one place.
static void map_place(__global const real* row, __global Y_T* y, int inner,
                      __global const int* table, __global const real* weights, int taps, int step, real fill) {
  if (taps == 0 || table[0] < 0) {
    for (int i = 0; i < inner; i++) STORE_Y(y, i, fill);
    return;
  }
#if TAPS2 == 1
  __global const real* from = row + (long)table[0] * inner;
  const real w = WEIGHTED2 ? weights[0] : 1;
  INDEPENDENT_ROUNDS
  for (int i = 0; i < inner; i++) STORE_Y(y, i, WEIGHTED2 ? w * from[i] : from[i]);
#elif TAPS2 == 2 && !RAGGED
  __global const real *a = row + (long)table[0] * inner, *b = row + (long)table[step] * inner;
  const real u = WEIGHTED2 ? weights[0] : 1, v = WEIGHTED2 ? weights[step] : 1;
  INDEPENDENT_ROUNDS
  for (int i = 0; i < inner; i++) {
    const real sum = u * a[i] + v * b[i];
    STORE_Y(y, i, sum);
  }
#else
  // A strip of lanes stays in registers over all taps.
  for (int begin = 0; begin < inner; begin += 16) {
    const int lanes = min(inner - begin, 16);
    real sum[16];
    for (int i = 0; i < 16; i++) sum[i] = 0;
    for (int k = 0; k < taps; k++) {
      const int at = table[k * step];
      if (at < 0) break;
      const real w = WEIGHTED2 ? weights[k * step] : 1;
      __global const real* from = row + (long)at * inner + begin;
      if (lanes == 16)
        for (int i = 0; i < 16; i++) sum[i] += w * from[i];
      else
        for (int i = 0; i < lanes; i++) sum[i] += w * from[i];
    }
    for (int i = 0; i < lanes; i++) STORE_Y(y, begin + i, sum[i]);
  }
#endif
}
#else
// The place c of a row. Without branches where taps are few: loops over places become vectors.
static real place_of(__global const real* row, int c, __global const int* table, __global const real* weights,
                     ResampleAxes axes, real fill) {
#if TAPS2
  real sum = SINGLE ? fill : 0;
  for (int k = 0; k < TAPS2; k++) {
    const int at = table[axes.table[2] + k * axes.size[2] + c];
    const real tap = row[RAGGED ? max(at, 0) : at], w = WEIGHTED2 ? weights[axes.weights[2] + k * axes.size[2] + c] : 1;
    const real value = WEIGHTED2 ? w * tap : tap, next = TAPS2 == 1 ? value : sum + value;
    sum = RAGGED && at < 0 ? sum : next;
  }
  return sum;
#else
  RANGE(2, c)
  real sum = 0;
  EACH(2) sum += WEIGHT(2) * row[TAP(2)];
  return sum;
#endif
}
#endif

__kernel void resample(COMMON, __global real* scratch, long scratch_o, ResampleRows rows) {
  BRING_CONSTANTS_IN
  const long begin = (long)get_global_id(0) * rows.block;
  const long end = min(begin + rows.block, (long)rows.planes * axes.size[0] * axes.size[1]);
  __global real* const own = scratch + scratch_o + (long)get_global_id(0) * rows.x_row;
  const real nothing = nothing_of(fill);
  table += table_o;
  weights += weights_o;
  for (long r = begin; r < end; r++) {
    const int c1 = (int)(r % axes.size[1]), c0 = (int)(r / axes.size[1] % axes.size[0]);
    index_t from, to;
    find_plane((int)(r / axes.size[1] / axes.size[0]), levels + levels_o, &from, &to);
    __global Y_T* y_row = y + y_o + to + c0 * axes.y[0] + c1 * axes.y[1];
    RANGE(0, c0)
    RANGE(1, c1)
    int fresh = 1;
    __global const real* row = own;
    EACH(0) EACH(1) {
      const int i0 = TAP(0), i1 = TAP(1);
      if (RAGGED && (i0 < 0 || i1 < 0)) continue;
      __global const X_T* x_line = x + x_o + from + i0 * axes.x[0] + i1 * axes.x[1];
#if AS_IT_IS
      row = x_line;
#else
      fold(x_line, own, rows.x_size, axes.inner, axes.x[2], axes.x_inner, WEIGHT(0) * WEIGHT(1), fresh);
#endif
      fresh = 0;
    }
    if (fresh) {  // no tap at all
      for (int c = 0; c < axes.size[2]; c++)
        for (int i = 0; i < axes.inner; i++) STORE_Y(y_row, c * axes.y[2] + i, nothing);
      continue;
    }
#if INNER
#define PLACES(begin, end)                                                                                             \
  for (int c = begin; c < end; c++) {                                                                                  \
    RANGE(2, c)                                                                                                        \
    map_place(row, y_row + c * axes.y[2], axes.inner, table + axes.table[2] + (TAPS2 ? 0 : axes.size[2] + 1) + first2, \
              weights + (WEIGHTED2 ? axes.weights[2] + first2 : 0), TAPS2 ? TAPS2 : end2 - first2, step2, nothing);    \
  }
    const int same_begin = Y_PACKED ? rows.run_begin : 0, same_end = Y_PACKED ? rows.run_end : 0;
    PLACES(0, same_begin)
    __global const real* same = row + (long)rows.run_source * axes.inner;
    __global Y_T* copied = y_row + (long)same_begin * axes.inner;
    const int elements = (same_end - same_begin) * axes.inner;
    INDEPENDENT_ROUNDS
    for (int i = 0; i < elements; i++) STORE_Y(copied, i, same[i]);
    PLACES(same_end, axes.size[2])
#else
#define PLACES(begin, end)                                          \
  INDEPENDENT_ROUNDS                                                \
  for (int c = begin; c < end; c++) {                               \
    const real v = place_of(row, c, table, weights, axes, nothing); \
    STORE_Y(y_row, Y_PACKED ? c : c * axes.y[2], v);                \
  }
    PLACES(0, rows.run_begin)
    INDEPENDENT_ROUNDS
    for (int c = rows.run_begin; c < rows.run_end; c++)
      STORE_Y(y_row, Y_PACKED ? c : c * axes.y[2], row[c - rows.run_begin + rows.run_source]);
    PLACES(rows.run_end, axes.size[2])
#endif
  }
}
