// Where a row along an axis lies in tensors of any strides.

#ifndef ROW_DIMS  // dimensions besides the axis, neighbours merged where strides allow
#define ROW_DIMS 1
#endif

// The sizes of the dimensions besides the axis, but for the first; a tensor with its steps along those and the axis.
#define ROW_SIZES int s1, int s2, int s3, int s4, int s5, int s6
#define ROW_TENSOR(type, t)                                                                                      \
  __global type *t, long t##_o, long t##_0, long t##_1, long t##_2, long t##_3, long t##_4, long t##_5, long t##_6, \
      long t##_axis
#define ROW_OFFSET(t, row) \
  (t##_o + row_offset(row, s1, s2, s3, s4, s5, s6, t##_0, t##_1, t##_2, t##_3, t##_4, t##_5, t##_6))
static long row_offset(int row, int s1, int s2, int s3, int s4, int s5, int s6, long t0, long t1, long t2, long t3, long t4,
                       long t5, long t6) {
  long offset = 0;
#define ROW_STEP(size, step)                 \
  {                                          \
    offset += (long)(row % (size)) * (step); \
    row /= (size);                           \
  }
#if ROW_DIMS > 6
  ROW_STEP(s6, t6)
#endif
#if ROW_DIMS > 5
  ROW_STEP(s5, t5)
#endif
#if ROW_DIMS > 4
  ROW_STEP(s4, t4)
#endif
#if ROW_DIMS > 3
  ROW_STEP(s3, t3)
#endif
#if ROW_DIMS > 2
  ROW_STEP(s2, t2)
#endif
#if ROW_DIMS > 1
  ROW_STEP(s1, t1)
#endif
  return offset + row * t0;
}
