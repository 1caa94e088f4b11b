// GEMM by a warp's matrix instructions (mma.sync): C = activation(alpha * A B + beta * C + bias). A work-group computes a
// tile of C; tiles of A and B come into local memory by asynchronous copies, STAGES - 1 steps ahead, and from there into
// fragments by ldmatrix. Each of WARPS_M x WARPS_N warps multiplies its share of the tile.
//
// SPLIT 0: f16, bf16, i8, or f32 rounded to tf32.
// SPLIT 1: f32 by three products of tf32 parts, x = hi + lo, split in registers. Sums of 32 steps of k are flushed into f32
//   registers; what parts cannot hold is computed again (gemm_split.cl).
//
// Operands start on 16-byte boundaries, and so do all their runs; i8 has k contiguous.
// Launch: a group of ITEMS work-items for each tile of each product.

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
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 4
#endif
#ifndef STAGES
#define STAGES 3
#endif
// Of k in a step: 64 or 128; 128 if SPLIT.
#ifndef STEP_BYTES
#define STEP_BYTES 128
#endif

#include "gemm_nv_store.cl"
#include "gemm_split.cl"

#define STEP (STEP_BYTES / ELEMENT_BYTES)
#define ITEMS (32 * WARPS_M * WARPS_N)
#define FRAGS_M (TILE_M / WARPS_M / 16)
#define FRAGS_N (TILE_N / WARPS_N / 8)
#define FRAG_SUMS (4 * FRAGS_N)
#define PIECE (16 / ELEMENT_BYTES)  // elements in 16 bytes
#define A_BYTES (TILE_M * STEP_BYTES)
#define B_BYTES (TILE_N * STEP_BYTES)
#define STAGE_BYTES (A_BYTES + B_BYTES)

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
// The first `bytes` of 16, zeros behind them.
static void start_copy(uint to, __global const void* from, int bytes) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(bytes) : "memory");
}
static void commit_copies(void) {
  __asm__ volatile("cp.async.commit_group;" : : : "memory");
}
// All but the last STAGES - 2 groups of copies have arrived.
static void wait_copies(void) {
  __asm__ volatile("cp.async.wait_group %0;" : : "n"(STAGES - 2) : "memory");
}

// Where 16 bytes lie in a tile, so that those which are read together lie in different banks. K contiguous: piece i of row r.
// Else: piece i of step k.
#define UNIT_K_PLACE(r, i) ((r)*STEP_BYTES + (((i) ^ ((r)*STEP_BYTES / 128 & (STEP_BYTES / 16 - 1))) * 16))
#if ELEMENT_BYTES == 4
#define ACROSS_K_PLACE(tile, k, i) ((k)*(tile)*ELEMENT_BYTES + (((i) ^ ((k)&3) << 1) * 16))
#else
#define ACROSS_K_PLACE(tile, k, i) ((k)*(tile)*ELEMENT_BYTES + (((i) ^ ((k)&7)) * 16))
#endif

