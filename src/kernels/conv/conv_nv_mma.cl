// Convolution by a warp's matrix instructions (mma.sync), as implicit GEMM: slots of gemm_nv_mma.cl. Pieces of 16 bytes are
// gathered by asynchronous copies (conv_gather.cl), with zeros where a tap sees padding.
//
// Forward and backward data: a row of C is a pixel of the target, a column one of its channels; A is the source, k taps and
// channels. Backward filter: rows are filters, columns taps and channels; A is dy, k pixels; sums go to `partial`.
// A piece are channels: all tensors have them contiguous (w: the source's, or, B_UNIT_K 0, the target's), and their other strides
// are multiples of 16 bytes; CHANNELS_LAST is 1. RAGGED: channels in a group may be no multiples of a piece; `channels` are the source's rounded up,
// C they themselves, and T the target's.
// SPLIT: as in gemm_nv_mma.cl, but both operands are split in registers.
// Launch: a group of ITEMS work-items for each tile of each phase of each group, or of each part of each group.

#ifndef RAGGED
#define RAGGED 0
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
#define ITEMS (32 * WARPS_M * WARPS_N)
#define SPLIT_B 0
#include "conv/conv_gather.cl"
#include "gemm/gemm_nv_mma_copy.cl"
#include "gemm/gemm_nv_store.cl"

#if DIRECTION == 2
#define A_UNIT_K 0
#define B_UNIT_K 0
#else
#define A_UNIT_K 1
#ifndef B_UNIT_K
#define B_UNIT_K 1
#endif
#endif
#define A_SOURCE (DIRECTION != 2)

// Copies 16 bytes, or fills them with zeros.
static void copy_or_clear(uint to, __global const uchar* from, int copy) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(copy ? 16 : 0) : "memory");
}
static void copy_piece(uint to, __global const uchar* from, int count) {
#if RAGGED
  if (count > 0 && count < PIECE) {
    copy_rest(to, from, count);
    return;
  }
#endif
  copy_or_clear(to, from, count > 0);
}

// A work-item's loads of a step: rows times places along k.
#define LOADS(tile) ((tile)*STEP_BYTES / 16 / ITEMS)
#define ROWS(unit_k, tile) ((unit_k) ? LOADS(tile) : 1)

// Rows beyond the last one are computed, but not stored. In `left`, channels from the first row's on.
INLINE void rows_of(struct Place* places, const int source, const int unit_k, const int tile, int item, int first, int rows,
                    const struct Shape* shape) {
  const int pieces = PIECES(unit_k, tile);
#pragma unroll
  for (int i = 0; i < ROWS(unit_k, tile); i++) {
    const int row = unit_k ? item / pieces + i * RUNS_AT_ONCE(unit_k, tile) : item % pieces * PIECE;
    places[i] = row_place(source, min(first + row, unit_k ? rows - 1 : (rows - 1) / PIECE * PIECE), shape);
  }
}
static struct Walk walk_of(const int unit_k, const int tile, int item, int k_begin, const struct Shape* shape) {
  const int pieces = PIECES(unit_k, tile);
  return walk_from(k_begin + (unit_k ? item % pieces * PIECE : item / pieces), unit_k ? STEP : RUNS_AT_ONCE(unit_k, tile),
                   shape);
}
// `left`: across k, channels from the piece on.
INLINE void copy_gathered(uint to, const int source, const int unit_k, const int tile, int item, const struct Place* rows,
                          int left, struct Walk* walk, int k_end, __global const uchar* x, const struct Shape* shape) {
  const int pieces = PIECES(unit_k, tile), at_once = RUNS_AT_ONCE(unit_k, tile), run = item / pieces, piece = item % pieces;
#pragma unroll
  for (int step = 0; step < (unit_k ? 1 : LOADS(tile)); step++) {
    const struct Place along = place_of(&walk->at, source ? K_OF_SOURCE(shape) : K_OF_OTHER(shape));
    const int count = unit_k ? shape->others - walk->at.other : left;
#pragma unroll
    for (int i = 0; i < ROWS(unit_k, tile); i++) {
      int inside = walk->k < k_end && (!source || meet(&rows[i], &along, shape));
#if RAGGED
      inside = inside && walk->at.other < shape->others;
#endif
      const int place = unit_k ? UNIT_K_PLACE(run + i * at_once, piece) : ACROSS_K_PLACE(tile, run + step * at_once, piece);
      copy_piece(to + place, x + (size_t)(inside ? rows[i].at + along.at : 0) * ELEMENT_BYTES, inside ? count : 0);
    }
    walk_on(walk, shape);
  }
}

