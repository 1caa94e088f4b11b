// GEMM for GPUs whose sub-groups exchange registers faster than through local memory and barriers:
// C = activation(alpha * A B + beta * C + bias). A sub-group of WIDTH lanes computes a tile of TM x TN of C. Each
// lane owns TN / WIDTH columns, WIDTH apart, and holds all their sums in registers. An element of A is loaded once,
// by one lane, and broadcast from its register; rows of B are loaded side by side. Tiles that lie whole within
// the matrices are read by block reads, one message for all lanes, where the driver has them.
// A work-group is GROUPS sub-groups below each other, which read the same columns of B through the cache.
// WIDTH 1 asks nothing of the driver: items alone, by which the rest of the text is tested where there are no
// sub-groups.
// Launch: ceil(N / TN) x ceil(M / (TM * GROUPS)) x batch groups of WIDTH * GROUPS work-items.
// TN and TK are multiples of WIDTH, TK is one of 4.

#ifndef WIDTH
#ifdef cl_intel_required_subgroup_size
#define WIDTH 8
#else
#define WIDTH 1
#endif
#endif
#ifndef TM
#define TM 16
#endif
#ifndef TN
#define TN 32
#endif
#ifndef TK
#define TK 8
#endif
#ifndef GROUPS
#define GROUPS 4
#endif
#define CN (TN / WIDTH)

#ifndef A_UNIT_K
#define A_UNIT_K 1
#endif
#ifndef B_UNIT_K
#define B_UNIT_K 0
#endif
// Whether runs start on addresses that block reads take, multiples of 4 bytes.
#ifndef A_BLOCKS
#define A_BLOCKS 1
#endif
#ifndef B_BLOCKS
#define B_BLOCKS 1
#endif
// Columns of B along k by four elements at once. Element 0, the stride between runs and K must be multiples of
// four elements.
#ifndef B_VECTOR
#define B_VECTOR 0
#endif

#include "gemm_types.cl"

#define VLOAD_AB(p, i, d) JOIN2(VLOAD_, AB_TYPE)(p, i, d)

#if WIDTH > 1
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#define SUB_GROUP_WIDTH __attribute__((intel_reqd_sub_group_size(WIDTH)))
#define SUB_GROUP ((int)get_sub_group_id())
#define LANE ((int)get_sub_group_local_id())
#define BROADCAST(v, lane) sub_group_broadcast(v, lane)
#else
#define SUB_GROUP_WIDTH
#define SUB_GROUP ((int)get_local_id(0))
#define LANE 0
#define BROADCAST(v, lane) (v)
#endif

// Block reads, of words as wide as an element.
#if WIDTH > 1 && defined(cl_intel_subgroups)
#define BLOCK_WORD_f32 uint
#define BLOCK_READ_f32 intel_sub_group_block_read
#define FROM_WORD_f32(w) as_float(w)
#define HAS_BLOCK_READ_f32 1
#endif
#if WIDTH > 1 && defined(cl_intel_subgroups_short)
#define BLOCK_WORD_f16 ushort
#define BLOCK_READ_f16 intel_sub_group_block_read_us
#define FROM_WORD_f16(w) ((float)as_half(w))
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define HAS_BLOCK_READ_f16 1
#endif
#define BLOCK_WORD_bf16 ushort
#define BLOCK_READ_bf16 intel_sub_group_block_read_us
#define FROM_WORD_bf16(w) as_float((uint)(w) << 16)
#define HAS_BLOCK_READ_bf16 1
#endif
#define HAS_BLOCK_READ JOIN2(HAS_BLOCK_READ_, AB_TYPE)

// Each lane's share of a run: to[j] is element j * WIDTH + lane of `size`, those from `left` on being the last.
static void read_run(REAL* to, __global const AB_STORAGE* p, const int size, const int left, const bool blocks) {
#if HAS_BLOCK_READ
  if (blocks && size % WIDTH == 0) {
#define WORD JOIN2(BLOCK_WORD_, AB_TYPE)
#define READ JOIN2(BLOCK_READ_, AB_TYPE)
#define FROM_WORD JOIN2(FROM_WORD_, AB_TYPE)
    __global const WORD* words = (__global const WORD*)p;
    int j = 0;
#pragma unroll
    for (; j + 4 <= size / WIDTH; j += 4) {
      const JOIN2(WORD, 4) w = JOIN2(READ, 4)(words + j * WIDTH);
      to[j] = FROM_WORD(w.s0), to[j + 1] = FROM_WORD(w.s1);
      to[j + 2] = FROM_WORD(w.s2), to[j + 3] = FROM_WORD(w.s3);
    }
    if (j + 2 <= size / WIDTH) {
      const JOIN2(WORD, 2) w = JOIN2(READ, 2)(words + j * WIDTH);
      to[j] = FROM_WORD(w.s0), to[j + 1] = FROM_WORD(w.s1);
      j += 2;
    }
    if (j < size / WIDTH) to[j] = FROM_WORD(READ(words + j * WIDTH));
    return;
  }
#endif
#pragma unroll
  for (int j = 0; j < (size + WIDTH - 1) / WIDTH; j++)
    to[j] = LOAD_AB(p, min(j * WIDTH + LANE, min(size, left) - 1));
}

