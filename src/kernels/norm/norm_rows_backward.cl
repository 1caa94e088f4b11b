// The backward direction of normalisation by rows on a GPU: see norm_rows.cl. x and dy are read once. With
// n = (x - mean) * inv_std and g = dy * weight,
//   dx = inv_std * (g - (sum of g) / length - n * (sum of g n) / length)   (without the first sum if CENTER 0).
// A group goes through rows LY * groups apart and adds up what they hand to weight and bias, dy n and dy; these
// sums go to the workspace as [kind][group][length].

#ifndef REAL
#define REAL float
#define SUMMED float2
#endif
#include "norm/norm_rows_lanes.cl"

#define COLUMNS(sums, at)                                                          \
  _Pragma("unroll") for (int e = 0; e < U * V; e++) {                              \
    const int i = lane * V + e / V * (LX * V) + e % V;                             \
    if (LY > 1) {                                                                  \
      columns[item] = sums[e];                                                     \
      barrier(CLK_LOCAL_MEM_FENCE);                                                \
      if (item < LX)                                                               \
        for (int other = 1; other < LY; other++) sums[e] += columns[item + other * LX]; \
      barrier(CLK_LOCAL_MEM_FENCE);                                                \
    }                                                                              \
    if (item < LX && i < length) (at)[i] = sums[e];                                \
  }

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void norm_rows_backward(
    __global const Y_TYPE* dy_p, long dy_o, long dy_row, __global const X_TYPE* x_p, long x_o, long x_row,
    __global const W_TYPE* weight, long weight_o, __global const REAL* mean, long mean_o,
    __global const REAL* inv_std, long inv_std_o, __global DX_TYPE* dx_p, long dx_o, long dx_row,
    __global REAL* ws, long ws_o, int rows, int length) {
  const int item = (int)get_local_id(0), lane = item % LX, groups = (int)get_num_groups(0);
  __local SUMMED shared[LX * LY];
  __local SUMMED* lanes = shared + item / LX * LX;
  __local REAL columns[DWEIGHT || DBIAS ? LX * LY : 1];
  weight += weight_o;
  REAL weights[U * V], biases[U * V];
#pragma unroll
  for (int e = 0; e < U * V; e++) weights[e] = biases[e] = 0;

  for (int first = (int)get_group_id(0) * LY; first < rows; first += groups * LY) {
    const int row = first + item / LX, size = row < rows ? length : 0;
    __global const Y_TYPE* dy = dy_p + dy_o + row * dy_row;
    __global const X_TYPE* x = x_p + x_o + row * x_row;
    REAL X[U * V], D[U * V];
    READ_ACCESSES(X_DTYPE, x, lane * V, size, X)
    READ_ACCESSES(Y_DTYPE, dy, lane * V, size, D)
    const REAL center = CENTER && size ? mean[mean_o + row] : 0, inverse = size ? inv_std[inv_std_o + row] : 0;
    EACH_ELEMENT(lane * V, size, X[e] = (X[e] - center) * inverse; weights[e] += D[e] * X[e]; biases[e] += D[e])
#if DX
#if WEIGHT
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int i = lane * V + u * (LX * V);
      REAL factors[V];
      if (i >= size) continue;
      READ(W_DTYPE, weight, i, factors);
#pragma unroll
      for (int v = 0; v < V; v++) D[u * V + v] *= factors[v];
    }
#endif
    SUMMED sums = (SUMMED)(0);
    EACH_ELEMENT(lane * V, size, sums += (SUMMED)(CENTER ? D[e] : 0, D[e] * X[e]))
    sums = total(sums, lane, lanes) / length;
    __global DX_TYPE* dx = dx_p + dx_o + row * dx_row;
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int i = lane * V + u * (LX * V);
      REAL made[V];
#pragma unroll
      for (int v = 0; v < V; v++) made[v] = inverse * (D[u * V + v] - sums.x - X[u * V + v] * sums.y);
      if (i < size) {
        WRITE(DX_DTYPE, dx, i, made);
      }
    }
#endif
  }
  ws += ws_o + (long)get_group_id(0) * length;
#if DWEIGHT
  COLUMNS(weights, ws)
#endif
#if DBIAS
  COLUMNS(biases, ws + (DWEIGHT ? (long)groups * length : 0))
#endif
}
