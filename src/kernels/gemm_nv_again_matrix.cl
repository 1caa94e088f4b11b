// Matrices as gemm_nv_again.cl sees them, for gemm_nv_wgmma.cl: element by element, and a stage at a time.

#include "ptx.cl"
#include "gemm_nv_unpack.cl"

#ifndef A_UNIT_K
#define A_UNIT_K 1
#endif
#ifndef B_UNIT_K
#define B_UNIT_K 1
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef STEP
#define STEP 32
#define A_BYTES (TILE_ROWS * 128)
#define B_BYTES (TILE_COLUMNS * 128)
#define STAGE_BYTES (A_BYTES + 2 * B_BYTES)
#endif

// From the tile's first row and column on, which are m and n of the maps; `to` is where a stage comes, `bar` the barrier that knows.
struct Again {
  __global const float *a, *b;
  long a_m, a_k, b_n, b_k;
  int rows, columns, K, m, n, a_z, b_z;
  __global const ulong* maps;
  uint to, bar;
};
struct AgainStep {
  int k;
};
static struct AgainStep again_step(const struct Again* from, int k) {
  const struct AgainStep result = {k};
  return result;
}
static float again_a(const struct Again* from, const struct AgainStep* step, int row, int i) {
  const int k = step->k + i;
  return row < from->rows && k < from->K ? from->a[row * from->a_m + k * from->a_k] : 0;
}
static float again_b(const struct Again* from, const struct AgainStep* step, int column, int i) {
  const int k = step->k + i;
  return column < from->columns && k < from->K ? from->b[column * from->b_n + k * from->b_k] : 0;
}
static int again_inside(const struct Again* from, int row, int column) {
  return row < from->rows && column < from->columns;
}
static void again_feed(const struct Again* from, int s) {
  mbarrier_expect(from->bar, STAGE_BYTES);
  COPY_ROWS(from->to, from->maps, A_UNIT_K, TILE_ROWS, STEP, s * STEP, from->m, from->a_z, from->bar)
  COPY_ROWS(from->to + A_BYTES, from->maps + 16, B_UNIT_K, TILE_COLUMNS, STEP, s * STEP, from->n, from->b_z, from->bar)
  COPY_ROWS(from->to + A_BYTES + B_BYTES, from->maps + 32, B_UNIT_K, TILE_COLUMNS, STEP, s * STEP, from->n, from->b_z, from->bar)
}
struct Ahead {
  int nothing;  // in registers: a stage comes by copies
};
INLINE void again_ahead(struct Ahead* ahead, const struct Again* from, int s, int item) {
  if (item == 0) again_feed(from, s);
}
INLINE void again_unpack(struct Ahead* ahead, const struct Again* from, int s, uint parity, __local const float* stage,
                         __local float* a, __local float* b, int item) {
  mbarrier_wait(from->bar, parity);
  if (A_UNIT_K)
    unpack_rows(a, AGAIN_A_PITCH, TILE_ROWS, stage, item);
  else
    unpack_boxes(a, AGAIN_A_PITCH, TILE_ROWS, stage, item);
  unpack_two(b, AGAIN_B_PITCH, TILE_COLUMNS, stage + A_BYTES / 4, stage + (A_BYTES + B_BYTES) / 4, item);
}
