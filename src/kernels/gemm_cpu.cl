// GEMM for CPUs: C = activation(alpha * A B + beta * C + bias) by work-groups of one work-item, explicit
// vectors, packed panels, no barriers. It is also the main loop of convolution as implicit GEMM.
//
// gemm_pack_a puts A into a workspace: for each block of KC steps of k, panels of MR rows, in a panel the MR
// elements of one k side by side, zeros below the last row. In gemm_cpu a work-group owns `nc` columns and
// `rows` rows of C. For each block of k it packs its piece of B into `panel` (strips of NR columns, zeros
// right of the last one), then computes tiles of MR x NR in registers, and adds them to C. So C must be
// readable, and the order of the sums depends on KC alone.
//
// Slots. A file that wants another A, B or C defines some of these and includes this file.
//   SETUP          statements at the start of gemm_cpu and of gemm_pack_a, for what depends on
//                  get_group_id(2), which this file leaves to the user (group, part of K); it may change K.
//   A_PARAMETERS   kernel parameters of gemm_pack_a, after (M, K, packed, packed_offset).
//   A_ROW(m)       statements (declarations too) run once per row, before its LOAD_A.
//   LOAD_A(m, k)   the element. Asked only for m < M, k < K.
//   PACK_A(to, m, k0, kc)  instead of the two above: statements that put element (m, k) at
//                  to[(k - k0) * MR].
//   PACK_PANEL(to, m0, rows, k0, kc)  the same for a whole panel: element (m, k) at
//                  to[(k - k0) * MR + m - m0], zeros for m from m0 + rows to m0 + MR - 1.
//   PACKED_BATCH   offset in floats of the packed A of this get_group_id(2); for gemm_pack_a and gemm_cpu.
//   B_PARAMETERS   kernel parameters of gemm_cpu, after (M, N, K, nc, rows, packed, packed_offset).
//   B_COLUMN(n)    statements run once per column and block of k, before its LOAD_B.
//   LOAD_B(k, n)   the element. Asked only for k < K, n < N.
//   PACK_B(panel, k0, kc, n0, n_end)  instead of the two above: statements that fill the panel, for k in
//                  [k0, k0 + kc) and n in [n0, n_end): element (k, n) at
//                  panel[(n - n0) / NR * kc * NR + (k - k0) * NR + (n - n0) % NR], zeros in the last strip
//                  for n >= n_end. For runs: put_run(panel_row, pointer, count) copies and fills up.
//   C_PARAMETERS   kernel parameters, after B_PARAMETERS.
//   C_STRIP(ns)    statements (declarations too) run before the tiles of the NR columns from ns on.
//   LOAD_C(m, n, count)      a VEC of C at row m, columns n to n + count - 1, count <= VW; see load_run().
//   STORE_C(m, n, v, count)  the same stored; see store_run().
//   C_AT(m, n)     where C's element lies, counted from its first, for the epilogue.
// The last kernel parameters are EPILOGUE_PARAMETERS (epilogue.cl).

#include "gemm_cpu_runs.cl"

#ifndef SETUP
#define SETUP
#endif
#ifndef PACKED_BATCH
#define PACKED_BATCH 0
#endif

// A_UNIT_K: A's elements are side by side along k, not along m. B_UNIT_K the same of B, which else is side by
// side along n.
#ifndef A_UNIT_K
#define A_UNIT_K 1
#endif
#ifndef B_UNIT_K
#define B_UNIT_K 0
#endif

// Plain operands, packed by whole panels and strips. Where the runs lie along k, four of them are transposed
// at once.
#if !defined(LOAD_A) && !defined(PACK_A)
#define A_PARAMETERS __global const float *restrict a, long a_offset, long lda
#define PACK_PANEL(to, m0, rows, k0, kc) pack_panel(to, a + a_offset, lda, m0, rows, k0, kc);
static void pack_panel(__global float* to, __global const float* a, long lda, int m0, int rows, int k0,
                       int kc) {
  int first = 0;  // the rows before it are packed
#if A_UNIT_K
  a += (long)m0 * lda + k0;
  for (; first + 4 <= rows; first += 4) {
    __global const float* row = a + first * lda;
    int k = 0;
    for (; k + 4 <= kc; k += 4) {
      float4 r[4];
      for (int i = 0; i < 4; i++) r[i] = vload4(0, row + i * lda + k);
      transpose4(r);
      for (int i = 0; i < 4; i++) vstore4(r[i], 0, to + (k + i) * MR + first);
    }
    for (; k < kc; k++)
      for (int i = 0; i < 4; i++) to[k * MR + first + i] = row[i * lda + k];
  }
  for (; first < rows; first++)
    for (int k = 0; k < kc; k++) to[k * MR + first] = a[first * lda + k];
#else
  a += (long)k0 * lda + m0;
  if (rows == MR) {
    for (int k = 0; k < kc; k++)
      for (int i = 0; i < MR; i++) to[k * MR + i] = a[k * lda + i];
    return;
  }
  for (; first < rows; first++)
    for (int k = 0; k < kc; k++) to[k * MR + first] = a[k * lda + first];
#endif
  for (; first < MR; first++)
    for (int k = 0; k < kc; k++) to[k * MR + first] = 0;
}
#endif

