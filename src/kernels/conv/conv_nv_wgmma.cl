// Convolution, forward and backward data, by warp-group matrix instructions (see gemm_nv_wgmma.cl): a product with a row for
// each pixel of the target, a column for each of its channels, and steps of k along taps and the source's channels. The source
// comes by bulk tensor copies in im2col mode: they find the pixels that a tap sees, and put zeros where it sees padding.
//
// The source's channels are contiguous, its other strides multiples of 16 bytes. w has a row for each of the target's channels,
// of taps and the source's channels, as conv_nv_pack.cl writes it, or happens to lie so.
// SPLIT 0, 1: as in gemm_nv_wgmma.cl; without the tf32 maps' rounding the hardware would drop bits.
// PLANES 1: the source has its pixels side by side, not its channels; there is one tap, no stride, one group, and each image
//   has its own tiles. With SPLIT only: such pixels have to go through registers.
// DEPTH: whether there are three spatial axes.
// Launch: any number of groups of ITEMS work-items. Each group has maps of its own in `maps`: of each phase's source, of w.

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 4
#endif
// The element type's number in tensor maps: 6 f16, 7 f32, 10 bf16; and of w's maps, where PTX also has 11, rounding to tf32.
#ifndef MAP_TYPE
#define MAP_TYPE 7
#endif
#ifndef W_MAP_TYPE
#define W_MAP_TYPE MAP_TYPE
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef STAGES
#define STAGES 4
#endif
// 1: w is not packed, and the target's channels are contiguous in it. Elements of 2 bytes only.
#ifndef W_UNIT_TARGET
#define W_UNIT_TARGET 0
#endif
#ifndef PLANES
#define PLANES 0
#endif
// The most phases that a launch may have.
#ifndef MOST_PHASES
#define MOST_PHASES 64
#endif
#include "conv/conv_nv_feed.cl"
// Of one program, as it takes seconds to compile.
#define BACKWARD backward

#define A_UNIT_K !PLANES
#define TILE_M (64 * WARP_GROUPS)
// Channels in a stage: what 128 bytes hold.
#define STEP (128 / ELEMENT_BYTES)
#define B_PARTS (1 + SPLIT)
#define A_BYTES (TILE_M * 128)
#define B_BYTES (TILE_N * 128)
#define STAGE_BYTES (A_BYTES + B_PARTS * B_BYTES)
#define SUMS (TILE_N / 2)

#include "gemm/gemm_nv_registers.cl"
#include "conv/conv_nv_map.cl"
#include "conv/conv_nv_tiles.cl"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_nv_wgmma.h"

// The source as a phase sees it.
#if PLANES
#define MAKE_SOURCE_MAP(words, phase)                                                                                     \
  MAKE_BOX_MAP(SHARED(words), source + source_offset, MAP_TYPE, axes.d.source * axes.h.source * axes.w.source, C, images, \
               source_stride.c * ELEMENT_BYTES, source_stride.n * ELEMENT_BYTES, STEP, STEP, 1)
#define COPY_SOURCE(to, map, bar)                 \
  for (int i_ = 0; i_ < TILE_M / STEP; i_++)      \
    bulk_copy((to) + i_ * STEP * 128, map, m + i_ * STEP, block * STEP, image, bar);
#else
#define UPPER(a, axis) ((a).lower + ((a).count - 1) * SOURCE_STEP(axis) - ((axis).source - 1))
#define MAKE_SOURCE_MAP(words, phase)                                                                                      \
  {                                                                                                                        \
    const struct PixelMap m_ = {C * groups, images, axes.d.source, axes.h.source, axes.w.source,                           \
                                source_stride.n * ELEMENT_BYTES, source_stride.d * ELEMENT_BYTES,                          \
                                source_stride.h * ELEMENT_BYTES, source_stride.w * ELEMENT_BYTES,                          \
                                (phase)->d.lower, (phase)->h.lower, (phase)->w.lower, UPPER((phase)->d, axes.d),           \
                                UPPER((phase)->h, axes.h), UPPER((phase)->w, axes.w),                                      \
                                SOURCE_STEP(axes.d), SOURCE_STEP(axes.h), SOURCE_STEP(axes.w)};                            \
    make_pixel_map(words, (ulong)(size_t)(source + source_offset), MAP_TYPE | (MAP_TYPE == 7 && !SPLIT ? 0x200 : 0), STEP, \
                   TILE_M, &m_);                                                                                           \
  }
#define COPY_SOURCE(to, map, bar)                                                                                  \
  copy_pixels(to, map, group * C + block * STEP, image, at_d, at_h, at_w, td * phase->d.dilation,                  \
              th * phase->h.dilation, tw * phase->w.dilation, bar);
