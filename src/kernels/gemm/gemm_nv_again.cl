// Sums computed again by multiply-adds, where parts cannot hold what they are sums of (gemm_split.cl), by kernels whose tiles
// of TILE_ROWS x TILE_COLUMNS lie in MULTIPLIERS work-items' registers as gemm_nv_store.cl says. A warp with such sums notes its strip
// of 16 rows and does not store it; all compute what was noted after the group's other tiles, from the stages that bulk copies
// bring. When a tile's worth is noted, or a sample of the products says so before the first tile, the group leaves its other tiles
// out, and they are computed so too. It is written for few instructions: drivers take seconds for it, in each program. Matrices' warps
// compute a few sums at once (gemm_nv_again_few.cl).
//
// What the operands are is struct Again, as a tile sees them: here matrices (gemm_nv_again_matrix.cl). Who defines AGAIN_ADDS(a, b),
// whether the product of two elements is added, has others: again_step() is what 32 steps of k from one on have in common; again_a()
// and again_b() are an element of a row or column of the tile, i steps behind it, 0 outside; again_feed() starts the copies of a
// stage, and AGAIN_BAR counts them; again_bring() brings the stage in order, a[k][row] and b[k][column]. With AGAIN_PADS there is
// padding: again_bring() says whether there are infinities or NaNs in the other operand, and again_pad() then marks the padding.

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
#define AGAIN_STRIPS (TILE_ROWS / 16)
struct Noted {
  int infinite, tiny, samples;  // products that are not finite, that have a tiny factor, and all, of a sample
  int strips;                   // to be computed again, in all
  int left_out;                 // the first tile that was
  int of_tile[NOTED_TILES];     // a bit for each strip
  int beyond[AGAIN_STRIPS];     // of each strip, the number of the first tile beyond those from which on it is
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
  for (int i = item; i < AGAIN_STRIPS; i += items) noted->beyond[i] = INT_MAX;
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

// Of a work-item's sums that are stored, the smallest magnitude, and 0 if all are finite, else NaN. `rows`: of the tile's, from its
// first one on; columns[i]: of each 64 of its warp's.
INLINE float2 sums_range(const float* sums, int rows, const int* columns, int quad) {
  float2 range[2] = {(float2)(FLT_MAX, 0), (float2)(FLT_MAX, 0)};
#pragma unroll
  for (int i = 0; i < SUMS; i++) {
    const int inside = i % 32 / 4 * 8 + 2 * quad + i % 2 < columns[i / 32];
    const float v = inside ? sums[i] : FLT_MAX;
    range[i / 2 % 2] = (float2)(fmin(range[i / 2 % 2].s0, fabs(v)), fma(v, 0.0f, range[i / 2 % 2].s1));
  }
  if (rows <= 8) range[1] = (float2)(FLT_MAX, 0);
  return rows <= 0 ? (float2)(FLT_MAX, 0) : (float2)(fmin(range[0].s0, range[1].s0), range[0].s1 + range[1].s1);
}
// Notes a warp's strip if a lane's sums, whose range this is, are not within `least`; `row` is the warp's first of the tile. Not 0 if
// that is so, or was beyond NOTED_TILES.
INLINE uint again_later(float2 range, float least, __local struct Noted* noted, int tile, int row, int lane) {
  const uint bad = warp_any(range.s0 < least || isnan(range.s1));
  if (bad && lane == 0) {
    if (tile < NOTED_TILES)
      atomic_or(&noted->of_tile[tile], 1 << row / 16);
    else
      atomic_min(&noted->beyond[row / 16], tile);
    atomic_inc(&noted->strips);
  }
  return bad || (tile >= NOTED_TILES && noted->beyond[row / 16] <= tile);
}

// What is to be computed again of the group's tile number `tile`, a bit for each strip.
static uint again_strips(__local const struct Noted* noted, int index, int tile) {
  if (index >= noted->left_out) return 0xffffffffu >> (32 - AGAIN_STRIPS);
  if (tile < NOTED_TILES) return (uint)noted->of_tile[tile];
  uint strips = 0;
  for (int i = 0; i < AGAIN_STRIPS; i++) strips |= (uint)(noted->beyond[i] <= tile) << i;
  return strips;
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
#define AGAIN_MULTIPLY(unrolled, R, padded, acc, a, b, tx, first_row)                            \
  {                                                                                              \
    float even_a[AGAIN_ROWS], even_b[AGAIN_COLUMNS], odd_a[AGAIN_ROWS], odd_b[AGAIN_COLUMNS];    \
    again_load(R, even_a, even_b, a, b, 0, tx, first_row);                                       \
    _Pragma(unrolled) for (int k = 0; k < 32; k += 2) {                                          \
      again_load(R, odd_a, odd_b, a, b, k + 1, tx, first_row);                                   \
      again_add(R, padded, acc, even_a, even_b);                                                 \
      again_load(R, even_a, even_b, a, b, (k + 2) % 32, tx, first_row);                          \
      again_add(R, padded, acc, odd_a, odd_b);                                                   \
    }                                                                                            \
  }
// Padding is looked for in stages alone that have infinities or NaNs, which must not meet it.
INLINE void again_multiply(const int R, uint odd, float* acc, __local const float* a, __local const float* b, int tx,
                           int first_row) {
  if (odd)
    AGAIN_MULTIPLY("unroll 1", R, 1, acc, a, b, tx, first_row)
  else
    AGAIN_MULTIPLY("unroll 4", R, 0, acc, a, b, tx, first_row)
}
// R rows of acc[], from row ty R on.
INLINE void again_put(const int R, __local float* room, const float* acc, int tx, int ty) {
#pragma unroll
  for (int i = 0; i < R; i++)
#pragma unroll
    for (int j = 0; j < AGAIN_COLUMNS; j++)
      room[(ty * R + i) * AGAIN_B_PITCH + AGAIN_COLUMN(tx, j)] = acc[i * AGAIN_COLUMNS + j];
}

// A tile, or of the strip number `strip` alone, if that is not ALL_STRIPS: its sums come to local memory, to the first of `stages`,
// rows of AGAIN_B_PITCH. A work-item has AGAIN_ROWS rows of the tile, or one of the strip's, by AGAIN_COLUMNS. While one stage is
// multiplied the next one comes. `turn`: stages so far.
#define ALL_STRIPS (-1)
INLINE void again_tile(int strip, __local uchar* stages, int* turn, const struct Again* from, int steps, int item) {
  const int tx = AGAIN_X(item), ty = AGAIN_Y(item), whole = strip == ALL_STRIPS;
  float acc[AGAIN_ROWS * AGAIN_COLUMNS];
#pragma unroll
  for (int i = 0; i < AGAIN_ROWS * AGAIN_COLUMNS; i++) acc[i] = 0;
  if (steps > 0) again_feed(from, 0, item);
#pragma unroll 1
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
    if (whole)
      again_multiply(AGAIN_ROWS, odd, acc, a, b, tx, ty * AGAIN_ROWS);
    else if (item < 256)
      again_multiply(1, odd, acc, a, b, tx, 16 * strip + ty);
  }
  again_sync();
  if (whole)
    again_put(AGAIN_ROWS, (__local float*)stages, acc, tx, ty);
  else if (item < 256)
    again_put(1, (__local float*)stages, acc, tx, ty);
  again_sync();
}
// Where the sums of a row and a column of the tile are then.
#define AGAIN_ROOM(strip, row, column) \
  ((__local const float*)stages + ((strip) == ALL_STRIPS ? (row) : (row) - 16 * (strip)) * AGAIN_B_PITCH + (column))
// When the sums are stored, before the next tile's first stage comes there.
static void again_stored(void) {
  fence_async_shared();
  again_sync();
}
