// y = x where x's neighbours lie along another dimension than y's, on a GPU: square tiles go through local memory.
// Along `a` y steps by one, along `b` x does; d0 to d5 are the other dimensions, which may have size 1. Elements
// are words of any size, V of them are moved at a time where V is above 1.

#include "lib/access.cl"
#include "lib/divisor.cl"

#ifndef ELEMENT
#define ELEMENT uint
#define ACCESS uint
#define V 1
#define OFFSET int
#endif
#define LANES 32
#define ROWS 8
#define TILE (LANES * V)

#define OUTER(d) , int n_##d, OFFSET x_##d, OFFSET y_##d
#define STEP(d)                                  \
  {                                              \
    const int q_ = rest / n_##d, c_ = rest - q_ * n_##d; \
    rest = q_;                                   \
    from += (OFFSET)c_ * x_##d;                  \
    to += (OFFSET)c_ * y_##d;                    \
  }

typedef union {
  ACCESS all;
  ELEMENT one[V];
} word;

__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void transpose(
    __global const ELEMENT* restrict x, long x_o, __global ELEMENT* restrict y, long y_o, int n_a, int n_b, OFFSET x_a,
    OFFSET y_b OUTER(d0) OUTER(d1) OUTER(d2) OUTER(d3) OUTER(d4) OUTER(d5)) {
  __local ELEMENT tile[TILE][TILE + 1];
  const int lane = (int)get_local_id(0), row = (int)get_local_id(1);
  const int tiles_b = (n_b + TILE - 1) / TILE;
  const int a0 = (int)get_group_id(0) / tiles_b * TILE, b0 = (int)get_group_id(0) % tiles_b * TILE;
  int rest = (int)get_group_id(1);
  OFFSET from = 0, to = 0;
  STEP(d5) STEP(d4) STEP(d3) STEP(d2) STEP(d1) STEP(d0)
  x += x_o + from;
  y += y_o + to;
  word w[TILE / ROWS];
#pragma unroll
  for (int k = 0; k < TILE / ROWS; k++) {
    const int a = a0 + row + k * ROWS, b = b0 + lane * V;
    if (a < n_a && b < n_b) w[k].all = WIDE_LOAD(ACCESS, x + (OFFSET)a * x_a + b);
  }
#pragma unroll
  for (int k = 0; k < TILE / ROWS; k++)
    for (int v = 0; v < V; v++) tile[row + k * ROWS][lane * V + v] = w[k].one[v];
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int k = 0; k < TILE / ROWS; k++) {
    const int b = b0 + row + k * ROWS, a = a0 + lane * V;
    word out;
    for (int v = 0; v < V; v++) out.one[v] = tile[lane * V + v][row + k * ROWS];
    if (a < n_a && b < n_b) WIDE_STORE(ACCESS, y + (OFFSET)b * y_b + a, out.all);
  }
}
