// Counting elements by bins. histogram_count is for GPUs: a group counts in local memory, where the bins fit, and adds what
// it has by integer atomics, which are exact in any order. histogram_parts is for CPUs: each work-group, of one item, has
// bins of its own, COPIES times, so that equal neighbours need not wait for each other. histogram_finish adds parts up.

#include "lib/types.cl"

#ifndef X_DTYPE
#define X_DTYPE f32
#define X_T float
#define VALUE float  // an element
#define W_DTYPE f32
#define W_T float
#define WEIGHTED 0
#define ACC uint  // a bin
#define Y_DTYPE i64
#define Y_T long
#define Y_VALUE long  // what is stored as that
#define RANGE 1    // bins are parts of a range, else numbers
#define WHOLE 0    // the range and its elements are integers
#define FROM_DATA 0  // the range lies on the device
#define GROUP 64
#define LOCAL_BINS 256  // 0: bins are only in global memory
#define COPIES 4
#endif
#define LOAD(t, p, i) JOIN(LOAD_, t)(p, i)

#if RANGE && WHOLE
typedef struct {
  long low;
  ulong width;
} Range;
#define RANGE_ARGUMENTS long low, long high, __global const long *ends, long ends_o
#define MAKE_RANGE const Range range = range_of(FROM_DATA ? ends[ends_o] : low, FROM_DATA ? ends[ends_o + 1] : high);
static Range range_of(long low, long high) {
  Range r;
  r.low = (long)((ulong)low - (low == high));
  r.width = (ulong)high - (ulong)r.low + (low == high);
  return r;
}
// from * bins / width, rounded down, 0 <= from <= width, bins > 0. Where the product needs more than 64 bits, quotient and
// remainder are made bit by bit of `bins`, the highest first.
static int part_of(ulong from, ulong width, int bins) {
  if (width <= 0xffffffffu) return (int)(from * (ulong)bins / width);
  ulong rest = 0;
  long part = 0;
  for (int bit = 30; bit >= 0; bit--) {
    part *= 2;
    if (rest >= width - rest) {
      rest -= width - rest;
      part++;
    } else {
      rest *= 2;
    }
    if (!(bins >> bit & 1)) continue;
    if (from >= width - rest) {
      rest = from - (width - rest);
      part++;
    } else {
      rest += from;
    }
  }
  return (int)part;
}
// The bin, or `bins` for none.
static int bin_of(VALUE v, int bins, Range r) {
  const ulong from = (ulong)(long)v - (ulong)r.low;
  return from <= r.width ? min(part_of(from, r.width, bins), bins - 1) : bins;
}
#define BIN_OF(v) bin_of(v, bins, range)
#elif RANGE
typedef struct {
  VALUE low, high, width, inverse;
} Range;
#define RANGE_ARGUMENTS VALUE low, VALUE high, __global const VALUE *ends, long ends_o
#define MAKE_RANGE const Range range = range_of(FROM_DATA ? ends[ends_o] : low, FROM_DATA ? ends[ends_o + 1] : high);
static Range range_of(VALUE low, VALUE high) {
  Range r;
  r.low = low - (low == high ? 1 : 0);
  r.high = high + (low == high ? 1 : 0);
  r.width = r.high - r.low;
  r.inverse = 1 / r.width;
  r.inverse = fma(fma(-r.width, r.inverse, (VALUE)1), r.inverse, r.inverse);
  // Nothing lies in a range that has no width that is a number.
  if (!(r.width < INFINITY)) r.low = r.high = NAN;
  return r;
}
// The bin, or `bins` for none. Division by way of the inverse and what it leaves is as exact as a true one, which not all
// devices have.
static int bin_of(VALUE v, int bins, Range r) {
  const VALUE scaled = (v - r.low) * bins;
  const VALUE near = scaled * r.inverse;
  const VALUE quotient = fma(fma(-near, r.width, scaled), r.inverse, near);
  return v >= r.low && v <= r.high ? min((int)quotient, bins - 1) : bins;
}
#define BIN_OF(v) bin_of(v, bins, range)
#else
#define RANGE_ARGUMENTS int unused
#define MAKE_RANGE
#define BIN_OF(v) ((v) < 0 || (v) >= bins ? bins : (int)(v))
#endif

#if GROUP > 1
// counts: [bins], added to. A group takes every groups-th run of GROUP elements.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void histogram_count(__global const X_T* x, long x_o,
                                                                                 __global uint* counts, long counts_o,
                                                                                 int count, int bins, RANGE_ARGUMENTS) {
  const int item = (int)get_local_id(0), step = (int)get_global_size(0);
  MAKE_RANGE
  x += x_o;
  counts += counts_o;
#if LOCAL_BINS
  __local uint mine[LOCAL_BINS * COPIES];
  for (int b = item; b < bins * COPIES; b += GROUP) mine[b] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
#define COUNT(b) atomic_inc(&mine[(b)*COPIES + item % COPIES])
#else
#define COUNT(b) atomic_inc(&counts[b])
#endif
  for (int first = (int)get_global_id(0); first < count; first = count - first > 4 * step ? first + 4 * step : count) {
    VALUE v[4];
#pragma unroll
    for (int u = 0; u < 4; u++) v[u] = LOAD(X_DTYPE, x, first + (long)u * step < count ? first + u * step : first);
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const int b = first + (long)u * step < count ? BIN_OF(v[u]) : bins;
      if (b < bins) COUNT(b);
    }
  }
#if LOCAL_BINS
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int b = item; b < bins; b += GROUP) {
    uint sum = 0;
    for (int c = 0; c < COPIES; c++) sum += mine[b * COPIES + c];
    if (sum) atomic_add(&counts[b], sum);
  }
#endif
}
#else
// parts: [groups, COPIES, bins + 1]; the last bin is for what is not counted.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void histogram_parts(__global const X_T* restrict x, long x_o,
                                                                             __global const W_T* restrict w, long w_o,
                                                                             __global ACC* restrict parts, long parts_o,
                                                                             int count, int chunk, int bins,
                                                                             RANGE_ARGUMENTS) {
  const int group = (int)get_group_id(0), begin = group * chunk, end = begin + min(chunk, count - begin);
  MAKE_RANGE
  x += x_o;
  w += w_o;
  parts += parts_o + (long)group * COPIES * (bins + 1);
  for (long b = 0; b < (long)COPIES * (bins + 1); b++) parts[b] = 0;
  for (int first = begin; first < end;) {
    int places[64];
    const int here = min(64, end - first);
    if (here == 64) {
      for (int l = 0; l < 64; l++) places[l] = BIN_OF(LOAD(X_DTYPE, x, first + l));
    } else {
      for (int l = 0; l < here; l++) places[l] = BIN_OF(LOAD(X_DTYPE, x, first + l));
    }
    for (int l = 0; l < here; l++)
      parts[(long)(l % COPIES) * (bins + 1) + places[l]] += WEIGHTED ? LOAD(W_DTYPE, w, first + l) : 1;
    first += here;
  }
}
#endif

// y[b] = the sum of parts[p][b], in the order of p.
__kernel void histogram_finish(__global const ACC* parts, long parts_o, int count, int bins, long step, __global Y_T* y,
                               long y_o, long y_step) {
  const int b = (int)get_global_id(0);
  if (b >= bins) return;
  parts += parts_o + b;
  ACC sum = 0;
  for (int p = 0; p < count; p++) sum += parts[p * step];
  JOIN(STORE_, Y_DTYPE)(y, y_o + b * y_step, (Y_VALUE)sum);
}
