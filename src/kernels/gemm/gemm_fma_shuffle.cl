// GEMM for GPUs whose sub-groups exchange registers faster than through local memory and barriers:
// C = activation(alpha * A B + beta * C + bias). A sub-group of WIDTH lanes computes a tile of TM x TN of C. Each
// lane owns TN / WIDTH columns, WIDTH apart, and holds all their sums in registers. An element of A is loaded once,
// by one lane, and broadcast from its register; rows of B are loaded side by side. Tiles that lie whole within
// the matrices are read by block reads, one message for all lanes, where the driver has them.
// A work-group is GROUPS sub-groups below each other, which read the same columns of B through the cache.
// WIDTH 1 asks nothing of the driver: items alone, by which the rest of the text is tested where there are no
// sub-groups.
// Launch: ceil(N / TN) x ceil(M / (TM * GROUPS)) x batch groups of WIDTH * GROUPS work-items.
// TN is a multiple of WIDTH, and so is TK where A lies along k. TK is 4, 8, 16 or 32.

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

// Vectors are of four elements: columns of B along k.
#include "gemm/gemm_layout.cl"
// Whether runs start on addresses that block reads take, multiples of 4 bytes, wherever a tile may begin.
#ifndef A_BLOCKS
#define A_BLOCKS 1
#endif
#ifndef B_BLOCKS
#define B_BLOCKS 1
#endif

#include "gemm/gemm_types.cl"

#if WIDTH > 1
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#define SUB_GROUP_WIDTH __attribute__((intel_reqd_sub_group_size(WIDTH)))
#define SUB_GROUP ((int)get_sub_group_id())
#define LANE ((int)get_sub_group_local_id())
#ifdef cl_intel_subgroups
#define BROADCAST(v, lane) intel_sub_group_shuffle(v, lane)
#else
#define BROADCAST(v, lane) sub_group_broadcast(v, lane)
#endif
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

// Each lane's share of `size` neighbours: to[j] is element j * WIDTH + lane.
INLINE void read_run(REAL* to, __global const AB_STORAGE* p, const int size, const bool blocks) {
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
  for (int j = 0; j < (size + WIDTH - 1) / WIDTH; j++) to[j] = LOAD_AB(p, min(j * WIDTH + LANE, size - 1));
}

// TK steps of k of a tile of A, each element in one lane's registers: RUNS_A runs of RUN_A elements.
#if A_UNIT_K
#define RUNS_A TM
#define RUN_A TK
#define ELEMENT_A(i, k) BROADCAST(part_a[(i)*REGISTERS_A + (k) / WIDTH], (k) % WIDTH)
#else
#define RUNS_A TK
#define RUN_A TM
#define ELEMENT_A(i, k) BROADCAST(part_a[(k)*REGISTERS_A + (i) / WIDTH], (i) % WIDTH)
#endif
#define REGISTERS_A ((RUN_A + WIDTH - 1) / WIDTH)

// Steps k to k + STEPS_B - 1 of the lane's columns: part_b[j * STEPS_B + x] is step k + x of column j.
#define STEPS_B (B_UNIT_K ? 4 : 1)
INLINE void read_b(REAL* part_b, __global const AB_STORAGE* b, long ldb, int k) {
#if B_UNIT_K
#pragma unroll
  for (int j = 0; j < CN; j++) {
    __global const AB_STORAGE* run = b + (j * WIDTH + LANE) * ldb + k;
#if B_VECTOR
    VLOAD_AB(run, 0, part_b + 4 * j)
#else
#pragma unroll
    for (int x = 0; x < 4; x++) part_b[4 * j + x] = LOAD_AB(run, x);
#endif
  }
#else
  read_run(part_b, b + k * ldb, TN, B_BLOCKS);
#endif
}

// sums[i * CN + j] += A B over steps k to k + STEPS_B - 1 of a tile.
INLINE void multiply_steps(REAL* sums, const REAL* part_a, __global const AB_STORAGE* b, long ldb, const int k) {
  REAL part_b[CN * STEPS_B];
  read_b(part_b, b, ldb, k);
#pragma unroll
  for (int x = 0; x < STEPS_B; x++)
#pragma unroll
    for (int i = 0; i < TM; i++) {
      const REAL element = ELEMENT_A(i, k + x);
#pragma unroll
      for (int j = 0; j < CN; j++)
        sums[i * CN + j] = MULTIPLY_ADD(element, part_b[j * STEPS_B + x], sums[i * CN + j]);
    }
}

