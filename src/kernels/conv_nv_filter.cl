// Convolution's backward filter by warp-group matrix instructions (conv_nv_filter_tile.cl) that read both operands from local
// memory as they come, channels side by side: f16 and bf16, or f32 as PARTS parts of bf16.
//
// PARTS 1: elements of f16 or bf16. PARTS 3: f32 as so many parts of bf16 (conv_nv_parts.cl), by 6 products; sums of a stage
//   are flushed into f32 registers. Where that is not good enough (gemm_split.cl), a sum is computed again from x and dy.
// Launch: any number of groups of ITEMS work-items. Each group has maps of its own in `all_maps`.

#ifndef PARTS
#define PARTS 3
#endif
#ifndef PIXELS
#define PIXELS 32
#endif
#include "gemm_nv_store.cl"
#include "gemm_split.cl"
#include "conv_nv_filter_tile.cl"

#if PARTS > 1
#define WHOLE_PARAMETERS                                                                                                     \
  __global const float *restrict whole_x, long whole_x_offset, STRIDES(whole_x), long whole_x_stride_c,                      \
      __global const float *restrict whole_y, long whole_y_offset, STRIDES(whole_y), long whole_y_stride_c,                  \
      __global const uint2 *restrict x_ranges, long x_ranges_offset, __global const uint2 *restrict y_ranges,                \
      long y_ranges_offset, int range_count,
#else
#define WHOLE_PARAMETERS
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_nv_filter(
    FILTER_PARAMETERS, WHOLE_PARAMETERS __global ulong* all_maps, long maps_offset) {
  __local uchar stages[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  __local ulong full[STAGES], empty[STAGES], map_room[16] __attribute__((aligned(128)));
  const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32;
  START_REGISTERS
  const uint base = SHARED(stages), full_bar = SHARED(full), empty_bar = SHARED(empty);
  const int pixels = images * size_d * size_h * size_w, all_steps = (pixels + PIXELS - 1) / PIXELS;
  const int taps = taps_d * taps_h * taps_w, blocks = taps * blocks_c;
  __global ulong* maps =
      (__global ulong*)(((size_t)(all_maps + maps_offset) + 127) / 128 * 128) + (long)get_group_id(0) * 2 * PARTS * 16;
  if (item == 0) {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(full_bar + 8 * s, 1);
      mbarrier_init(empty_bar + 8 * s, 4 * WARP_GROUPS);
    }
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
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp >= 4 * WARP_GROUPS) {
    GIVE_REGISTERS
    if (warp > 4 * WARP_GROUPS) return;
    MAKE_FILTER_MAPS(MAP_TYPE)
    if (lane == 0) FEED_ALL()
    return;
  }
  TAKE_REGISTERS
  const int warp_group = warp / 4, own_m = M_BLOCKS == 1 ? 0 : warp_group, own_n = M_BLOCKS == 1 ? warp_group * N_OWN : 0;
  int turn = 0;  // stages since the start
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
    uint2 x_range = notes[0][0], y_range = notes[1][0];
    for (int i = 1; i < ITEMS / 32; i++) {
      x_range = (uint2)(min(x_range.s0, notes[0][i].s0), max(x_range.s1, notes[0][i].s1));
      y_range = (uint2)(min(y_range.s0, notes[1][i].s0), max(y_range.s1, notes[1][i].s1));
    }
    const float least = PARTS == 3 ? least_exact(y_range, x_range, steps * PIXELS) : 0;
    for (int done = -1;;) {
      int next = SUMS;
#pragma unroll
      for (int i = SUMS - 1; i >= 0; i--)
        if (i > done && !is_within(sums[i], least)) next = i;
      if (next == SUMS) break;
      done = next;
      const int k = first_k + next / 2 % 2 * 8, number = block + own_n + next / 32;
      const int tap = QUOTIENT(number, blocks_c), c = (number - tap * blocks_c) * 64 + next % 32 / 4 * 8 + 2 * quad + next % 2;
      if (k >= K || number >= blocks || c >= C) continue;
      const int tap_w = tap % taps_w * dilation_w, tap_h = tap / taps_w % taps_h * dilation_h;
      const int tap_d = tap / (taps_w * taps_h) * dilation_d;
      float again = 0;
      for (int p = first * PIXELS; p < min(pixels, (first + steps) * PIXELS); p++) {
        PIXEL(p)
        const int d = at_d * stride_d - pad_d + tap_d, h = at_h * stride_h - pad_h + tap_h, w = at_w * stride_w - pad_w + tap_w;
        if (d < 0 || d >= source_d || h < 0 || h >= source_h || w < 0 || w >= source_w) continue;
        again = fma(whole_y[whole_y_offset + image * whole_y_stride_n + at_d * whole_y_stride_d + at_h * whole_y_stride_h +
                            at_w * whole_y_stride_w + (group * K + k) * whole_y_stride_c],
                    whole_x[whole_x_offset + image * whole_x_stride_n + d * whole_x_stride_d + h * whole_x_stride_h +
                            w * whole_x_stride_w + (group * C + c) * whole_x_stride_c],
                    again);
      }
#pragma unroll
      for (int i = 0; i < SUMS; i++)
        if (i == next) sums[i] = again;
    }
#endif
    STORE_SLICE()
  }
}
