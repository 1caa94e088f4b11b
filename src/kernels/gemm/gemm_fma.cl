// GEMM for GPUs: C = activation(alpha * A B + beta * C + bias). A work-group computes a tile of TM x TN of C;
// A and B go through local memory, TK steps of k at a time, with two buffers and one barrier a step. A
// work-item holds RM x RN sums as fragments of 4 x 4, which lie TM / (RM / 4) rows and TN / (RN / 4) columns
// apart, so that the 16-byte reads of neighbours never meet in one bank. It is also the main loop of
// convolution as implicit GEMM.
// Launch: ceil(N / TN) x ceil(M / TM) x (the user's own) groups of ITEMS = (TM / RM) * (TN / RN) work-items;
// ITEMS is a multiple of TM, TN and TK, and TM * TK and TN * TK are multiples of ITEMS (of 4 ITEMS for
// 16-byte loads).
//
// Slots. A file that wants another A, B or C defines some of these and includes this file.
//   PARAMETERS    kernel parameters of A, B and C, after (M, N, K); EPILOGUE_PARAMETERS come last.
//   SETUP         statements at the start, for what depends on get_group_id(2); it may change K.
//   A_UNIT_K      which work-item loads what. 0: an item keeps its row m and takes several k; neighbours
//                 have neighbouring m. 1: an item keeps its k within the step and takes several rows;
//                 neighbours have neighbouring k.
//   LOAD_A(m, k)  the element. Asked only for m < M, k < K: rows below the last are clamped to it.
//   A_ROW(m)      with A_UNIT_K 0: statements (declarations too) run once per item, for its row m < M.
//   A_STEP(k)     with A_UNIT_K 1: statements (declarations too) run in each step, for the item's k; k >= K
//                 may occur.
//   B_UNIT_K, LOAD_B(k, n), B_COLUMN(n), B_STEP(k)   the same of B; n takes the place of m.
//   B_COLUMNS      with B_UNIT_K 1: statements (declarations too) run once per item. LOAD_B may use i, the number of the
//                  load, whose column is B_ITEM_N(i).
//   STORE_SUM(m, n, v)  statements that store the sum v, a REAL before alpha, bias and activation, for m < M,
//                 n < N.
//   C_COLUMNS      statements (declarations too) run before all of those. The item's columns are C_N(j), j < RN, some of
//                  them beyond N; STORE_SUM may use j + l, the number of its column.
//   N_TILE         number of the group's tile along N. SETUP comes before it and may change N.
// Slots for B are independent of those for A: plain A (a, a_offset, lda among PARAMETERS) goes with a
// gathered B, and the other way round.

#ifndef TM
#define TM 128
#endif
#ifndef TN
#define TN 128
#endif
#ifndef TK
#define TK 8
#endif
#ifndef RM
#define RM 8
#endif
#ifndef RN
#define RN 8
#endif
#define ITEMS (TM / RM * (TN / RN))

// Vectors are of four elements, and for plain operands only.
#include "lib/access.cl"
#include "gemm/gemm_layout.cl"

// A row of a local tile is longer than the tile is wide, and, where vectors are taken apart into four rows, rows of k with
// bit 3 begin later, so that transposing stores spread over the banks.
#define PA (TM + 4)
#define PB (TN + 4)
#define TILE_ROW_A(k) ((k)*PA + (A_UNIT_K && A_VECTOR ? (k)&8 : 0))
#define TILE_ROW_B(k) ((k)*PB + (B_UNIT_K && B_VECTOR ? (k)&8 : 0))

// 1: sums of parts of K go to `partial`, [batch * parts][M][N], for gemm_parts.cl, instead of C.
#ifndef PARTS
#define PARTS 0
#endif

#include "gemm/gemm_types.cl"

#ifndef PARAMETERS
#define PARAMETERS                                                                                       \
  __global const AB_STORAGE *restrict a, long a_offset, long lda, long a_batch,                          \
      __global const AB_STORAGE *restrict b, long b_offset, long ldb, long b_batch,                      \
      __global C_STORAGE *restrict c, long c_offset, long ldc, long c_batch, int part_steps,             \
      __global REAL *restrict partial, long partial_offset
