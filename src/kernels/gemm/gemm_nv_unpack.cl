// Stages that bulk copies brought, with the 128-byte swizzle, in order for multiply-adds (gemm_nv_again.cl): to[k][row], for 32
// steps of k.

#ifndef MULTIPLIERS
#define MULTIPLIERS 256
#define TILE_ROWS 128
#define TILE_COLUMNS 128
#endif
#ifndef A_BYTES
#define A_BYTES (TILE_ROWS * 128)
#define B_BYTES (TILE_COLUMNS * 128)
#endif
#include "gemm/gemm_types.cl"
#include "gemm/gemm_split.cl"

#define AGAIN_A_PITCH (TILE_ROWS + 4)
#define AGAIN_B_PITCH (TILE_COLUMNS + 4)

// Of a stage, 16 bytes at a time: a work-item's share of A, and of B if it has as many.
#define A_SHARE (8 * TILE_ROWS / MULTIPLIERS)
#define B_SHARE ((8 * TILE_COLUMNS + MULTIPLIERS - 1) / MULTIPLIERS)
#define HAS_B(i, item) ((i + 1) * MULTIPLIERS <= 8 * TILE_COLUMNS || (item) + (i)*MULTIPLIERS < 8 * TILE_COLUMNS)

// Share number i of `rows` rows, each 128 bytes: four steps of k of a row.
static float4 four_steps(__local const float* at, int rows, int i) {
  const int row = i % rows, four = i / rows;
  return *(__local const float4*)(at + row * 32 + ((four ^ row) & 7) * 4);
}
INLINE void put_steps(__local float* to, int pitch, int rows, int i, float4 v) {
  to += i / rows * 4 * pitch + i % rows;
  to[0] = v.s0, to[pitch] = v.s1, to[2 * pitch] = v.s2, to[3 * pitch] = v.s3;
}
// Share number i of boxes of 32 rows, a line of them for each step of k: four rows.
static float4 four_rows(__local const float* at, int i) {
  const int four = i % 8, k = i / 8 % 32, box = i / 256;
  return *(__local const float4*)(at + box * 1024 + k * 32 + ((four ^ k) & 7) * 4);
}
INLINE void put_rows(__local float* to, int pitch, int i, float4 v) {
  *(__local float4*)(to + i / 8 % 32 * pitch + i / 256 * 32 + i % 8 * 4) = v;
}
// B of two parts, rows of 128 bytes.
INLINE void load_b(float4 v[B_SHARE], __local const float* upper, __local const float* lower, int item) {
#pragma unroll
  for (int i = 0; i < B_SHARE; i++)
    if (HAS_B(i, item))
      v[i] = four_steps(upper, TILE_COLUMNS, item + i * MULTIPLIERS) + four_steps(lower, TILE_COLUMNS, item + i * MULTIPLIERS);
}
INLINE void put_b(__local float* to, const float4 v[B_SHARE], int item) {
#pragma unroll
  for (int i = 0; i < B_SHARE; i++)
    if (HAS_B(i, item)) put_steps(to, AGAIN_B_PITCH, TILE_COLUMNS, item + i * MULTIPLIERS, v[i]);
}
// Whether there is an infinity or a NaN: of four numbers, of a share of B.
static uint is_odd(float4 v) {
  return !(isfinite(v.s0) && isfinite(v.s1) && isfinite(v.s2) && isfinite(v.s3));
}
static uint is_odd_b(const float4 v[B_SHARE], int item) {
  uint odd = 0;
#pragma unroll
  for (int i = 0; i < B_SHARE; i++)
    if (HAS_B(i, item)) odd |= is_odd(v[i]);
  return odd;
}
// A stage of A, whose rows or lines of them are contiguous, and of both parts of B. Whether B has infinities or NaNs.
INLINE uint bring_stage(const int a_unit_k, __local const float* stage, __local float* a, __local float* b, int item) {
  float4 of_a[A_SHARE], of_b[B_SHARE];
#pragma unroll
  for (int i = 0; i < A_SHARE; i++)
    of_a[i] = a_unit_k ? four_steps(stage, TILE_ROWS, item + i * MULTIPLIERS) : four_rows(stage, item + i * MULTIPLIERS);
  load_b(of_b, stage + A_BYTES / 4, stage + (A_BYTES + B_BYTES) / 4, item);
#pragma unroll
  for (int i = 0; i < A_SHARE; i++) {
    if (a_unit_k)
      put_steps(a, AGAIN_A_PITCH, TILE_ROWS, item + i * MULTIPLIERS, of_a[i]);
    else
      put_rows(a, AGAIN_A_PITCH, item + i * MULTIPLIERS, of_a[i]);
  }
  put_b(b, of_b, item);
  return is_odd_b(of_b, item);
}
