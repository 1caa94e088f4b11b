// Sums of weights by bins, on a GPU, exact and so the same in any order. A bin is a few 64-bit integers: integer k is in units
// of 2^(k * BITS - 149), and a weight's mantissa is added to the one that its exponent says. The last one counts infinities,
// the negative ones by its upper half. What is added has 23 + BITS bits: with 16 there may be 2^24 elements, with 8 2^31.
// histogram_exact_sums adds in local memory where the bins fit, histogram_exact_finish rounds once.

#include "lib/types.cl"

#ifndef X_DTYPE
#define X_DTYPE i32
#define X_T int
#define VALUE int  // an element
#define W_DTYPE f32
#define W_T float
#define Y_DTYPE f32
#define Y_T float
#define BITS 16
#define GROUP 256
#define LOCAL_BINS 0  // all of them, or none is in local memory
#define HALVES 0      // of integers are added one by one where the device can add them whole, too
#endif
#define LOAD(t, p, i) JOIN(LOAD_, t)(p, i)

#define PARTS (256 / BITS)  // whose exponents are together
#define WORDS (PARTS + 1)
#ifdef __ENDIAN_LITTLE__
#define LOW 0
#else
#define LOW 1
#endif

#if defined(cl_khr_int64_base_atomics) && !HALVES
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define ADD(p, v) atom_add(p, v)
#else
static void add_halves(volatile __global uint* low, volatile __global uint* high, ulong v) {
  const uint before = atomic_add(low, (uint)v);
  const uint carried = (uint)(v >> 32) + (before + (uint)v < before);
  if (carried) atomic_add(high, carried);
}
#define ADD(p, v) add_halves((volatile __global uint*)(p) + LOW, (volatile __global uint*)(p) + 1 - LOW, v)
#endif

// What a weight adds, and to which integer of its bin.
static ulong part_of(float weight, int* k) {
  const uint bits = as_uint(weight), exponent = bits >> 23 & 255, fraction = bits & 0x7fffffu;
  const bool negative = bits >> 31;
  const uint shift = max(exponent, 1u) - 1;
  if (exponent == 255) {
    *k = PARTS;
    return fraction ? 1ul << 32 | 1 : negative ? 1ul << 32 : 1;
  }
  *k = (int)(shift / BITS);
  const ulong magnitude = (ulong)(exponent ? fraction | 0x800000u : fraction) << shift % BITS;
  return negative ? -magnitude : magnitude;
}

// sums: [bins, WORDS], added to. A group takes every groups-th run of GROUP elements.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void histogram_exact_sums(
    __global const X_T* x, long x_o, __global const W_T* w, long w_o, __global ulong* sums, long sums_o, int count, int bins) {
  const int item = (int)get_local_id(0), step = (int)get_global_size(0);
  x += x_o;
  w += w_o;
  sums += sums_o;
#if LOCAL_BINS
  __local uint low[LOCAL_BINS * WORDS], high[LOCAL_BINS * WORDS];
  for (int i = item; i < bins * WORDS; i += GROUP) low[i] = high[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  for (int first = (int)get_global_id(0); first < count; first = count - first > 4 * step ? first + 4 * step : count) {
    VALUE v[4];
    float weight[4];
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const int i = first + (long)u * step < count ? first + u * step : first;
      v[u] = LOAD(X_DTYPE, x, i);
      weight[u] = LOAD(W_DTYPE, w, i);
    }
#pragma unroll
    for (int u = 0; u < 4; u++) {
      int k;
      const ulong part = part_of(weight[u], &k);
      if (first + (long)u * step >= count || v[u] < 0 || v[u] >= bins || part == 0) continue;
      const int at = (int)v[u] * WORDS + k;
#if LOCAL_BINS
      const uint before = atomic_add(&low[at], (uint)part);
      const uint carried = (uint)(part >> 32) + (before + (uint)part < before);
      if (carried) atomic_add(&high[at], carried);
#else
      ADD(&sums[at], part);
#endif
    }
  }
#if LOCAL_BINS
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = item; i < bins * WORDS; i += GROUP) {
    const ulong sum = (ulong)high[i] << 32 | low[i];
    if (sum) ADD(&sums[i], sum);
  }
#endif
}

// Carries go up, so that what is left of each integer is a digit; the sign is that of the last one.
static long carry_up(__global const long* sums, int negative, ushort* digits) {
  long carry = 0;
  for (int k = 0; k < PARTS - 1; k++) {
    const long sum = (negative ? -sums[k] : sums[k]) + carry;
    digits[k] = (ushort)(sum & ((1 << BITS) - 1));
    carry = sum >> BITS;
  }
  return (negative ? -sums[PARTS - 1] : sums[PARTS - 1]) + carry;
}

__kernel void histogram_exact_finish(__global const long* sums, long sums_o, int bins, __global Y_T* y, long y_o, long y_step) {
  const int b = (int)get_global_id(0);
  if (b >= bins) return;
  sums += sums_o + (long)b * WORDS;
  ushort digits[PARTS];
  long top = carry_up(sums, 0, digits);
  const int negative = top < 0;
  if (negative) top = carry_up(sums, 1, digits);
  // As many digits as 63 bits hold; what the others add is less than a bit, but says where a half is rounded to.
  ulong value = (ulong)top;
  int k = PARTS - 1, rest = 0;
  while (k > 0 && value >> (63 - BITS) == 0) value = value << BITS | digits[--k];
  for (int below = 0; below < k; below++) rest |= digits[below];
  const float size = ldexp(convert_float_rte(value | (rest != 0)), k * BITS - 149);
  const ulong infinite = (ulong)sums[PARTS];
  const uint positive = (uint)infinite, other = (uint)(infinite >> 32);
  const float sum = positive && other ? NAN : positive ? INFINITY : other ? -INFINITY : negative ? -size : size;
  JOIN(STORE_, Y_DTYPE)(y, y_o + b * y_step, sum);
}
