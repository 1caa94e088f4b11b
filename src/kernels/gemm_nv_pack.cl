// Operands as gemm_nv_wgmma.cl needs them: K contiguous, rows on 16-byte boundaries. PARTS 1 copies; PARTS 2 splits f32
// into tf32 parts, x = y + y_lo up to 2^-24 |x|. x has N rows of K steps, in either order.
// Launch: UNIT_K 1: ceil(K / 4) x N x batches items in groups of 64 x 4 x 1, an item takes 4 elements.
//         UNIT_K 0: ceil(K / 32) groups of 32 x ceil(N / 32) groups of 8 x batches.

#ifndef UNIT_K
#define UNIT_K 1
#endif
#ifndef PARTS
#define PARTS 2
#endif
// float, or ushort for elements of 2 bytes.
#ifndef ELEMENT
#define ELEMENT float
#endif
// 16-byte loads of floats: K contiguous, element 0, ldx and K multiples of 4 elements.
#ifndef VECTOR
#define VECTOR 0
#endif

#if PARTS == 2
#define OUT uint
static uint to_tf32(float v) {
  uint bits;
  __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}
#define HIGH(v) to_tf32(v)
#else
#define OUT ELEMENT
#define HIGH(v) (v)
#endif
// What is left of an infinity is nothing; of a NaN, a NaN.
#define LOW(v) to_tf32((v)-as_float(to_tf32(v)))

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#define OUT4 PASTE(OUT, 4)

#define PARAMETERS                                                                          \
  int N, int K, __global const ELEMENT *restrict x, long x_offset, long ldx, long x_batch,  \
      __global OUT *restrict y, long y_offset, __global OUT *restrict y_lo, long lo_offset, \
      long ldy, long y_batch

#if UNIT_K
__kernel __attribute__((reqd_work_group_size(64, 4, 1))) void gemm_nv_pack(PARAMETERS) {
  const int k = 4 * (int)get_global_id(0), n = (int)get_global_id(1);
  if (k >= K || n >= N) return;
  x += x_offset + (long)get_global_id(2) * x_batch + (long)n * ldx + k;
  ELEMENT v[4];
#if VECTOR
  const float4 four = *(__global const float4*)x;
  v[0] = four.s0, v[1] = four.s1, v[2] = four.s2, v[3] = four.s3;
#else
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = k + i < K ? x[i] : 0;
#endif
  const long at = (long)get_global_id(2) * y_batch + (long)n * ldy + k;
  *(__global OUT4*)(y + y_offset + at) = (OUT4)(HIGH(v[0]), HIGH(v[1]), HIGH(v[2]), HIGH(v[3]));
#if PARTS == 2
  *(__global OUT4*)(y_lo + lo_offset + at) = (OUT4)(LOW(v[0]), LOW(v[1]), LOW(v[2]), LOW(v[3]));
#endif
}
#else
__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void gemm_nv_pack(PARAMETERS) {
  __local ELEMENT tile[32][33];
  const int tx = (int)get_local_id(0), ty = (int)get_local_id(1);
  const int k0 = (int)get_group_id(0) * 32, n0 = (int)get_group_id(1) * 32;
  x += x_offset + (long)get_group_id(2) * x_batch;
#pragma unroll
  for (int i = 0; i < 32; i += 8)
    if (k0 + ty + i < K && n0 + tx < N) tile[ty + i][tx] = x[(long)(k0 + ty + i) * ldx + n0 + tx];
  barrier(CLK_LOCAL_MEM_FENCE);
  const long at = (long)get_group_id(2) * y_batch + k0 + tx;
#pragma unroll
  for (int i = 0; i < 32; i += 8) {
    const int n = n0 + ty + i;
    if (k0 + tx >= K || n >= N) continue;
    const ELEMENT v = tile[tx][ty + i];
    y[y_offset + at + (long)n * ldy] = HIGH(v);
#if PARTS == 2
    y_lo[lo_offset + at + (long)n * ldy] = LOW(v);
#endif
  }
}
#endif
