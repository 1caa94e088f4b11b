// f32 as three parts of bf16, x = y0 + y1 + y2, eight numbers at a time. A number below 2^-110, whose parts would be too small for
// bf16, is taken apart by its bits instead: the parts have ten, ten, and eight of them and the sign, as numbers below 2^-108, which
// hardly count in products. The first part is below 2^-118 then, and the last one negative. Infinities and NaN are the first part.

#include "lib/ptx.cl"

// The magnitude from which on parts hold a number, as an integer, and the one that would round to infinity.
#define LEAST_IN_PARTS 0x08800000u
#define MOST_IN_PARTS 0x7f7f8000u

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
// The parts of a number that take_part() does not hold.
static uint4 odd_parts(float v) {
  const uint bits = as_uint(v), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint4)(0x7fff, 0, 0, 0);
  if (magnitude == 0x7f800000u || magnitude == 0) return (uint4)(bits >> 16, 0, 0, 0);
  if (magnitude < LEAST_IN_PARTS)
    return (uint4)(magnitude & 0x3ff, magnitude >> 10 & 0x3ff, magnitude >> 20 | bits >> 31 << 11 | 0x8000, 0);
  const uint first = magnitude < MOST_IN_PARTS ? pack_bf16(v, 0) : bits >> 16;
  const float rest = v - as_float(first << 16);
  const uint second = pack_bf16(rest, 0);
  return (uint4)(first, second, pack_bf16(rest - as_float(second << 16), 0), 0);
}
// `odd`: whether there are numbers below LEAST_IN_PARTS, other than 0, or from MOST_IN_PARTS on.
static void take_parts(uint4 parts[3], float v[8], int odd) {
  if (!odd) {
    for (int part = 0; part < 3; part++) parts[part] = take_part(v);
    return;
  }
  uint word[3][4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint4 low = odd_parts(v[2 * i]), high = odd_parts(v[2 * i + 1]);
    word[0][i] = low.s0 | high.s0 << 16, word[1][i] = low.s1 | high.s1 << 16, word[2][i] = low.s2 | high.s2 << 16;
  }
#pragma unroll
  for (int part = 0; part < 3; part++) parts[part] = (uint4)(word[part][0], word[part][1], word[part][2], word[part][3]);
}

// A number of its parts as floats. `tiny`: whether there may be some that were taken apart by their bits.
static float join_part(int tiny, uint first, uint second, uint last) {
  const float sum = as_float(first) + (as_float(second) + as_float(last));
  if (!tiny) return sum;
  const uint bits = (first >> 16) + (second >> 6) + (last << 4);
  return first < 0x08000000u && (int)last < 0 ? as_float(bits) : sum;
}
static void join_parts(float v[8], int tiny, uint4 first, uint4 second, uint4 last) {
  const uint a[4] = {first.s0, first.s1, first.s2, first.s3}, b[4] = {second.s0, second.s1, second.s2, second.s3};
  const uint c[4] = {last.s0, last.s1, last.s2, last.s3};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    v[2 * i] = join_part(tiny, a[i] << 16, b[i] << 16, c[i] << 16);
    v[2 * i + 1] = join_part(tiny, a[i] & 0xffff0000u, b[i] & 0xffff0000u, c[i] & 0xffff0000u);
  }
}
