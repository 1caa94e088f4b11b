// Convolution's backward filter of f32 by warp-group matrix instructions on tf32 (conv_nv_filter_tile.cl), both operands rounded
// on the way. The instructions want operands contiguous along k, but channels are what lies side by side. So dy, which is A,
// comes through registers, and the warps that do not multiply, but for one that feeds, turn x around in local memory.
// Pixels stand in an order, along k, in which neither those who turn around nor those who read A meet in a bank: 16 bytes
// number q of a row hold the pixels PIXEL_OF(q, 0..3).
// Launch: any number of groups of ITEMS work-items. Each group has two maps of its own in `all_maps`.

#define ELEMENT float
#define ELEMENT_BYTES 4
#define MAP_TYPE 7
// Stages that were turned around.
#ifndef TURNED
#define TURNED 2
#endif
#include "gemm/gemm_nv_registers.cl"
#include "conv/conv_nv_filter_tile.cl"

#define TURNERS 7
// As in conv_nv_feed.cl, but two warp-groups do not multiply.
#undef ITEMS
#undef START_REGISTERS
#undef GIVE_REGISTERS
#undef TAKE_REGISTERS
#define ITEMS (128 * WARP_GROUPS + 256)
#define START_REGISTERS __asm__ volatile("//@entry .maxnreg 128");
#define GIVE_REGISTERS __asm__ volatile("//@setmaxnreg.dec.sync.aligned.u32 64;");
#define TAKE_REGISTERS __asm__ volatile("//@setmaxnreg.inc.sync.aligned.u32 192;");

#define PIXEL_OF(q, j) (8 * (j) + ((2 * (j)) ^ (q)))

// One warp's share of a stage of x, boxes [pixel][32 channels], turned into rows [channel][32 pixels], both with the 128-byte
// swizzle. A work-item takes 4 channels of 4 pixels.
static void turn_around(__local const uchar* from, __local uchar* to, int warp, int lane) {
  const int q = lane % 8;
  for (int i = warp; i < 2 * N_BLOCKS; i += TURNERS) {
    const int cq = i % 2 * 4 + lane / 8;
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      v[j] = *(__local const float4*)(from + i / 2 * BOX_BYTES + PIXEL_OF(q, j) * 128 + (cq ^ (PIXEL_OF(q, j) & 7)) * 16);
    const float4 rows[4] = {(float4)(v[0].s0, v[1].s0, v[2].s0, v[3].s0), (float4)(v[0].s1, v[1].s1, v[2].s1, v[3].s1),
                            (float4)(v[0].s2, v[1].s2, v[2].s2, v[3].s2), (float4)(v[0].s3, v[1].s3, v[2].s3, v[3].s3)};
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const int row = i / 2 * CHANNELS + cq * 4 + c;
      *(__local float4*)(to + row * 128 + (q ^ (row & 7)) * 16) = rows[c];
    }
  }
}

// The A of a stage, 64 filters: what a work-item gives to the products of steps 8 i to 8 i + 7 of k.
static void load_filters(float v[4], __local const float* at, int i, int warp, int lane) {
  const int g = lane / 4, t = lane % 4, chunk = 4 * (warp & 1) + g / 4;
  __local const float* box = at + (warp >> 1) * (BOX_BYTES / 4) + g % 4;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int pixel = PIXEL_OF(2 * i + j / 2, t);
    v[j] = box[pixel * 32 + ((chunk + 2 * (j & 1)) ^ (pixel & 7)) * 4];
  }
}

