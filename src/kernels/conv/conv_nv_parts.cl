// f32 pixels as three parts of bf16 (parts_bf16.cl), channels side by side, `pitch` of a pixel, a multiple of 8; those from C on are
// 0. y_part: 16-byte words of a part. Each group notes its smallest magnitude but 0 and its largest in `ranges`.
// PLANES 1: pixels of a channel lie side by side in x. PLANES 0: channels of a pixel do, x_pixel elements from one to the next.
// Launch: any number of groups of 256.

#ifndef PLANES
#define PLANES 1
#endif

#include "lib/parts_bf16.cl"

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void conv_nv_parts(
    int C, int pixels, int images, int pitch, __global const float* restrict x, long x_offset, long x_image, long x_channel,
    long x_pixel, __global ushort* restrict parts, long parts_offset, long y_part, __global uint2* restrict ranges, long ranges_offset) {
  const int item = (int)get_local_id(0);
  uint2 range = (uint2)(UINT_MAX, 0);
  x += x_offset;
  __global uint4* y = (__global uint4*)(parts + parts_offset);
#if PLANES
  __local float tile[64][33];
  const int tiles_p = (pixels + 31) / 32, tiles_c = (pitch + 63) / 64;
  for (long index = (long)get_group_id(0); index < (long)tiles_p * tiles_c * images; index += (long)get_num_groups(0)) {
    const long image = index / (tiles_p * tiles_c);
    const int rest = (int)(index - image * tiles_p * tiles_c), c0 = rest % tiles_c * 64, p0 = rest / tiles_c * 32;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int c = item / 32 + 8 * i, p = item % 32;
      tile[c][p] = c0 + c < C && p0 + p < pixels ? x[image * x_image + (c0 + c) * x_channel + (p0 + p) * x_pixel] : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int p = p0 + item / 8, c = c0 + item % 8 * 8;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = tile[item % 8 * 8 + i][item / 8];
    const long to = ((image * pixels + p) * pitch + c) / 8;
    const int inside = p < pixels && c < pitch;
#else
  const int eighths = pitch / 8;
  for (long index = (long)get_global_id(0); index < (long)images * pixels * eighths; index += (long)get_global_size(0)) {
    const long pixel = index / eighths;
    const int c = (int)(index - pixel * eighths) * 8;
    __global const float* from = x + pixel / pixels * x_image + pixel % pixels * x_pixel + c;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = c + i < C ? from[i] : 0;
    const long to = index;
    const int inside = 1;
#endif
    // Magnitudes as integers, less one, so that 0 is the largest.
    uint2 of_these = (uint2)(UINT_MAX, 0);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const uint magnitude = as_uint(v[i]) & 0x7fffffffu;
      of_these = (uint2)(min(of_these.s0, magnitude - 1), max(of_these.s1, magnitude));
    }
    range = (uint2)(min(range.s0, of_these.s0), max(range.s1, of_these.s1));
    uint4 parts_of[3];
    take_parts(parts_of, v, of_these.s0 < LEAST_IN_PARTS - 1 || of_these.s1 >= MOST_IN_PARTS);
#pragma unroll
    for (int part = 0; part < 3; part++)
      if (inside) y[part * y_part + to] = parts_of[part];
  }
  __local uint2 notes[256];
  notes[item] = range;
  for (int step = 128; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step)
      notes[item] = (uint2)(min(notes[item].s0, notes[item + step].s0), max(notes[item].s1, notes[item + step].s1));
  }
  if (item == 0) ranges[ranges_offset + get_group_id(0)] = notes[0];
}
