// GEMM by warp-group matrix instructions (wgmma) that read tiles which bulk tensor copies bring:
// C = activation(alpha * A B + beta * C + bias). Work-groups stay and take one tile of C after another. Each of their
// WARP_GROUPS warp-groups multiplies 64 rows of the tile; work-item 0 also starts the copies, STAGES - 1 steps ahead.
// (A warp that only copies would cost a third of the registers: those of a ninth warp's whole scheduler.)
//
// SPLIT 0: A and B are f16, bf16 or f32, which the copies round to tf32; both are read from local memory. f32
//   must be contiguous along K there; A that is not comes through registers (FROM_REGISTERS).
// SPLIT 1: f32 by three products of tf32 parts, x = hi + lo. A is split in registers on the way from local memory; B
//   comes as two tensors that gemm_nv_pack.cl made, K-contiguous. Sums of 32 steps of k are flushed into f32 registers.
//   Parts of tiny or huge numbers are not exact. So a sum that is not finite, or so small beside the operands'
//   smallest and largest magnitudes that it may have lost bits, is computed again by multiply-adds (gemm_nv_again.cl).
//
// Launch: any number of groups of ITEMS work-items. Each group has MAPS tensor maps of its own in `maps`.

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 4
#endif
// The element type's number in tensor maps: 6 f16, 7 f32, 10 bf16, 11 f32 that is rounded to tf32 on the way.
#ifndef MAP_TYPE
#define MAP_TYPE 7
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef WARP_GROUPS
#define WARP_GROUPS 2
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef STAGES
#define STAGES 4
#endif
// Which dimension of A and B is contiguous.
#ifndef A_UNIT_K
#define A_UNIT_K 1
#endif
#ifndef B_UNIT_K
#define B_UNIT_K 1
#endif
#define FROM_REGISTERS (!SPLIT && ELEMENT_BYTES == 4 && !A_UNIT_K)
#define TILE_M (64 * WARP_GROUPS)
#define ITEMS (128 * WARP_GROUPS)
// Steps of k in a stage: what 128 bytes hold.
#define STEP (128 / ELEMENT_BYTES)
#define B_PARTS (1 + SPLIT)
#define A_BYTES (TILE_M * 128)
#define B_BYTES (TILE_N * 128)
#define STAGE_BYTES (A_BYTES + B_PARTS * B_BYTES)
#define MAPS (1 + B_PARTS)
#define SUMS (TILE_N / 2)

#include "gemm/gemm_nv_store.cl"
#include "gemm/gemm_nv_registers.cl"

#if SPLIT
#define MULTIPLIERS ITEMS
#define TILE_ROWS TILE_M
#define TILE_COLUMNS TILE_N
#include "gemm/gemm_nv_again_few.cl"
// Of all tiles. In local memory, and read as volatile: what is made of it takes no registers beside the products.
struct Operands {
  struct Again whole;
  long a_batch, b_batch;
};
static struct Again again_of(__local const volatile struct Operands* all, struct Tile t) {
  const long a_m = all->whole.a_m, b_n = all->whole.b_n;
  const struct Again result = {all->whole.a + t.z * all->a_batch + t.m * a_m, all->whole.b + t.z * all->b_batch + t.n * b_n,
                               a_m, all->whole.a_k, b_n, all->whole.b_k, all->whole.rows - t.m, all->whole.columns - t.n,
                               all->whole.K, t.m, t.n, all->a_batch ? t.z : 0, all->b_batch ? t.z : 0, all->whole.maps,
                               all->whole.to, all->whole.bar};
  return result;
}
#endif
#if SPLIT && AGAIN_BYTES > STAGES * STAGE_BYTES
#define LOCAL_BYTES AGAIN_BYTES
#else
#define LOCAL_BYTES (STAGES * STAGE_BYTES)
#endif

// Pitches and batch strides are in elements; a batch stride of 0 repeats the operand.
#define PARAMETERS                                                                                      \
  __global const ELEMENT *restrict a, long a_offset, long lda, long a_batch, __global const ELEMENT *b, \
      long b_offset, long ldb, long b_batch, __global const ELEMENT *b_lo, long b_lo_offset,            \
      __global C_STORAGE *restrict c, long c_offset, long ldc, long c_batch
