// Matrices as gemm_nv_again.cl sees them, for gemm_nv_wgmma.cl: element by element, and a stage at a time.

#include "lib/ptx.cl"
#include "gemm/gemm_nv_unpack.cl"

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

#define AGAIN_ADDS(a, b) 1
#define AGAIN_PADS 0
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
#define AGAIN_BAR(from) ((from)->bar)
INLINE void again_feed(const struct Again* from, int s, int item) {
  if (item != 0) return;
  mbarrier_expect(from->bar, STAGE_BYTES);
  COPY_ROWS(from->to, from->maps, A_UNIT_K, TILE_ROWS, STEP, s * STEP, from->m, from->a_z, from->bar)
  COPY_ROWS(from->to + A_BYTES, from->maps + 16, B_UNIT_K, TILE_COLUMNS, STEP, s * STEP, from->n, from->b_z, from->bar)
  COPY_ROWS(from->to + A_BYTES + B_BYTES, from->maps + 32, B_UNIT_K, TILE_COLUMNS, STEP, s * STEP, from->n, from->b_z, from->bar)
}
INLINE uint again_bring(const struct Again* from, int s, int item, __local const float* stage, __local float* a, __local float* b) {
  return bring_stage(A_UNIT_K, stage, a, b, item);
}
