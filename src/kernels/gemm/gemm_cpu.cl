// GEMM for CPUs: plain matrices in the slots of gemm_cpu_loop.cl. Elements of every dtype become Scalars while they are
// packed. get_group_id(2) is the product of the batch.

#ifndef A_PACKED
#define A_PACKED 0
#endif
#include "gemm/gemm_layout.cl"
// A_ONE, B_ONE: one packed operand for all products.
#ifndef A_ONE
#define A_ONE 1
#endif
#ifndef B_ONE
#define B_ONE 1
#endif
// Rows that are packed for one work-group are copied, not transposed: a third of the instructions.
#if A_UNIT_K && !A_PACKED
#define A_BY_ROWS 1
#endif

#include "gemm/gemm_cpu_runs.cl"

#define ROW_BIAS(n) read_c(bias + bias_offset + (n), count)
#define ROW_SCALE(n) read_c(scale + scale_offset + (n), count)
#define LOAD_RESIDUAL(at) read_c(residual + residual_offset + (at), count)
#define KEEP(v, at) keep_c(preactivation + preactivation_offset + (at), v, count)
#include "gemm/gemm_cpu_types.cl"

// A panel of A, from its element (0, 0) on.
static void pack_panel(A_SPACE Scalar* to, __global const AB_STORAGE* a, long lda, int rows, int kc) {
  int first = 0;  // the rows before it are packed
#if A_BY_ROWS
  for (; first < rows; first++) {
    __global const AB_STORAGE* row = a + first * lda;
    int k = 0;
    for (; k + VW <= kc; k += VW) VEC_AT(A_SPACE, to + first * KC + k) = LOAD_WIDE(AB_TYPE, row + k);
    for (; k < kc; k++) to[first * KC + k] = LOAD_AB(row, k);
  }
#elif A_UNIT_K
  for (; first + 8 <= rows; first += 8) PUT_RUNS(8, A_SPACE, to + first, MR, a + first * lda, lda, kc)
  for (; first + 4 <= rows; first += 4) PUT_RUNS(4, A_SPACE, to + first, MR, a + first * lda, lda, kc)
  for (; first < rows; first++)
    for (int k = 0; k < kc; k++) to[k * MR + first] = LOAD_AB(a, first * lda + k);
#else
  if (rows == MR) {
    for (int k = 0; k < kc; k++) {
      int i = 0;
      for (; i + 4 <= MR; i += 4) vstore4(LOAD_RUN(4, a + k * lda + i), 0, to + k * MR + i);
      for (; i < MR; i++) to[k * MR + i] = LOAD_AB(a, k * lda + i);
    }
    return;
  }
  for (; first < rows; first++)
    for (int k = 0; k < kc; k++) to[k * MR + first] = LOAD_AB(a, k * lda + first);
#endif
  for (; first < MR; first++)
    for (int k = 0; k < kc; k++) to[first * A_ROW_STEP + k * A_K_STEP] = 0;
}

// Strips of B, from element (k0, n0) on.
static void pack_strips(B_SPACE Scalar* panel, __global const AB_STORAGE* b, long ldb, int kc, int columns) {
#if B_UNIT_K
  for (int n = 0; n < columns; n += NR) {
    B_SPACE Scalar* strip = panel + n * kc;
    __global const AB_STORAGE* column = b + (long)n * ldb;
    int first = 0;  // the columns before it are packed
    const int there = min(NR, columns - n);
    for (; first + 8 <= there; first += 8) PUT_RUNS(8, B_SPACE, strip + first, NR, column + first * ldb, ldb, kc)
    for (; first + 4 <= there; first += 4) PUT_RUNS(4, B_SPACE, strip + first, NR, column + first * ldb, ldb, kc)
    for (; first < NR; first++)
      for (int k = 0; k < kc; k++) strip[k * NR + first] = first < there ? LOAD_AB(column, first * ldb + k) : 0;
  }
#else
  for (int k = 0; k < kc; k++)
    for (int n = 0; n < columns; n += NR)
      for (int j = 0; j < NR; j += VW)
        VEC_AT(B_SPACE, panel + n * kc + k * NR + j) = read_ab(b + k * ldb + n + j, columns - n - j);
#endif
}

#define SETUP const long z = (long)get_group_id(2);
#define PACKED_A (A_ONE ? 0 : z * PADDED_A * K)
#define PACKED_B (B_ONE ? 0 : z * PADDED_B * K)

#define A_PARAMETERS __global const AB_STORAGE *restrict a, long a_offset, long lda, long a_batch
#if A_UNIT_K
#define A_ELEMENT(m, k) (a + a_offset + z * a_batch + (long)(m)*lda + (k))
#else
#define A_ELEMENT(m, k) (a + a_offset + z * a_batch + (long)(k)*lda + (m))
#endif
#define PACK_PANEL(to, m0, rows, k0, kc) pack_panel(to, A_ELEMENT(m0, k0), lda, rows, kc);

#define B_PARAMETERS __global const AB_STORAGE *restrict b, long b_offset, long ldb, long b_batch
#if B_UNIT_K
#define B_ELEMENT(k, n) (b + b_offset + z * b_batch + (long)(n)*ldb + (k))
#else
#define B_ELEMENT(k, n) (b + b_offset + z * b_batch + (long)(k)*ldb + (n))
#endif
#define PACK_B(panel, k0, kc, n0, n_end) pack_strips(panel, B_ELEMENT(k0, n0), ldb, kc, n_end - n0)

// Sums that more blocks of k follow need 32 bits: where C has fewer, they lie in a matrix [batch][M][N] of their own.
#ifndef SUMS_APART
#define SUMS_APART 0
#endif
#if SUMS_APART
#define SUM_PARAMETERS , __global Scalar *restrict sums, long sums_offset
#define SUM_AT(m, n) (sums + sums_offset + (z * M + (m)) * N + (n))
#define READ_SUM(m, n, count) load_run(SUM_AT(m, n), count)
#define WRITE_SUM(m, n, v, count) store_run(SUM_AT(m, n), v, count)
#else
#define SUM_PARAMETERS
#endif

#define C_PARAMETERS __global C_STORAGE *restrict c, long c_offset, long ldc, long c_batch SUM_PARAMETERS
#define C_AT(m, n) (z * c_batch + (long)(m)*ldc + (n))
#define C_LINE(m) (c + c_offset + C_AT(m, ns))
#define READ_C(m, n, count) read_c(c + c_offset + C_AT(m, n), count)
#define WRITE_C(m, n, v, count) write_c(c + c_offset + C_AT(m, n), v, count)

#include "gemm/gemm_cpu_loop.cl"