#if SPLIT
// B before it was split, with the strides of both dimensions, and what gemm_nv_pack.cl noted of it.
#define WHOLE_B_PARAMETERS                                                                                     \
  __global const float *restrict whole_b, long whole_b_offset, long whole_b_k, long whole_b_n,                 \
      long whole_b_batch, __global const uint2 *restrict ranges, long ranges_offset, int range_count,
#else
#define WHOLE_B_PARAMETERS
#endif

// An operand's box: 128 bytes along the contiguous dimension; STEP or the tile's rows along the other. Sizes are those
// of the matrix, so that what lies outside is 0.
#define MAKE_OPERAND_MAP(map, data, unit_k, rows, pitch, batch, tile)                            \
  MAKE_MAP(map, data, MAP_TYPE, (unit_k) ? K : (rows), (unit_k) ? (rows) : K, (batch) ? batches : 1, \
           (pitch)*ELEMENT_BYTES, (batch) ? (batch)*ELEMENT_BYTES : 16, STEP, (unit_k) ? (tile) : STEP)

#if SPLIT
#define COPY_LOW(to, map, k, row, z, bar) bulk_copy(to, map, k, row, z, bar);
// Before a tile's first step: whether it and those behind it are left out. Who multiplies learns it by the first step's barrier.
#define LEAVES_OUT(bar)                                          \
  (feed_step == 0 && again_leaves(&noted) &&                     \
   (noted.left_out = feed_index, feed_index = tiles, mbarrier_arrive(bar), 1))
#else
#define LEAVES_OUT(bar) 0
#define COPY_LOW(to, map, k, row, z, bar)
#endif

// Starts the copies of the next stage, if there is one. Work-item 0 only.
#define FEED()                                                                                         \
  if (feed_index < tiles) {                                                                            \
    const int slot_ = feed_turn % STAGES;                                                              \
    const uint to_ = base + slot_ * STAGE_BYTES, bar_ = full_bar + 8 * slot_;                          \
    mbarrier_wait(empty_bar + 8 * slot_, (feed_turn / STAGES & 1) ^ 1);                                \
    if (!LEAVES_OUT(bar_)) {                                                                           \
      mbarrier_expect(bar_, STAGE_BYTES);                                                              \
      COPY_ROWS(to_, maps, A_UNIT_K, TILE_M, STEP, feed_step * STEP, feed.m, a_batch ? feed.z : 0, bar_)                  \
      COPY_ROWS(to_ + A_BYTES, maps + 16, B_UNIT_K, TILE_N, STEP, feed_step * STEP, feed.n, b_batch ? feed.z : 0, bar_)   \
      COPY_LOW(to_ + A_BYTES + B_BYTES, maps + 32, feed_step * STEP, feed.n, b_batch ? feed.z : 0, bar_)               \
      feed_turn++;                                                                                     \
      if (++feed_step == steps) {                                                                      \
        feed_step = 0;                                                                                 \
        feed_index += (int)get_num_groups(0);                                                          \
        feed = tile_at(feed_index, tiles_m, tiles_n);                                                  \
      }                                                                                                \
    }                                                                                                  \
  }

// The products of this step may still run; those of the step before are done.
#define RELEASE_AND_FEED()                                                                             \
  if (turn > 0 && lane == 0) mbarrier_arrive(empty_bar + 8 * ((turn + STAGES - 1) % STAGES));          \
  if (item == 0) FEED()                                                                                \
  warp_sync();

