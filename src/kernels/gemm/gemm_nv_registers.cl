// f32's A on its way from local memory, where bulk copies with the 128-byte swizzle put it, to the registers that tf32 warp-group
// matrix instructions read; whole, or split into two tf32 parts, x = hi + lo. And when a sum of such parts is not good enough.

#ifndef A_UNIT_K
#define A_UNIT_K 1
#endif

#include "gemm/gemm_nv_store.cl"
#include "gemm/gemm_split.cl"

// The 4 elements of A that a work-item gives to the product of steps 8 i to 8 i + 7; `at` is the 64-row slice.
static void load_a(float v[4], __local const float* at, int i, int warp, int lane) {
  const int g = lane / 4, t = lane % 4;
#if A_UNIT_K
  __local const float* row = at + (16 * warp + g) * 32 + t;
  v[0] = row[((2 * i) ^ g) * 4];
  v[1] = row[((2 * i) ^ g) * 4 + 8 * 32];
  v[2] = row[((2 * i + 1) ^ g) * 4];
  v[3] = row[((2 * i + 1) ^ g) * 4 + 8 * 32];
#else
  // Boxes of 32 rows: warps 0 and 1 read the first, 2 and 3 the second.
  const int m = 16 * (warp & 1) + g, k = 8 * i + t;
  __local const float* box = at + (warp >> 1) * 32 * 32 + m % 4;
  v[0] = box[k * 32 + ((m / 4) ^ (k & 7)) * 4];
  v[1] = box[k * 32 + ((m / 4 + 2) ^ (k & 7)) * 4];
  v[2] = box[(k + 4) * 32 + ((m / 4) ^ ((k + 4) & 7)) * 4];
  v[3] = box[(k + 4) * 32 + ((m / 4 + 2) ^ ((k + 4) & 7)) * 4];
#endif
}

// Four of them in two parts each, their magnitudes noted in `range`.
INLINE void split_four(uint* hi, uint* lo, uint2* range, const float v[4]) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const uint magnitude = as_uint(v[j]) & 0x7fffffffu;
    *range = (uint2)(min(range->s0, magnitude - 1), max(range->s1, magnitude));
    // Rounded by integers, at twice the conversion's rate. A NaN may get lost here, but then stays in the lower part, which
    // the hardware truncates.
    hi[j] = (as_uint(v[j]) + 0x1000u) & 0xffffe000u;
    lo[j] = as_uint(v[j] - as_float(hi[j]));
  }
}

// The same for a step of 32.
INLINE void split_a(uint hi[16], uint lo[16], uint2* range, __local const float* at, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float v[4];
    load_a(v, at, i, warp, lane);
    split_four(hi + 4 * i, lo + 4 * i, range, v);
  }
}

// A sum below SMALL needs a closer look, and so do all sums of numbers below TINY or above LARGE; with none of these, what a
// tiny B lost is at most K 2^-126 LARGE, which is less than 2^-24 SMALL.
#define SMALL 0x1p-40f
#define LARGE 0x1p40f
// How small a sum over K steps may be, `range` what a lane noted of A, `ranges` what was noted of B. By all lanes of a warp.
static float least_of(uint2 range, __global const uint2* ranges, int count, int K, int lane) {
  uint2 of_b = (uint2)(UINT_MAX, 0);
  for (int i = lane; i < count; i += 32) of_b = (uint2)(min(of_b.s0, ranges[i].s0), max(of_b.s1, ranges[i].s1));
  for (int lanes = 1; lanes < 32; lanes *= 2) of_b = joined(of_b, lanes);
  return least_exact(joined(joined(range, 1), 2), of_b, K);  // four lanes share rows
}
