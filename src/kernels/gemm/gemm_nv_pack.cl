// Operands as gemm_nv_wgmma.cl and gemm_nv_mma.cl need them: K contiguous, rows on 16-byte boundaries. PARTS 1 copies; PARTS 2
// splits f32 into tf32 parts, x = y + y_lo up to 2^-24 |x|; PARTS 0 writes nothing. With NOTES, each group notes its smallest
// magnitude of f32 but 0 and its largest in `ranges`. x has `batches` matrices of N rows of K steps, in either order; a row of y has ldy elements, a multiple of
// 4 that is no less than K.
// Launch: UNIT_K 1: ceil(K / 256) x any number of groups of 64 x 4; UNIT_K 0: ceil(K / 32) x any number of 32 x 8.

#ifndef UNIT_K
#define UNIT_K 1
#endif
#ifndef PARTS
#define PARTS 2
#endif
#ifndef NOTES
#define NOTES (PARTS != 1)
#endif
// float, or ushort or uchar for elements of 2 bytes or 1.
#ifndef ELEMENT
#define ELEMENT float
#endif
// 16-byte loads of floats: K contiguous, element 0, ldx and K multiples of 4 elements.
#ifndef VECTOR
#define VECTOR 0
#endif

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#define OUT4 PASTE(OUT, 4)

#if PARTS == 2
#include "gemm/gemm_split.cl"
#define OUT uint
#define HIGH(v) upper_part(v)
#define LOW(v) lower_part(v)
#else
#define OUT ELEMENT
#define HIGH(v) (v)
#endif
#if NOTES
// Magnitudes as integers, less one, so that 0 is the largest.
#define NOTE(v)                                             \
  {                                                         \
    const uint magnitude_ = as_uint(v) & 0x7fffffffu;       \
    least = min(least, magnitude_ - 1);                     \
    most = max(most, magnitude_);                           \
  }
#else
#define NOTE(v) {}
#endif

#if UNIT_K
#define LOCAL_X 64
#define LOCAL_Y 4
#else
#define LOCAL_X 32
#define LOCAL_Y 8
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL_X, LOCAL_Y, 1))) void gemm_nv_pack(
    int N, int K, int batches, __global const ELEMENT* restrict x, long x_offset, long ldx, long x_batch,
    __global OUT* restrict y, long y_offset, __global OUT* restrict y_lo, long lo_offset, long ldy, long y_batch,
    __global uint2* restrict ranges, long ranges_offset) {
  const int tx = (int)get_local_id(0), ty = (int)get_local_id(1);
#if NOTES
  uint least = UINT_MAX, most = 0;
#endif
#if UNIT_K
  const int k = 4 * (int)get_global_id(0);
  for (long row = (long)get_global_id(1); k < K && row < (long)N * batches; row += (long)get_global_size(1)) {
    const long z = batches == 1 ? 0 : row / N, n = row - z * N;
    __global const ELEMENT* from = x + x_offset + z * x_batch + n * ldx + k;
    ELEMENT v[4];
#if VECTOR
    const float4 four = *(__global const float4*)from;
    v[0] = four.s0, v[1] = four.s1, v[2] = four.s2, v[3] = four.s3;
#else
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = k + i < K ? from[i] : 0;
#endif
#pragma unroll
    for (int i = 0; i < 4; i++) NOTE(v[i])
    const long at = z * y_batch + n * ldy + k;
#if PARTS
    *(__global OUT4*)(y + y_offset + at) = (OUT4)(HIGH(v[0]), HIGH(v[1]), HIGH(v[2]), HIGH(v[3]));
#endif
#if PARTS == 2
    *(__global OUT4*)(y_lo + lo_offset + at) = (OUT4)(LOW(v[0]), LOW(v[1]), LOW(v[2]), LOW(v[3]));
#endif
  }
#else
  __local ELEMENT tile[32][33];
  const int k0 = (int)get_group_id(0) * 32, blocks = (N + 31) / 32;
  for (int block = (int)get_group_id(1); block < blocks * batches; block += (int)get_num_groups(1)) {
    const int z = block / blocks, n0 = (block - z * blocks) * 32;
    __global const ELEMENT* from = x + x_offset + z * x_batch;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < 32; i += 8)
      if (k0 + ty + i < K && n0 + tx < N) tile[ty + i][tx] = from[(k0 + ty + i) * ldx + n0 + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    const long at = z * y_batch + k0 + tx;
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
      const int n = n0 + ty + i;
      if (k0 + tx >= K || n >= N) continue;
      const ELEMENT v = tile[tx][ty + i];
      NOTE(v)
#if PARTS
      y[y_offset + at + n * ldy] = HIGH(v);
#endif
#if PARTS == 2
      y_lo[lo_offset + at + n * ldy] = LOW(v);
#endif
    }
  }
#endif
#if NOTES
  __local uint2 notes[LOCAL_X * LOCAL_Y];
  const int item = ty * LOCAL_X + tx;
  notes[item] = (uint2)(least, most);
  for (int step = LOCAL_X * LOCAL_Y / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step)
      notes[item] = (uint2)(min(notes[item].s0, notes[item + step].s0), max(notes[item].s1, notes[item + step].s1));
  }
  if (item == 0) ranges[ranges_offset + get_group_id(1) * get_num_groups(0) + get_group_id(0)] = notes[0];
#endif
}