#if FROM_REGISTERS
// Adds the products of a step, A's part of which is in a[]. Those of the step before, which still run, read before[].
static void multiply(float sums[SUMS], const float a[16], const float before[16], ulong b_at) {
  //$ REGISTER_MULTIPLY
  sums[0] += a[0] + before[0] + (float)b_at;
  //$ END
}
#define MULTIPLY_STEP(a, before)                                                                             \
  {                                                                                                          \
    const int slot = turn % STAGES;                                                                          \
    mbarrier_wait(full_bar + 8 * slot, turn / STAGES & 1);                                                   \
    __local const float* from = (__local const float*)(stages + slot * STAGE_BYTES + warp_group * 64 * 128); \
    for (int i = 0; i < 4; i++) load_a(a + 4 * i, from, i, warp % 4, lane);                                  \
    multiply(sums, a, before, wgmma_descriptor(base + slot * STAGE_BYTES + A_BYTES, 8192, 1024));            \
    RELEASE_AND_FEED()                                                                                       \
    turn++;                                                                                                  \
  }
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_nv_wgmma(
    int M, int N, int K, int batches, PARAMETERS, WHOLE_B_PARAMETERS __global ulong* all_maps, long maps_offset, EPILOGUE_PARAMETERS) {
  __local uchar stages[LOCAL_BYTES] __attribute__((aligned(1024)));
  __local ulong full[STAGES + SPLIT], empty[STAGES], map_room[MAPS * 16] __attribute__((aligned(128)));
  const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32, group = (int)get_group_id(0);
  const uint base = SHARED(stages), full_bar = SHARED(full), empty_bar = SHARED(empty);
  c += c_offset;
  const int tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N;
  const int tiles = tiles_m * tiles_n * batches, steps = (K + STEP - 1) / STEP;
  // A map takes 16 words and starts at a multiple of so many.
  __global ulong* maps = (__global ulong*)(((size_t)(all_maps + maps_offset) + 127) / 128 * 128) + group * MAPS * 16;
  int feed_index = group, feed_step = 0, feed_turn = 0;
  struct Tile feed = tile_at(feed_index, tiles_m, tiles_n);
  if (item == 0) {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(full_bar + 8 * s, 1);
      mbarrier_init(empty_bar + 8 * s, 4 * WARP_GROUPS);
    }
    if (SPLIT) mbarrier_init(full_bar + 8 * STAGES, 1);
    fence_async();
  }
