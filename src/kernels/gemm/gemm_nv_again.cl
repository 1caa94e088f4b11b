// Sums computed again by multiply-adds, where parts cannot hold what they are sums of (gemm_split.cl), by kernels whose tiles
// of TILE_ROWS x TILE_COLUMNS lie in MULTIPLIERS work-items' registers as gemm_nv_store.cl says. A warp with few such sums computes
// them at once. With more it notes its strip of 16 rows, does not store it, and all compute what was noted after the group's other
// tiles, from the stages that bulk copies bring. When a tile's worth is noted, or a sample of the products says so before the first
// tile, the group leaves its other tiles out, and they are computed so too.
//
// What the operands are is struct Again, as a tile sees them: here matrices (gemm_nv_again_matrix.cl). Who defines AGAIN_ADDS(a, b),
// whether the product of two elements is added, has others: again_step() is what 32 steps of k from one on have in common; again_a()
// and again_b() are an element of a row or column of the tile, i steps behind it, 0 outside; again_inside() says whether a sum is
// stored; again_feed() starts the copies of a stage, and AGAIN_BAR counts them; again_bring() brings the stage in order, a[k][row] and
// b[k][column]. With AGAIN_PADS there is padding: again_bring() says whether there are infinities or NaNs in the other operand, and
// again_pad() then marks the padding.

#include "gemm/gemm_types.cl"
#include "lib/ptx.cl"
#include "gemm/gemm_nv_sample.cl"

#ifndef MULTIPLIERS
#define MULTIPLIERS 256
#define TILE_ROWS 128
#define TILE_COLUMNS 128
#endif
#ifndef SUMS
#define SUMS (TILE_ROWS * TILE_COLUMNS / MULTIPLIERS)
#endif
#ifndef AGAIN_ADDS
#include "gemm/gemm_nv_again_matrix.cl"
#endif

// Sums of a warp that it computes at once.
#define AGAIN_FEW 4
// Products that a lane of its has on the way.
#define AGAIN_AHEAD 8
// Of a work-item, which has 16 neighbours along a row of the tile.
#define AGAIN_COLUMNS (TILE_COLUMNS / 16)
#define AGAIN_ROWS (TILE_ROWS / (MULTIPLIERS / 16))
// Neighbours of a row that a work-item has.
#if AGAIN_COLUMNS % 4
#define AGAIN_COLUMN(tx, j) ((tx) + 16 * (j))
#else
#define AGAIN_COLUMN(tx, j) (4 * (tx) + (j) / 4 * 64 + (j) % 4)
#endif
// Where a work-item is among the 16 of a row, and which rows it has: a warp has 8 neighbours by 4.
#define AGAIN_X(item) ((item) / 32 % 2 * 8 + (item) % 8)
#define AGAIN_Y(item) ((item) / 64 * 4 + (item) % 32 / 8)
// A stage in order.
#define AGAIN_ORDERED (32 * (AGAIN_A_PITCH + AGAIN_B_PITCH))
// What a stage and two in order need, in bytes.
#define AGAIN_BYTES (STAGE_BYTES + 2 * 4 * AGAIN_ORDERED)

// What a group notes of its tiles, of which it takes each get_num_groups(0)th.
#define NOTED_TILES 512
struct Noted {
  int infinite, tiny, samples;  // products that are not finite, that have a tiny factor, and all, of a sample
  int strips;                   // to be computed again, in all
  int left_out;                 // the first tile that was
  int of_tile[NOTED_TILES];     // a bit for each strip
};
#define EVERYTHING 0x40000000

static void again_sync(void) {
  __asm__ volatile("bar.sync 1, %0;" : : "n"(MULTIPLIERS) : "memory");
}
// The same; and whether v is not 0 in any work-item.
static uint again_sync_any(uint v) {
  uint any;
  SYNC_ANY(any, v, MULTIPLIERS);
  return first_lanes(any);
}

// By all work-items of the group, a barrier before again_sample and one after it.
static void again_start(__local struct Noted* noted, int item, int items) {
  for (int i = item; i < NOTED_TILES; i += items) noted->of_tile[i] = 0;
  if (item != 0) return;
  noted->infinite = noted->tiny = noted->samples = noted->strips = 0;
  noted->left_out = INT_MAX;
}
// One of the products that the sums have.
static void again_sample(__local struct Noted* noted, float a, float b) {
  if (is_sample(a, b)) atomic_inc(&noted->samples);
  if (is_infinite_sample(a, b)) atomic_inc(&noted->infinite);
  if (is_tiny_sample(a, b)) atomic_inc(&noted->tiny);
}
// Behind the sample's barrier.
static int again_all(__local const struct Noted* noted) {
  return is_hard_sample(noted->samples, noted->infinite, noted->tiny);
}
// By one work-item, before the first tile.
static void again_judge(__local struct Noted* noted) {
  if (again_all(noted)) noted->strips = EVERYTHING;
}
// Whether the tiles that nobody has begun are left out.
static int again_leaves(__local const volatile struct Noted* noted) {
  return noted->strips >= MULTIPLIERS / 32;
}

