// f32 pixels as parts of bf16, x = y0 + y1 (+ y2) up to 2^-16 (2^-24) |x|, channels side by side, `pitch` of a pixel, a
// multiple of 8; those from C on are 0. y_part: 16-byte words of a part. Each group notes its smallest magnitude but 0 and its largest in `ranges`.
// PLANES 1: pixels of a channel lie side by side in x. PLANES 0: channels of a pixel do, x_pixel elements from one to the next.
// Launch: any number of groups of 256.

#ifndef PARTS
#define PARTS 3
#endif
#ifndef PLANES
#define PLANES 1
#endif

#include "ptx.cl"

// Eight floats as four words of bf16, and what is left of them.
static uint4 take_part(float v[8]) {
  uint word[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    word[i] = pack_bf16(v[2 * i], v[2 * i + 1]);
    v[2 * i] -= as_float(word[i] << 16);
    v[2 * i + 1] -= as_float(word[i] & 0xffff0000u);
  }
  return (uint4)(word[0], word[1], word[2], word[3]);
}

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
#pragma unroll
    for (int i = 0; i < 8; i++) {
      // Magnitudes as integers, less one, so that 0 is the largest.
      const uint magnitude = as_uint(v[i]) & 0x7fffffffu;
      range = (uint2)(min(range.s0, magnitude - 1), max(range.s1, magnitude));
    }
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
      const uint4 words = take_part(v);
      if (inside) y[part * y_part + to] = words;
    }
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
