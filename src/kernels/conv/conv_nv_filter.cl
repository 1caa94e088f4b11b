// Convolution's backward filter by warp-group matrix instructions (conv_nv_filter_tile.cl) that read both operands from local
// memory as they come, channels side by side: f16 and bf16, or f32 as PARTS parts of bf16.
//
// PARTS 1: elements of f16 or bf16. PARTS 3: f32 as so many parts of bf16 (conv_nv_parts.cl), by 6 products; sums of a stage
//   are flushed into f32 registers. Where that is not good enough (gemm_split.cl), sums are computed again from x and dy
//   (gemm_nv_again.cl); all of them if one of both has infinities or NaNs.
// Launch: any number of groups of ITEMS work-items. Each group has maps of its own in `all_maps`.

#ifndef PARTS
#define PARTS 3
#endif
#ifndef PIXELS
#define PIXELS 32
#endif
// What products lose of a number below 2^-110 (parts_bf16.cl), so that it is 2^-24 of the sum.
#define LOST 0x1p-83f
#include "gemm/gemm_nv_store.cl"
#include "conv/conv_nv_filter_tile.cl"
#if PARTS > 1
#include "conv/conv_nv_filter_again.cl"
#define FILTER_BYTES (AGAIN_BYTES > STAGES * STAGE_BYTES ? AGAIN_BYTES : STAGES * STAGE_BYTES)
#else
#define FILTER_BYTES (STAGES * STAGE_BYTES)
#endif

#if PARTS > 1
#define WHOLE_PARAMETERS                                                                                      \
  __global const float *restrict whole_x, long whole_x_offset, LongStrides whole_x_stride,                    \
      __global const float *restrict whole_y, long whole_y_offset, LongStrides whole_y_stride,                \
      __global const uint2 *restrict x_ranges, long x_ranges_offset, __global const uint2 *restrict y_ranges, \
      long y_ranges_offset, int range_count,
#else
#define WHOLE_PARAMETERS
#endif

// A warp's first row of the tile.
#define OWN_ROW (64 * own_m + 16 * (warp % 4))

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_nv_filter(
    FILTER_PARAMETERS, WHOLE_PARAMETERS __global ulong* all_maps, long maps_offset) {
  __local uchar stages[FILTER_BYTES] __attribute__((aligned(1024)));
  __local ulong full[STAGES + 1], empty[STAGES], map_room[16] __attribute__((aligned(128)));
  const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32;
  START_REGISTERS
  const uint base = SHARED(stages), full_bar = SHARED(full), empty_bar = SHARED(empty);
  const int pixels = images * axes.d.size.d * axes.h.size.d * axes.w.size.d, all_steps = (pixels + PIXELS - 1) / PIXELS;
  const int taps = axes.d.taps * axes.h.taps * axes.w.taps, blocks = taps * blocks_c.d;
  __global ulong* maps =
      (__global ulong*)(((size_t)(all_maps + maps_offset) + 127) / 128 * 128) + (long)get_group_id(0) * 2 * PARTS * 16;
  if (item == 0) {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(full_bar + 8 * s, 1);
      mbarrier_init(empty_bar + 8 * s, 4 * WARP_GROUPS);
    }
    mbarrier_init(full_bar + 8 * STAGES, 1);
    fence_async();
  }
