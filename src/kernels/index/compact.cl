// Choosing elements by a mask, for CPUs: `compact_count` counts the chosen ones of each chunk, `compact_move` goes over the
// chunks again: it packs the chosen elements of x, spreads packed ones, or writes the coordinates of the chosen. A
// work-item has a chunk; all order is row-major order.

#include "lib/types.cl"
#include "lib/int64.h"
#include "index/compact.h"

#ifndef M_DTYPE
#define M_DTYPE bool  // the mask's
#define M uchar
#define RANK 1
#define ELEMENT uint
#define MODE 0
#define TOTAL int
#define FLAT 1  // mask and x are row-major: places are coordinates that need no division
#endif
#define PACK 0
#define SPREAD_PACKED 1
#define COORDINATES 2

#define CHOSEN(at) (JOIN(LOAD_, M_DTYPE)(mask, at) != 0)

#define DIVIDE(flat)                                         \
  long rest = (flat), mask_at = 0, x_at = 0, c[8];           \
  _Pragma("unroll") for (int d_ = RANK - 1; d_ >= 0; d_--) { \
    c[d_] = d_ ? rest % nest.size[d_] : rest;                \
    rest = d_ ? rest / nest.size[d_] : 0;                    \
    mask_at += c[d_] * nest.mask[d_];                        \
    x_at += c[d_] * nest.x[d_];                              \
  }
#if FLAT
#define LOCATE(flat) const long mask_at = (flat), x_at = (flat);
#else
#define LOCATE(flat) DIVIDE(flat)
#endif

__kernel void compact_count(__global const M* mask, long mask_o, __global int* counts, long counts_o,
                            CompactNest nest) {
  const long begin = (long)get_global_id(0) * nest.chunk, end = min(begin + nest.chunk, nest.count);
  mask += mask_o;
  int chosen = 0;
  for (long i = begin; i < end; i++) {
    LOCATE(i)
    chosen += CHOSEN(mask_at);
  }
  (counts + counts_o)[get_global_id(0)] = chosen;
}

// packed: [capacity], or [capacity, RANK] of coordinates; what does not fit is dropped.
__kernel void compact_move(__global const M* mask, long mask_o, __global const int* counts, long counts_o,
                           CompactNest nest, __global ELEMENT* x, long x_o, __global ELEMENT* packed, long packed_o,
                           long capacity, long packed_stride, long column_stride, __global TOTAL* total, long total_o) {
  const long begin = (long)get_global_id(0) * nest.chunk, end = min(begin + nest.chunk, nest.count);
  mask += mask_o;
  counts += counts_o;
  x += x_o;
  packed += packed_o;
  long place = 0;
  for (int chunks_before = (int)get_global_id(0), c = 0; c < chunks_before; c++) place += counts[c];
  for (long i = begin; i < end; i++) {
    LOCATE(i)
    const bool chosen = CHOSEN(mask_at);
#if MODE == PACK
    if (chosen && place < capacity) packed[place * packed_stride] = x[x_at];
#elif MODE == SPREAD_PACKED
    x[x_at] = chosen && place < capacity ? packed[place * packed_stride] : 0;
#else
    if (chosen && place < capacity) {
      DIVIDE(i)
      for (int d = 0; d < RANK; d++) packed[place * packed_stride + d * column_stride] = (ELEMENT)c[d];
    }
#endif
    place += chosen;
  }
  if (end == nest.count) total[total_o] = (TOTAL)place;
}
