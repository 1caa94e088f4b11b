// Grids of affine transformations: place (d, h, w) becomes theta (x, y, 1) or theta (x, y, z, 1). For GPUs a work-item has PLACES
// neighbours along w and writes all their coordinates, as vectors of 4 if VECTORS says that they have no gaps and begin at a
// multiple of 16 bytes; for CPUs it has a row.

#ifndef AXES
#define AXES 2
#define PLACES 2
#define VECTORS 1
#define ALIGN_CORNERS 0
#define REAL float
#define THETA_DTYPE f32
#define THETA_T float
#define GRID_DTYPE f32
#define GRID_T float
#endif
#define V 4
#include "lib/types.cl"

// From -1 to 1, or half an element less on both sides; exact at both ends and in the middle.
#define COORDINATE(i, size) ((REAL)(2 * (i) + 1 - (size)) / (REAL)max(1, (size) - ALIGN_CORNERS))
#define SIZES int D, int H, int W
#define TENSORS                                                                                                        \
  __global const THETA_T *theta, long theta_o, long theta_n, long theta_r, long theta_c, __global GRID_T *grid, long grid_o, \
      long grid_n, long grid_d, long grid_h, long grid_w, long grid_a

// A row's matrix, with what does not change along it: grid = along x + base.
#define FIND_ROW(n, row)                                                                                   \
  REAL along[AXES], base[AXES];                                                                            \
  const int d = (row) / H, h = (row) - d * H;                                                              \
  const REAL y = COORDINATE(h, H), z = COORDINATE(d, D);                                                   \
  for (int r = 0; r < AXES; r++) {                                                                         \
    const long m = theta_o + (n) * theta_n + r * theta_r;                                                  \
    along[r] = JOIN(LOAD_, THETA_DTYPE)(theta, m);                                                        \
    base[r] = JOIN(LOAD_, THETA_DTYPE)(theta, m + AXES * theta_c);                                        \
    if (AXES == 3) base[r] = fma((REAL)JOIN(LOAD_, THETA_DTYPE)(theta, m + 2 * theta_c), z, base[r]);     \
    base[r] = fma((REAL)JOIN(LOAD_, THETA_DTYPE)(theta, m + theta_c), y, base[r]);                        \
  }                                                                                                        \
  __global GRID_T* to = grid + grid_o + (n) * grid_n + d * grid_d + h * grid_h;

__kernel void affine_grid(TENSORS, SIZES) {
  const int across = (W + PLACES - 1) / PLACES, item = (int)get_global_id(0);
  const int row = item / across, first = (item - row * across) * PLACES;
  if (row >= D * H) return;
  FIND_ROW((long)get_global_id(1), row)
  REAL values[PLACES * AXES];
  for (int p = 0; p < PLACES; p++) {
    const REAL x = COORDINATE(first + p, W);
    for (int r = 0; r < AXES; r++) values[p * AXES + r] = fma(along[r], x, base[r]);
  }
#if VECTORS
  for (int k = 0; k < PLACES * AXES; k += V) JOIN(VSTORE_, GRID_DTYPE)(to, (long)first * AXES + k, values + k);
#else
  for (int p = 0; p < PLACES && first + p < W; p++)
    for (int r = 0; r < AXES; r++)
      JOIN(STORE_, GRID_DTYPE)(to, (first + p) * grid_w + r * grid_a, values[p * AXES + r]);
#endif
}

// VECTORS here: a row has no gaps.
#define STEP_W (VECTORS ? AXES : grid_w)
#define STEP_A (VECTORS ? 1 : grid_a)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void affine_grid_cpu(TENSORS, SIZES) {
  FIND_ROW((long)get_global_id(1), (int)get_global_id(0))
  INDEPENDENT_ROUNDS
  for (int w = 0; w < W; w++) {
    const REAL x = COORDINATE(w, W);
    JOIN(STORE_, GRID_DTYPE)(to, w * STEP_W, fma(along[0], x, base[0]));
    JOIN(STORE_, GRID_DTYPE)(to, w * STEP_W + STEP_A, fma(along[1], x, base[1]));
    if (AXES == 3) JOIN(STORE_, GRID_DTYPE)(to, w * STEP_W + 2 * STEP_A, fma(along[AXES - 1], x, base[AXES - 1]));
  }
}
