// The main loop of GEMM and of convolution as implicit GEMM on CPUs: C = activation(alpha * A B + beta * C + bias) by
// work-groups of one work-item, explicit vectors, packed panels, no barriers. What A, B and C are, slots say:
// gemm_cpu.cl has plain matrices, conv_cpu.cl and conv_cpu_filter.cl have convolution's.
//
// A work-group of gemm_cpu owns `nc` columns and `rows` rows of C. For each block of KC steps of k it packs its piece of
// B into `panel_b` (strips of NR columns, zeros right of the last one). Then, MC rows at a time, it packs A into `panel_a`
// (panels of MR rows, zeros below the last one), computes tiles of MR x NR in registers, and adds them to C. So C must be
// readable, and the order of the sums depends on KC alone. With A_PACKED or B_PACKED gemm_pack_a or gemm_pack_b packed
// the operand before, block of k by block of k.
//
// Slots. A file defines them and includes this file.
//   SETUP          statements at the start of each kernel, for what depends on get_group_id(2), which this file leaves to
//                  the user (product of a batch, group, part of K); it may change K.
//   ROWS           statements in gemm_cpu once its rows m0 ... m_end - 1 are known.
//   BLOCK(k0, kc)  statements in gemm_cpu before each block of k.
//   A_PARAMETERS   parameters of the kernel that packs A.
//   PACK_PANEL(to, m0, rows, k0, kc)  statements: element (m, k) goes to to[(m - m0) * A_ROW_STEP + (k - k0) * A_K_STEP],
//                  zeros for m from m0 + rows to m0 + MR - 1; it may write VW numbers behind the last. Or, in gemm_cpu:
//   PACK_PANELS(to, m0, m_end, k0, kc)  the same for several panels, A_PANEL numbers apart. Or, row by row:
//   PACK_A(to, m, k0, kc)  element (m, k) goes to to[(k - k0) * A_K_STEP]. Or, element by element:
//   A_ROW(m)       statements (declarations too) run once per row, before its LOAD_A.
//   LOAD_A(m, k)   the element. Asked only for m < M, k < K.
//   A_AT(m, k)     with A_DIRECT: the element's address; and A_PITCH. M must be MR or more.
//   B_AT(k, n)     with B_DIRECT: the element's address; and B_PITCH. N must be a multiple of NR.
//   PACKED_A       offset in the packed A of this get_group_id(2); PACKED_B the same.
//   B_PARAMETERS   parameters of the kernel that packs B.
//   PACK_B(panel, k0, kc, n0, n_end)  statements that fill a panel, for k in [k0, k0 + kc) and n in [n0, n_end): element
//                  (k, n) goes to panel[(n - n0) / NR * kc * NR + (k - k0) * NR + (n - n0) % NR], zeros in the last strip
//                  for n >= n_end. It may write VW numbers behind the last.
//   C_PARAMETERS   kernel parameters.
//   C_STRIP(ns)    statements (declarations too) run before the tiles of the NR columns from ns on.
//   C_LINE(m)      address of C's row m, in these columns: what to fetch before it is used.
//   READ_C(m, n, count)      a VEC of C at row m, columns n to n + count - 1, count <= VW; see load_run().
//   WRITE_C(m, n, v, count)  the same stored; see store_run().
//   C_AT(m, n)     where C's element lies, counted from its first, for the epilogue.
//   SUMS_APART     1: C cannot hold sums that more blocks of k follow; READ_SUM and WRITE_SUM, like the two above, do.
//   MULTIPLY_ADD(a, b, c)    of VECs.
// The last kernel parameters are EPILOGUE_PARAMETERS (epilogue.cl).

#include "gemm/gemm_cpu_runs.cl"

#ifndef SETUP
#define SETUP
#endif
#ifndef ROWS
#define ROWS
#endif
#ifndef BLOCK
#define BLOCK(k0, kc)
#endif
#ifndef PACKED_A
#define PACKED_A 0
#endif
#ifndef PACKED_B
#define PACKED_B 0
#endif
#ifndef C_STRIP
#define C_STRIP(ns)
#endif
#ifndef SUMS_APART
#define SUMS_APART 0
#endif
#if !SUMS_APART
#define READ_SUM(m, n, count) READ_C(m, n, count)
#define WRITE_SUM(m, n, v, count) WRITE_C(m, n, v, count)
#endif
#ifndef MULTIPLY_ADD
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#endif
#ifndef ROW_BIAS
#define ROW_BIAS(n) load_run(bias + bias_offset + (n), count)
#define ROW_SCALE(n) load_run(scale + scale_offset + (n), count)
#define LOAD_RESIDUAL(at) load_run(residual + residual_offset + (at), count)
#define KEEP(v, at) keep_run(preactivation + preactivation_offset + (at), v, count)
#endif
#include "lib/epilogue.cl"

