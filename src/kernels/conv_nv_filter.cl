// Convolution's backward filter by warp-group matrix instructions: dw[k, tap, c] = sum over pixels of dy[pixel, k] *
// x[what the tap sees from there, c]. A tile is M_BLOCKS blocks of 64 filters by N_BLOCKS blocks of 64 channels of a tap each;
// warp-groups share them along the filters if M_BLOCKS is theirs, else along the blocks of channels. The pixels are summed up in
// parts, each to a result of its own. Both operands come by bulk tensor copies in im2col mode, PIXELS pixels a stage.
//
// PARTS 1: elements of f16 or bf16. PARTS 2, 3: f32 as so many parts of bf16 (conv_nv_parts.cl), by 3 or 6 products; sums of a
//   stage are flushed into f32 registers. Where that is not good enough (gemm_split.cl), a sum is computed again from x and dy.
// Launch: any number of groups of ITEMS work-items. Each group has maps of its own in `maps`: of dy's parts, then of x's.

#ifndef PARTS
#define PARTS 3
#endif
#ifndef M_BLOCKS
#define M_BLOCKS 2
#endif
#ifndef N_BLOCKS
#define N_BLOCKS 2
#endif
#ifndef PIXELS
#define PIXELS 32
#endif
#ifndef STAGES
#define STAGES 4
#endif
// 6 f16, 10 bf16.
#ifndef MAP_TYPE
#define MAP_TYPE 10
#endif
#include "conv_nv_feed.cl"

#define BLOCK_BYTES (PIXELS * 128)
#define A_BYTES (M_BLOCKS * BLOCK_BYTES)
#define B_BYTES (N_BLOCKS * BLOCK_BYTES)
#define STAGE_BYTES (PARTS * (A_BYTES + B_BYTES))
// Of a warp-group.
#define N_OWN (N_BLOCKS * M_BLOCKS / WARP_GROUPS)
#define SUMS (32 * N_OWN)

#include "gemm_nv_store.cl"
#include "gemm_split.cl"
#include "conv_nv_map.cl"
#include "divisor.cl"

#define STRIDES(x) long x##_stride_n, long x##_stride_d, long x##_stride_h, long x##_stride_w
#define AXIS(x) DIVISOR(size_##x), int source_##x, int taps_##x, int stride_##x, int pad_##x, int dilation_##x
// What an operand's pixels are for the map: of dy each is its own window.
#define WINDOWS(x) -pad_##x
#define LAST_WINDOW(x) ((size_##x - 1) * stride_##x - pad_##x - (source_##x - 1))

#if PARTS > 1
#define WHOLE_PARAMETERS                                                                                                     \
  __global const float *restrict whole_x, long whole_x_offset, STRIDES(whole_x), long whole_x_stride_c,                      \
      __global const float *restrict whole_y, long whole_y_offset, STRIDES(whole_y), long whole_y_stride_c,                  \
      __global const uint2 *restrict x_ranges, long x_ranges_offset, __global const uint2 *restrict y_ranges,                \
      long y_ranges_offset, int range_count,
#else
#define WHOLE_PARAMETERS
#endif

// An item of work: part `part` of a tile of filters from m on and blocks of channels from `block` on.
#define ITEM(index)                                                                        \
  const int part = QUOTIENT(index, tiles), tile = (index)-part * tiles;                    \
  const int tile_row = QUOTIENT(tile, tiles_n), block = (tile - tile_row * tiles_n) * N_BLOCKS; \
  const int group = QUOTIENT(tile_row, tiles_m), m = (tile_row - group * tiles_m) * 64 * M_BLOCKS; \
  const int first = part * part_steps, steps = min(part_steps, all_steps - first);
