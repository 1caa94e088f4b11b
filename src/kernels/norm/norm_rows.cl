// Normalisation of rows on a GPU, in one read where a row fits into registers: LX work-items share a row, a
// group has LY rows. y = (x - mean) * inv_std * weight + bias; what the statistics' sums run over are
// differences from a mean, never plain squares.
// HELD 1: U accesses of V elements by each of the LX are the whole row. HELD 0: the row is read twice; of each
// U * V elements their own mean and squares are taken, and merged (Chan, Golub and LeVeque).
// PLANES 1: `plane` neighbours share a weight, and weights repeat after `turns` rows; else a row has a weight
// for each element.

#include "norm/norm_rows_common.cl"
#include "lib/divisor.cl"

#ifndef HELD
#define HELD 1
#endif
#ifndef PLANES
#define PLANES 0
#endif
#ifndef STATISTICS  // mean and inv_std are written
#define STATISTICS 1
#endif
#ifndef VARIANCE  // so is the unbiased variance
#define VARIANCE 0
#endif

#include "norm/norm_rows_lanes.cl"

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void norm_rows(
    __global const X_TYPE* x, long x_o, long x_row, __global const W_TYPE* weight, long weight_o,
    __global const W_TYPE* bias, long bias_o, __global Y_TYPE* y, long y_o, long y_row, __global REAL* mean,
    long mean_o, __global REAL* inv_std, long inv_std_o, __global REAL* variance, long variance_o, int rows,
    int length, DIVISOR(plane), int turns, REAL epsilon) {
  const int lane = (int)get_local_id(0) % LX, row = (int)get_group_id(0) * LY + (int)get_local_id(0) / LX;
  const int size = row < rows ? length : 0;  // all take part in barriers
  __local REAL shared[LX * LY];
  __local REAL* lanes = shared + (int)get_local_id(0) / LX * LX;
  x += x_o + row * x_row;
  y += y_o + row * y_row;
  weight += weight_o;
  bias += bias_o;

  REAL X[U * V], center = 0, squares = 0;
#if HELD
  READ_ACCESSES(X_DTYPE, x, lane * V, size, X)
#if CENTER
  EACH_ELEMENT(lane * V, size, center += X[e])
  center = total(center, lane, lanes) / length;
#endif
  EACH_ELEMENT(lane * V, size, squares += (X[e] - center) * (X[e] - center))
#else
  REAL count = 0;
  for (int first = lane * V; first < size; first += STEP) {
    READ_ACCESSES(X_DTYPE, x, first, size, X)
    REAL more = 0, their_center = 0, their_squares = 0;
#if CENTER
    EACH_ELEMENT(first, size, (their_center += X[e], more++))
    their_center /= more;
#endif
    EACH_ELEMENT(first, size, their_squares += (X[e] - their_center) * (X[e] - their_center))
#if CENTER
    const REAL apart = their_center - center, part = more / (count + more);
    their_squares += apart * apart * count * part;
    center += apart * part;
    count += more;
#endif
    squares += their_squares;
  }
#if CENTER
  const REAL mine = center;
  center = total(count * mine, lane, lanes) / length;
  squares += count * (mine - center) * (mine - center);
#endif
#endif
  squares = total(squares, lane, lanes);
  const REAL inverse = 1 / sqrt(squares / length + epsilon);
  if (lane == 0 && row < rows) {
#if STATISTICS
    if (CENTER) mean[mean_o + row] = center;
    inv_std[inv_std_o + row] = inverse;
#endif
#if VARIANCE
    variance[variance_o + row] = squares / (length - 1);
#endif
  }

#if PLANES
  const int channel = row % turns * QUOTIENT(length, plane);
#endif
  for (int first = lane * V; first < size; first += STEP) {
#if !HELD
    READ_ACCESSES(X_DTYPE, x, first, size, X)
#endif
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int i = first + u * (LX * V);
      if (i >= size) continue;
      REAL factors[V], terms[V];
#if PLANES
      const int c = channel + QUOTIENT(i, plane);
#pragma unroll
      for (int v = 0; v < V; v++) {
        factors[v] = WEIGHT ? JOIN(LOAD_, W_DTYPE)(weight, c) : 1;
        terms[v] = BIAS ? JOIN(LOAD_, W_DTYPE)(bias, c) : 0;
      }
#else
#if WEIGHT
      READ(W_DTYPE, weight, i, factors);
#endif
#if BIAS
      READ(W_DTYPE, bias, i, terms);
#endif
#endif
      REAL made[V];
#pragma unroll
      for (int v = 0; v < V; v++) {
        made[v] = (X[u * V + v] - center) * inverse;
        if (WEIGHT) made[v] *= factors[v];
        if (BIAS) made[v] += terms[v];
      }
      WRITE(Y_DTYPE, y, i, made);
    }
  }
}
