// GEMM by a warp's matrix instructions (mma.sync): C = activation(alpha * A B + beta * C + bias). A work-group computes a
// tile of C; tiles of A and B come into local memory by asynchronous copies, STAGES - 1 steps ahead, and from there into
// fragments by ldmatrix. Each of WARPS_M x WARPS_N warps multiplies its share of the tile.
//
// SPLIT 0: f16, bf16, i8, or f32 rounded to tf32.
// SPLIT 1: f32 by three products of tf32 parts, x = hi + lo. A is split in registers; B comes as two tensors that
//   gemm_nv_pack.cl made, which noted the magnitudes of both operands. Sums of 32 steps of k are flushed into f32 registers. A tile
//   with a sum that parts cannot hold (gemm_split.cl) is computed again by multiply-adds of the same stages (gemm_nv_mma_again.cl);
//   at once if a sample of its first stage says so.
//
// Operands start on 16-byte boundaries, and so do all their runs; i8 and a split B have k contiguous.
// Launch: a group of ITEMS work-items for each tile of each product.
//
// Slots. A file that wants other operands or another result defines all of these and includes this file: convolution does.
//   PARAMETERS        kernel parameters, after (M, N, K); EPILOGUE_PARAMETERS come last.
//   SETUP             statements at the start (declarations too); the tile is t. They may change M, N and K.
//   COPY_STEP(slot, a_whole, b_whole)  statements that start a work-item's copies of a step into that slot of `stages`, tiles
//                     of A and behind them of B. They are asked for one step after the other. The tiles lie inside if whole.
//   SPLIT_B           0: B, like A, is split in registers, where magnitudes are noted too.
//   RESTART           SPLIT: statements behind which COPY_STEP is asked for the first step again.
//   STORE_SUMS(i)     statements that store sums[i], a work-item's results of rows from first_m + 16 i on.

// 4: float, f32 or tf32; 2: f16 or bf16, as AB_TYPE says; 1: i8.
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 4
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef A_UNIT_K
#define A_UNIT_K 1
#endif
#ifndef B_UNIT_K
#define B_UNIT_K 1
#endif
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef WARPS_M
#define WARPS_M 4
#endif
#ifndef WARPS_N
#define WARPS_N 2
#endif
#ifndef STAGES
#define STAGES 3
#endif
// Of k in a step: 64 or 128; 128 if SPLIT.
#ifndef STEP_BYTES
#define STEP_BYTES 128
#endif

// 1: B comes in two parts.
#ifndef SPLIT_B
#define SPLIT_B SPLIT
#endif

#define ITEMS (32 * WARPS_M * WARPS_N)
#include "gemm/gemm_nv_mma_copy.cl"
#include "gemm/gemm_nv_store.cl"
#include "gemm/gemm_split.cl"

#define SLICES (STEP_BYTES / 32)
#define FRAGS_M (TILE_M / WARPS_M / 16)
#define FRAGS_N (TILE_N / WARPS_N / 8)
#define FRAG_SUMS (4 * FRAGS_N)
#define A_BYTES (TILE_M * STEP_BYTES)
#define B_BYTES (TILE_N * STEP_BYTES)
#define STAGE_BYTES (A_BYTES + (1 + SPLIT_B) * B_BYTES)

#define MMA_f32 "m16n8k8.row.col.f32.tf32.tf32.f32"
#define MMA_f16 "m16n8k16.row.col.f32.f16.f16.f32"
#define MMA_bf16 "m16n8k16.row.col.f32.bf16.bf16.f32"
#define MMA_i8 "m16n8k32.row.col.s32.s8.s8.s32"
#ifdef INTEGER_REAL
#define SUM_REGISTER "+r"
#else
#define SUM_REGISTER "+f"
#endif

