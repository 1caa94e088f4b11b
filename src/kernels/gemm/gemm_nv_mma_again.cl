// A tile of gemm_nv_mma.cl by multiply-adds, from the stages that its copies bring: each work-item computes the sums that it has of
// the matrix instructions, of rows m + 16 i and 8 behind them, and of columns n + 8 j and the next.

#include "gemm/gemm_nv_mma_copy.cl"
#include "gemm/gemm_nv_sample.cl"
#include "gemm/gemm_types.cl"
#include "lib/ptx.cl"

#ifndef FRAGS_M
#define FRAGS_M 2
#define FRAGS_N 8
#define FRAG_SUMS (4 * FRAGS_N)
#define A_UNIT_K 1
#define B_UNIT_K 1
#define TILE_M 128
#define TILE_N 128
#define A_BYTES (TILE_M * STEP_BYTES)
#define B_BYTES (TILE_N * STEP_BYTES)
#define SPLIT_B 1
#endif

// B's two parts become one, x = hi + lo.
static void join_b(__local uchar* tile, int item) {
  __local float4* hi = (__local float4*)tile;
  __local const float4* lo = (__local const float4*)(tile + B_BYTES);
#pragma unroll
  for (int i = 0; i < B_BYTES / 16 / ITEMS; i++) hi[item + i * ITEMS] += lo[item + i * ITEMS];
}
static float element_of(__local const uchar* tile, const int unit_k, const int rows, int row, int k) {
  const int at = unit_k ? UNIT_K_PLACE(row, k / 4) + k % 4 * 4 : ACROSS_K_PLACE(rows, k, row / 4) + row % 4 * 4;
  return *(__local const float*)(tile + at);
}
// Whether a sample of the products of a stage, one of each work-item's, says that the tile is to be computed again. By all.
static int is_hard_stage(__local const uchar* stage, int item) {
  uint random = (uint)item * 2654435761u;
  const int m = any_below(&random, TILE_M), n = any_below(&random, TILE_N), k = any_below(&random, STEP);
  __local const uchar* of_b = stage + A_BYTES;
  const float a = element_of(stage, A_UNIT_K, TILE_M, m, k);
  const float b = element_of(of_b, B_UNIT_K, TILE_N, n, k) +
                  (SPLIT_B ? element_of(of_b + B_BYTES, B_UNIT_K, TILE_N, n, k) : 0);
  int samples, infinite, tiny;
  SYNC_COUNT(samples, is_sample(a, b), ITEMS);
  SYNC_COUNT(infinite, is_infinite_sample(a, b), ITEMS);
  SYNC_COUNT(tiny, is_tiny_sample(a, b), ITEMS);
  return is_hard_sample(samples, infinite, tiny);
}
// Four steps of k, piece number `piece`, of a row.
static void load_four(float to[4], __local const uchar* tile, const int unit_k, const int rows, int row, int piece) {
  if (unit_k) {
    const float4 four = *(__local const float4*)(tile + UNIT_K_PLACE(row, piece));
    to[0] = four.s0, to[1] = four.s1, to[2] = four.s2, to[3] = four.s3;
  } else {
#pragma unroll
    for (int k = 0; k < 4; k++)
      to[k] = *(__local const float*)(tile + ACROSS_K_PLACE(rows, 4 * piece + k, row / 4) + row % 4 * 4);
  }
}
// Adds the products of a stage to sums[FRAGS_M][FRAG_SUMS].
INLINE void multiply_whole(float* sums, __local const uchar* of_a, __local const uchar* of_b, int m, int n) {
#pragma unroll 1
  for (int piece = 0; piece < STEP / 4; piece++) {
    float a[2 * FRAGS_M][4];
#pragma unroll
    for (int i = 0; i < 2 * FRAGS_M; i++) load_four(a[i], of_a, A_UNIT_K, TILE_M, m + 8 * i, piece);
#pragma unroll
    for (int j = 0; j < 2 * FRAGS_N; j++) {
      float b[4];
      load_four(b, of_b, B_UNIT_K, TILE_N, n + j / 2 * 8 + j % 2, piece);
#pragma unroll
      for (int i = 0; i < 2 * FRAGS_M; i++) {
        float* sum = sums + i / 2 * FRAG_SUMS + j / 2 * 4 + i % 2 * 2 + j % 2;
#pragma unroll
        for (int k = 0; k < 4; k++) *sum = fma(a[i][k], b[k], *sum);
      }
    }
  }
}
