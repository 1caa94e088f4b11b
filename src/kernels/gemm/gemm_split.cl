// f32 by sums of products of parts with fewer bits: where that is not exact, and what is exact there. Parts lose bits of tiny
// numbers, overflow for the largest, and make NaN of infinities. So a sum that is not finite, or so small beside its operands'
// smallest and largest magnitudes that lost bits may count, is computed again by multiply-adds.
// Of magnitudes, two integers are noted: the smallest but 0, less one, so that 0 is the largest; and the largest.

// Exact parts need |x| >= TINY: the lowest one's last bit is 2^-23 x.
#define TINY 0x1p-102f
// What a product with such a number may lose, so that it is 2^-24 of the sum.
#ifndef LOST
#define LOST TINY
#endif
// Products of smaller parts may underflow.
#ifndef LEAST_PRODUCT
#define LEAST_PRODUCT 0x1p-100f
#endif

// A NaN that no operand has once again_number() saw it: no product is added.
#define PADDING_BITS 0x7f800001u
#define PADDING as_float(PADDING_BITS)
static float again_number(float v) {
  return isnan(v) ? NAN : v;
}
static int is_padding(float v) {
  return as_uint(v) == PADDING_BITS;
}

static bool is_within(float v, float least) {
  return fabs(v) >= least && fabs(v) <= FLT_MAX;
}
// How small a sum over K steps may be before what tiny numbers lost counts.
static float least_exact(uint2 a, uint2 b, int K) {
  const float a_least = as_float(a.s0 + 1), b_least = as_float(b.s0 + 1), lost = K * LOST;
  if (a.s1 == 0 || b.s1 == 0) return 0;
  float least = a_least * b_least < LEAST_PRODUCT ? LEAST_PRODUCT : 0;
  if (a_least < TINY) least = max(least, lost * as_float(b.s1));
  if (b_least < TINY) least = max(least, lost * as_float(a.s1));
  return least;
}

// Of the same number the upper and lower tf32 part, v = upper + lower exactly; of an infinity or a NaN the lower one is 0. (The
// hardware drops what the lower part has beyond 11 bits, 2^-23 |v| at most.)
static uint upper_part(float v) {
  const uint bits = as_uint(v), rounded = (bits + 0x1000u) & 0xffffe000u;
  if (isnan(v)) return 0x7fffffffu;
  return isinf(v) || !isinf(as_float(rounded)) ? rounded : bits & 0xffffe000u;
}
static uint lower_part(float v) {
  const float lower = v - as_float(upper_part(v));
  return isnan(lower) ? 0 : as_uint(lower);
}