#if !defined(LOAD_B) && !defined(PACK_B)
#define B_PARAMETERS __global const float *restrict b, long b_offset, long ldb
#define PACK_B(panel, k0, kc, n0, n_end) pack_strips(panel, b + b_offset, ldb, k0, kc, n0, n_end)
static void pack_strips(__local float* panel, __global const float* b, long ldb, int k0, int kc, int n0,
                        int n_end) {
#if B_UNIT_K
  for (int n = n0; n < n_end; n += NR) {
    __local float* strip = panel + (n - n0) * kc;
    __global const float* column = b + (long)n * ldb + k0;
    int first = 0;  // the columns before it are packed
    for (; first + 4 <= min(NR, n_end - n); first += 4) {
      int k = 0;
      for (; k + 4 <= kc; k += 4) {
        float4 r[4];
        for (int i = 0; i < 4; i++) r[i] = vload4(0, column + i * ldb + k);
        transpose4(r);
        for (int i = 0; i < 4; i++) vstore4(r[i], 0, strip + (k + i) * NR + first);
      }
      for (; k < kc; k++)
        for (int i = 0; i < 4; i++) strip[k * NR + first + i] = column[i * ldb + k];
      column += 4 * ldb;
    }
    for (; first < NR; first++) {
      for (int k = 0; k < kc; k++) strip[k * NR + first] = n + first < n_end ? column[k] : 0;
      column += ldb;
    }
  }
#else
  for (int k = 0; k < kc; k++) {
    __global const float* row = b + (long)(k0 + k) * ldb;
    for (int n = n0; n < n_end; n += NR) put_run(panel + (n - n0) * kc + k * NR, row + n, n_end - n);
  }
#endif
}
#endif

#ifndef PACK_A
#define PACK_A(to, m, k0, kc) \
  A_ROW(m)                    \
  for (int k = 0; k < kc; k++) (to)[k * MR] = LOAD_A(m, (k0 + k));
#endif
#ifndef PACK_PANEL
#define PACK_PANEL(to, m0, rows, k0, kc)                 \
  for (int i = 0; i < MR; i++) {                         \
    if (i < rows) {                                      \
      PACK_A((to + i), (m0 + i), k0, kc)                 \
    } else {                                             \
      for (int k = 0; k < kc; k++) (to)[k * MR + i] = 0; \
    }                                                    \
  }
#endif
#ifndef PACK_B
#define PACK_B(panel, k0, kc, n0, n_end)                                       \
  for (int n = n0; n < n_end; n++) {                                           \
    B_COLUMN(n)                                                                \
    __local float* column = panel + (n - n0) / NR * (kc * NR) + (n - n0) % NR; \
    for (int k = 0; k < kc; k++) column[k * NR] = LOAD_B((k0 + k), n);         \
  }                                                                            \
  for (int n = n_end; (n - n0) % NR != 0; n++) {                               \
    __local float* column = panel + (n - n0) / NR * (kc * NR) + (n - n0) % NR; \
    for (int k = 0; k < kc; k++) column[k * NR] = 0;                           \
  }
#endif

#ifndef STORE_C
#define C_PARAMETERS __global float *restrict c, long c_offset, long ldc
#define C_AT(m, n) ((long)(m)*ldc + (n))
#define LOAD_C(m, n, count) load_run(c + c_offset + (long)(m)*ldc + (n), count)
#define STORE_C(m, n, v, count) store_run(c + c_offset + (long)(m)*ldc + (n), v, count)
#endif

#ifndef C_STRIP
#define C_STRIP(ns)
#endif

#define REAL VEC
#define ROW_BIAS(n) load_run(bias + bias_offset + (n), count)
#define ROW_SCALE(n) load_run(scale + scale_offset + (n), count)
#define LOAD_RESIDUAL(at) load_run(residual + residual_offset + (at), count)
#define KEEP(v, at) keep_run(preactivation + preactivation_offset + (at), v, count)
#include "epilogue.cl"

