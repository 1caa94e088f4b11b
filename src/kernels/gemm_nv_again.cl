// Sums computed again by multiply-adds, where parts cannot hold what they are sums of (gemm_split.cl), by kernels whose tiles
// of TILE_ROWS x TILE_COLUMNS lie in MULTIPLIERS work-items' registers as gemm_nv_store.cl says. A warp with few such sums computes them
// at once. With many it notes its strip of 16 rows, does not store it, and all compute what was noted after the group's other tiles, in the local memory that the stages had. When a whole tile's worth is noted, or a
// sample of the products says so before the first tile, the group leaves its other tiles out, and they are computed so too.
//
// What the operands are is struct Again, as a tile sees them: here matrices. Who defines AGAIN_ADDS(a, b), whether the product of
// two elements is added, has others: again_step() is what 32 steps of k from one on have in common; again_a() and again_b() an
// element of a row or column of the tile, i steps behind it, 0 outside; again_begins_k() whether neighbours along k are so in memory.

#include "gemm_types.cl"
#include "ptx.cl"
#include "gemm_split.cl"

#ifndef MULTIPLIERS
#define MULTIPLIERS 256
#define TILE_ROWS 128
#define TILE_COLUMNS 128
#endif
#ifndef SUMS
#define SUMS (TILE_ROWS * TILE_COLUMNS / MULTIPLIERS)
#endif
#ifndef AGAIN_ADDS
#define AGAIN_ADDS(a, b) 1
// From the tile's first row and column on.
struct Again {
  __global const float *a, *b;
  long a_m, a_k, b_n, b_k;
  int rows, columns, K;
};
struct AgainStep {
  int k;
};
static struct AgainStep again_step(const struct Again* from, int k) {
  const struct AgainStep result = {k};
  return result;
}
static float again_a(const struct Again* from, const struct AgainStep* step, int row, int i) {
  const int k = step->k + i;
  return row < from->rows && k < from->K ? from->a[row * from->a_m + k * from->a_k] : 0;
}
static float again_b(const struct Again* from, const struct AgainStep* step, int column, int i) {
  const int k = step->k + i;
  return column < from->columns && k < from->K ? from->b[column * from->b_n + k * from->b_k] : 0;
}
static int again_inside(const struct Again* from, int row, int column) {
  return row < from->rows && column < from->columns;
}
static int again_begins_k(const struct Again* from, int of_a) {
  return (of_a ? from->a_k : from->b_k) == 1;
}
#endif

// Sums of a warp that it computes at once; fewer where each product's operands are lines of their own.
#define AGAIN_FEW(from) (again_begins_k(from, 1) || again_begins_k(from, 0) ? 32 : 8)
// Products that a lane of its has on the way.
#define AGAIN_AHEAD 8
// Of a work-item, which has 16 neighbours along a row of the tile.
#define AGAIN_COLUMNS (TILE_COLUMNS / 16)
#define AGAIN_ROWS (TILE_ROWS / (MULTIPLIERS / 16))
#define AGAIN_B_PITCH (TILE_COLUMNS + 4)
// So many bring what is multiplied; elements of A and B that one of them brings at once.
#define AGAIN_BRING 256
#define AGAIN_MOST_A (TILE_ROWS / 16)
#define AGAIN_MOST_B (TILE_COLUMNS / 8)
// Neighbours of a row that a work-item has.
#if AGAIN_COLUMNS % 4
#define AGAIN_COLUMN(tx, j) ((tx) + 16 * (j))
#else
#define AGAIN_COLUMN(tx, j) (4 * (tx) + (j) / 4 * 64 + (j) % 4)
#endif

// What a group notes of its tiles, of which it takes each get_num_groups(0)th.
#define NOTED_TILES 512
struct Noted {
  int infinite, tiny, samples;  // products that are not finite, that have a tiny factor, and all, of a sample
  int strips;                   // half or more of which is to be computed again, in all
  int left_out;                 // the first tile that was
  int zero;                     // that no compiler knows
  int numbers;                  // the last part of k after which not all sums were NaN
  int of_tile[NOTED_TILES];     // a bit for each strip
};
#define EVERYTHING 0x40000000

static void again_sync(void) {
  __asm__ volatile("bar.sync 1, %0;" : : "n"(MULTIPLIERS) : "memory");
}

// By all work-items of the group, a barrier before again_sample and one after it.
static void again_start(__local struct Noted* noted, int item, int items) {
  for (int i = item; i < NOTED_TILES; i += items) noted->of_tile[i] = 0;
  if (item != 0) return;
  noted->infinite = noted->tiny = noted->samples = noted->strips = noted->zero = 0;
  noted->left_out = INT_MAX, noted->numbers = -1;
}
// Any number below n.
static int again_any(uint* state, int n) {
  *state = *state * 1664525u + 1013904223u;
  return (int)mul_hi(*state, (uint)n);
}
// One of the products that the sums have.
static void again_sample(__local struct Noted* noted, float a, float b) {
  if (a == 0 || b == 0) return;
  atomic_inc(&noted->samples);
  if (!isfinite(a * b))
    atomic_inc(&noted->infinite);
  else if (fmin(fabs(a), fabs(b)) < TINY)
    atomic_inc(&noted->tiny);
}
// By one work-item, before the first tile: with one product of 16 that is not finite hardly a sum is; sums of products nearly
// all of which have a tiny factor are tiny.
static void again_judge(__local struct Noted* noted) {
  if (noted->samples >= 64 && (16 * noted->infinite >= noted->samples || 8 * noted->tiny >= 7 * noted->samples))
    noted->strips = EVERYTHING;
}
// Whether the tiles that nobody has begun are left out.
static int again_leaves(__local const volatile struct Noted* noted) {
  return noted->strips >= MULTIPLIERS / 32;
}