#if PARTS
// get_group_id(2) is batch * (parts of K) + part, each of part_steps steps.
#define SETUP                                                             \
  const int parts = (K + part_steps - 1) / part_steps;                    \
  const long z = (long)get_group_id(2) / parts;                           \
  const int k_begin = (int)((long)get_group_id(2) % parts) * part_steps;  \
  K = min(K - k_begin, part_steps);                                       \
  a_offset += z * a_batch + k_begin * (A_UNIT_K ? 1 : lda);               \
  b_offset += z * b_batch + k_begin * (B_UNIT_K ? 1 : ldb);               \
  partial_offset += (long)get_group_id(2) * M * N;
#else
#define SETUP                                  \
  a_offset += (long)get_group_id(2) * a_batch; \
  b_offset += (long)get_group_id(2) * b_batch; \
  c += c_offset;                               \
  const long product_at = (long)get_group_id(2) * c_batch;
#endif
#endif
#ifndef SETUP
#define SETUP
#endif

#ifndef LOAD_A
#if A_UNIT_K
#define A_AT(m, k) (a_offset + (long)(m)*lda + (k))
#else
#define A_AT(m, k) (a_offset + (long)(k)*lda + (m))
#endif
#endif
#ifndef LOAD_B
#if B_UNIT_K
#define B_AT(k, n) (b_offset + (long)(n)*ldb + (k))
#else
#define B_AT(k, n) (b_offset + (long)(k)*ldb + (n))
#endif
#endif
#ifndef LOAD_A
#define LOAD_A(m, k) LOAD_AB(a, A_AT(m, k))
#endif
#ifndef LOAD_B
#define LOAD_B(k, n) LOAD_AB(b, B_AT(k, n))
#endif
#ifndef A_ROW
#define A_ROW(m)
#endif
#ifndef A_STEP
#define A_STEP(k)
#endif
#ifndef B_COLUMN
#define B_COLUMN(n)
#endif
#ifndef B_STEP
#define B_STEP(k)
#endif
#ifndef B_COLUMNS
#define B_COLUMNS
#endif
#ifndef C_COLUMNS
#define C_COLUMNS
#endif
#ifndef N_TILE
#define N_TILE ((int)get_group_id(0))
#endif

#if PARTS
#define STORE_SUM(m, n, v) partial[partial_offset + (long)(m)*N + (n)] = v;
#endif
#ifndef STORE_SUM
#define STORE_SUM(m, n, v)                                                             \
  {                                                                                    \
    const long at = product_at + (long)(m)*ldc + (n);                                  \
    REAL sum = SCALED(v, m, n);                                                        \
    if (beta != 0) sum = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, at), sum);           \
    STORE_C(c, at, FINISH(sum, m, n, at));                                             \
  }
#endif

#if A_VECTOR
#define A_WIDE 4
#define A_FETCHED float4
#else
#define A_WIDE 1
#define A_FETCHED REAL
#endif
#if B_VECTOR
#define B_WIDE 4
#define B_FETCHED float4
#else
#define B_WIDE 1
#define B_FETCHED REAL
#endif

// The loads that an item makes in a step, and where within the tile load i lies.
#define A_LOADS (TM * TK / A_WIDE / ITEMS)
#define B_LOADS (TN * TK / B_WIDE / ITEMS)
#if A_UNIT_K
#define A_M(i) ((item + (i)*ITEMS) / (TK / A_WIDE))
#define A_K(i) (item % (TK / A_WIDE) * A_WIDE)
#define A_LAST (M - 1)
#else
#define A_M(i) (item % (TM / A_WIDE) * A_WIDE)
#define A_K(i) ((item + (i)*ITEMS) / (TM / A_WIDE))
#define A_LAST (M - A_WIDE)
#endif
#if B_UNIT_K
#define B_N(i) ((item + (i)*ITEMS) / (TK / B_WIDE))
#define B_K(i) (item % (TK / B_WIDE) * B_WIDE)
#define B_LAST (N - 1)
#else
#define B_N(i) (item % (TN / B_WIDE) * B_WIDE)
#define B_K(i) ((item + (i)*ITEMS) / (TN / B_WIDE))
#define B_LAST (N - B_WIDE)
#endif
#define B_ITEM_N(i) min(n0 + B_N(i), B_LAST)
// Column j of an item's sums.
#define C_N(j) (n0 + (j) / 4 * (TN / (RN / 4)) + 4 * tx + (j) % 4)