#endif

// w's maps: [row][tap][channel], of the target and the source; W_UNIT_TARGET: of the source and the target.
#if W_UNIT_TARGET
#define COPY_W(to, map, bar)                     \
  for (int i_ = 0; i_ < TILE_N / STEP; i_++)     \
    bulk_copy((to) + i_ * STEP * 128, map, n + i_ * STEP, tap, group * C + block * STEP, bar);
#else
#define COPY_W(to, map, bar) bulk_copy(to, map, block * STEP, tap, group * N + n, bar);
#endif
#if SPLIT
#define COPY_LOW_W(to, bar) COPY_W(to, maps + 16 * phases.d + 16, bar)
#else
#define COPY_LOW_W(to, bar)
#endif
// Fills one stage after another, as soon as all have read what was there: a work-item that does nothing else.
#define FEED_ALL()                                                                                                            \
  {                                                                                                                           \
    int turn = 0;                                                                                                             \
    for (int index = (int)get_group_id(0); index < tiles; index += (int)get_num_groups(0)) {                                  \
      TILE(index)                                                                                                             \
      if (m >= phase->M) continue;                                                                                            \
      LEAVE_OUT()                                                                                                             \
      PIXEL(m)                                                                                                                \
      __global const ulong* map = maps + (PLANES ? 0 : 16 * (tile_plane - group * phases.d));                                 \
      const int at_d = phase->d.lower + pixel_d * SOURCE_STEP(axes.d), at_h = phase->h.lower + pixel_h * SOURCE_STEP(axes.h); \
      const int at_w = phase->w.lower + pixel_w * SOURCE_STEP(axes.w);                                                        \
      for (int td = 0; td < phase->d.taps; td++)                                                                              \
        for (int th = 0; th < phase->h.taps; th++)                                                                            \
          for (int tw = 0; tw < phase->w.taps; tw++) {                                                                        \
            const int tap = phase->tap + td * phase->tap_d + th * phase->tap_h + tw * phase->tap_w;                           \
            for (int block = 0; block < blocks; block++, turn++) {                                                            \
              const int slot = turn % STAGES;                                                                                 \
              const uint to = base + slot * STAGE_BYTES, bar = full_bar + 8 * slot;                                           \
              mbarrier_wait(empty_bar + 8 * slot, (turn / STAGES & 1) ^ 1);                                                   \
              mbarrier_expect(bar, STAGE_BYTES);                                                                              \
              COPY_SOURCE(to, map, bar)                                                                                       \
              COPY_W(to + A_BYTES, maps + 16 * phases.d, bar)                                                                 \
              COPY_LOW_W(to + A_BYTES + B_BYTES, bar)                                                                         \
            }                                                                                                                 \
          }                                                                                                                   \
    }                                                                                                                         \
  }

#if SPLIT
#include "conv/conv_nv_again.cl"
// Before a tile's first step: whether it and those behind it are left out. Who multiplies learns it by the first step's barrier.
#define LEAVE_OUT()                                                          \
  if (phase->steps > 0 && again_leaves(&noted)) {                            \
    mbarrier_wait(empty_bar + 8 * (turn % STAGES), (turn / STAGES & 1) ^ 1); \
    noted.left_out = index;                                                  \
    mbarrier_arrive(full_bar + 8 * (turn % STAGES));                         \
    break;                                                                   \
  }
#else
#define LEAVE_OUT()
#endif
#if SPLIT && AGAIN_BYTES > STAGES * STAGE_BYTES
#define LOCAL_BYTES AGAIN_BYTES
#else
#define LOCAL_BYTES (STAGES * STAGE_BYTES)
#endif

#if SPLIT
#define WHOLE_W_PARAMETERS                                                                                            \
  __global const float *restrict whole_w, long whole_w_offset, WgmmaWeights w, __global const uint2 *restrict ranges, \
      long ranges_offset, int range_count,
#else
#define WHOLE_W_PARAMETERS
#endif