// Row-major matrices of Scalars, for a file that leaves the slots empty.
#ifndef A_PARAMETERS
#define A_PARAMETERS __global const Scalar *restrict a, long a_offset, long lda
#define A_ROW(m)
#define LOAD_A(m, k) a[a_offset + (m)*lda + (k)]
#endif
#ifndef B_PARAMETERS
#define B_PARAMETERS __global const Scalar *restrict b, long b_offset, long ldb
#define PACK_B(panel, k0, kc, n0, n_end)            \
  for (int k = 0; k < kc; k++)                      \
    for (int n = n0; n < n_end || (n - n0) % NR != 0; n += VW)  \
      VEC_AT(B_SPACE, panel + (n - n0) / NR * kc * NR + k * NR + (n - n0) % NR) = \
          load_run(b + b_offset + (k0 + k) * ldb + n, n_end - n)
#endif
#ifndef C_PARAMETERS
#define C_PARAMETERS __global Scalar *restrict c, long c_offset, long ldc
#define C_AT(m, n) ((m)*ldc + (n))
#define C_LINE(m) (c + c_offset + C_AT(m, ns))
#define READ_C(m, n, count) load_run(c + c_offset + C_AT(m, n), count)
#define WRITE_C(m, n, v, count) store_run(c + c_offset + C_AT(m, n), v, count)
#endif

#if !A_DIRECT
#undef A_PITCH
#define A_PITCH 0
#endif
#if !B_DIRECT
#undef B_PITCH
#define B_PITCH NR
#endif
#ifndef PACK_A
#define PACK_A(to, m, k0, kc) \
  A_ROW(m)                    \
  for (int k = 0; k < kc; k++) (to)[k * A_K_STEP] = LOAD_A(m, (k0 + k));
#endif
#ifndef PACK_PANEL
#define PACK_PANEL(to, m0, rows, k0, kc)                                     \
  for (int i = 0; i < MR; i++) {                                             \
    if (i < rows) {                                                          \
      PACK_A((to + i * A_ROW_STEP), (m0 + i), k0, kc)                        \
    } else {                                                                 \
      for (int k = 0; k < kc; k++) (to)[i * A_ROW_STEP + k * A_K_STEP] = 0;  \
    }                                                                        \
  }
#endif

#define A_PANEL (MR * KC)
#ifndef PACK_PANELS
#define PACK_PANELS(to, m0, m_end, k0, kc)                   \
  for (int m = m0; m < m_end; m += MR) {                     \
    __local Scalar* panel = to + (m - m0) / MR * A_PANEL;    \
    const int there = min(MR, m_end - m);                    \
    PACK_PANEL(panel, m, there, k0, kc)                      \
  }
#endif

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
#define MULTIPLY(i, j) c##i##_##j = MULTIPLY_ADD(a##i, b##j, c##i##_##j);
#define SPILL(i, j) tile[i * NV + j] = c##i##_##j;
#define LOAD_B_VECTOR(i, j) const VEC b##j = VEC_AT(B_SPACE const, b + j * VW);
#define CLEAR_ROW(i) EACH_VECTOR(CLEAR, i)
#define MULTIPLY_ROW(i)               \
  const VEC a##i = a[i * A_ROW_STEP]; \
  EACH_VECTOR(MULTIPLY, i)
#define SPILL_ROW(i) EACH_VECTOR(SPILL, i)

// tile = (MR x kc) (kc x NR). Meanwhile the `height` rows of C at `c`, `pitch` bytes apart, are fetched: one by one, since
// a core waits for few lines at a time, and those of the panels must pass. (1024^3, 4 KB from row to row: 1.2 x.)
static void multiply(VEC* tile, A_SPACE const Scalar* a, B_SPACE const Scalar* b, int kc, __global const char* c,
                     long pitch, int height, long a_pitch, long b_pitch) {
  EACH_ROW(CLEAR_ROW)
  const int steps = (kc + MR - 1) / MR;
  for (int i = 0; i < MR; i++) {
    if (i < height) {
      for (int j = 0; j < NV; j++) FETCH(c + i * pitch + j * sizeof(VEC));
    }
    for (int k = i * steps; k < min((i + 1) * steps, kc); k++) {
      EACH_VECTOR(LOAD_B_VECTOR, 0)
      EACH_ROW(MULTIPLY_ROW)
      a += A_K_STEP;
      b += b_pitch;
    }
  }
  EACH_ROW(SPILL_ROW)
}

#define ONE_WORK_ITEM __attribute__((reqd_work_group_size(1, 1, 1)))

// Elements of A and of B in a block of one step of k, zeros included.
#define PADDED_A ((long)((M + MR - 1) / MR) * MR)
#define PADDED_B ((long)((N + NR - 1) / NR) * NR)

#if A_PACKED
__kernel ONE_WORK_ITEM void gemm_pack_a(int M, int K, __global Scalar* restrict packed, long packed_offset,
                                        A_PARAMETERS) {
  const long padded = PADDED_A;
  SETUP
  const int m0 = (int)get_group_id(0) * MR, k0 = (int)get_group_id(1) * KC, kc = min(KC, K - k0);
  packed += packed_offset + PACKED_A + padded * k0 + (long)m0 * kc;
  const int rows = min(MR, M - m0);
  PACK_PANEL(packed, m0, rows, k0, kc)
}
#define A_SOURCE __global const Scalar *restrict packed_a, long packed_a_offset
#else
#define A_SOURCE A_PARAMETERS
#endif