#define EACH_ROW_1(X) X(0)
#define EACH_ROW_2(X) EACH_ROW_1(X) X(1)
#define EACH_ROW_3(X) EACH_ROW_2(X) X(2)
#define EACH_ROW_4(X) EACH_ROW_3(X) X(3)
#define EACH_ROW_5(X) EACH_ROW_4(X) X(4)
#define EACH_ROW_6(X) EACH_ROW_5(X) X(5)
#define EACH_ROW_7(X) EACH_ROW_6(X) X(6)
#define EACH_ROW_8(X) EACH_ROW_7(X) X(7)
#define EACH_ROW_9(X) EACH_ROW_8(X) X(8)
#define EACH_ROW_10(X) EACH_ROW_9(X) X(9)
#define EACH_ROW_11(X) EACH_ROW_10(X) X(10)
#define EACH_ROW_12(X) EACH_ROW_11(X) X(11)
#define EACH_ROW_13(X) EACH_ROW_12(X) X(12)
#define EACH_ROW_14(X) EACH_ROW_13(X) X(13)
#define EACH_ROW PASTE(EACH_ROW_, MR)

#if NV == 1
#define EACH_VECTOR(X, i) X(i, 0)
#elif NV == 2
#define EACH_VECTOR(X, i) X(i, 0) X(i, 1)
#else
#define EACH_VECTOR(X, i) X(i, 0) X(i, 1) X(i, 2)
#endif

#define CLEAR(i, j) VEC c##i##_##j = 0;
#define MULTIPLY(i, j) c##i##_##j = fma(a##i, b##j, c##i##_##j);
#define SPILL(i, j) tile[i * NV + j] = c##i##_##j;
#define LOAD_B_VECTOR(i, j) const VEC b##j = VLOAD(j, b);
#define CLEAR_ROW(i) EACH_VECTOR(CLEAR, i)
#define MULTIPLY_ROW(i)  \
  const VEC a##i = a[i]; \
  EACH_VECTOR(MULTIPLY, i)
#define SPILL_ROW(i) EACH_VECTOR(SPILL, i)

// tile = (MR x kc) (kc x NR)
static void multiply(VEC* tile, __global const float* a, __local const float* b, int kc) {
  EACH_ROW(CLEAR_ROW)
  for (int k = 0; k < kc; k++) {
    EACH_VECTOR(LOAD_B_VECTOR, 0)
    EACH_ROW(MULTIPLY_ROW)
    a += MR;
    b += NR;
  }
  EACH_ROW(SPILL_ROW)
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_pack_a(int M, int K,
                                                                         __global float* restrict packed,
                                                                         long packed_offset, A_PARAMETERS) {
  const long padded = (long)((M + MR - 1) / MR) * MR;
  SETUP
  const int m0 = (int)get_group_id(0) * MR, k0 = (int)get_group_id(1) * KC, kc = min(KC, K - k0);
  packed += packed_offset + PACKED_BATCH + padded * k0 + (long)m0 * kc;
  const int rows = min(MR, M - m0);
  PACK_PANEL(packed, m0, rows, k0, kc)
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_cpu(int M, int N, int K, int nc, int rows,
                                                                      __global const float* restrict packed,
                                                                      long packed_offset, B_PARAMETERS,
                                                                      C_PARAMETERS, EPILOGUE_PARAMETERS) {
  __local float panel[KC * NC] __attribute__((aligned(64)));
  const long padded = (long)((M + MR - 1) / MR) * MR;
  SETUP
  const int n0 = (int)get_group_id(0) * nc, n_end = min(n0 + nc, N);
  const int m0 = (int)get_group_id(1) * rows, m_end = min(m0 + rows, M);
  packed += packed_offset + PACKED_BATCH;
  int k0 = 0;
  do {  // once even if K is 0: C still gets its beta, bias and activation
    const int kc = min(KC, K - k0);
    const bool first = k0 == 0, last = k0 + kc == K;
    PACK_B(panel, k0, kc, n0, n_end);
    for (int mc = m0; mc < m_end; mc += MC) {  // so many rows of A stay in the cache over all strips
      for (int ns = n0; ns < n_end; ns += NR) {
        C_STRIP(ns)
        for (int m = mc; m < min(mc + MC, m_end); m += MR) {
          VEC tile[MR * NV];
          multiply(tile, packed + padded * k0 + (long)m * kc, panel + (ns - n0) * kc, kc);
          for (int i = 0; i < MR && m + i < m_end; i++) {
            for (int j = 0; j < NV && ns + j * VW < n_end; j++) {
              const int n = ns + j * VW, count = min(VW, n_end - n);
              VEC v = SCALED(tile[i * NV + j], (m + i), n);
              if (!first) {
                v += LOAD_C((m + i), n, count);
              } else if (beta != 0) {
                v += beta * LOAD_C((m + i), n, count);
              }
              if (last) v = FINISH(v, (m + i), n, C_AT((m + i), n));
              STORE_C((m + i), n, v, count);
            }
          }
        }
      }
    }
    k0 += KC;
  } while (k0 < K);
}