// All TK, written out: a compiler that does not unroll so much would look for lanes and registers at run time.
#define STEPS(k) multiply_steps(sums, part_a, b, ldb, k);
#if B_UNIT_K
#define STEPS_4(k) STEPS(k)
#else
#define STEPS_4(k) STEPS(k) STEPS((k) + 1) STEPS((k) + 2) STEPS((k) + 3)
#endif
#define STEPS_8(k) STEPS_4(k) STEPS_4((k) + 4)
#define STEPS_16(k) STEPS_8(k) STEPS_8((k) + 8)
#define STEPS_32(k) STEPS_16(k) STEPS_16((k) + 16)

// The same over all steps of tiles that lie whole within A and B; a and b are their first elements.
INLINE void multiply_tiles(REAL* sums, __global const AB_STORAGE* a, long lda, __global const AB_STORAGE* b,
                           long ldb) {
  REAL part_a[RUNS_A * REGISTERS_A];
#pragma unroll
  for (int i = 0; i < RUNS_A; i++) read_run(part_a + i * REGISTERS_A, a + i * lda, RUN_A, A_BLOCKS);
  JOIN2(STEPS_, TK)(0)
}

// The same over one step of k, for tiles of which `rows` and `columns` lie within A and B: the last stand for the
// others. All lanes read an element of A.
INLINE void multiply_one(REAL* sums, __global const AB_STORAGE* a, long lda, __global const AB_STORAGE* b, long ldb,
                         int rows, int columns) {
  REAL part_b[CN];
#pragma unroll
  for (int j = 0; j < CN; j++)
    part_b[j] = LOAD_AB(b, min(j * WIDTH + LANE, columns - 1) * (B_UNIT_K ? ldb : 1));
#pragma unroll
  for (int i = 0; i < TM; i++) {
    const REAL element = LOAD_AB(a, min(i, rows - 1) * (A_UNIT_K ? lda : 1));
#pragma unroll
    for (int j = 0; j < CN; j++) sums[i * CN + j] = MULTIPLY_ADD(element, part_b[j], sums[i * CN + j]);
  }
}

SUB_GROUP_WIDTH __attribute__((reqd_work_group_size(WIDTH* GROUPS, 1, 1))) __kernel void gemm_fma_shuffle(
    int M, int N, int K, __global const AB_STORAGE* restrict a, long a_offset, long lda, long a_batch,
    __global const AB_STORAGE* restrict b, long b_offset, long ldb, long b_batch,
    __global C_STORAGE* restrict c, long c_offset, long ldc, long c_batch, EPILOGUE_PARAMETERS) {
  const int first_n = (int)get_group_id(0) * TN, first_m = ((int)get_group_id(1) * GROUPS + SUB_GROUP) * TM;
  const long z = (long)get_group_id(2);
  if (first_m >= M) return;  // the whole sub-group; nobody waits for it
  // A tile that would hang over the edge moves back. What it shares with its neighbour, that one stores.
  const int m0 = max(0, min(first_m, M - TM)), n0 = max(0, min(first_n, N - TN));
  a += a_offset + z * a_batch + m0 * (A_UNIT_K ? lda : 1);
  b += b_offset + z * b_batch + n0 * (B_UNIT_K ? ldb : 1);
  c += c_offset;

  REAL sums[TM * CN];
#pragma unroll
  for (int i = 0; i < TM * CN; i++) sums[i] = 0;
  int k = 0;
  if (M >= TM && N >= TN)
    for (; k <= K - TK; k += TK) {
      multiply_tiles(sums, a, lda, b, ldb);
      a += A_UNIT_K ? TK : TK * lda;
      b += B_UNIT_K ? TK : TK * ldb;
    }
  for (; k < K; k++) {
    multiply_one(sums, a, lda, b, ldb, M, N);
    a += A_UNIT_K ? 1 : lda;
    b += B_UNIT_K ? 1 : ldb;
  }

#pragma unroll
  for (int i = 0; i < TM; i++) {
    const int m = m0 + i;
    if (m < first_m || m >= M) continue;
#pragma unroll
    for (int j = 0; j < CN; j++) {
      const int n = n0 + j * WIDTH + LANE;
      if (n < first_n || n >= N) continue;
      const long at = z * c_batch + m * ldc + n;
      REAL v = SCALED(sums[i * CN + j], m, n);
      if (beta != 0) v = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, at), v);
      STORE_C(c, at, FINISH(v, m, n, at));
    }
  }
}