#if PARTS > 1
  __local uint2 notes[2][ITEMS / 32];
  uint2 of_x = (uint2)(UINT_MAX, 0), of_y = of_x;
  for (int i = item; i < range_count; i += ITEMS) {
    const uint2 a = x_ranges[x_ranges_offset + i], b = y_ranges[y_ranges_offset + i];
    of_x = (uint2)(min(of_x.s0, a.s0), max(of_x.s1, a.s1));
    of_y = (uint2)(min(of_y.s0, b.s0), max(of_y.s1, b.s1));
  }
  for (int lanes = 1; lanes < 32; lanes *= 2) of_x = joined(of_x, lanes), of_y = joined(of_y, lanes);
  if (lane == 0) notes[0][warp] = of_x, notes[1][warp] = of_y;
  __local struct Noted noted;
  __local struct Operands operands;
  again_start(&noted, item, ITEMS);
  if (item == 0) {
    const struct Operands all = {
        {whole_x + whole_x_offset, whole_x_stride.n, whole_x_stride.d, whole_x_stride.h, whole_x_stride.w, whole_x_stride.c},
        {whole_y + whole_y_offset, whole_y_stride.n, whole_y_stride.d, whole_y_stride.h, whole_y_stride.w, whole_y_stride.c},
        blocks_c, axes.d.size, axes.h.size, axes.w.size, C, K, blocks, pixels, axes.h.taps, axes.w.taps,
        axes.d.source, axes.h.source, axes.w.source, axes.d.stride, axes.h.stride, axes.w.stride, axes.d.pad, axes.h.pad,
        axes.w.pad, axes.d.dilation, axes.h.dilation, axes.w.dilation, maps, base, full_bar + 8 * STAGES, 0, 0, {{0, 0, 0, 0}}};
    operands = all;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  {
    const long at = SHARE(MINE), end = SHARE(MINE + 1);
    long next;
    ITEM()
    const struct Again from = AGAIN_OF_ITEM();
    uint random = (uint)item * 2654435761u;
    const struct AgainStep step = again_step(&from, any_below(&random, from.last - from.first));
    const float a = again_a(&from, &step, any_below(&random, min(K - m, TILE_ROWS)), 0);
    const float b = again_b(&from, &step, any_below(&random, TILE_COLUMNS), 0);
    if (!is_padding(b)) again_sample(&noted, a, b);
  }
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
#if PARTS > 1
  uint2 x_range = notes[0][0], y_range = notes[1][0];
  for (int i = 1; i < ITEMS / 32; i++) {
    x_range = (uint2)(min(x_range.s0, notes[0][i].s0), max(x_range.s1, notes[0][i].s1));
    y_range = (uint2)(min(y_range.s0, notes[1][i].s0), max(y_range.s1, notes[1][i].s1));
  }
  const uint all_again = first_lanes((uint)(again_all(&noted) || max(x_range.s1, y_range.s1) >= 0x7f800000u));
#else
  const uint all_again = 0;
#endif
  if (warp >= 4 * WARP_GROUPS) {
    GIVE_REGISTERS
    if (warp > 4 * WARP_GROUPS) return;
    MAKE_FILTER_MAPS(MAP_TYPE)
#if PARTS > 1
    if (all_again) maps_made();
#endif
    if (lane == 0 && !all_again) FEED_ALL()
    return;
  }
  TAKE_REGISTERS
  const int warp_group = warp / 4, own_m = M_BLOCKS == 1 ? 0 : warp_group, own_n = M_BLOCKS == 1 ? warp_group * N_OWN : 0;
  int turn = 0;  // stages since the start
#if PARTS > 1
  int own = 0;  // number of the group's slice
  if (!all_again)
#endif
  FOR_ITEMS() {
    ITEM()
    float sums[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = 0;
    for (int s = 0; s < steps; s++, turn++) {
      const int slot = turn % STAGES;
      const uint at = base + slot * STAGE_BYTES;
      mbarrier_wait(full_bar + 8 * slot, turn / STAGES & 1);
      const ulong a_at = wgmma_descriptor(at + own_m * BOX_BYTES, BOX_BYTES, 1024);
      const ulong b_at = wgmma_descriptor(at + PARTS * A_BYTES + own_n * BOX_BYTES, BOX_BYTES, 1024);
#if PARTS > 1
      float part_sums[SUMS];
#pragma unroll
      for (int i = 0; i < SUMS; i++) part_sums[i] = 0;
      //$ PARTS_MULTIPLY
      part_sums[0] += (float)(a_at + b_at);
      //$ END
      if (lane == 0) mbarrier_arrive(empty_bar + 8 * slot);
#pragma unroll
      for (int i = 0; i < SUMS; i++) sums[i] += part_sums[i];
#else
      //$ MULTIPLY
      sums[0] += (float)(a_at + b_at);
      //$ END
      // The products of this step may still run; those of the step before are done.
      if (turn > 0 && lane == 0) mbarrier_arrive(empty_bar + 8 * ((turn + STAGES - 1) % STAGES));
#endif
    }
#if PARTS == 1
    //$ WAIT
    //$ END
#endif
    // A work-item has columns 8 j + 2 q and the next of rows k and k + 8, q its place among four lanes.
    const int quad = lane % 4, first_k = m + 64 * own_m + 16 * (warp % 4) + lane / 4;
#if PARTS > 1
    const float least = least_exact(y_range, x_range, steps * PIXELS);
    uint small = own >= NOTED_TILES, later = 0;
#pragma unroll
    for (int i = 0; i < SUMS; i++) small |= !is_within(sums[i], least);
    if (warp_any(small)) {
      int columns[N_OWN];
#pragma unroll
      for (int i = 0; i < N_OWN; i++) {
        const int number = block + own_n + i;
        columns[i] = number < blocks ? C - (number - divided(number, blocks_c) * blocks_c.d) * 64 : 0;
      }
      later = again_later(sums_range(sums, K - first_k, columns, quad), least, &noted, own, OWN_ROW, lane);
    }
    own++;
    if (first_lanes(later)) continue;
#endif
    STORE_SLICE()
  }
#if PARTS > 1
  if (all_again) maps_awaited();
  if (item == 0) {
    if (all_again) noted.left_out = 0;
    operands.tiny_x = x_range.s0 < LEAST_IN_PARTS - 1, operands.tiny_y = y_range.s0 < LEAST_IN_PARTS - 1;
    for (int i = 0; i < 2 * PARTS; i++) acquire_map(maps + 16 * i);
  }
  again_sync();
  own = turn = 0;
  FOR_ITEMS() {
    ITEM()
    const uint strips = first_lanes(again_strips(&noted, 0, own));
    own++;
    if (strips == 0) continue;
    const struct Again from = AGAIN_OF_ITEM();
    const int quad = lane % 4, first_k = m + OWN_ROW + lane / 4;
    again_see(&operands, &from, item);
    again_sync();
    again_tile(ALL_STRIPS, stages, &turn, &from, steps, item);
    if (first_lanes(strips >> OWN_ROW / 16 & 1)) STORE_ROOM(AGAIN_ROOM(ALL_STRIPS, OWN_ROW, 64 * own_n))
    again_stored();
  }
#endif
}