#define TENSOR(type, name) __global type *restrict name, long name##_offset
#define FIRST_LEFT(unit_k, tile, first, rows) ((rows) - (first)-item % PIECES(unit_k, tile) * PIECE)
#define OPERANDS_SETUP                                                                                             \
  __global const uchar* a = (A_SOURCE ? source : other);                                                           \
  __global const uchar* b = (A_SOURCE ? other : source);                                                           \
  struct Place a_rows[ROWS(A_UNIT_K, TILE_M)], b_rows[ROWS(B_UNIT_K, TILE_N)];                                     \
  rows_of(a_rows, A_SOURCE, A_UNIT_K, TILE_M, item, t.m, M, &shape);                                               \
  rows_of(b_rows, !A_SOURCE, B_UNIT_K, TILE_N, item, t.n, N, &shape);                                              \
  struct Walk a_walk = walk_of(A_UNIT_K, TILE_M, item, k_begin, &shape);                                           \
  struct Walk b_walk = walk_of(B_UNIT_K, TILE_N, item, k_begin, &shape);
#define GROUPS_SETUP                                                  \
  source += (source_offset + (long)group * conv.s.g) * ELEMENT_BYTES; \
  other += (other_offset + (long)group * OTHER_GROUP) * ELEMENT_BYTES;

#if DIRECTION == 2
#define PARAMETERS \
  TENSOR(const uchar, source), TENSOR(const uchar, other), TENSOR(float, partial), int k_parts, int part, int C, GatherShape conv
#define SETUP                                                                                                       \
  const int group = t.z / k_parts, number = t.z % k_parts, k_begin = number * part, k_end = min(K, k_begin + part); \
  const int groups = (int)get_num_groups(0) / (tiles_m * tiles_n * k_parts);                                        \
  const struct Shape shape = shape_of(0, conv);                                                                     \
  K = k_end - k_begin;                                                                                              \
  GROUPS_SETUP                                                                                                      \
  OPERANDS_SETUP                                                                                                    \
  const int a_left = FIRST_LEFT(0, TILE_M, t.m, M);                                                                 \
  const struct Digits b_digits = digits_of(t.n + item % PIECES(0, TILE_N) * PIECE, 1, &shape.tap_radices);          \
  const int b_left = C - b_digits.other;                                                                            \
  const int window = N / conv.channels.d;                                                                           \
  partial += partial_offset + ((long)number * groups + group) * M * (window * C);
// Column n is of this channel of a tap.
#define STORE_SUMS(i)                                                                                \
  _Pragma("unroll") for (int j_ = 0; j_ < FRAG_SUMS; j_++) {                                         \
    const int m = first_m + 16 * (i) + j_ / 2 % 2 * 8, n = first_n + j_ / 4 * 8 + 2 * quad + j_ % 2; \
    const int tap = divided(n, shape.tap_radices.other), c = n - tap * conv.channels.d;              \
    if (m < M && n < N && c < C) partial[((long)m * window + tap) * C + c] = sums[i][j_];            \
  }
#else
#define PARAMETERS \
  TENSOR(const uchar, source), TENSOR(const uchar, other), TENSOR(C_STORAGE, c), int C, GatherShape conv
#define SETUP                                                                                                         \
  const int phases = conv.axes.d.phases * conv.axes.h.phases * conv.axes.w.phases, group = t.z / phases, k_begin = 0; \
  struct Shape shape = shape_of(t.z % phases, conv);                                                                  \
  M = shape.pixels;                                                                                                   \
  K = shape.taps;                                                                                                     \
  const int k_end = K;                                                                                                \
  shape.others = C;                                                                                                   \
  if (t.m >= M) return;                                                                                               \
  c += c_offset + (long)group * conv.t.g;                                                                             \
  residual_offset += (long)group * conv.t.g;                                                                          \
  preactivation_offset += (long)group * conv.t.g;                                                                     \
  GROUPS_SETUP                                                                                                        \
  OPERANDS_SETUP                                                                                                      \
  const int a_left = 0, b_left = FIRST_LEFT(0, TILE_N, t.n, N);
#define STORE_SUMS(i)                                                                                                       \
  {                                                                                                                         \
    const long rows_at[2] = {place_in_result(first_m + 16 * (i), &shape), place_in_result(first_m + 16 * (i) + 8, &shape)}; \
    store_sums(t.m + TILE_M <= M && t.n + TILE_N <= N, sums[i], FRAG_SUMS, first_m + 16 * (i), first_n, quad, M, N, c,      \
               rows_at, conv.t.c, alpha, beta, bias, bias_offset + group * N, scale, scale_offset + group * N, residual,    \
               residual_offset, preactivation, preactivation_offset);                                                       \
  }
#endif

#define COPY_STEP(slot, a_whole, b_whole)                                                                              \
  {                                                                                                                    \
    const uint to_ = base + (slot)*STAGE_BYTES;                                                                        \
    copy_gathered(to_, A_SOURCE, A_UNIT_K, TILE_M, item, a_rows, a_left, &a_walk, k_end, a, &shape);                   \
    copy_gathered(to_ + A_BYTES, !A_SOURCE, B_UNIT_K, TILE_N, item, b_rows, b_left, &b_walk, k_end, b, &shape);        \
  }
#define RESTART                                                              \
  a_walk = walk_of(A_UNIT_K, TILE_M, item, k_begin, &shape);                 \
  b_walk = walk_of(B_UNIT_K, TILE_N, item, k_begin, &shape);

#include "gemm/gemm_nv_mma.cl"