// What a work-item has of a tile, by store_sums or store_room. It has columns 8 j + 2 q and the next of rows m and m + 8, q its
// place among four lanes.
#define STORE_PIXELS(store, ...)                                                                                           \
  {                                                                                                                        \
    long rows_at[2];                                                                                                       \
    _Pragma("unroll") for (int i = 0; i < 2; i++) {                                                                        \
      PIXEL(first_m + 8 * i)                                                                                               \
      rows_at[i] = image * c_stride.n + (phase->d.first + pixel_d * TARGET_STEP(axes.d)) * c_stride.d +                    \
                   (phase->h.first + pixel_h * TARGET_STEP(axes.h)) * c_stride.h +                                         \
                   (phase->w.first + pixel_w * TARGET_STEP(axes.w)) * c_stride.w + group * N * c_stride.c;                 \
    }                                                                                                                      \
    store(__VA_ARGS__, M, N, c, rows_at, c_stride.c, alpha, beta, bias, bias_offset + group * N, scale,                    \
          scale_offset + group * N, residual, residual_offset, preactivation, preactivation_offset);                       \
  }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_nv_wgmma(
    int backward, int images, int C, int N, int groups, Divisor phases, Divisor tiles_m, Divisor tiles_n, PhaseAxes axes,
    __global const ELEMENT* restrict source, long source_offset, LongStrides source_stride, __global const ELEMENT* restrict b,
    long b_offset, __global const ELEMENT* restrict b_lo, long b_lo_offset, long b_stride_tap, long b_stride_row,
    __global C_STORAGE* restrict c, long c_offset, LongStrides c_stride,
    WHOLE_W_PARAMETERS __global ulong* all_maps, long maps_offset, EPILOGUE_PARAMETERS) {
  __local uchar stages[LOCAL_BYTES] __attribute__((aligned(1024)));
  __local ulong full[STAGES + SPLIT], empty[STAGES], map_room[16] __attribute__((aligned(128)));
  __local struct Phase table[MOST_PHASES];
  const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32;
  START_REGISTERS
  const uint base = SHARED(stages), full_bar = SHARED(full), empty_bar = SHARED(empty);
  c += c_offset;
  const int blocks = (C + STEP - 1) / STEP, tiles = tiles_m.d * tiles_n.d * phases.d * (PLANES ? images : groups);
  // A map takes 16 words and starts at a multiple of so many.
  __global ulong* maps = (__global ulong*)(((size_t)(all_maps + maps_offset) + 127) / 128 * 128) +
                         (long)get_group_id(0) * (phases.d + B_PARTS) * 16;
  for (int i = item; i < phases.d; i += ITEMS) MAKE_PHASE(table + i, i)
  if (item == 0) {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(full_bar + 8 * s, 1);
      mbarrier_init(empty_bar + 8 * s, 4 * WARP_GROUPS);
    }
    if (SPLIT) mbarrier_init(full_bar + 8 * STAGES, 1);
    fence_async();
  }
