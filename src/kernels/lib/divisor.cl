// Division by numbers that are known before: a divisor comes with its reciprocal, n / d = (2 n * magic) >> (32 + shift), for
// n < 2^31. The host makes it (divisor.hpp), or divisor_of().
#define DIVISOR(d) int d, uint d##_magic, uint d##_shift
#define QUOTIENT(n, d) ((int)(mul_hi((uint)(n) << 1, d##_magic) >> d##_shift))

#include "lib/divisor.h"
static Divisor divisor_of(int d) {
  Divisor result;
  const uint by = (uint)max(1, d);
  result.d = d;
  result.shift = by > 1 ? 32 - clz(by - 1) : 0;
  // 2^(31 + shift) / d, rounded up, bit by bit: compilers make hundreds of instructions of a 64-bit division.
  uint rest = 0x80000000u % by;
  result.magic = 0x80000000u / by;
  for (uint i = 0; i < result.shift; i++) {
    const uint over = rest >= by - rest;
    rest = over ? rest - (by - rest) : 2 * rest;
    result.magic = 2 * result.magic + over;
  }
  result.magic += rest != 0;
  return result;
}
static int divided(int n, Divisor by) {
  return (int)(mul_hi((uint)n << 1, by.magic) >> by.shift);
}