// The sums of a warp that are not within `least` are computed again if they are few, and the result is 0. Else it is 1, and their
// strip is noted. `row`: the warp's first of the tile; `column`: the tile's first that it has.
INLINE uint again_warp(float* sums, float least, __local struct Noted* noted, int tile, const struct Again* from, int K, int row,
                       int column, int lane) {
  uint bad[(SUMS + 31) / 32] = {0};
  int count = 0;
#pragma unroll
  for (int i = 0; i < SUMS; i++)
    if (!is_within(sums[i], least) &&
        again_inside(from, row + lane / 4 + i / 2 % 2 * 8, column + i / 4 * 8 + lane % 4 * 2 + i % 2))
      bad[i / 32] |= 1u << i % 32;
#pragma unroll
  for (int i = 0; i < (SUMS + 31) / 32; i++) count += (int)popcount(bad[i]);
  for (int lanes = 1; lanes < 32; lanes *= 2) count += (int)shuffle_xor((uint)count, lanes);
  const uint later = first_lanes(count > AGAIN_FEW && tile < NOTED_TILES);
  if (later && lane == 0) {
    atomic_or(&noted->of_tile[tile], 1 << row / 16);
    atomic_inc(&noted->strips);
  }
  for (uint left = later ? 0 : first_lanes((uint)count); left != 0; left--) {
    int next = SUMS;
#pragma unroll
    for (int i = (SUMS + 31) / 32 - 1; i >= 0; i--)
      if (bad[i] != 0) next = 32 * i + 31 - (int)clz(bad[i] & -bad[i]);
    const uint lanes_left = warp_ballot(next < SUMS);
    const int owner = 31 - (int)clz(lanes_left & -lanes_left), which = (int)shuffle((uint)next, owner);
    const int m = row + owner / 4 + which / 2 % 2 * 8, n = column + which / 4 * 8 + owner % 4 * 2 + which % 2;
    float again = 0;
    for (int k = 0; k < K; k += 32 * AGAIN_AHEAD) {
      float a[AGAIN_AHEAD], b[AGAIN_AHEAD];
#pragma unroll
      for (int i = 0; i < AGAIN_AHEAD; i++) {
        const struct AgainStep step = again_step(from, k + 32 * i);
        a[i] = again_a(from, &step, m, lane), b[i] = again_b(from, &step, n, lane);
      }
#pragma unroll
      for (int i = 0; i < AGAIN_AHEAD; i++)
        if (AGAIN_ADDS(a[i], b[i])) again = fma(a[i], b[i], again);
    }
    for (int lanes = 1; lanes < 32; lanes *= 2) again += as_float(shuffle_xor(as_uint(again), lanes));
    const int own = lane == owner;
#pragma unroll
    for (int i = 0; i < (SUMS + 31) / 32; i++) bad[i] &= own && which / 32 == i ? ~(1u << which % 32) : ~0u;
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = own && i == which ? again : sums[i];
  }
  return later;
}

// What is to be computed again of the group's tile number `tile`, a bit for each strip.
static uint again_strips(__local const struct Noted* noted, int index, int tile) {
  return index >= noted->left_out ? 0xffffffffu >> (32 - TILE_ROWS / 16) : tile < NOTED_TILES ? (uint)noted->of_tile[tile] : 0;
}

