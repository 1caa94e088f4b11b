// How the LX work-items of a row read it, U accesses of V elements each at a time, and add up.

#ifndef LX
#define LX 64
#define LY 4
#define V 4
#define U 4
#endif
#include "norm/norm_rows_common.cl"

#if V > 1
#define READ(DTYPE, p, i, d) JOIN(VLOAD_, DTYPE)(p, i, d)
#define WRITE(DTYPE, p, i, d) JOIN(VSTORE_, DTYPE)(p, i, d)
#else
#define READ(DTYPE, p, i, d) (*(d) = JOIN(LOAD_, DTYPE)(p, i))
#define WRITE(DTYPE, p, i, d) JOIN(STORE_, DTYPE)(p, i, *(d))
#endif

// Elements that a row's work-items take at a time.
#define STEP (LX * V * U)

// The accesses from element `first` on that lie within `size` elements, into a private array.
#define READ_ACCESSES(DTYPE, p, first, size, d)                       \
  _Pragma("unroll") for (int u = 0; u < U; u++) {                     \
    const int i = (first) + u * (LX * V);                             \
    if (i < (size)) {                                                 \
      READ(DTYPE, p, i, (d) + u * V);                                 \
    }                                                                 \
  }

// For element e of the array, which is element i of the row.
#define EACH_ELEMENT(first, size, action)                                \
  _Pragma("unroll") for (int e = 0; e < U * V; e++) {                    \
    const int i = (first) + e / V * (LX * V) + e % V;                    \
    if (i < (size)) {                                                    \
      action;                                                            \
    }                                                                    \
  }

#ifndef SUMMED  // what is added up: a REAL, or a pair of them
#define SUMMED REAL
#endif

// The sum of v over the LX work-items of a row, the same bits for each of them. `lanes` are the row's.
static SUMMED total(SUMMED v, int lane, __local SUMMED* lanes) {
  lanes[lane] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int count = LX; count > 1; count = count > 8 ? count / 8 : 1) {
    const int next = count > 8 ? count / 8 : 1;
    if (lane < next) {
      SUMMED sum = lanes[lane];
      for (int from = next; from < count; from += next) sum += lanes[lane + from];
      lanes[lane] = sum;  // nobody else reads it in this round
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  v = lanes[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return v;
}
