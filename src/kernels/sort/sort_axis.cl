// Where a row along an axis lies in tensors of any strides.

#ifndef ROW_DIMS  // dimensions besides the axis, neighbours merged where strides allow
#define ROW_DIMS 1
#endif

#include "lib/int64.h"
#include "sort/sort_axis.h"

#define ROW_SIZES AxisDims dims
#define ROW_TENSOR(type, t) __global type *t, long t##_o, AxisSteps t##_s
#define ROW_OFFSET(t, row) (t##_o + row_offset(row, dims, t##_s))
static long row_offset(int row, AxisDims dims, AxisSteps steps) {
  long offset = 0;
#define ROW_STEP(size, step)                 \
  {                                          \
    offset += (long)(row % (size)) * (step); \
    row /= (size);                           \
  }
#if ROW_DIMS > 6
  ROW_STEP(dims.sizes[6], steps.rows[6])
#endif
#if ROW_DIMS > 5
  ROW_STEP(dims.sizes[5], steps.rows[5])
#endif
#if ROW_DIMS > 4
  ROW_STEP(dims.sizes[4], steps.rows[4])
#endif
#if ROW_DIMS > 3
  ROW_STEP(dims.sizes[3], steps.rows[3])
#endif
#if ROW_DIMS > 2
  ROW_STEP(dims.sizes[2], steps.rows[2])
#endif
#if ROW_DIMS > 1
  ROW_STEP(dims.sizes[1], steps.rows[1])
#endif
  return offset + row * steps.rows[0];
}