static void multiply_add(REAL c[4], const uint a[4], const uint b[2]) {
  __asm__ volatile("mma.sync.aligned." JOIN2(MMA_, AB_TYPE) " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : SUM_REGISTER(c[0]), SUM_REGISTER(c[1]), SUM_REGISTER(c[2]), SUM_REGISTER(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
static void load_matrices(uint to[4], uint at) {
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(at)
                   : "memory");
}
static void load_transposed(uint to[4], uint at) {
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(at)
                   : "memory");
}
static uint load_word(uint at) {
  uint word;
  __asm__ volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
// Fragment i of the step's 32-byte slices of k. A: 16 rows from `row` on.
static void load_a(uint to[4], uint tile, int row, int i, int lane) {
#if A_UNIT_K
  load_matrices(to, tile + UNIT_K_PLACE(row + lane % 16, 2 * i + lane / 16));
#elif ELEMENT_BYTES == 2
  load_transposed(to, tile + ACROSS_K_PLACE(TILE_M, 16 * i + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
#else
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int m = row + g + j % 2 * 8, k = 8 * i + t + j / 2 * 4;
    to[j] = load_word(tile + ACROSS_K_PLACE(TILE_M, k, m / 4) + m % 4 * 4);
  }
#endif
}
// B: two fragments, of 8 columns each, from `column` on.
static void load_b(uint to[4], uint tile, int column, int i, int lane) {
#if B_UNIT_K
  load_matrices(to, tile + UNIT_K_PLACE(column + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
#elif ELEMENT_BYTES == 2
  load_transposed(to, tile + ACROSS_K_PLACE(TILE_N, 16 * i + lane / 8 % 2 * 8 + lane % 8, column / 8 + lane / 16));
#else
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int n = column + g + j / 2 * 8, k = 8 * i + t + j % 2 * 4;
    to[j] = load_word(tile + ACROSS_K_PLACE(TILE_N, k, n / 4) + n % 4 * 4);
  }
#endif
}

#if ELEMENT_BYTES == 4 && !SPLIT
// The hardware would drop the bits that tf32 has no room for.
static void round_to_tf32(uint* x, int count) {
#pragma unroll
  for (int i = 0; i < count; i++) __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(as_float(x[i])));
}
#endif
#if SPLIT
// x = hi + lo, with 11 bits in hi. A NaN may get lost in hi, but then stays in lo.
static void split(uint* x, uint* lo, int count) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    const float whole = as_float(x[i]), hi = as_float((x[i] + 0x1000u) & 0xffffe000u);
    lo[i] = as_uint(whole - hi);
    x[i] = as_uint(hi);
  }
}
static void note(uint2* range, const uint* x, int count) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    const uint magnitude = x[i] & 0x7fffffffu;
    *range = (uint2)(min(range->s0, magnitude - 1), max(range->s1, magnitude));
  }
}
// A work-item's part of what gemm_nv_pack.cl noted.
static uint2 noted(__global const uint2* ranges, int count, int item) {
  uint2 range = (uint2)(UINT_MAX, 0);
  for (int i = item; i < count; i += ITEMS) {
    const uint2 note = ranges[i];
    range = (uint2)(min(range.s0, note.s0), max(range.s1, note.s1));
  }
  return range;
}
// All of it. `notes` is local memory for two from each warp.
static void share_notes(uint2* a, uint2* b, __local uint2* notes, int warp, int lane) {
  for (int lanes = 1; lanes < 32; lanes *= 2) *a = joined(*a, lanes), *b = joined(*b, lanes);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) notes[2 * warp] = *a, notes[2 * warp + 1] = *b;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < WARPS_M * WARPS_N; i++) {
    *a = (uint2)(min((*a).s0, notes[2 * i].s0), max((*a).s1, notes[2 * i].s1));
    *b = (uint2)(min((*b).s0, notes[2 * i + 1].s0), max((*b).s1, notes[2 * i + 1].s1));
  }
}
#include "gemm/gemm_nv_mma_again.cl"
#endif

#ifndef PARAMETERS
#if SPLIT
// The lower parts of B; the notes on A and B.
#define SPLIT_PARAMETERS                                                                                              \
  , __global const uchar *restrict b_lo, long b_lo_offset, __global const uint2 *restrict a_ranges,                   \
      long a_ranges_offset, int a_range_count, __global const uint2 *restrict b_ranges, long b_ranges_offset,         \
      int b_range_count
#define SPLIT_SETUP                                                                                              \
  const long apart = (b_lo + b_lo_offset * ELEMENT_BYTES) - (b_first + b_offset * ELEMENT_BYTES);
#define COPY_LOW(to, whole) copy_step(&share_b, apart, (to) + A_BYTES + B_BYTES, 1, TILE_N, item, whole);
#else
#define SPLIT_PARAMETERS
#define SPLIT_SETUP
#define COPY_LOW(to, whole)
#endif
#define PARAMETERS                                                                                              \
  __global const uchar *restrict a, long a_offset, long lda, long a_batch, __global const uchar *restrict b,    \
      long b_offset, long ldb, long b_batch, __global C_STORAGE *restrict c, long c_offset, long ldc,           \
      long c_batch SPLIT_PARAMETERS