#if B_PACKED
__kernel ONE_WORK_ITEM void gemm_pack_b(int N, int K, __global Scalar* restrict packed, long packed_offset,
                                        B_PARAMETERS) {
  const long padded = PADDED_B;
  SETUP
  const int n0 = (int)get_group_id(0) * NR, k0 = (int)get_group_id(1) * KC, kc = min(KC, K - k0);
  packed += packed_offset + PACKED_B + padded * k0 + (long)n0 * kc;
  PACK_B(packed, k0, kc, n0, min(n0 + NR, N));
}
#define B_SOURCE __global const Scalar *restrict packed_b, long packed_b_offset
#else
#define B_SOURCE B_PARAMETERS
#endif

// 0: the file's program has the kernels that pack alone.
#ifndef MULTIPLIES
#define MULTIPLIES 1
#endif
#if MULTIPLIES
// Where several blocks of k meet, beta's part is added with the block whose sum goes to C or comes from it first.
#define BETA_BLOCK (SUMS_APART ? last : first)
// Puts a tile of `height` rows to C, vectors of `width` columns.
#define PUT_TILE(width)                                                 \
  for (int i = 0; i < height; i++)                                      \
    for (int j = 0; j < NV && ns + j * VW < n_end; j++) {               \
      const int n = ns + j * VW, count = width;                         \
      VEC v = SCALED(tile[i * NV + j], (m + i), n);                     \
      if (!first) v += READ_SUM((m + i), n, count);                     \
      if (beta != 0 && BETA_BLOCK) v += (Scalar)beta * READ_C((m + i), n, count); \
      if (last) {                                                       \
        v = FINISH(v, (m + i), n, C_AT((m + i), n));                    \
        WRITE_C((m + i), n, v, count);                                  \
      } else {                                                          \
        WRITE_SUM((m + i), n, v, count);                                \
      }                                                                 \
    }

__kernel ONE_WORK_ITEM void gemm_cpu(int M, int N, int K, int nc, int rows, A_SOURCE, B_SOURCE, C_PARAMETERS,
                                     EPILOGUE_PARAMETERS) {
#if !A_PACKED && !A_DIRECT
  __local Scalar panel_a[KC * MC + VW] __attribute__((aligned(64)));
#endif
#if !B_PACKED && !B_DIRECT
  __local Scalar panel_b[KC * NC + VW] __attribute__((aligned(64)));
#endif
  const int n0 = (int)get_group_id(0) * nc, n_end = min(n0 + nc, N);
  const int m0 = (int)get_group_id(1) * rows, m_end = min(m0 + rows, M);
  long padded = PADDED_A;
  SETUP
  ROWS
#if A_PACKED
  packed_a += packed_a_offset + PACKED_A;
#endif
#if B_PACKED
  const long padded_b = PADDED_B;
  packed_b += packed_b_offset + PACKED_B;
#endif
  int k0 = 0;
  do {  // once even if K is 0: C still gets its beta, bias and activation
    const int kc = min(KC, K - k0);
    const bool first = k0 == 0, last = k0 + kc == K;
    BLOCK(k0, kc)
#if B_PACKED
    __global const Scalar* strips = packed_b + padded_b * k0 + (long)n0 * kc;
#elif !B_DIRECT
    __local const Scalar* strips = panel_b;
    PACK_B(panel_b, k0, kc, n0, n_end);
#endif
    for (int mc = m0; mc < m_end; mc += MC) {  // so many rows of A stay in the cache over all strips
      const int mc_end = min(mc + MC, m_end);
#if A_PACKED
      __global const Scalar* panels = packed_a + padded * k0 + (long)mc * kc;
      const int panel_k = kc;  // steps of k that a panel has room for
#elif !A_DIRECT
      __local const Scalar* panels = panel_a;
      const int panel_k = KC;
      PACK_PANELS(panel_a, mc, mc_end, k0, kc)
#endif
      for (int ns = n0; ns < n_end; ns += NR) {
        C_STRIP(ns)
        for (int m = mc; m < mc_end; m += MR) {
          const int height = min(MR, m_end - m);
          __global const char* line = (__global const char*)(C_LINE(m));
          VEC products[MR * NV], *tile = products;
#if A_DIRECT
          const int above = max(0, m + MR - M);  // rows that are done already, so that there are MR
          A_SPACE const Scalar* panel = A_AT(m - above, k0);
          tile += above * NV;
#else
          A_SPACE const Scalar* panel = panels + (m - mc) * panel_k;
#endif
#if B_DIRECT
          B_SPACE const Scalar* strip = B_AT(k0, ns);
#else
          B_SPACE const Scalar* strip = strips + (ns - n0) * kc;
#endif
          multiply(products, panel, strip, kc, line, (__global const char*)(C_LINE((m + 1))) - line,
                   height, A_PITCH, B_PITCH);
          if (ns + NR <= n_end) {
            PUT_TILE(VW)
          } else {
            PUT_TILE(min(VW, n_end - n))
          }
        }
      }
    }
    k0 += KC;
  } while (k0 < K);
}
#endif