#if SPLIT
  __local uint2 notes[ITEMS / 32];
  uint2 magnitudes = (uint2)(UINT_MAX, 0);
  for (int i = item; i < range_count; i += ITEMS) {
    const uint2 range = ranges[ranges_offset + i];
    magnitudes = (uint2)(min(magnitudes.s0, range.s0), max(magnitudes.s1, range.s1));
  }
  for (int lanes = 1; lanes < 32; lanes *= 2) magnitudes = joined(magnitudes, lanes);
  if (lane == 0) notes[warp] = magnitudes;
  __local struct Noted noted;
  __local struct Operands operands;
  again_start(&noted, item, ITEMS);
  if (item == 0) {
    const struct Operands all = {source + source_offset, whole_w + whole_w_offset, source_stride.n, source_stride.d,
                                 source_stride.h, source_stride.w, source_stride.c, w.group, w.source, w.target, w.d, w.h, w.w,
                                 axes.d.source, axes.h.source, axes.w.source, SOURCE_STEP(axes.d), SOURCE_STEP(axes.h),
                                 SOURCE_STEP(axes.w), C, N, blocks * STEP, maps, phases.d, base, full_bar + 8 * STAGES};
    operands = all;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  {
    TILE((int)get_group_id(0))
    if (first_lanes(m < phase->M && phase->steps > 0)) {
      const struct Again from = AGAIN_OF_TILE();
      uint random = (uint)item * 2654435761u;
      const int taps = phase->steps / blocks, tap = any_below(&random, taps);
      const struct AgainStep step = again_step(&from, tap * blocks * STEP + any_below(&random, C));
      const float a = again_a(&from, &step, any_below(&random, min(phase->M - m, TILE_M)), 0);
      if (!is_padding(a)) again_sample(&noted, a, again_b(&from, &step, any_below(&random, min(N - n, TILE_N)), 0));
    }
  }
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp == 4 * WARP_GROUPS) {
    const uint map = SHARED(map_room);
    for (int i = 0; i < phases.d + B_PARTS; i++) {
      if (lane < 16) map_room[lane] = 0;
      warp_sync();
      if (lane == 0 && i < phases.d) MAKE_SOURCE_MAP(map_room, table + i)
      if (lane == 0 && i >= phases.d) {
        __global const ELEMENT* part = i == phases.d ? b + b_offset : b_lo + b_lo_offset;
        MAKE_BOX_MAP(map, part, W_MAP_TYPE, W_UNIT_TARGET ? N : C, axes.d.taps * axes.h.taps * axes.w.taps,
                     (W_UNIT_TARGET ? C : N) * groups, b_stride_tap * ELEMENT_BYTES, b_stride_row * ELEMENT_BYTES, STEP, 1,
                     W_UNIT_TARGET ? STEP : TILE_N)
      }
      warp_sync();
      publish_map(maps + 16 * i, map);
    }
  }
  if (warp >= 4 * WARP_GROUPS) {
    GIVE_REGISTERS
    if (item == 128 * WARP_GROUPS) {
#if SPLIT
      again_judge(&noted);
      for (int i = 0; i < ITEMS / 32; i++)  // a channel of the target's at least, in all strips
        if (notes[i].s1 >= 0x7f800000u) noted.strips = EVERYTHING;
#endif
      for (int i = 0; i < phases.d + B_PARTS; i++) acquire_map(maps + 16 * i);
      FEED_ALL()
    }
    return;
  }
  TAKE_REGISTERS
  const int warp_group = warp / 4;
  int turn = 0;  // stages since the start
  for (int index = (int)get_group_id(0); index < tiles; index += (int)get_num_groups(0)) {
    TILE(index)
    const int M = phase->M, steps = phase->steps;
    if (m >= M) continue;
#if SPLIT
    if (steps > 0) {
      mbarrier_wait(full_bar + 8 * (turn % STAGES), turn / STAGES & 1);
      if (first_lanes((uint)(index >= ((__local volatile struct Noted*)&noted)->left_out))) break;
    }
#endif
    float sums[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = 0;
#if SPLIT
    uint2 a_range = (uint2)(UINT_MAX, 0);
#endif
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
      // The products of this step may still run; those of the step before are done.
      if (turn > 0 && lane == 0) mbarrier_arrive(empty_bar + 8 * ((turn + STAGES - 1) % STAGES));
#endif
    }
#if !SPLIT
    //$ WAIT
    //$ END
#endif
    const int quad = lane % 4, first_m = m + 64 * warp_group + 16 * (warp % 4) + lane / 4;
#if SPLIT
    const int tile = index / (int)get_num_groups(0);
    uint later = 0, small = tile >= NOTED_TILES || a_range.s0 < as_uint(TINY) - 1 || a_range.s1 > as_uint(LARGE);
#pragma unroll
    for (int i = 0; i < SUMS; i++) small |= !is_within(sums[i], SMALL);
    if (warp_any(small)) {
      int columns[(SUMS + 31) / 32];
#pragma unroll
      for (int i = 0; i < (SUMS + 31) / 32; i++) columns[i] = N - n - 64 * i;
      const float2 range = sums_range(sums, M - first_m, columns, quad);
      uint2 of_w = notes[0];
      for (int i = 1; i < ITEMS / 32; i++) of_w = (uint2)(min(of_w.s0, notes[i].s0), max(of_w.s1, notes[i].s1));
      const float least = least_exact(joined(joined(a_range, 1), 2), of_w, steps * STEP);  // four lanes share rows
      later = again_later(range, least, &noted, tile, 16 * warp, lane);
    }
    if (first_lanes(later)) continue;
#endif
    STORE_PIXELS(store_sums, m + TILE_M <= M && n + TILE_N <= N, sums, SUMS, first_m, n, quad)
  }
#if SPLIT
  if (item == 0)
    for (int i = 0; i < phases.d + B_PARTS; i++) acquire_map(maps + 16 * i);
  again_sync();
  turn = 0;
  for (int index = (int)get_group_id(0); index < tiles; index += (int)get_num_groups(0)) {
    TILE(index)
    const int M = phase->M;
    if (m >= M) continue;
    const uint strips = first_lanes(again_strips(&noted, index, index / (int)get_num_groups(0)));
    const struct Again from = AGAIN_OF_TILE();
    const int first_m = m + 16 * warp + lane / 4;
    if (strips == 0) continue;
    const int strip = popcount(strips) > 1 ? ALL_STRIPS : 31 - (int)clz(strips);
    again_tile(strip, stages, &turn, &from, phase->steps, item);
    if (first_lanes(strips >> warp & 1))
      STORE_PIXELS(store_room, AGAIN_ROOM(strip, 16 * warp, 0), AGAIN_B_PITCH, SUMS, first_m, n, lane)
    again_stored();
  }
#endif
}