#define SETUP                                                                           \
  a += (a_offset + t.z * a_batch) * ELEMENT_BYTES;                                      \
  __global const uchar* b_first = b;                                                    \
  b += (b_offset + t.z * b_batch) * ELEMENT_BYTES;                                      \
  c += c_offset;                                                                        \
  struct Share share_a = share_of(a, A_UNIT_K, TILE_M, t.m, M, lda, K, item);           \
  struct Share share_b = share_of(b, B_UNIT_K, TILE_N, t.n, N, ldb, K, item);           \
  SPLIT_SETUP
#define COPY_STEP(slot, a_whole, b_whole)                                       \
  {                                                                             \
    const uint to_ = base + (slot)*STAGE_BYTES;                                 \
    copy_step(&share_a, 0, to_, A_UNIT_K, TILE_M, item, a_whole);               \
    copy_step(&share_b, 0, to_ + A_BYTES, B_UNIT_K, TILE_N, item, b_whole);     \
    COPY_LOW(to_, b_whole)                                                      \
    advance(&share_a, A_UNIT_K);                                                \
    advance(&share_b, B_UNIT_K);                                                \
  }
#define RESTART                                                         \
  share_a = share_of(a, A_UNIT_K, TILE_M, t.m, M, lda, K, item);        \
  share_b = share_of(b, B_UNIT_K, TILE_N, t.n, N, ldb, K, item);
#define STORE_SUMS(i)                                                                                                \
  {                                                                                                                  \
    const long rows_at[2] = ROWS_AT(t.z * c_batch, first_m + 16 * (i), ldc);                                         \
    store_sums(t.m + TILE_M <= M && t.n + TILE_N <= N, sums[i], FRAG_SUMS, first_m + 16 * (i), first_n, quad, M, N, c, \
               rows_at, ldc, EPILOGUE_ARGUMENTS);                                                                    \
  }
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_nv_mma(int M, int N, int K, PARAMETERS,
                                                                              EPILOGUE_PARAMETERS) {
  __local uchar stages[STAGES * STAGE_BYTES] __attribute__((aligned(128)));
  const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32;
  const int tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N;
  const struct Tile t = tile_at((int)get_group_id(0), tiles_m, tiles_n);
  const int warp_m = warp / WARPS_N * (FRAGS_M * 16), warp_n = warp % WARPS_N * (FRAGS_N * 8);
  const uint base = SHARED(stages);
  SETUP
  const int steps = (K + STEP - 1) / STEP;
#if SPLIT && !SPLIT_B
  uint2 a_range = (uint2)(UINT_MAX, 0), b_range = a_range;
#endif
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps) COPY_STEP(s, 0, 0)
    commit_copies();
  }
  wait_copies();
  barrier(CLK_LOCAL_MEM_FENCE);

  int s = 0;
#if SPLIT
  if (steps > 0 && is_hard_stage(stages, item)) s = steps + 1;  // all is computed again
#endif
  REAL sums[FRAGS_M][FRAG_SUMS];
#pragma unroll
  for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
    for (int j = 0; j < FRAG_SUMS; j++) sums[i][j] = 0;

  // A slice of k is in registers before it is multiplied: the next step's first one too, so that the matrix units have work
  // while the group waits for each other.
  uint next_a[2][FRAGS_M][4], next_b[2][FRAGS_N / 2][4], next_lo[SPLIT_B ? 2 : 1][FRAGS_N / 2][4];