// The sums of a warp that are not within `least` are computed again if they are few, and the result is 0. Else it is 1, and their strip is noted. `row`: the warp's first of the tile; `column`: the tile's first
// that it has.
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
  const uint later = first_lanes(count > AGAIN_FEW(from) && tile < NOTED_TILES);
  if (later && lane == 0) {
    atomic_or(&noted->of_tile[tile], 1 << row / 16);
    if (count > 16 * SUMS) atomic_inc(&noted->strips);  // half of them
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

// What is to be computed again of a tile, a bit for each strip.
static uint again_strips(__local const struct Noted* noted, int index) {
  const int tile = index / (int)get_num_groups(0);
  return index >= noted->left_out ? 0xffffffffu >> (32 - TILE_ROWS / 16) : tile < NOTED_TILES ? (uint)noted->of_tile[tile] : 0;
}

// Element number i of those that a work-item brings of `extent` rows or columns by `steps` of k: which one, and which k.
static int2 again_place(int i, int item, int along_k, int extent, int steps) {
  const int chunk = extent < 64 ? extent : 64, chunks = extent / chunk;
  return along_k ? (int2)(item / steps + AGAIN_BRING / steps * i, item % steps)
                 : (int2)(item % chunk + i % chunks * chunk, item / chunk + i / chunks * (AGAIN_BRING / chunk));
}

// R rows a work-item, by AGAIN_COLUMNS: those of the tile (R AGAIN_ROWS), or (R 1) the strip from `row` on; `steps` of k are in
// local memory at once. The sums of the warp's rows come to sums[], if it has some of them.
INLINE void again_tile(const int R, const int steps, float* sums, __local float* room, __local volatile struct Noted* noted,
                       const struct Again* from, int K, int row, int own_row, int own_column, int item) {
  const int rows = R == 1 ? 16 : TILE_ROWS, items = R == 1 ? 256 : MULTIPLIERS;
  const int a_pitch = rows + 4, stage = steps * (a_pitch + AGAIN_B_PITCH), parts = (K + steps - 1) / steps;
  const int tx = item % 16, ty = item / 16, lane = item % 32, a_k = again_begins_k(from, 1), b_k = again_begins_k(from, 0);
  float acc[AGAIN_ROWS * AGAIN_COLUMNS], next_a[AGAIN_MOST_A], next_b[AGAIN_MOST_B];
#pragma unroll
  for (int i = 0; i < R * AGAIN_COLUMNS; i++) acc[i] = 0;
  for (int s = 0; s <= parts; s++) {
    // What comes next is under way while what came is multiplied. Addresses are not kept: they would take all registers.
    const int own = item + noted->zero;
    const struct AgainStep step = again_step(from, s * steps / 32 * 32);
    if (s < parts && item < AGAIN_BRING) {
#pragma unroll
      for (int i = 0; i < rows * steps / AGAIN_BRING; i++) {
        const int2 at = again_place(i, own, a_k, rows, steps);
        next_a[i] = again_a(from, &step, row + at.s0, s * steps % 32 + at.s1);
      }
#pragma unroll
      for (int i = 0; i < TILE_COLUMNS * steps / AGAIN_BRING; i++) {
        const int2 at = again_place(i, own, b_k, TILE_COLUMNS, steps);
        next_b[i] = again_b(from, &step, at.s0, s * steps % 32 + at.s1);
      }
    }
    if (s > 0 && item < items) {
      __local const float* a = room + (s - 1) % 2 * stage;
      __local const float* b = a + steps * a_pitch;
#pragma unroll 4
      for (int k = 0; k < steps; k++) {
        float own_a[AGAIN_ROWS], own_b[AGAIN_COLUMNS];
#pragma unroll
        for (int j = 0; j < AGAIN_COLUMNS; j++) own_b[j] = b[k * AGAIN_B_PITCH + AGAIN_COLUMN(tx, j)];
#pragma unroll
        for (int i = 0; i < R; i++) own_a[i] = a[k * a_pitch + ty * R + i];
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
          for (int j = 0; j < AGAIN_COLUMNS; j++)
            if (AGAIN_ADDS(own_a[i], own_b[j]))
              acc[i * AGAIN_COLUMNS + j] = fma(own_a[i], own_b[j], acc[i * AGAIN_COLUMNS + j]);
      }
    }
    if (s < parts && item < AGAIN_BRING) {
      __local float* a = room + s % 2 * stage;
      __local float* b = a + steps * a_pitch;
#pragma unroll
      for (int i = 0; i < rows * steps / AGAIN_BRING; i++) {
        const int2 at = again_place(i, own, a_k, rows, steps);
        a[at.s1 * a_pitch + at.s0] = next_a[i];
      }
#pragma unroll
      for (int i = 0; i < TILE_COLUMNS * steps / AGAIN_BRING; i++) {
        const int2 at = again_place(i, own, b_k, TILE_COLUMNS, steps);
        b[at.s1 * AGAIN_B_PITCH + at.s0] = next_b[i];
      }
    }
    // What is NaN stays so.
    if (s % 8 == 7) {
      int numbers = 0;
#pragma unroll
      for (int i = 0; i < R * AGAIN_COLUMNS; i++) numbers |= !isnan(acc[i]);
      if (item < items && numbers) noted->numbers = s;
    }
    again_sync();
    if (s % 8 == 7 && noted->numbers != s) break;
  }
  again_sync();
  // From the rows and columns that a work-item computed to those that it stores.
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
  again_sync();
}
