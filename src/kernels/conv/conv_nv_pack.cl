// w as conv_nv_wgmma.cl reads it: for each of the target's channels a row, taps in w's order, each with the source's channels
// side by side and zeros behind them up to `padded`. PARTS 1: f32 rounded to tf32, or elements of 2 bytes as they are. PARTS
// 2: f32 in two tf32 parts, w = y + y_lo up to 2^-24 |w|; each group notes its smallest magnitude but 0 and its largest in
// `ranges`. w has any strides; its channels K belong to the target, in backward data (TRANSPOSED) to the source.
// Launch: ceil(C / 32) x ceil(K / 32) x (taps * groups) of 32 x 8, the source's channels rounded up to `padded`.

#ifndef PARTS
#define PARTS 2
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif
// float, or ushort for elements of 2 bytes.
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif

#if IS_FLOAT
#include "gemm/gemm_split.cl"
#define OUT uint
#define HIGH(v) upper_part(v)
#define LOW(v) lower_part(v)
#else
#define OUT ELEMENT
#define HIGH(v) (v)
#endif

__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void conv_nv_pack(
    int K, int C, int taps_h, int taps_w, int taps, int padded, __global const ELEMENT* restrict w, long w_offset, long w_k,
    long w_c, long w_d, long w_h, long w_w, __global OUT* restrict y, long y_offset, __global OUT* restrict y_lo,
    long lo_offset, __global uint2* restrict ranges, long ranges_offset) {
  const int tx = (int)get_local_id(0), ty = (int)get_local_id(1);
  const int c0 = (int)get_group_id(0) * 32, k0 = (int)get_group_id(1) * 32;
  const int tap = (int)get_group_id(2) % taps, group = (int)get_group_id(2) / taps;
  w += w_offset + (long)group * K * w_k + tap / (taps_h * taps_w) * w_d + tap / taps_w % taps_h * w_h + tap % taps_w * w_w;
  const int rows = TRANSPOSED ? C : K;
  const long first = ((long)group * rows * taps + tap) * padded;
  ELEMENT v[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int k = k0 + ty + 8 * i, c = c0 + tx;
    v[i] = k < K && c < C ? w[k * w_k + c * w_c] : 0;
  }
#if TRANSPOSED
  __local ELEMENT tile[32][33];
#pragma unroll
  for (int i = 0; i < 4; i++) tile[ty + 8 * i][tx] = v[i];
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = tile[tx][ty + 8 * i];
#endif
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int row = (TRANSPOSED ? c0 : k0) + ty + 8 * i, inner = (TRANSPOSED ? k0 : c0) + tx;
    if (row >= rows || inner >= padded) continue;
    const long at = first + (long)row * taps * padded + inner;
    y[y_offset + at] = HIGH(v[i]);
#if PARTS == 2
    y_lo[lo_offset + at] = LOW(v[i]);
#endif
  }
#if PARTS == 2
  // Magnitudes as integers, less one, so that 0 is the largest.
  uint2 range = (uint2)(UINT_MAX, 0);
  for (int i = 0; i < 4; i++) {
    const uint magnitude = as_uint(v[i]) & 0x7fffffffu;
    range = (uint2)(min(range.s0, magnitude - 1), max(range.s1, magnitude));
  }
  __local uint2 notes[256];
  const int item = ty * 32 + tx;
  notes[item] = range;
  for (int step = 128; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step)
      notes[item] = (uint2)(min(notes[item].s0, notes[item + step].s0), max(notes[item].s1, notes[item + step].s1));
  }
  if (item == 0)
    ranges[ranges_offset + (get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0)] =
        notes[0];
#endif
}