// One load put into a local tile, whose element (m, k) lies at k * pitch + m.
static void put1(__local REAL* at, int pitch, REAL v) {
  *at = v;
}
static void put4_along(__local float* at, int pitch, float4 v) {
  *(__local float4*)at = v;
}
static void put4_across(__local float* at, int pitch, float4 v) {
  at[0] = v.s0;
  at[pitch] = v.s1;
  at[2 * pitch] = v.s2;
  at[3 * pitch] = v.s3;
}
#if !A_VECTOR
#define PUT_A put1
#elif A_UNIT_K
#define PUT_A put4_across
#else
#define PUT_A put4_along
#endif
#if !B_VECTOR
#define PUT_B put1
#elif B_UNIT_K
#define PUT_B put4_across
#else
#define PUT_B put4_along
#endif

#define REAL4 JOIN2(REAL, 4)
#define UNPACK(to, at, from) \
  {                          \
    const REAL4 v = from;    \
    to[at] = v.s0;           \
    to[(at) + 1] = v.s1;     \
    to[(at) + 2] = v.s2;     \
    to[(at) + 3] = v.s3;     \
  }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_fma(int M, int N, int K, PARAMETERS,
                                                                           EPILOGUE_PARAMETERS) {
  __local REAL4 tile_a[2][(TK * PA + 8) / 4], tile_b[2][(TK * PB + 8) / 4];
  const int item = (int)get_local_id(0), tx = item % (TN / RN), ty = item / (TN / RN);
  SETUP
  const int n0 = N_TILE * TN, m0 = (int)get_group_id(1) * TM;
  const int steps = (K + TK - 1) / TK;
#if !A_UNIT_K
  const int m_item = min(m0 + A_M(0), A_LAST);
  A_ROW(m_item)
#endif
#if B_UNIT_K
  B_COLUMNS
#else
  const int n_item = B_ITEM_N(0);
  B_COLUMN(n_item)
#endif

#if A_VECTOR
  __global const float4* from_a[A_LOADS];
#pragma unroll
  for (int i = 0; i < A_LOADS; i++)
    from_a[i] = (__global const float4*)(a + A_AT(min(m0 + A_M(i), A_LAST), A_K(i)));
#endif
#if B_VECTOR
  __global const float4* from_b[B_LOADS];
#pragma unroll
  for (int i = 0; i < B_LOADS; i++)
    from_b[i] = (__global const float4*)(b + B_AT(B_K(i), min(n0 + B_N(i), B_LAST)));
#endif

  REAL sums[RM][RN];
#pragma unroll
  for (int i = 0; i < RM; i++)
#pragma unroll
    for (int j = 0; j < RN; j++) sums[i][j] = 0;

  // Step s fetches tile s into registers, multiplies tile s - 1, and puts tile s into the other buffer.
  for (int s = 0; s <= steps; s++) {
    A_FETCHED next_a[A_LOADS];
    B_FETCHED next_b[B_LOADS];
    if (s < steps) {
      const int whole = (s + 1) * TK <= K;
#if A_VECTOR
      if (whole) {
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) next_a[i] = WIDE_LOAD(float4, from_a[i]);
      } else {
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) next_a[i] = s * TK + A_K(i) < K ? WIDE_LOAD(float4, from_a[i]) : (float4)(0);
      }
#pragma unroll
      for (int i = 0; i < A_LOADS; i++) from_a[i] += TK * (A_UNIT_K ? 1 : lda) / 4;
#else
#if A_UNIT_K
      const int k_item_a = s * TK + A_K(0);
      A_STEP(k_item_a)
#endif
#pragma unroll
      for (int i = 0; i < A_LOADS; i++) {
#if A_UNIT_K
        const int k = k_item_a, m = min(m0 + A_M(i), A_LAST);
#else
        const int k = s * TK + A_K(i), m = m_item;
#endif
        next_a[i] = (A_FETCHED)(0);
        if (k < K) next_a[i] = LOAD_A(m, k);
      }
#endif
#if B_VECTOR
      if (whole) {
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) next_b[i] = WIDE_LOAD(float4, from_b[i]);
      } else {
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) next_b[i] = s * TK + B_K(i) < K ? WIDE_LOAD(float4, from_b[i]) : (float4)(0);
      }