// Pixel number p.
#define PIXEL(p)                                                                                    \
  const int rows_ = QUOTIENT(p, size_w), planes_ = QUOTIENT(rows_, size_h), image = QUOTIENT(planes_, size_d); \
  const int at_d = planes_ - image * size_d, at_h = rows_ - planes_ * size_h, at_w = (p)-rows_ * size_w;

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_nv_filter(
    int images, int C, int K, int groups, DIVISOR(tiles), DIVISOR(tiles_m), DIVISOR(tiles_n), DIVISOR(blocks_c), int parts,
    int part_steps, AXIS(d), AXIS(h), AXIS(w), __global const ushort* restrict x, long x_offset, STRIDES(x), long x_part,
    __global const ushort* restrict y, long y_offset, STRIDES(y), long y_part, __global float* restrict partial,
    long partial_offset, WHOLE_PARAMETERS __global ulong* all_maps, long maps_offset) {
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
    const uint map = SHARED(map_room);
    for (int i = 0; i < 2 * PARTS; i++) {
      if (lane < 16) map_room[lane] = 0;
      warp_sync();
      if (lane == 0 && i < PARTS) {
        const struct PixelMap of_dy = {K * groups, images, size_d, size_h, size_w, y_stride_n * 2, y_stride_d * 2,
                                       y_stride_h * 2, y_stride_w * 2, 0, 0, 0, 0, 0, 0, 1, 1, 1};
        make_pixel_map(map_room, (ulong)(size_t)(y + y_offset + i * y_part), MAP_TYPE, 64, PIXELS, &of_dy);
      }
      if (lane == 0 && i >= PARTS) {
        const struct PixelMap seen = {C * groups, images, source_d, source_h, source_w, x_stride_n * 2, x_stride_d * 2,
                                      x_stride_h * 2, x_stride_w * 2, WINDOWS(d), WINDOWS(h), WINDOWS(w), LAST_WINDOW(d),
                                      LAST_WINDOW(h), LAST_WINDOW(w), stride_d, stride_h, stride_w};
        make_pixel_map(map_room, (ulong)(size_t)(x + x_offset + (i - PARTS) * x_part), MAP_TYPE, 64, PIXELS, &seen);
      }
      warp_sync();
      publish_map(maps + 16 * i, map);
    }
    if (lane > 0) return;
    for (int i = 0; i < 2 * PARTS; i++) acquire_map(maps + 16 * i);
    int turn = 0;
    for (int index = (int)get_group_id(0); index < tiles * parts; index += (int)get_num_groups(0)) {
      ITEM(index)
      int channel[N_BLOCKS], tap_d[N_BLOCKS], tap_h[N_BLOCKS], tap_w[N_BLOCKS];
#pragma unroll
      for (int j = 0; j < N_BLOCKS; j++) {
        // Blocks beyond the last one are computed, but not stored.
        const int number = min(block + j, blocks - 1), tap = QUOTIENT(number, blocks_c);
        channel[j] = group * C + (number - tap * blocks_c) * 64;
        tap_w[j] = tap % taps_w * dilation_w;
        tap_h[j] = tap / taps_w % taps_h * dilation_h;
        tap_d[j] = tap / (taps_w * taps_h) * dilation_d;
      }
      for (int s = 0; s < steps; s++, turn++) {
        const int slot = turn % STAGES;
        const uint to = base + slot * STAGE_BYTES, bar = full_bar + 8 * slot;
        mbarrier_wait(empty_bar + 8 * slot, (turn / STAGES & 1) ^ 1);
        mbarrier_expect(bar, STAGE_BYTES);
        PIXEL((first + s) * PIXELS)
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
#pragma unroll
          for (int j = 0; j < M_BLOCKS; j++)
            copy_pixels(to + i * A_BYTES + j * BLOCK_BYTES, maps + 16 * i, group * K + m + 64 * j, image, at_d, at_h, at_w, 0, 0,
                        0, bar);
#pragma unroll
          for (int j = 0; j < N_BLOCKS; j++)
            copy_pixels(to + PARTS * A_BYTES + i * B_BYTES + j * BLOCK_BYTES, maps + 16 * (PARTS + i), channel[j], image,
                        at_d * stride_d - pad_d, at_h * stride_h - pad_h, at_w * stride_w - pad_w, tap_d[j], tap_h[j], tap_w[j],
                        bar);
        }
      }
    }
    return;
  }
  TAKE_REGISTERS
  const int warp_group = warp / 4, own_m = M_BLOCKS == 1 ? 0 : warp_group, own_n = M_BLOCKS == 1 ? warp_group * N_OWN : 0;
  int turn = 0;  // stages since the start
  for (int index = (int)get_group_id(0); index < tiles * parts; index += (int)get_num_groups(0)) {
    ITEM(index)
    float sums[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = 0;
    for (int s = 0; s < steps; s++, turn++) {
      const int slot = turn % STAGES;
      const uint at = base + slot * STAGE_BYTES;
      mbarrier_wait(full_bar + 8 * slot, turn / STAGES & 1);
      const ulong a_at = wgmma_descriptor(at + own_m * BLOCK_BYTES, BLOCK_BYTES, 1024);
      const ulong b_at = wgmma_descriptor(at + PARTS * A_BYTES + own_n * BLOCK_BYTES, BLOCK_BYTES, 1024);
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
    __global float* to = partial + partial_offset + (long)part * K * groups * taps * C;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int k = first_k + 8 * i;
      if (k >= K) continue;
#pragma unroll
      for (int j = 0; j < N_OWN; j++) {
        const int number = block + own_n + j, tap = QUOTIENT(number, blocks_c), c0 = (number - tap * blocks_c) * 64 + 2 * quad;
        if (number >= blocks) continue;
        __global float* row = to + ((long)(group * K + k) * taps + tap) * C;
#pragma unroll
        for (int l = 0; l < 8; l++) {
          if (c0 + 8 * l < C) row[c0 + 8 * l] = sums[32 * j + 4 * l + 2 * i];
          if (c0 + 8 * l + 1 < C) row[c0 + 8 * l + 1] = sums[32 * j + 4 * l + 2 * i + 1];
        }
      }
    }
  }
}
