// w as conv_nv_wgmma.cl reads it: for each of the target's channels a row of the source's channels, contiguous, tap after
// tap, phase after phase, each tap's padded by zeros to `padded` channels. PARTS 1: f32 rounded to tf32, or elements of 2
// bytes as they are. PARTS 2: f32 in two tf32 parts, w = y + y_lo up to 2^-24 |w|; each group notes its smallest magnitude
// but 0 and its largest in `ranges`.
// w is [group][K][C][taps] with any strides; K is the source's in backward data, else the target's.
// Launch: ceil(C / 32) x ceil(K / 32) x groups of 32 x 8. (Padding: C or K rounded up to the padded size.)

#ifndef PARTS
#define PARTS 2
#endif
// float, or ushort for elements of 2 bytes.
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif

#include "conv_phase.cl"

#if IS_FLOAT
#define OUT uint
static uint to_tf32(float v) {
  uint bits;
  __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}
#define HIGH(v) to_tf32(v)
#define LOW(v) to_tf32((v)-as_float(to_tf32(v)))
#else
#define OUT ELEMENT
#define HIGH(v) (v)
#endif

__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void conv_nv_pack(
    int K, int C, int padded, int columns, __global const ELEMENT* restrict w, long w_offset, long w_group, long w_k, long w_c,
    long w_d, long w_h, long w_w, AXIS_PARAMETERS(d), AXIS_PARAMETERS(h), AXIS_PARAMETERS(w), __global OUT* restrict y,
    long y_offset, __global OUT* restrict y_lo, long lo_offset, __global uint2* restrict ranges, long ranges_offset) {
  const int tx = (int)get_local_id(0), ty = (int)get_local_id(1);
  const int c0 = (int)get_group_id(0) * 32, k0 = (int)get_group_id(1) * 32;
  const long group = (long)get_group_id(2);
  w += w_offset + group * w_group;
#if BACKWARD
  const int rows = C;
#else
  const int rows = K;
#endif
  y += y_offset + group * rows * columns;
#if PARTS == 2
  y_lo += lo_offset + group * rows * columns;
  uint least = UINT_MAX, most = 0;
#endif
  __local ELEMENT tile[32][33];
  int column = 0;  // where the tap's channels begin
  for (int phase = 0; phase < (BACKWARD ? phases_d * phases_h * phases_w : 1); phase++) {
    const struct Axis d = axis_of(phase / (phases_h * phases_w), AXIS_ARGUMENTS(d));
    const struct Axis h = axis_of(phase / phases_w % phases_h, AXIS_ARGUMENTS(h));
    const struct Axis v = axis_of(phase % phases_w, AXIS_ARGUMENTS(w));
    for (int tap = 0; tap < d.taps * h.taps * v.taps; tap++, column += padded) {
      __global const ELEMENT* from = w + (d.last - tap / (h.taps * v.taps) * d.step) * w_d +
                                     (h.last - tap / v.taps % h.taps * h.step) * w_h + (v.last - tap % v.taps * v.step) * w_w;
#if BACKWARD
      barrier(CLK_LOCAL_MEM_FENCE);
#endif
#pragma unroll
      for (int i = 0; i < 32; i += 8) {
        const int k = k0 + ty + i, c = c0 + tx;
        const ELEMENT v = k < K && c < C ? from[k * w_k + c * w_c] : 0;
#if PARTS == 2
        const uint magnitude = as_uint(v) & 0x7fffffffu;
        least = min(least, magnitude - 1);
        most = max(most, magnitude);
#endif
#if BACKWARD
        tile[ty + i][tx] = v;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
      for (int i = 0; i < 32; i += 8) {
        const ELEMENT v = tile[tx][ty + i];
        const int row = c0 + ty + i, inner = k0 + tx;
#else
        const int row = k, inner = c;
#endif
        if (row >= rows || inner >= padded) continue;
        const long at = (long)row * columns + column + inner;
        y[at] = HIGH(v);
#if PARTS == 2
        y_lo[at] = LOW(v);
#endif
      }
    }
  }
#if PARTS == 2
  __local uint2 notes[256];
  const int item = ty * 32 + tx;
  notes[item] = (uint2)(least, most);
  for (int step = 128; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step)
      notes[item] = (uint2)(min(notes[item].s0, notes[item + step].s0), max(notes[item].s1, notes[item + step].s1));
  }
  if (item == 0)
    ranges[ranges_offset + (group * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0)] = notes[0];
#endif
}
