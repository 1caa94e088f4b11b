// The backward direction of normalisation by rows on a CPU: see norm_rows_backward.cl. A work-group of one
// item takes `chunk` rows.

#include "norm/norm_rows_common.cl"
#include "norm/norm_rows_sum.cl"

#define DY(i) JOIN(LOAD_, Y_DTYPE)(dy, i)
#define NORMAL(i) ((JOIN(LOAD_, X_DTYPE)(x, i) - center) * inverse)
#if WEIGHT
#define SCALED(i) (DY(i) * JOIN(LOAD_, W_DTYPE)(weight, i))
#else
#define SCALED(i) DY(i)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void norm_rows_backward(
    __global const Y_TYPE* dy_p, long dy_o, long dy_row, __global const X_TYPE* x_p, long x_o, long x_row,
    __global const W_TYPE* weight, long weight_o, __global const REAL* mean, long mean_o,
    __global const REAL* inv_std, long inv_std_o, __global DX_TYPE* dx_p, long dx_o, long dx_row,
    __global REAL* ws, long ws_o, int rows, int length, int chunk) {
  BRING_CONSTANTS_IN
  const int begin = (int)get_global_id(0) * chunk, end = min(begin + chunk, rows);
  weight += weight_o;
  __global REAL* weights = ws + ws_o + (long)get_group_id(0) * length;
  __global REAL* biases = weights + (DWEIGHT ? (long)get_num_groups(0) * length : 0);
  for (int i = 0; i < length; i++) {
    if (DWEIGHT) weights[i] = 0;
    if (DBIAS) biases[i] = 0;
  }
  for (int row = begin; row < end; row++) {
    __global const Y_TYPE* dy = dy_p + dy_o + row * dy_row;
    __global const X_TYPE* x = x_p + x_o + row * x_row;
    const REAL center = CENTER ? mean[mean_o + row] : 0, inverse = inv_std[inv_std_o + row];
#if DX
    __global DX_TYPE* dx = dx_p + dx_o + row * dx_row;
    REAL level = 0, slope;
#if CENTER
    ROW_SUM(level, length, SCALED(i))
    level /= length;
#endif
    ROW_SUM(slope, length, SCALED(i) * NORMAL(i))
    slope /= length;
#endif
    INDEPENDENT_ROUNDS
    for (int i = 0; i < length; i++) {
      const REAL d = DY(i), n = NORMAL(i);
#if DX
      const REAL made = inverse * (SCALED(i) - level - n * slope);
#endif
#if DWEIGHT
      weights[i] += d * n;
#endif
#if DBIAS
      biases[i] += d;
#endif
#if DX
      JOIN(STORE_, DX_DTYPE)(dx, i, made);
#endif
    }
  }
}
