// Places in sorted sequences, by halving. A work-item looks for LANES values at once: their loads wait together, and on a
// CPU they are a vector.

#include "lib/types.cl"
#include "sort/sort_axis.cl"

#ifndef DTYPE
#define DTYPE f32
#define T float
#define VALUE float  // what is compared
#define Y_T int
#define RIGHT 0
#define LANES 4
#define UNIT 1  // neighbours in a sequence are neighbours in memory
#endif
#define LOAD(p, i) JOIN(LOAD_, DTYPE)(p, i)
#define EACH_LANE for (int l = 0; l < LANES; l++)

// Whether an element stands in front of the value's place: no NaN does but in front of a NaN's, where all do.
#if RIGHT
#define IN_FRONT(s, v) (((s) <= (v)) | ((v) != (v)))
#else
#define IN_FRONT(s, v) (((s) < (v)) | ((v) != (v)))
#endif
#if UNIT
#define SORTED(i) LOAD(sorted_row, i)
#else
#define SORTED(i) LOAD(sorted_row, (long)(i)*sorted_s.axis)
#endif

// A work-item takes `block` rows, and of each the `span` values from span_step times its number on, in steps of `step`.
__kernel void searchsorted(ROW_TENSOR(const T, sorted), ROW_TENSOR(const T, x), ROW_TENSOR(Y_T, y), ROW_SIZES, int rows,
                           int block, int n, long count, long span_step, long span, long step) {
  const int begin = (int)get_global_id(1) * block, end = begin + min(block, rows - begin);
  const long first = (long)get_global_id(0) * span_step, last = min(first + span, count);
  for (int row = begin; row < end; row++) {
    const long x_row = ROW_OFFSET(x, row), y_row = ROW_OFFSET(y, row);
    __global const T* sorted_row = sorted + ROW_OFFSET(sorted, row);
    for (long e = first; e < last; e += LANES * step) {
      VALUE v[LANES];
      int at[LANES];
      EACH_LANE {
        v[l] = LOAD(x, x_row + min(e + l * step, last - 1) * x_s.axis);
        at[l] = 0;
      }
      for (int left = n; left > 1; left -= left / 2) {
        const int upper = left / 2;
        EACH_LANE at[l] += IN_FRONT(SORTED(at[l] + upper - 1), v[l]) ? upper : 0;
      }
      if (n > 0) EACH_LANE at[l] += IN_FRONT(SORTED(at[l]), v[l]);
      if (e + (LANES - 1) * step < last) {
        EACH_LANE y[y_row + (e + l * step) * y_s.axis] = (Y_T)at[l];
      } else {
        EACH_LANE if (e + l * step < last) y[y_row + (e + l * step) * y_s.axis] = (Y_T)at[l];
      }
    }
  }
}