#if SPLIT
  __local struct Noted noted;
  __local struct Operands operands;
  again_start(&noted, item, ITEMS);
  if (item == 0) {
    const struct Operands all = {{a + a_offset, whole_b + whole_b_offset, A_UNIT_K ? lda : 1, A_UNIT_K ? 1 : lda, whole_b_n,
                                  whole_b_k, M, N, K, 0, 0, 0, 0, maps, base, full_bar + 8 * STAGES}, a_batch, whole_b_batch};
    operands = all;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (K > 0) {
    const struct Again from = again_of(&operands, feed);
    uint random = (uint)item * 2654435761u;
    const struct AgainStep step = again_step(&from, any_below(&random, K));
    const float of_a = again_a(&from, &step, any_below(&random, min(M - feed.m, TILE_M)), 0);
    again_sample(&noted, of_a, again_b(&from, &step, any_below(&random, min(N - feed.n, TILE_N)), 0));
  }
#endif
  if (warp < MAPS) {  // a warp for each map
    const uint map = SHARED(map_room + 16 * warp);
    if (lane < 16) map_room[16 * warp + lane] = 0;
    warp_sync();
    if (item == 0) MAKE_OPERAND_MAP(map, a + a_offset, A_UNIT_K, M, lda, a_batch, TILE_M)
    if (item == 32) MAKE_OPERAND_MAP(map, b + b_offset, B_UNIT_K, N, ldb, b_batch, TILE_N)
#if SPLIT
    if (item == 64) MAKE_OPERAND_MAP(map, b_lo + b_lo_offset, B_UNIT_K, N, ldb, b_batch, TILE_N)
#endif
    warp_sync();
    publish_map(maps + 16 * warp, map);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
#if SPLIT
    again_judge(&noted);
#endif
    for (int i = 0; i < MAPS; i++) acquire_map(maps + 16 * i);
    for (int s = 0; s < STAGES - 1 && steps > 0; s++) FEED()
  }
  warp_sync();

  const int warp_group = warp / 4;
  int turn = 0;  // stages since the start
#if SPLIT
  for (int index = group; index < tiles; index += (int)get_num_groups(0)) {
    if (steps > 0) {
      mbarrier_wait(full_bar + 8 * (turn % STAGES), turn / STAGES & 1);
      if (first_lanes((uint)(index >= ((__local volatile struct Noted*)&noted)->left_out))) break;
    }
#else
  for (int index = group; index < tiles; index += (int)get_num_groups(0)) {
#endif
    const struct Tile t = tile_at(index, tiles_m, tiles_n);
    float sums[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = 0;
#if SPLIT
    uint2 a_range = (uint2)(UINT_MAX, 0);
#endif
#if FROM_REGISTERS
    float even[16] = {0}, odd[16] = {0};  // of A
    for (int s = 0; s + 1 < steps; s += 2) {
      MULTIPLY_STEP(even, odd)
      MULTIPLY_STEP(odd, even)
    }
    if (steps % 2) MULTIPLY_STEP(even, odd)
#else
    for (int s = 0; s < steps; s++, turn++) {
      const int slot = turn % STAGES;
      const uint at = base + slot * STAGE_BYTES;
      mbarrier_wait(full_bar + 8 * slot, turn / STAGES & 1);
#if SPLIT
      uint hi[16], lo[16];
      split_a(hi, lo, &a_range, (__local const float*)(stages + slot * STAGE_BYTES + warp_group * 64 * 128), warp % 4, lane);
      const ulong b_at = wgmma_descriptor(at + A_BYTES, 16, 1024);
      const ulong b_lo_at = wgmma_descriptor(at + A_BYTES + B_BYTES, 16, 1024);
      float part[SUMS];
#pragma unroll
      for (int i = 0; i < SUMS; i++) part[i] = 0;
      //$ SPLIT_MULTIPLY
      part[0] += (float)(b_at + b_lo_at);
      //$ END
      // While they run, the slot before is filled again, as soon as all have read it.
      if (item == 0) FEED()
      warp_sync();
      //$ SPLIT_WAIT
      //$ END
      if (lane == 0) mbarrier_arrive(empty_bar + 8 * slot);
#pragma unroll
      for (int i = 0; i < SUMS; i++) sums[i] += part[i];
#else
      const ulong a_at = wgmma_descriptor(at + warp_group * 64 * 128, 8192, 1024);
      const ulong b_at = wgmma_descriptor(at + A_BYTES, 8192, 1024);
      //$ MULTIPLY
      sums[0] += (float)(a_at + b_at);
      //$ END
      RELEASE_AND_FEED()
#endif
    }
#endif
#if FROM_REGISTERS
    //$ REGISTER_WAIT
    //$ END
#elif !SPLIT
    //$ WAIT
    //$ END
#endif
    // A work-item has columns 8 j + 2 q and the next of rows m and m + 8, q its place among four lanes.
    const int quad = lane % 4, first_m = t.m + 64 * warp_group + 16 * (warp % 4) + lane / 4;
#if SPLIT
    uint small = a_range.s0 < as_uint(TINY) - 1 || a_range.s1 > as_uint(LARGE);
#pragma unroll
    for (int i = 0; i < SUMS; i++) small |= !is_within(sums[i], SMALL);
    uint later = 0;
    if (warp_any(small)) {
      const struct Again from = again_of(&operands, t);
      const float least = least_of(a_range, ranges + ranges_offset, range_count, from.K, lane);
      later = again_few(sums, least, &noted, index / (int)get_num_groups(0), &from, from.K, 16 * warp, 0, lane);
    }
    if (first_lanes(later)) continue;
#endif
    const long rows_at[2] = ROWS_AT(t.z * c_batch, first_m, ldc);
    store_sums(t.m + TILE_M <= M && t.n + TILE_N <= N, sums, SUMS, first_m, t.n, quad, M, N, c, rows_at, ldc,
               EPILOGUE_ARGUMENTS);
  }
#if SPLIT
  again_sync();
  turn = 0;
  for (int index = group; index < tiles; index += (int)get_num_groups(0)) {
    const uint strips = first_lanes(again_strips(&noted, index, index / (int)get_num_groups(0)));
    const struct Tile t = tile_at(index, tiles_m, tiles_n);
    const struct Again from = again_of(&operands, t);
    if (strips == 0) continue;
    const int strip = popcount(strips) > 1 ? ALL_STRIPS : 31 - (int)clz(strips);
    again_tile(strip, stages, &turn, &from, steps, item);
    if (first_lanes(strips >> warp & 1)) {
      const int first_m = t.m + 16 * warp + lane / 4;
      const long rows_at[2] = ROWS_AT(t.z * c_batch, first_m, ldc);
      store_room(AGAIN_ROOM(strip, 16 * warp, 0), AGAIN_B_PITCH, SUMS, first_m, t.n, lane, M, N, c, rows_at, ldc, EPILOGUE_ARGUMENTS);
    }
    again_stored();
  }
#endif
}
