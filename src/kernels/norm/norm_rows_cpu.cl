// Normalisation of rows on a CPU: see norm_rows.cl. A work-group of one item takes `chunk` rows; the second
// and the third time that it reads a row come from the cache.

#include "norm/norm_rows_common.cl"

#ifndef PLANES
#define PLANES 0
#endif
#ifndef STATISTICS
#define STATISTICS 1
#endif
#ifndef VARIANCE
#define VARIANCE 0
#endif

#include "norm/norm_rows_sum.cl"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void norm_rows(
    __global const X_TYPE* x_p, long x_o, long x_row, __global const W_TYPE* weight, long weight_o,
    __global const W_TYPE* bias, long bias_o, __global Y_TYPE* y_p, long y_o, long y_row,
    __global REAL* mean, long mean_o, __global REAL* inv_std, long inv_std_o, __global REAL* variance,
    long variance_o, int rows, int length, int plane, int turns, REAL epsilon, int chunk) {
  BRING_CONSTANTS_IN
  weight += weight_o;
  bias += bias_o;
  const int begin = (int)get_global_id(0) * chunk, end = min(begin + chunk, rows);
  for (int row = begin; row < end; row++) {
    __global const X_TYPE* x = x_p + x_o + row * x_row;
    __global Y_TYPE* y = y_p + y_o + row * y_row;
    REAL center = 0, squares;
#if CENTER
    ROW_SUM(center, length, JOIN(LOAD_, X_DTYPE)(x, i))
    center /= length;
#endif
    ROW_SUM(squares, length,
            (JOIN(LOAD_, X_DTYPE)(x, i) - center) * (JOIN(LOAD_, X_DTYPE)(x, i) - center))
    const REAL inverse = 1 / sqrt(squares / length + epsilon);
#if STATISTICS
    if (CENTER) mean[mean_o + row] = center;
    inv_std[inv_std_o + row] = inverse;
#endif
#if VARIANCE
    variance[variance_o + row] = squares / (length - 1);
#endif
#if PLANES
    const int channels = length / max(plane, 1), channel = row % turns * channels;
    for (int c = 0; c < channels; c++) {
      const REAL factor = WEIGHT ? inverse * JOIN(LOAD_, W_DTYPE)(weight, channel + c) : inverse;
      const REAL term = BIAS ? JOIN(LOAD_, W_DTYPE)(bias, channel + c) : 0;
      __global const X_TYPE* from = x + (long)c * plane;
      __global Y_TYPE* to = y + (long)c * plane;
      INDEPENDENT_ROUNDS
      for (int i = 0; i < plane; i++)
        JOIN(STORE_, Y_DTYPE)(to, i, (JOIN(LOAD_, X_DTYPE)(from, i) - center) * factor + term);
    }
#else
    INDEPENDENT_ROUNDS
    for (int i = 0; i < length; i++) {
      REAL v = (JOIN(LOAD_, X_DTYPE)(x, i) - center) * inverse;
#if WEIGHT
      v *= JOIN(LOAD_, W_DTYPE)(weight, i);
#endif
#if BIAS
      v += JOIN(LOAD_, W_DTYPE)(bias, i);
#endif
      JOIN(STORE_, Y_DTYPE)(y, i, v);
    }
#endif
  }
}
