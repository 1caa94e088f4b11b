// y = x where x's neighbours lie along another dimension than y's, on a CPU: a work-group of one item takes a tile
// by way of an array that stays in the nearest cache. See transpose.cl.

#ifndef ELEMENT
#define ELEMENT uint
#define OFFSET int
#endif
#define TILE 64

#define OUTER(d) , int n_##d, OFFSET x_##d, OFFSET y_##d
#define STEP(d)                                  \
  {                                              \
    const int q_ = rest / n_##d, c_ = rest - q_ * n_##d; \
    rest = q_;                                   \
    from += (OFFSET)c_ * x_##d;                  \
    to += (OFFSET)c_ * y_##d;                    \
  }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void transpose(
    __global const ELEMENT* restrict x, long x_o, __global ELEMENT* restrict y, long y_o, int n_a, int n_b, OFFSET x_a,
    OFFSET y_b OUTER(d0) OUTER(d1) OUTER(d2) OUTER(d3) OUTER(d4) OUTER(d5)) {
  ELEMENT tile[TILE][TILE];
  const int tiles_b = (n_b + TILE - 1) / TILE;
  const int a0 = (int)get_group_id(0) / tiles_b * TILE, b0 = (int)get_group_id(0) % tiles_b * TILE;
  const int rows_a = min(TILE, n_a - a0), rows_b = min(TILE, n_b - b0);
  int rest = (int)get_group_id(1);
  OFFSET from = 0, to = 0;
  STEP(d5) STEP(d4) STEP(d3) STEP(d2) STEP(d1) STEP(d0)
  x += x_o + from + (OFFSET)a0 * x_a + b0;
  y += y_o + to + (OFFSET)b0 * y_b + a0;
  for (int a = 0; a < rows_a; a++)
    for (int b = 0; b < rows_b; b++) tile[b][a] = x[(OFFSET)a * x_a + b];
  for (int b = 0; b < rows_b; b++)
    for (int a = 0; a < rows_a; a++) y[(OFFSET)b * y_b + a] = tile[b][a];
}