// The tile of A for TK steps of k, an element in one lane's registers.
#if A_UNIT_K
#define A_REGISTERS (TM * (TK / WIDTH))
#define ELEMENT_A(i, k) BROADCAST(part_a[(i) * (TK / WIDTH) + (k) / WIDTH], (k) % WIDTH)
#else
#define A_LANES ((TM + WIDTH - 1) / WIDTH)
#define A_REGISTERS (TK * A_LANES)
#define ELEMENT_A(i, k) BROADCAST(part_a[(k)*A_LANES + (i) / WIDTH], (i) % WIDTH)
#endif
static void read_a(REAL* part_a, __global const AB_STORAGE* a, long lda, const int rows, const int left,
                   const bool whole) {
#if A_UNIT_K
#pragma unroll
  for (int i = 0; i < TM; i++)
    read_run(part_a + i * (TK / WIDTH), a + min(i, rows - 1) * lda, TK, left, whole && A_BLOCKS);
#else
#pragma unroll
  for (int k = 0; k < TK; k++)
    read_run(part_a + k * A_LANES, a + min(k, left - 1) * lda, TM, rows, whole && A_BLOCKS);
#endif
}

// Steps k to k + B_STEPS - 1 of the lane's columns: part_b[j * B_STEPS + x] is step k + x of column j.
#define B_STEPS (B_UNIT_K ? 4 : 1)
static void read_b(REAL* part_b, __global const AB_STORAGE* b, long ldb, int k, const int columns, const int left,
                   const bool whole) {
#if B_UNIT_K
#pragma unroll
  for (int j = 0; j < CN; j++) {
    __global const AB_STORAGE* run = b + min(j * WIDTH + LANE, columns - 1) * ldb + k;
    if (B_VECTOR && whole) {
      VLOAD_AB(run, 0, part_b + 4 * j)
    } else {
#pragma unroll
      for (int x = 0; x < 4; x++) part_b[4 * j + x] = LOAD_AB(run, min(x, left - 1 - k));
    }
  }
#else
  read_run(part_b, b + k * ldb, TN, columns, whole && B_BLOCKS);
#endif
}

// sums[i * CN + j] += A B over the first `left` of TK steps of k. a and b are the first element of the tiles, of which
// `rows` and `columns` are left. `whole`: nothing ends within the tiles.
static void step(REAL* sums, __global const AB_STORAGE* a, long lda, __global const AB_STORAGE* b, long ldb,
                 const int rows, const int columns, const int left, const bool whole) {
  REAL part_a[A_REGISTERS];
  read_a(part_a, a, lda, rows, left, whole);
#pragma unroll
  for (int k = 0; k < TK; k += B_STEPS) {
    REAL part_b[CN * B_STEPS];
    if (k < left) read_b(part_b, b, ldb, k, columns, left, whole);
#pragma unroll
    for (int x = 0; x < B_STEPS; x++)
      if (k + x < left) {
#pragma unroll
        for (int i = 0; i < TM; i++) {
          const REAL element = ELEMENT_A(i, k + x);
#pragma unroll
          for (int j = 0; j < CN; j++)
            sums[i * CN + j] = MULTIPLY_ADD(element, part_b[j * B_STEPS + x], sums[i * CN + j]);
        }
      }
  }
}

SUB_GROUP_WIDTH __attribute__((reqd_work_group_size(WIDTH* GROUPS, 1, 1))) __kernel void gemm_fma_shuffle(
    int M, int N, int K, __global const AB_STORAGE* restrict a, long a_offset, long lda, long a_batch,
    __global const AB_STORAGE* restrict b, long b_offset, long ldb, long b_batch,
    __global C_STORAGE* restrict c, long c_offset, long ldc, long c_batch, EPILOGUE_PARAMETERS) {
  const int n0 = (int)get_group_id(0) * TN, m0 = ((int)get_group_id(1) * GROUPS + SUB_GROUP) * TM;
  const long z = (long)get_group_id(2);
  if (m0 >= M) return;  // the whole sub-group; nobody waits for it
  const int rows = M - m0, columns = N - n0;
  a += a_offset + z * a_batch + m0 * (A_UNIT_K ? lda : 1);
  b += b_offset + z * b_batch + n0 * (B_UNIT_K ? ldb : 1);
  c += c_offset + z * c_batch;

  REAL sums[TM * CN];
#pragma unroll
  for (int i = 0; i < TM * CN; i++) sums[i] = 0;
  int k = 0;
  if (rows >= TM && columns >= TN)
    for (; k <= K - TK; k += TK) {
      step(sums, a, lda, b, ldb, TM, TN, TK, true);
      a += A_UNIT_K ? TK : TK * lda;
      b += B_UNIT_K ? TK : TK * ldb;
    }
  for (; k < K; k += TK) {
    step(sums, a, lda, b, ldb, rows, columns, min(K - k, TK), false);
    a += A_UNIT_K ? TK : TK * lda;
    b += B_UNIT_K ? TK : TK * ldb;
  }

#pragma unroll
  for (int i = 0; i < TM; i++) {
    const int m = m0 + i;
    if (m >= M) continue;
#pragma unroll
    for (int j = 0; j < CN; j++) {
      const int n = n0 + j * WIDTH + LANE;
      if (n >= N) continue;
      const long at = m * ldc + n;
      REAL v = (REAL)alpha * sums[i * CN + j];
      if (beta != 0) v = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, at), v);
      STORE_C(c, at, FINISH(v, m, n));
    }
  }
}