#pragma unroll
      for (int i = 0; i < B_LOADS; i++) from_b[i] += TK * (B_UNIT_K ? 1 : ldb) / 4;
#else
#if B_UNIT_K
      const int k_item_b = s * TK + B_K(0);
      B_STEP(k_item_b)
#endif
#pragma unroll
      for (int i = 0; i < B_LOADS; i++) {
#if B_UNIT_K
        const int k = k_item_b, n = B_ITEM_N(i);
#else
        const int k = s * TK + B_K(i), n = n_item;
#endif
        next_b[i] = (B_FETCHED)(0);
        if (k < K) next_b[i] = LOAD_B(k, n);
      }
#endif
    }
    if (s > 0) {
      __local const REAL4 *rows_a = tile_a[(s - 1) & 1] + ty, *rows_b = tile_b[(s - 1) & 1] + tx;
#pragma unroll
      for (int k = 0; k < TK; k++) {
        REAL part_a[RM], part_b[RN];
#pragma unroll
        for (int i = 0; i < RM; i += 4) UNPACK(part_a, i, rows_a[(TILE_ROW_A(k) + i / 4 * (TM / (RM / 4))) / 4])
#pragma unroll
        for (int j = 0; j < RN; j += 4) UNPACK(part_b, j, rows_b[(TILE_ROW_B(k) + j / 4 * (TN / (RN / 4))) / 4])
#pragma unroll
        for (int i = 0; i < RM; i++)
#pragma unroll
          for (int j = 0; j < RN; j++) sums[i][j] = MULTIPLY_ADD(part_a[i], part_b[j], sums[i][j]);
      }
    }
    if (s < steps) {
      __local REAL *to_a = (__local REAL*)tile_a[s & 1], *to_b = (__local REAL*)tile_b[s & 1];
#pragma unroll
      for (int i = 0; i < A_LOADS; i++) PUT_A(to_a + TILE_ROW_A(A_K(i)) + A_M(i), PA, next_a[i]);
#pragma unroll
      for (int i = 0; i < B_LOADS; i++) PUT_B(to_b + TILE_ROW_B(B_K(i)) + B_N(i), PB, next_b[i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  C_COLUMNS
#pragma unroll
  for (int i = 0; i < RM; i++) {
    const int m = m0 + i / 4 * (TM / (RM / 4)) + 4 * ty + i % 4;
    if (m >= M) continue;
#pragma unroll
    for (int j = 0; j < RN; j += 4) {
      const int n = C_N(j);
#if C_VECTOR && PARTS
      if (n < N)
        WIDE_STORE(float4, partial + partial_offset + (long)m * N + n,
                   (float4)(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]));
#elif C_VECTOR
      if (n < N) {
        const long at = product_at + (long)m * ldc + n;
        float4 v = (float4)(SCALED(sums[i][j], m, n), SCALED(sums[i][j + 1], m, n + 1),
                            SCALED(sums[i][j + 2], m, n + 2), SCALED(sums[i][j + 3], m, n + 3));
        if (beta != 0) v = fma((float4)beta, WIDE_LOAD(float4, c + at), v);
        WIDE_STORE(float4, c + at,
                   (float4)(FINISH(v.s0, m, n, at), FINISH(v.s1, m, n + 1, at + 1), FINISH(v.s2, m, n + 2, at + 2),
                            FINISH(v.s3, m, n + 3, at + 3)));
      }
#else
#pragma unroll
      for (int l = 0; l < 4; l++)
        if (n + l < N) STORE_SUM(m, (n + l), sums[i][j + l])
#endif
    }
  }
}
