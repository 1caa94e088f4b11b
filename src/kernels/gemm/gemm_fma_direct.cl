// GEMM for GPUs where local memory is no faster than the cache and barriers cost:
// C = activation(alpha * A B + beta * C + bias) by work-items that know nothing of each other. An item holds
// RM x RN sums as fragments of 4 x 4 and reads A and B straight from global memory, four steps of k at a time,
// by vectors where they are aligned. The 64 items of a group lie GX beside and GY below each other: neighbours
// read the same rows of A or the same columns of B at the same time, so that one access fills the cache for
// all. Fragments lie 4 * GX columns and 4 * GY rows apart, so that the vectors of neighbours touch.
// Launch: ceil(N / TN) x ceil(M / TM) x batch groups of 64 work-items.

#ifndef RM
#define RM 4
#endif
#ifndef RN
#define RN 4
#endif
#ifndef GX
#define GX 8
#endif
#define GY (64 / GX)
#define TM (GY * RM)
#define TN (GX * RN)

// Vectors are of four elements.
#include "gemm/gemm_layout.cl"
#include "gemm/gemm_types.cl"

#define REAL4 JOIN2(REAL, 4)

// Where line i (a row of A and C, a column of B and C) of an item lies, the item being `t` of `items` along it.
#define LINE(first, i, t, items) ((first) + (i) / 4 * 4 * (items) + 4 * (t) + (i) % 4)

// The lines to read, none beyond the last of `size`. Those of a vector stay together.
INLINE void lines_of(int* at, const int lines, int first, int t, const int items, int size, const bool vector) {
#pragma unroll
  for (int i = 0; i < lines; i++)
    at[i] = vector ? min(LINE(first, i / 4 * 4, t, items), size - 4) + i % 4
                   : min(LINE(first, i, t, items), size - 1);
}

// Four steps of k of some lines: part[4 * i + x] is step x of line i, 0 from step `left` on. p is step 0 of line 0.
INLINE void load_lines(REAL* part, __global const AB_STORAGE* p, long pitch, const int* at, const int lines,
                       const int left, const bool unit_k, const bool vector) {
  if (unit_k) {
#pragma unroll
    for (int i = 0; i < lines; i++) {
      __global const AB_STORAGE* run = p + at[i] * pitch;
      if (vector && left >= 4) {
        VLOAD_AB(run, 0, part + 4 * i)
      } else {
#pragma unroll
        for (int x = 0; x < 4; x++) part[4 * i + x] = x < left ? (REAL)LOAD_AB(run, x) : (REAL)0;
      }
    }
  } else {
#pragma unroll
    for (int x = 0; x < 4; x++) {
      __global const AB_STORAGE* run = p + x * pitch;
#pragma unroll
      for (int i = 0; i < lines; i += 4) {
        REAL d[4] = {0, 0, 0, 0};
        if (x < left && vector) {
          VLOAD_AB(run, at[i], d)
        } else if (x < left) {
#pragma unroll
          for (int y = 0; y < 4; y++) d[y] = LOAD_AB(run, at[i + y]);
        }
#pragma unroll
        for (int y = 0; y < 4; y++) part[4 * (i + y) + x] = d[y];
      }
    }
  }
}

// sums[i * RN / 4 + f] += row i of A times fragment f of columns of B, over four steps of k.
INLINE void multiply(REAL4* sums, const REAL* part_a, const REAL* part_b) {
#pragma unroll
  for (int x = 0; x < 4; x++)
#pragma unroll
    for (int f = 0; f < RN / 4; f++) {
      const REAL* four = part_b + 16 * f + x;
      const REAL4 row = (REAL4)(four[0], four[4], four[8], four[12]);
#pragma unroll
      for (int i = 0; i < RM; i++)
        sums[i * (RN / 4) + f] = MULTIPLY_ADD((REAL4)(part_a[4 * i + x]), row, sums[i * (RN / 4) + f]);
    }
}

#define STEP(left)                                                                \
  {                                                                               \
    REAL part_a[4 * RM], part_b[4 * RN];                                          \
    load_lines(part_b, b, ldb, columns, RN, left, B_UNIT_K, B_VECTOR);            \
    load_lines(part_a, a, lda, rows, RM, left, A_UNIT_K, A_VECTOR);               \
    multiply(sums, part_a, part_b);                                               \
  }

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void gemm_fma_direct(
    int M, int N, int K, __global const AB_STORAGE* restrict a, long a_offset, long lda, long a_batch,
    __global const AB_STORAGE* restrict b, long b_offset, long ldb, long b_batch,
    __global C_STORAGE* restrict c, long c_offset, long ldc, long c_batch, EPILOGUE_PARAMETERS) {
  const int item = (int)get_local_id(0), tx = item % GX, ty = item / GX;
  const int n0 = (int)get_group_id(0) * TN, m0 = (int)get_group_id(1) * TM;
  const long z = (long)get_group_id(2);
  if (LINE(m0, 0, ty, GY) >= M || LINE(n0, 0, tx, GX) >= N) return;  // nobody waits for it
  a += a_offset + z * a_batch;
  b += b_offset + z * b_batch;
  c += c_offset;
  int rows[RM], columns[RN];
  lines_of(rows, RM, m0, ty, GY, M, A_UNIT_K ? 0 : A_VECTOR);
  lines_of(columns, RN, n0, tx, GX, N, B_UNIT_K ? 0 : B_VECTOR);

  REAL4 sums[RM * RN / 4];
#pragma unroll
  for (int i = 0; i < RM * RN / 4; i++) sums[i] = 0;
  int k = 0;
  for (; k <= K - 4; k += 4) {
    STEP(4)
    a += A_UNIT_K ? 4 : 4 * lda;
    b += B_UNIT_K ? 4 : 4 * ldb;
  }
  if (k < K) STEP(K - k)

#pragma unroll
  for (int i = 0; i < RM; i++) {
    const int m = LINE(m0, i, ty, GY);
    if (m >= M) continue;
#pragma unroll
    for (int j = 0; j < RN; j += 4) {
      const int n = LINE(n0, j, tx, GX);
      const REAL4 v = sums[(i * RN + j) / 4];
      REAL four[4] = {v.s0, v.s1, v.s2, v.s3};
      const long at = z * c_batch + m * ldc + n;
#if C_VECTOR
      if (n >= N) continue;
      REAL old[4] = {0, 0, 0, 0};
      if (beta != 0) VLOAD_C(c, at, old)
#pragma unroll
      for (int y = 0; y < 4; y++) {
        four[y] = SCALED(four[y], m, n + y);
        if (beta != 0) four[y] = MULTIPLY_ADD((REAL)beta, old[y], four[y]);
        four[y] = FINISH(four[y], m, n + y, at + y);
      }
      VSTORE_C(c, at, four);
#else
#pragma unroll
      for (int y = 0; y < 4; y++) {
        if (n + y >= N) continue;
        REAL one = SCALED(four[y], m, n + y);
        if (beta != 0) one = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, at + y), one);
        STORE_C(c, at + y, FINISH(one, m, n + y, at + y));
      }
#endif
    }
  }
}