// Starts a work-item's copies of an operand's tile: rows from `first` on, of `rows`, steps from k on, of K.
static void copy_tile(uint to, __global const uchar* from, int unit_k, int tile, int first, int rows, long pitch, int k, int K,
                      int item) {
  const int pieces = unit_k ? STEP_BYTES / 16 : tile / PIECE;  // in a run
  const int run = item / pieces, piece = item % pieces;
  const int along = (unit_k ? k : first) + piece * PIECE, across = (unit_k ? first : k) + run;
  const int left = (unit_k ? K : rows) - along, across_end = unit_k ? rows : K;
  const int bytes = clamp(left, 0, PIECE) * ELEMENT_BYTES;
  __global const uchar* at = from + (across * pitch + along) * ELEMENT_BYTES;
  const int runs = ITEMS / pieces;  // that the group copies at once
#pragma unroll
  for (int i = 0; i < tile * STEP_BYTES / 16 / ITEMS; i++) {
    const int r = run + i * runs;
    const int count = across + i * runs < across_end ? bytes : 0;
    start_copy(to + (unit_k ? UNIT_K_PLACE(r, piece) : ACROSS_K_PLACE(tile, r, piece)),
               count ? at + (long)i * runs * pitch * ELEMENT_BYTES : from, count);
  }
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

// The hardware truncates to tf32; adding this rounds.
#define HALF_ULP 0x1000u
#define UPPER 0xffffe000u
static void round_words(uint* words, int count) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    const uint rounded = words[i] + HALF_ULP;
    words[i] = (words[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : rounded;
  }
}
#if SPLIT
// A NaN may get lost in the upper part, but then stays in the lower one.
static void split(uint* hi, uint* lo, int count, uint2* range) {
#pragma unroll
  for (int i = 0; i < count; i++) {
    const uint whole = hi[i], magnitude = whole & 0x7fffffffu;
    *range = (uint2)(min((*range).s0, magnitude - 1), max((*range).s1, magnitude));
    hi[i] = (whole + HALF_ULP) & UPPER;
    lo[i] = as_uint(as_float(whole) - as_float(hi[i]));
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_nv_mma(
    int M, int N, int K, __global const uchar* restrict a, long a_offset, long lda, long a_batch,
    __global const uchar* restrict b, long b_offset, long ldb, long b_batch, __global C_STORAGE* restrict c,
    long c_offset, long ldc, long c_batch, EPILOGUE_PARAMETERS) {
  __local uchar stages[STAGES * STAGE_BYTES] __attribute__((aligned(128)));
  const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32;
  const int tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N, steps = (K + STEP - 1) / STEP;
  const struct Tile t = tile_at((int)get_group_id(0), tiles_m, tiles_n);
  const int warp_m = warp / WARPS_N * (FRAGS_M * 16), warp_n = warp % WARPS_N * (FRAGS_N * 8);
  const uint base = SHARED(stages);
  a += (a_offset + t.z * a_batch) * ELEMENT_BYTES;
  b += (b_offset + t.z * b_batch) * ELEMENT_BYTES;
  c += c_offset;

#define COPY_STEP(s)                                                                             \
  if ((s) < steps) {                                                                             \
    const uint to_ = base + (s) % STAGES * STAGE_BYTES;                                          \
    copy_tile(to_, a, A_UNIT_K, TILE_M, t.m, M, lda, (s)*STEP, K, item);                         \
    copy_tile(to_ + A_BYTES, b, B_UNIT_K, TILE_N, t.n, N, ldb, (s)*STEP, K, item);               \
  }                                                                                              \
  commit_copies();
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) COPY_STEP(s)

  REAL sums[FRAGS_M][FRAG_SUMS];
#pragma unroll
  for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
    for (int j = 0; j < FRAG_SUMS; j++) sums[i][j] = 0;
#if SPLIT
  uint2 a_range = (uint2)(UINT_MAX, 0), b_range = a_range;
#endif

  for (int s = 0; s < steps; s++) {
    wait_copies();
    barrier(CLK_LOCAL_MEM_FENCE);
    COPY_STEP(s + STAGES - 1)
    const uint tile_a = base + s % STAGES * STAGE_BYTES, tile_b = tile_a + A_BYTES;
#if SPLIT
    REAL part[FRAGS_M][FRAG_SUMS];
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
      for (int j = 0; j < FRAG_SUMS; j++) part[i][j] = 0;
#endif
#pragma unroll
    for (int k = 0; k < STEP_BYTES / 32; k++) {
      uint part_a[FRAGS_M][4], part_b[FRAGS_N / 2][4];
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++) load_a(part_a[i], tile_a, warp_m + 16 * i, k, lane);
#pragma unroll
      for (int j = 0; j < FRAGS_N / 2; j++) load_b(part_b[j], tile_b, warp_n + 16 * j, k, lane);
#if SPLIT
      uint low_a[FRAGS_M][4], low_b[FRAGS_N / 2][4];
#pragma unroll
      for (int j = 0; j < FRAGS_N / 2; j++) split(part_b[j], low_b[j], 4, &b_range);
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++) {
        split(part_a[i], low_a[i], 4, &a_range);
        // The smallest products first.
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(part[i] + 4 * j, low_a[i], part_b[j / 2] + j % 2 * 2);
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(part[i] + 4 * j, part_a[i], low_b[j / 2] + j % 2 * 2);
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(part[i] + 4 * j, part_a[i], part_b[j / 2] + j % 2 * 2);
      }
#else
#if ELEMENT_BYTES == 4
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++) round_words(part_a[i], 4);
#pragma unroll
      for (int j = 0; j < FRAGS_N / 2; j++) round_words(part_b[j], 4);
#endif
#pragma unroll
      for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) multiply_add(sums[i] + 4 * j, part_a[i], part_b[j / 2] + j % 2 * 2);
#endif
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
  a_range = joined(joined(a_range, 1), 2);  // four lanes share rows
  for (int lanes = 1; lanes < 32; lanes *= 2) b_range = joined(b_range, lanes);
  const float least = least_exact(a_range, b_range, K);
#pragma unroll
  for (int i = 0; i < FRAGS_M; i++) {
    uint doubtful = 0;
#pragma unroll
    for (int j = 0; j < FRAG_SUMS; j++) doubtful |= !is_within(sums[i][j], least);
    for (int done = -1; doubtful;) {
      int next = FRAG_SUMS;
#pragma unroll
      for (int j = FRAG_SUMS - 1; j >= 0; j--)
        if (j > done && !is_within(sums[i][j], least)) next = j;
      if (next == FRAG_SUMS) break;
      done = next;
      const int m = first_m + 16 * i + next / 2 % 2 * 8, n = first_n + next / 4 * 8 + 2 * quad + next % 2;
      if (m >= M || n >= N) continue;
      const float again = chain((__global const float*)a + m * (A_UNIT_K ? lda : 1), A_UNIT_K ? 1 : lda,
                                (__global const float*)b + n * (B_UNIT_K ? ldb : 1), B_UNIT_K ? 1 : ldb, K);
#pragma unroll
      for (int j = 0; j < FRAG_SUMS; j++)
        if (j == next) sums[i][j] = again;
    }
  }
#endif
#pragma unroll
  for (int i = 0; i < FRAGS_M; i++)
    store_sums(sums[i], FRAG_SUMS, first_m + 16 * i, first_n, quad, M, N, c, t.z * c_batch, ldc, EPILOGUE_ARGUMENTS);
}