#define LOAD_SLICE(to, s, k)                                                                         \
  {                                                                                                  \
    const uint tile_a = base + (s) % STAGES * STAGE_BYTES, tile_b = tile_a + A_BYTES;                \
    _Pragma("unroll") for (int i_ = 0; i_ < FRAGS_M; i_++)                                           \
      load_a(next_a[to][i_], tile_a, warp_m + 16 * i_, k, lane);                                     \
    _Pragma("unroll") for (int j_ = 0; j_ < FRAGS_N / 2; j_++)                                       \
      load_b(next_b[to][j_], tile_b, warp_n + 16 * j_, k, lane);                                     \
    _Pragma("unroll") for (int j_ = 0; j_ < FRAGS_N / 2 && SPLIT_B; j_++)                            \
      load_b(next_lo[to][j_], tile_b + B_BYTES, warp_n + 16 * j_, k, lane);                          \
  }
  LOAD_SLICE(0, 0, 0)
  for (; s < steps; s++) {
#if SPLIT
    REAL part[FRAGS_M][FRAG_SUMS];
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
      for (int j = 0; j < FRAG_SUMS; j++) part[i][j] = 0;
#endif
#pragma unroll
    for (int k = 0; k < SLICES; k++) {
      const int now = k % 2;
      if (k + 1 < SLICES) {
        LOAD_SLICE(1 - now, s, k + 1)
      } else {
        wait_copies();
        barrier(CLK_LOCAL_MEM_FENCE);
        LOAD_SLICE(1 - now, s + 1, 0)  // behind the last step: what nobody uses
      }
#if SPLIT
      uint low_a[FRAGS_M][4];
#if !SPLIT_B
      // Warps that load the same rows share the notes on them.
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++)
        if (i % WARPS_N == warp % WARPS_N) note(&a_range, next_a[now][i], 4);
#pragma unroll
      for (int j = 0; j < FRAGS_N / 2; j++) {
        if (j % WARPS_M == warp / WARPS_N) note(&b_range, next_b[now][j], 4);
        split(next_b[now][j], next_lo[0][j], 4);
      }
#endif
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++) split(next_a[now][i], low_a[i], 4);
      // The smallest products first.
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(part[i] + 4 * j, low_a[i], next_b[now][j / 2] + j % 2 * 2);
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(part[i] + 4 * j, next_a[now][i], next_lo[SPLIT_B ? now : 0][j / 2] + j % 2 * 2);
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(part[i] + 4 * j, next_a[now][i], next_b[now][j / 2] + j % 2 * 2);
#else
#if ELEMENT_BYTES == 4
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++) round_to_tf32(next_a[now][i], 4);
#pragma unroll
      for (int j = 0; j < FRAGS_N / 2; j++) round_to_tf32(next_b[now][j], 4);
#endif
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(sums[i] + 4 * j, next_a[now][i], next_b[now][j / 2] + j % 2 * 2);
#endif
      if (k == 0) {
        // All have read the slot before: it takes the step that is STAGES - 1 ahead.
        if (s + STAGES - 1 < steps) {
          const int whole = (s + STAGES) * STEP <= K;
          COPY_STEP((s + STAGES - 1) % STAGES, whole && t.m + TILE_M <= M, whole && t.n + TILE_N <= N)
        }
        commit_copies();
      }
    }
#if SPLIT
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
      for (int j = 0; j < FRAG_SUMS; j++) sums[i][j] += part[i][j];
#endif
  }

  const int quad = lane % 4, first_m = t.m + warp_m + lane / 4, first_n = t.n + warp_n;
#if SPLIT
#if SPLIT_B
  uint2 a_range = noted(a_ranges + a_ranges_offset, a_range_count, item);
  uint2 b_range = noted(b_ranges + b_ranges_offset, b_range_count, item);
#endif
  share_notes(&a_range, &b_range, (__local uint2*)stages, warp, lane);
  const float least = least_exact(a_range, b_range, K);
  uint doubtful = s > steps;
#pragma unroll
  for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
    for (int j = 0; j < FRAG_SUMS; j++) {
      const int m = first_m + 16 * i + j / 2 % 2 * 8, n = first_n + j / 4 * 8 + 2 * quad + j % 2;
      doubtful |= m < M && n < N && !is_within(sums[i][j], least);
    }
  uint again;
  SYNC_ANY(again, doubtful, ITEMS);
  if (again) {
    wait_all_copies();
    barrier(CLK_LOCAL_MEM_FENCE);
    RESTART
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
      for (int j = 0; j < FRAG_SUMS; j++) sums[i][j] = 0;
    for (int s = 0; s < STAGES - 1; s++) {
      if (s < steps) COPY_STEP(s, 0, 0)
      commit_copies();
    }
    for (int s = 0; s < steps; s++) {
      __local uchar* stage = stages + s % STAGES * STAGE_BYTES;
      wait_copies();
      barrier(CLK_LOCAL_MEM_FENCE);
      if (s + STAGES - 1 < steps) COPY_STEP((s + STAGES - 1) % STAGES, 0, 0)
      commit_copies();
      if (SPLIT_B) {
        join_b(stage + A_BYTES, item);
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      multiply_whole(sums[0], stage, stage + A_BYTES, warp_m + lane / 4, warp_n + 2 * quad);
    }
  }
#endif
#pragma unroll
  for (int i = 0; i < FRAGS_M; i++) STORE_SUMS(i)
}