// What a work-item multiplies in step k of a stage in order, R rows by AGAIN_COLUMNS.
INLINE void again_load(const int R, float* own_a, float* own_b, __local const float* a, __local const float* b, int k, int tx,
                       int first_row) {
#if AGAIN_COLUMNS % 4
#pragma unroll
  for (int j = 0; j < AGAIN_COLUMNS; j++) own_b[j] = b[k * AGAIN_B_PITCH + AGAIN_COLUMN(tx, j)];
#else
#pragma unroll
  for (int j = 0; j < AGAIN_COLUMNS; j += 4) {
    const float4 four = *(__local const float4*)(b + k * AGAIN_B_PITCH + AGAIN_COLUMN(tx, j));
    own_b[j] = four.s0, own_b[j + 1] = four.s1, own_b[j + 2] = four.s2, own_b[j + 3] = four.s3;
  }
#endif
  if (R == 1) own_a[0] = a[k * AGAIN_A_PITCH + first_row];
#pragma unroll
  for (int i = 0; i + 4 <= R; i += 4) {
    const float4 four = *(__local const float4*)(a + k * AGAIN_A_PITCH + first_row + i);
    own_a[i] = four.s0, own_a[i + 1] = four.s1, own_a[i + 2] = four.s2, own_a[i + 3] = four.s3;
  }
}
INLINE void again_add(const int R, const int padded, float* acc, const float* own_a, const float* own_b) {
#pragma unroll
  for (int i = 0; i < R; i++)
#pragma unroll
    for (int j = 0; j < AGAIN_COLUMNS; j++)
      if (!padded || AGAIN_ADDS(own_a[i], own_b[j]))
        acc[i * AGAIN_COLUMNS + j] = fma(own_a[i], own_b[j], acc[i * AGAIN_COLUMNS + j]);
}
// The sums over a stage in order. What a step needs is under way while the one before is added.
INLINE void again_multiply(const int R, const int padded, float* acc, __local const float* a, __local const float* b, int tx,
                           int first_row) {
  float even_a[AGAIN_ROWS], even_b[AGAIN_COLUMNS], odd_a[AGAIN_ROWS], odd_b[AGAIN_COLUMNS];
  again_load(R, even_a, even_b, a, b, 0, tx, first_row);
#pragma unroll 4
  for (int k = 0; k < 32; k += 2) {
    again_load(R, odd_a, odd_b, a, b, k + 1, tx, first_row);
    again_add(R, padded, acc, even_a, even_b);
    again_load(R, even_a, even_b, a, b, (k + 2) % 32, tx, first_row);
    again_add(R, padded, acc, odd_a, odd_b);
  }
}
// All stages of a tile; see again_tile. While one is multiplied the next one comes. Padding is looked for in stages alone that have
// infinities or NaNs, which must not meet it.
INLINE void again_stages(const int R, float* acc, __local uchar* stages, int* turn, const struct Again* from, int steps, int row,
                         int item) {
  const int items = R == 1 ? 256 : MULTIPLIERS;
  if (steps > 0) again_feed(from, 0, item);
  for (int s = 0; s < steps; s++, ++*turn) {
    __local float* a = (__local float*)(stages + STAGE_BYTES) + (s & 1) * AGAIN_ORDERED;
    __local float* b = a + 32 * AGAIN_A_PITCH;
    mbarrier_wait(AGAIN_BAR(from), *turn & 1);
    uint odd = again_bring(from, s, item, (__local const float*)stages, a, b);
#if AGAIN_PADS
    odd = again_sync_any(odd);
    if (odd) {
      again_pad(from, s, item, a, b);
      again_sync();
    }
#else
    odd = 0;
    again_sync();
#endif
    if (s + 1 < steps) again_feed(from, s + 1, item);
    if (item < items && odd) again_multiply(R, 1, acc, a, b, AGAIN_X(item), row + AGAIN_Y(item) * R);
    if (item < items && !odd) again_multiply(R, 0, acc, a, b, AGAIN_X(item), row + AGAIN_Y(item) * R);
  }
  again_sync();
}

// R rows a work-item, by AGAIN_COLUMNS: those of the tile (R AGAIN_ROWS), or (R 1) the strip from `row` on. The sums of the warp's
// rows come to sums[], if it has some of them. `turn`: stages so far.
INLINE void again_tile(const int R, float* sums, __local uchar* stages, int* turn, const struct Again* from, int steps, int row,
                       int own_row, int own_column, int item) {
  const int rows = R == 1 ? 16 : TILE_ROWS, items = R == 1 ? 256 : MULTIPLIERS;
  const int tx = AGAIN_X(item), ty = AGAIN_Y(item), lane = item % 32;
  float acc[AGAIN_ROWS * AGAIN_COLUMNS];
#pragma unroll
  for (int i = 0; i < R * AGAIN_COLUMNS; i++) acc[i] = 0;
  again_stages(R, acc, stages, turn, from, steps, row, item);
  // From the rows and columns that a work-item computed to those that it stores.
  __local float* room = (__local float*)stages;
  if (item < items)
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
      for (int j = 0; j < AGAIN_COLUMNS; j++)
        room[(ty * R + i) * AGAIN_B_PITCH + AGAIN_COLUMN(tx, j)] = acc[i * AGAIN_COLUMNS + j];
  again_sync();
  const int at = own_row - row;
  if (at >= 0 && at < rows)
#pragma unroll
    for (int i = 0; i < SUMS; i++)
      sums[i] = room[(at + lane / 4 + i / 2 % 2 * 8) * AGAIN_B_PITCH + own_column + i / 4 * 8 + lane % 4 * 2 + i % 2];
  fence_async_shared();
  again_sync();
}