// Adds the products of a stage, A's part of which is in a[]. Those of the stage before, which still run, read before[].
static void multiply(float sums[SUMS], const float a[16], const float before[16], ulong b_at) {
  //$ REGISTER_MULTIPLY
  sums[0] += a[0] + before[0] + (float)b_at;
  //$ END
}
#define MULTIPLY_STEP(a, before)                                                                            \
  {                                                                                                         \
    const int slot = turn % STAGES, turned = turn % TURNED;                                                 \
    mbarrier_wait(full_bar + 8 * slot, turn / STAGES & 1);                                                  \
    _Pragma("unroll") for (int i = 0; i < 4; i++) load_filters(a + 4 * i, FILTERS(slot), i, warp % 4, lane); \
    warp_sync();                                                                                            \
    if (lane == 0) mbarrier_arrive(empty_bar + 8 * slot);                                                   \
    mbarrier_wait(ready_bar + 8 * turned, turn / TURNED & 1);                                               \
    multiply(sums, a, before, wgmma_descriptor(TURNED_AT(turned), 16, 1024));                               \
    if (turn > 0 && lane == 0) mbarrier_arrive(done_bar + 8 * ((turn + TURNED - 1) % TURNED));              \
    turn++;                                                                                                 \
  }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_nv_filter_tf32(FILTER_PARAMETERS, __global ulong* all_maps,
                                                                                   long maps_offset) {
  __local uchar stages[STAGES * STAGE_BYTES + TURNED * B_BYTES] __attribute__((aligned(1024)));
  __local ulong full[STAGES], empty[STAGES], ready[TURNED], done[TURNED], map_room[16] __attribute__((aligned(128)));
  const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32;
  START_REGISTERS
  const uint base = SHARED(stages), full_bar = SHARED(full), empty_bar = SHARED(empty), ready_bar = SHARED(ready),
             done_bar = SHARED(done);
  const int pixels = images * axes.d.size.d * axes.h.size.d * axes.w.size.d, all_steps = (pixels + PIXELS - 1) / PIXELS;
  const int taps = axes.d.taps * axes.h.taps * axes.w.taps, blocks = taps * blocks_c.d;
  __global ulong* maps = (__global ulong*)(((size_t)(all_maps + maps_offset) + 127) / 128 * 128) + (long)get_group_id(0) * 32;
  if (item == 0) {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(full_bar + 8 * s, 1);
      mbarrier_init(empty_bar + 8 * s, 4 * WARP_GROUPS + TURNERS);
    }
    for (int s = 0; s < TURNED; s++) {
      mbarrier_init(ready_bar + 8 * s, TURNERS);
      mbarrier_init(done_bar + 8 * s, 4 * WARP_GROUPS);
    }
    fence_async();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp >= 4 * WARP_GROUPS) {
    GIVE_REGISTERS
    const int turner = warp - 4 * WARP_GROUPS - 1;
    if (turner < 0) {
      MAKE_FILTER_MAPS(MAP_TYPE | 0x200)
      if (lane == 0) FEED_ALL()
      return;
    }
    int turn = 0;
    FOR_ITEMS() {
      ITEM()
      for (int s = 0; s < steps; s++, turn++) {
        const int slot = turn % STAGES, turned = turn % TURNED;
        mbarrier_wait(full_bar + 8 * slot, turn / STAGES & 1);
        mbarrier_wait(done_bar + 8 * turned, (turn / TURNED & 1) ^ 1);
        turn_around(stages + slot * STAGE_BYTES + A_BYTES, stages + STAGES * STAGE_BYTES + turned * B_BYTES, turner, lane);
        fence_async_shared();
        warp_sync();
        if (lane == 0) {
          mbarrier_arrive(ready_bar + 8 * turned);
          mbarrier_arrive(empty_bar + 8 * slot);
        }
      }
    }
    return;
  }
  TAKE_REGISTERS
  const int warp_group = warp / 4, own_m = M_BLOCKS == 1 ? 0 : warp_group, own_n = M_BLOCKS == 1 ? warp_group * N_OWN : 0;
#define FILTERS(slot) (__local const float*)(stages + (slot)*STAGE_BYTES + own_m * 2 * BOX_BYTES)
#define TURNED_AT(turned) (base + STAGES * STAGE_BYTES + (turned)*B_BYTES + own_n * BOX_BYTES)
  int turn = 0;  // stages since the start
  FOR_ITEMS() {
    ITEM()
    float sums[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = 0;
    const int quad = lane % 4, first_k = m + 64 * own_m + 16 * (warp % 4) + lane / 4;
    float even[16] = {0}, odd[16] = {0};  // of A
    for (int s = 0; s + 1 < steps; s += 2) {
      MULTIPLY_STEP(even, odd)
      MULTIPLY_STEP(odd, even)
    }
    if (steps % 2) MULTIPLY_STEP(even, odd)
    //$ REGISTER_WAIT
    //$ END
    STORE_SLICE()
  }
}
